"""Comparison node by node, and next steps."""

import math
import shlex

import pytest
from decisions import DEFAULTS, hwexplorer, run

import hwexplorer as api
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import figures
from analysis.estimate.metrics import ADDITIVE, METRICS
from analysis.explore.comparison import next_steps
from hwexplorer.reports.compare import Levels
from hwexplorer.reports.tree.tree import Node, node
from hwexplorer.text.next_command import command


def levels(level: str, batch: int, *devices: str) -> tuple[Levels, dict[str, Estimate]]:
    found = api.compare("resnet18", level=level, batch=batch, on=",".join(devices)).document
    return found, {on: run("resnet18", on, batch, "bf16") for on in devices}


@pytest.mark.parametrize("level", ["subgraph", "operator"])
@pytest.mark.parametrize("batch", [1, 8])
def test_winners_and_sums(level: str, batch: int) -> None:
    found, results = levels(level, batch, *DEFAULTS)
    for key, result in results.items():
        mine = [row.devices[key] for row in found.rows if row.devices[key]["latency_s"] is not None]
        assert math.isclose(sum(f["energy_j_per_inference"] for f in mine) * batch, result.energy_j, rel_tol=1e-9)
        assert math.isclose(sum(f["latency_s"] for f in mine), result.latency_s, rel_tol=1e-9)
    for row in found.rows:
        for metric in ADDITIVE:
            field = {"edp": "own_edp_js"}.get(metric, METRICS[metric].key)
            values = {key: row.devices[key][field] for key, result in results.items() if result.device.silicon}
            values = {key: value for key, value in values.items() if value is not None}
            least, second = sorted(values.values())[:2]
            is_tie = second <= least * (1 + 1e-9)
            assert row.winner[metric] == ("" if is_tie or not least else min(values, key=values.__getitem__))


def _nodes(root: Node) -> dict[str, Node]:
    return {found.id: found for found in (root, *(below for s in root.children for below in (s, *s.children)))}


@pytest.mark.parametrize("on", ["kpu_t256", "h100_sxm"])
@pytest.mark.parametrize("batch", [1, 8])
def test_a_key_means_the_same_wherever_it_stands(on: str, batch: int) -> None:
    """conv1 on the KPU was 360 nJ s in the tree, and 18.6 nJ s under the same key in `compare`."""
    result = run("resnet18", on, batch, "bf16")
    nodes = _nodes(node(result))
    for level in ("subgraph", "operator"):
        for row in levels(level, batch, on)[0].rows:
            for key in ("own_edp_js", "energy_j_per_inference", "latency_s"):
                assert row.devices[on][key] == pytest.approx(getattr(nodes[row.id], key), rel=1e-9), row.id
    root = nodes[""]
    assert root.edp_js == root.own_edp_js == result.edp_js == figures(result).edp_js
    assert nodes["conv1"].own_edp_js == pytest.approx(nodes["conv1"].energy_j / batch * nodes["conv1"].latency_s)


def test_what_a_kernel_hides_has_energy_and_no_winner_by_time() -> None:
    """Batch norms inside fused kernels were 0 J s on two devices, and one of them won all those nodes."""
    norms = [row for row in levels("operator", 1, "h100_sxm", "tpu_v4")[0].rows if row.type == "batch_norm"]
    hidden = [row for row in norms if not any(costs["latency_s"] for costs in row.devices.values())]
    assert len(hidden) > len(norms) / 4  # elsewhere their weights come from memory, which the kernel waits for
    for row in hidden:
        assert all(costs["energy_j_per_inference"] for costs in row.devices.values())
        assert row.winner["latency"] == row.winner["edp"] == ""
        assert row.winner["energy"]


@pytest.mark.parametrize(("model", "on"), [("efficientnet_b0", "gpu"), ("resnet18", "tpu"), ("mvit_v2_s", "gpu")])
def test_a_node_of_next_to_no_work_has_no_modifier(model: str, on: str) -> None:
    """3,340x the base of a convolution of eight channels says nothing."""
    root = node(run(model, on))
    for parent in (root, *root.children):
        for child in parent.children:
            work = child.base_edp_js / sum(other.base_edp_js for other in parent.children)
            if child.architectural_modifier is None:
                assert work < 0.01 / len(parent.children)
            else:
                assert work >= 0.01 / len(parent.children) * (1 - 1e-9)
                assert child.architectural_modifier == pytest.approx(child.edp_js / child.base_edp_js)
    assert any(child.architectural_modifier is None for child in root.children)


def test_next_steps_are_commands_that_run() -> None:
    results = [run("resnet18", on, 1, "fp16") for on in DEFAULTS]
    steps = next_steps(results, results[0].scenario)
    assert len(steps) >= 4
    for step in steps:
        words = shlex.split(command(step))
        assert words[0] == "hwexplorer"
        assert "fp16" in words
        found = hwexplorer(*words[1:])
        assert found.code == 0, (step, found.err)
