"""Comparison node by node, and next steps."""

import math
import shlex

import msgspec
import pytest
from decisions import DEFAULTS, device, hwexplorer, run, workload

from analysis.estimate.estimate import estimate
from analysis.estimate.figures import figures
from analysis.estimate.metrics import ADDITIVE
from analysis.estimate.tree_figures import HOST
from analysis.explore.comparison import LEVELS, compare_levels, next_steps
from hardware.base.errors import RequestError
from hwexplorer.reports.tree.tree import Node, node
from hwexplorer.text.next_command import command


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("batch", "on_paper"), [(1, False), (8, False), (8, True)])
def test_winners_tally_and_sums(level: str, batch: int, on_paper: bool) -> None:
    results = [run("resnet18", on, batch) for on in DEFAULTS]
    found = compare_levels(results, results[1], level, on_paper)
    judged = {result.device.key for result in results if on_paper or result.device.silicon}
    for result in results:
        key = result.device.key
        mine = [row.devices[key] for row in found.rows]
        mine += [child for child in node(result).children if child.id == HOST]  # the host's work is no node's
        assert math.isclose(sum(f.energy_j for f in mine), result.energy_j, rel_tol=1e-9)
        assert math.isclose(sum(f.energy_j_per_inference for f in mine) * batch, result.energy_j, rel_tol=1e-9)
        assert math.isclose(sum(f.edp_js for f in mine), result.edp_js, rel_tol=1e-9)
        assert math.isclose(sum(f.latency_s for f in mine), result.latency_s, rel_tol=1e-9)
        assert math.isclose(sum(f.share for f in mine), 1.0, rel_tol=1e-9)
    for metric in ADDITIVE:
        assert sum(found.tally[metric].values()) + found.ties[metric] == len(found.rows)
        for row in found.rows:
            values = {key: value for key, value in row.figures(metric).items() if key in judged}
            if metric == "edp" and not all(figures.latency_s for figures in row.devices.values()):  # hidden: by energy
                assert values == {key: row.devices[key].energy_j_per_inference for key in values}
            least, second = sorted(values.values())[:2]
            winner, margin = row.winner[metric], row.margin[metric]
            assert winner == ("" if second <= least * (1 + 1e-9) else min(values, key=values.__getitem__))
            assert margin == (1.0 if not winner else second / least if least else None)
    assert all(row.devices["h100_sxm"].ratio_to_baseline["edp"] == 1.0 for row in found.rows)


def _nodes(root: Node) -> dict[str, Node]:
    return {found.id: found for found in (root, *(below for s in root.children for below in (s, *s.children)))}


@pytest.mark.parametrize("on", ["kpu_t256", "h100_sxm"])
@pytest.mark.parametrize("batch", [1, 8])
def test_a_key_means_the_same_wherever_it_stands(on: str, batch: int) -> None:
    """conv1 on the KPU was 360 nJ s in the tree, and 18.6 nJ s under the same key in `compare`."""
    result = run("resnet18", on, batch)
    nodes = _nodes(node(result))
    for level in LEVELS:
        for row in compare_levels([result], result, level).rows:
            for key in ("edp_js", "own_edp_js", "energy_j", "latency_s", "share", "bound"):
                mine, its = (getattr(side, key) for side in (row.devices[on], nodes[row.id]))
                assert mine == (its if key == "bound" else pytest.approx(its, rel=1e-12)), (row.id, key)
    root = nodes[""]
    assert root.edp_js == root.own_edp_js == result.edp_js == figures(result).edp_js
    assert nodes["conv1"].own_edp_js == pytest.approx(nodes["conv1"].energy_j / batch * nodes["conv1"].latency_s)


def test_what_a_kernel_hides_costs_little_and_not_nothing() -> None:
    """Batch norms inside fused kernels were 0 J s on two devices, and one of them won all those nodes."""
    results = [run("resnet18", on) for on in ("tpu_v4", "kpu_t256")]
    found = compare_levels(results, results[0], "operator", on_paper=True)
    norms = [row for row in found.rows if row.type == "batch_norm"]
    hidden = [row for row in norms if all(figures.latency_s == 0 for figures in row.devices.values())]
    assert len(hidden) > len(norms) / 4  # elsewhere their weights come from memory, which the kernel waits for
    for row in hidden:
        assert all(figures.edp_js > 0 for figures in row.devices.values())
        assert row.winner["latency"] == ""
        assert row.margin["latency"] == 1.0
        assert row.winner["edp"] == row.winner["energy"] != ""
    assert found.ties["latency"] >= len(hidden)


def test_equal_devices_tie() -> None:
    twin = msgspec.structs.replace(device("h100_sxm"), id="twin")
    own = run("resnet18", "h100_sxm")
    results = [own, estimate(workload("resnet18"), twin, own.scenario)]
    found = compare_levels(results, results[0], "subgraph")
    assert found.ties == dict.fromkeys(ADDITIVE, len(found.rows))
    assert all(count == 0 for counts in found.tally.values() for count in counts.values())


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


def test_an_unknown_level() -> None:
    results = [run("resnet18", "h100_sxm")]
    with pytest.raises(RequestError, match="unknown level"):
        compare_levels(results, results[0], "kernel")


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
