"""The structure report: exact counts, sums, a product and a diamond by hand, and what no model may violate."""

import json
from collections import Counter
from typing import Any

import networkx
import numpy as np
import pytest
import reports_grid as grid
from hypothesis import given, settings
from hypothesis import strategies as st

import hwexplorer as hx
from analysis.estimate.causes import divide_host_work
from analysis.estimate.estimate import Estimate
from hwexplorer import engine
from hwexplorer.cli import main
from hwexplorer.reports.show.structure import (
    HALF_SPEED,
    NEAR_BEST,
    StructureReport,
    count_in_ranges,
    count_kinds,
    structure,
    to_networkx,
)
from hwexplorer.state import parse
from tests.models import load_once
from tests.sampling import for_each

DIAMOND = [
    ("a", "copy", ("x",), 100_000),
    ("b", "copy", ("a",), 100_000),
    ("c", "copy", ("a",), 100_000),
    ("d", "cat", ("b", "c"), 200_000),
]
CASES = ("resnet18@b8,fp16,fused?on=h100_sxm", "mobilenet_v2?on=tpu_v4", "googlenet?on=xeon_8490h")


def report(model: str, batch: int = 1, precision: str = "fp32") -> StructureReport:
    return structure(grid.run(model, "gpu", batch, precision=precision))


@for_each(("model", "device", "batch", "execution"), grid.CASES[::4])
def test_parts_add_up_and_nothing_exceeds_the_whole(model: str, device: str, batch: int, execution: str) -> None:
    result = grid.run(model, device, batch, execution)
    found = structure(result)
    for rows in (found.operators_by_type, found.subgraphs_by_pattern):
        assert sum(row.fraction for row in rows) == pytest.approx(1.0)
        assert sum(row.flops for row in rows) == pytest.approx(found.flops)
    assert sum(row.count for row in found.operators_by_type) == found.n_operators == len(found.operators)
    assert sum(row.count for row in found.subgraphs_by_pattern) == found.n_subgraphs == len(found.subgraphs)
    for name in ("flops", "macs", "ingress_bytes", "egress_bytes", "weight_bytes", "internal_bytes"):
        assert sum(getattr(s, name) for s in found.subgraphs) == pytest.approx(getattr(found, name))
    for buckets in (found.threads, found.intensity):
        for level, count in (("operators", found.n_operators), ("subgraphs", found.n_subgraphs)):
            assert sum(getattr(bucket, level) for bucket in buckets) == count
            assert sum(getattr(bucket, f"{level}_fraction") for bucket in buckets) == pytest.approx(1.0)
    assert sorted(o for s in found.subgraphs for o in s.operators) == sorted(o.id for o in found.operators)

    path, stages = found.critical_path, found.stages
    near = 1 + 1e-9
    assert max(path.time_fraction, path.flops_fraction) <= near
    assert path.time_s <= sum(stage.time_s for stage in stages) * near <= found.latency_s * near**2
    assert found.parallelism[0].speedup <= found.parallelism[0].most * near
    assert path.flops <= found.flops * (1 + 1e-12)
    assert path.operators == found.operator_stages
    assert {s.id for s in found.subgraphs if s.on_critical_path} == set(path.subgraphs)
    alone = divide_host_work(result)[0].run.latency_s
    assert found.host_s == pytest.approx(result.latency_s - alone.sum())
    assert found.parallelism[0].speedup == pytest.approx(
        result.latency_s / (found.host_s + longest(result, alone.tolist()))
    )
    assert sum(len(stage.subgraphs) for stage in stages) == found.n_subgraphs
    assert sum(stage.serial_s for stage in stages) == pytest.approx(alone.sum())
    assert sum(stage.flops for stage in stages) == pytest.approx(found.flops)
    assert [p.level for p in found.parallelism] == ["graph", "batch", "thread", "pipeline"]
    for kind in found.parallelism:
        assert kind.speedup >= 1 - 1e-9
        assert kind.most >= kind.mean > 0
    assert found.parallelism[1].most == batch
    for subgraph in found.subgraphs:
        assert 1 <= subgraph.minimum <= subgraph.optimal <= found.units_total == result.device.units
    assert HALF_SPEED > NEAR_BEST


def longest(result: Estimate, seconds: list[float]) -> float:
    """Of the chains of operators that wait for each other, by networkx."""
    graph = networkx.DiGraph()
    ops, tensors = result.workload.operators, result.workload.tensors
    for i, taken in enumerate(seconds):
        graph.add_edge("start", i, seconds=taken)
        for t in ops.in_tensor[ops.in_ptr[i] : ops.in_ptr[i + 1]].tolist():
            if tensors.producer[t] >= 0:
                graph.add_edge(int(tensors.producer[t]), i, seconds=taken)
    return float(networkx.dag_longest_path_length(graph, "seconds"))


def test_diamond() -> None:
    result = grid.run_toy(DIAMOND)
    found = structure(result)
    assert (len(found.stages), found.widest_stage, found.widest_operators) == (3, 1, 2)
    assert found.critical_path.operators == 3
    assert found.critical_path.flops == 400_000
    assert found.critical_path.flops_fraction == pytest.approx(0.8)
    a, b, c, d = divide_host_work(result)[0].run.latency_s.tolist()
    assert found.critical_path.time_s == pytest.approx(a + max(b, c) + d)
    assert found.parallelism[0].speedup == pytest.approx(result.latency_s / (found.host_s + a + max(b, c) + d))
    assert [stage.subgraphs for stage in found.stages] == [("a",), ("b", "c"), ("d",)]


def test_chain_has_no_branches() -> None:
    found = structure(grid.run_toy(DIAMOND[:2]))
    assert found.parallelism[0].speedup == pytest.approx(1.0, rel=1e-12)
    assert found.widest_operators == 1


def test_branches_of_googlenet() -> None:
    found = report("googlenet")
    assert found.widest_operators == 4, "an inception block has four branches"
    assert found.critical_path.flops_fraction < 1
    assert not all(s.on_critical_path for s in found.subgraphs)


def test_edges_carry_what_enters() -> None:
    """A subgraph's ingress is what its edges bring, but for the input and for what two of its operators read."""
    found = report("resnet18")
    ids = [s.id for s in found.subgraphs]
    for edge in found.edges:
        assert ids.index(edge.source) < ids.index(edge.target)
        assert edge.bytes > 0
    assert found.subgraphs[0].ingress_bytes == 3 * 224 * 224 * 4
    for s in found.subgraphs[1:]:
        assert s.ingress_bytes == pytest.approx(sum(e.bytes for e in found.edges if e.target == s.id))


def test_resnet18_exactly() -> None:
    found = report("resnet18")
    assert {k.type: k.count for k in found.operators_by_type} == {
        "conv": 20, "batch_norm": 20, "relu": 17, "add": 8, "max_pool": 1, "avg_pool": 1, "linear": 1, "bias": 1,
    }  # fmt: skip
    assert {k.type: k.count for k in found.subgraphs_by_pattern} == {
        "conv+batch_norm+relu": 9, "conv+batch_norm+add+relu": 8, "conv+batch_norm": 3, "max_pool": 1, "avg_pool": 1,
        "linear+bias": 1,
    }  # fmt: skip
    assert found.fused_operators == 67
    threads = {s.id: s.threads for s in found.subgraphs}
    assert (threads["conv1"], threads["fc"]) == (64 * 112 * 112, 1000)
    # conv1, bn1, relu, maxpool, then 2 x (conv bn relu conv bn add relu) four times, avgpool, fc, bias
    assert found.critical_path.operators == 4 + 8 * 7 + 3


def test_product_by_hand() -> None:
    m, n, k = 48, 80, 112
    (s,) = report(f"gemm:M={m},N={n},K={k}", precision="fp16").subgraphs
    assert (s.macs, s.egress_bytes, s.threads) == (m * n * k, m * n * 2, m * n)
    assert s.ingress_bytes + s.weight_bytes == (m * k + k * n) * 2
    assert s.divides.startswith("48 rows (weights again); 80 columns (inputs again); 112 terms of each sum")
    assert s.intensity == pytest.approx(2 * m * n * k / (2 * (m * k + k * n + m * n)))


def test_batch_multiplies_all_but_weights() -> None:
    one, four = report("mobilenet_v2"), report("mobilenet_v2", 4)
    assert four.weight_bytes == one.weight_bytes
    for name in ("flops", "ingress_bytes", "egress_bytes", "internal_bytes"):
        assert getattr(four, name) == pytest.approx(4 * getattr(one, name), rel=1e-3)


def test_more_work_wants_no_fewer_units() -> None:
    small, large = (report("gemm:M=64,N=64,K=512", batch).subgraphs[0] for batch in (1, 256))
    assert small.threads < large.threads
    assert small.optimal <= large.optimal


@pytest.mark.parametrize(
    ("model", "classes"),
    [
        (
            "efficientnet_b0",
            {"squeeze_excite": 128, "depthwise_conv": 16, "pointwise_conv": 32, "conv": 1, "linear": 1},
        ),
        ("mobilenet_v2", {"squeeze_excite": 0, "depthwise_conv": 17, "pointwise_conv": 34, "conv": 1}),
        ("swin_t", {"attention": 53, "squeeze_excite": 0}),
        ("vit_b_16", {"attention": 12, "squeeze_excite": 0}),
        ("llama3_8b", {"attention": 32, "embedding": 1, "squeeze_excite": 0}),
        ("regnet_y_400mf", {"grouped_conv": 16, "squeeze_excite": 128}),
    ],
)
def test_classes_of_the_field(model: str, classes: dict[str, int]) -> None:
    counted = Counter(operator.operator_class for operator in report(model).operators)
    assert {name: counted[name] for name in classes} == classes


@pytest.mark.parametrize("model", ["resnet18", "vit_b_16", "mobilenet_v2", "llama3_8b"])
@pytest.mark.parametrize("batch", [1, 8])
def test_parallelism_is_the_elements_written(model: str, batch: int) -> None:
    found, workload = report(model, batch), load_once(model)
    written = workload.tensors.numel @ workload.value_at(batch=batch)
    for i, operator in enumerate(found.operators):
        outputs = workload.operators.out_tensor[workload.operators.out_ptr[i] : workload.operators.out_ptr[i + 1]]
        together = operator.batch_parallelism * operator.channel_parallelism * operator.spatial_parallelism
        assert together == written[outputs].max()
        assert operator.batch_parallelism == batch


def test_a_convolution_says_its_shapes_groups_and_parallelism() -> None:
    first = next(o for o in report("fasterrcnn_resnet50_fpn_v2", 4).operators if o.operator_class == "conv")
    image, weight = first.inputs
    assert (weight.role, weight.dtype, weight.shape) == ("weight", "float32", (64, 3, 7, 7))
    assert (image.role, image.shape, first.groups) == ("input", ("batch", 3, 800, 800), 1)
    assert first.outputs[0].shape == ("batch", 64, 400, 400)
    assert (first.batch_parallelism, first.channel_parallelism, first.spatial_parallelism) == (4, 64, 160000)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 200), min_size=1, max_size=40))
def test_ranges_count_every_member_once(values: list[float]) -> None:
    edges = (0.0, 1.0, 10.0, 50.0, np.inf)
    counts, fractions, weights = count_in_ranges(np.array(values), edges[1:-1], np.ones(len(values)))
    for low, high, count in zip(edges, edges[1:], counts, strict=False):
        assert count == sum(low <= value < high for value in values)
    assert sum(counts) == len(values)
    assert sum(fractions) == pytest.approx(1.0) == pytest.approx(sum(weights))


def test_kinds_are_counted() -> None:
    rows = count_kinds(["conv", "relu", "relu"], np.array([6.0, 1.0, 1.0]))
    assert [(r.type, r.count, r.fraction, r.flops_fraction) for r in rows] == [
        ("relu", 2, 2 / 3, 0.25),
        ("conv", 1, 1 / 3, 0.75),
    ]


# --- the graph for other programs ---------------------------------------------------------------------------


@pytest.mark.parametrize("text", CASES)
def test_figures_of_the_graph_are_those_of_the_run(text: str) -> None:
    result = engine.result(parse(text))
    found = structure(result)
    assert sum(operator.energy_j for operator in found.operators) == pytest.approx(result.energy_j, rel=1e-9)
    assert sum(operator.latency_s for operator in found.operators) == pytest.approx(result.latency_s, rel=1e-9)
    assert sum(operator.share for operator in found.operators) == pytest.approx(1, rel=1e-9)
    assert len({operator.kernel for operator in found.operators}) == result.demand.n_kernels
    made = to_networkx(found)
    assert networkx.is_directed_acyclic_graph(made)
    assert networkx.is_weakly_connected(made)
    assert list(made) == list(result.partition.operator_id)
    assert min(size for *_, size in made.edges.data("bytes")) > 0


def test_node_data_of_model_explorer_add_up_to_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    """Each node of the graph has joules, milliseconds and EDP, and their sums are those of the model."""

    def exported(form: str) -> Any:
        assert main(["show", "structure", "resnet18@b1/l4", "--format", form]) == 0
        return json.loads(capsys.readouterr().out)

    (graph,) = exported("graph")["graphs"]
    ids = [node["id"] for node in graph["nodes"]]
    assert {edge["sourceNodeId"] for node in graph["nodes"] for edge in node["incomingEdges"]} <= {*ids}
    row = hx.compare("resnet18", on=["l4"]).to_dict()["rows"][0]
    for form, whole in (("nodes-energy", row["energy_j"]), ("nodes-latency", row["latency_s"] * 1e3)):
        results = exported(form)[graph["id"]]["results"]
        assert [*results] == ids
        assert sum(node["value"] for node in results.values()) == pytest.approx(whole, rel=1e-6)
    assert [*exported("nodes-edp")[graph["id"]]["results"]] == ids
