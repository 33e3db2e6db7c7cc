"""Rows of the tree that are no operators: the work of the host between kernels, and the parts of attention."""

import numpy as np
import pytest
from grid import EXACT, run

from analysis.estimate.causes import causes, divide_host_work
from analysis.estimate.tree_figures import BYS, HOST, branch_figures, draw_outline, find_node, operators_of
from hwexplorer import engine
from hwexplorer.reports.show.events import event_report
from hwexplorer.reports.tree.tree import Node, node
from hwexplorer.state import parse
from tests.sampling import for_each

ADDED = ("share", "edp_js", "latency_s", "energy_j", "macs", "flops", "dram_bytes")
SETUPS = [
    "llama3_8b:decode/h100_sxm", "llama3_8b:request@b4/h100_sxm", "llama3_70b:decode,tp=4/h100_sxm",
    "resnet50/h100_sxm", "vit_b_16@eager/h100_sxm", "bert_base@b8/tpu_v4", "llama3_8b:decode@llama_cpp/xeon_8490h",
]  # fmt: skip


@for_each("setup", SETUPS)
@for_each("by", BYS)
def test_children_add_up_to_their_parent(setup: str, by: str) -> None:
    result = engine.result(parse(setup))
    branches = [branch for _, branch in draw_outline(result, by).walk()]
    level = branch_figures(result, branches)
    place = {id(branch): i for i, branch in enumerate(branches)}
    for i, branch in enumerate(branches):
        if branch.children:
            below = [place[id(child)] for child in branch.children]
            for name in ADDED:
                values = getattr(level, name)
                assert values[below].sum() == pytest.approx(values[i], rel=EXACT, abs=EXACT * values[0])
            assert np.allclose(level.component_j[:, below].sum(axis=1), level.component_j[:, i], rtol=EXACT, atol=0)
    assert level.share[0] == pytest.approx(1.0, rel=EXACT)
    assert level.latency_s[0] == pytest.approx(result.latency_s, rel=EXACT)
    assert level.energy_j[0] == pytest.approx(result.energy_j, rel=EXACT)


@pytest.mark.parametrize("setup", SETUPS[:3])
def test_scheduler_is_the_hosts_row_and_not_the_embeddings(setup: str) -> None:
    result = engine.result(parse(setup))
    rest, host = divide_host_work(result)
    assert host is not None
    calls = float(result.runtime.call_s.value + result.runtime.sequence_s.value * result.scenario.batch)
    steps = host.run.latency_s.sum() / calls
    assert steps == pytest.approx(round(steps), rel=1e-9)
    for whole in (rest, host):
        of = causes(whole)
        assert of.time_s.sum(axis=0) == pytest.approx(whole.run.latency_s, rel=EXACT, abs=EXACT * result.latency_s)
        assert of.energy_j.sum(axis=0) == pytest.approx(whole.run.energy_j, rel=EXACT, abs=EXACT * result.energy_j)
    embedding = int(operators_of(result, HOST)[0])
    assert rest.run.latency_s[embedding] < 0.01 * host.run.latency_s.sum()


@pytest.mark.parametrize("mode", ["eager", "fused"])
@pytest.mark.parametrize("model", ["vit_b_16", "bert_base", "llama3_8b"])
def test_attention_opens_into_its_three_parts(model: str, mode: str) -> None:
    result = run(model, "h100_sxm", 1, "fp16", mode)
    by_id = _nodes(node(result))
    attention = next(each for each in by_id.values() if each.kind == "operator" and each.type == "attention")
    products, softmax = [each for each in attention.children if each.type == "matmul"], attention.children[1]
    assert [part.name for part in attention.children] == ["part: QK^T", "part: softmax", "part: weighted V"]
    assert [part.macs for part in products] == [attention.macs / 2] * 2
    assert softmax.macs == 0 < softmax.flops < products[0].flops
    assert all(part.latency_s > 0 for part in attention.children)
    assert find_node(result, softmax.id) == ("group", 0)


def _nodes(root: Node) -> dict[str, Node]:
    return {root.id: root} | {key: each for child in root.children for key, each in _nodes(child).items()}


def test_events_of_the_embedding_and_of_the_host_are_those_of_their_rows() -> None:
    result = engine.result(parse("llama3_8b:decode/h100_sxm"))
    rows = {child.id: child for child in node(result).children}
    for path in (HOST, "embed_tokens"):
        report = event_report(result, path)
        assert report.total_j == pytest.approx(rows[path].energy_j, rel=EXACT)
    assert rows["embed_tokens"].energy_j < 0.01 * rows[HOST].energy_j
    assert rows[HOST].energy_j_per_inference == rows[HOST].energy_j
