"""Costs of rare calls and of experts computed once more by hand."""

import math

import pytest

from analysis.model.ir.operator_graph import Graph, GraphNode, Ref, Scope, Source, meta
from analysis.model.ir.workload import INPUT, WEIGHT, InputSpec, Routing, coverage
from analysis.model.lowering.graph_lowering import lower_graph
from analysis.model.operators.contractions import OperatorCall
from analysis.model.operators.cost_rules import cost_of
from analysis.model.transformer.transformer_request import LoadSpec


def call(name: str, result: tuple[int, ...], tensors: dict[str, tuple[int, ...]], **args: object) -> OperatorCall:
    metas = {key: meta(shape, place) for place, (key, shape) in enumerate(tensors.items())}
    return OperatorCall(name, {**{key: Ref(key) for key in tensors}, **args}, metas, (meta(result, 99),))


def test_a_recurrent_cell_multiplies_its_input_and_its_state() -> None:
    shapes = {"input": (8, 10), "w_ih": (80, 10), "w_hh": (80, 20)}
    assert cost_of(call("lstm_cell", (8, 20), shapes)).macs.constant() == 8 * (80 * 10 + 80 * 20)


LU = 5 * 6 * 11 // 6  # multiply-adds that factor a 6 x 6 matrix; a triangular solve takes 15 a column


@pytest.mark.parametrize(
    ("name", "result", "tensors", "args", "macs"),
    [
        ("lstm", (9, 1, 10), {"input": (9, 1, 20), "w": (160, 20), "u": (160, 10), "p": (10, 40)}, {},
         9 * (160 * 30 + 400)),
        ("linalg_solve", (6, 24), {"A": (6, 6), "B": (6, 24)}, {}, LU + 2 * 15 * 24),
        ("linalg_solve", (6,), {"A": (6, 6), "B": (6,)}, {}, LU + 2 * 15),
        ("cholesky_solve", (6, 4), {"self": (6, 4), "input2": (6, 6)}, {}, 2 * 15 * 4),
        ("linalg_solve_triangular", (2, 6, 3), {"A": (2, 6, 6), "B": (2, 6, 3)}, {}, 2 * 15 * 3),
        ("matrix_power", (20, 20), {"self": (20, 20)}, {"n": 5}, 3 * 20**3),
    ],
)  # fmt: skip
def test_solves_powers_and_projections_of_strangers(
    name: str, result: tuple[int, ...], tensors: dict[str, tuple[int, ...]], args: dict[str, object], macs: int
) -> None:
    params = {"params": [Ref(key) for key in tensors if key != "input"]} if name == "lstm" else {}
    assert cost_of(call(name, result, tensors, **args, **params)).macs.constant() == macs


def test_a_sampled_region_takes_eight_flops_a_point() -> None:
    shapes = {"input": (1, 16, 50, 50), "rois": (6, 5)}
    cost = cost_of(call("torchvision.roi_align", (6, 16, 7, 7), shapes, sampling_ratio=2))
    assert cost.flops.constant() == 6 * 16 * 7 * 7 * 4 * 8


def test_the_busiest_device_has_more_tokens_than_the_mean() -> None:
    """Its choices lie sqrt(2 ln D) standard deviations above the mean of D devices."""
    routing = Routing(experts=64, active=8, devices=8)
    touched, rows = routing.expert_load(512)
    mean = 512 * 8 / 8
    assert touched * rows == pytest.approx(mean + math.sqrt(2 * math.log(8) * mean))
    assert touched <= 8


def test_work_without_a_rule_counts_as_a_product_of_its_tensors() -> None:
    """Two matrices in, one out: 2 sqrt(product of the three sizes) FLOPs, those of a matrix product."""
    left, right, out = (meta(shape, place) for place, shape in enumerate(((8, 4), (4, 16), (8, 16))))
    scopes = (Scope("L__self__", "", "Net"),)
    args = {"self": Ref("a"), "other": Ref("b")}
    nodes = (
        GraphNode("known", "aten.mm.default", args, (out,), scopes),
        GraphNode("strange", "custom.thing.default", args, (meta((8, 16), 3),), scopes),
    )
    sources = (Source("a", "a", INPUT, left), Source("b", "b", WEIGHT, right))
    inputs = (InputSpec("a", "float32", (8, 4)),)
    graph = Graph(sources, nodes, ("known", "strange"), 64, inputs)
    assert coverage(lower_graph(graph, "net")).flops == pytest.approx(0.5)


@pytest.mark.parametrize(("rate", "below", "above"), [(5.0, 2.0, 10.0), (1.0, 0.5, 2.0), (3.0, 2.0, 5.0)])
def test_the_next_load_is_another_one(rate: float, below: float, above: float) -> None:
    assert [LoadSpec(rate=rate).scaled(up).rate for up in (False, True)] == [below, above]
    assert [LoadSpec(concurrency=8).scaled(up).concurrency for up in (False, True)] == [4, 16]


def test_the_addend_of_a_product_is_no_operand() -> None:
    added = cost_of(call("addmm", (8, 20), {"self": (20,), "mat1": (8, 10), "mat2": (10, 20)}))
    batched = cost_of(call("baddbmm", (2, 8, 20), {"self": (1,), "batch1": (2, 8, 10), "batch2": (2, 10, 20)}))
    assert [(each.kind, each.macs.constant()) for each in (added, batched)] == [("linear", 1600), ("matmul", 3200)]
