"""The partition report: exact counts, sums, and a product by hand."""

import pytest
import reports_grid as grid

from hwexplorer.reports.tree.partition import PartitionReport, partition_report
from tests.models import load_once
from tests.sampling import for_each


def report(model: str, batch: int = 1, precision: str = "fp32") -> PartitionReport:
    return partition_report(load_once(model), batch, precision)


@for_each("model", grid.MODELS)
@for_each("batch", [1, 8])
def test_parts_add_up(model: str, batch: int) -> None:
    found = report(model, batch)
    for rows in (found.operators_by_type, found.operators_by_class, found.subgraphs_by_pattern):
        assert sum(row.fraction for row in rows) == pytest.approx(1.0)
        assert sum(row.flops for row in rows) == pytest.approx(found.flops)
    assert sum(row.count for row in found.operators_by_type) == found.n_operators
    assert sum(row.count for row in found.subgraphs_by_pattern) == found.n_subgraphs == len(found.subgraphs)
    for name in ("flops", "macs", "ingress_bytes", "egress_bytes", "weight_bytes", "internal_bytes"):
        assert sum(getattr(s, name) for s in found.subgraphs) == pytest.approx(getattr(found, name))
    for spread in (found.parallelism, found.intensity):
        for level, count in ((spread.operators, found.n_operators), (spread.subgraphs, found.n_subgraphs)):
            assert sum(b.count for b in level) == count
            assert sum(b.fraction for b in level) == pytest.approx(1.0)
    assert sorted(o for s in found.subgraphs for o in s.operators) == sorted(
        {o for s in found.subgraphs for o in s.operators}
    )
    assert sum(len(s.operators) for s in found.subgraphs) == found.n_operators
    path = found.critical_path
    assert 0 < path.flops <= found.flops * (1 + 1e-12)
    assert 0 < path.flops_fraction <= 1
    assert path.longest_chain <= found.n_operators
    assert {s.id for s in found.subgraphs if s.on_critical_path} == set(path.subgraphs)


def test_edges_carry_what_enters() -> None:
    """A subgraph's ingress is what its edges bring, but for the input and for what two of its operators read."""
    found = report("resnet18")
    ids = [s.id for s in found.subgraphs]
    for edge in found.edges:
        assert ids.index(edge.source) < ids.index(edge.target)
        assert edge.bytes > 0
    first = found.subgraphs[0]
    assert first.ingress_bytes == 3 * 224 * 224 * 4
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
    assert threads["conv1"] == 64 * 112 * 112
    assert threads["fc"] == 1000
    # conv1, bn1, relu, maxpool, then 2 x (conv bn relu conv bn add relu) four times, avgpool, fc, bias
    assert found.critical_path.longest_chain == 4 + 8 * 7 + 3


def test_product_by_hand() -> None:
    m, n, k = 48, 80, 112
    (s,) = partition_report(load_once(f"gemm:M={m},N={n},K={k}"), 1, "fp16").subgraphs
    assert s.macs == m * n * k
    assert s.ingress_bytes + s.weight_bytes == (m * k + k * n) * 2
    assert s.egress_bytes == m * n * 2
    assert s.threads == m * n
    assert s.intensity == pytest.approx(2 * m * n * k / (2 * (m * k + k * n + m * n)))


def test_batch_multiplies_all_but_weights() -> None:
    one, four = report("mobilenet_v2"), report("mobilenet_v2", 4)
    assert four.weight_bytes == one.weight_bytes
    for name in ("flops", "ingress_bytes", "egress_bytes", "internal_bytes"):
        assert getattr(four, name) == pytest.approx(4 * getattr(one, name), rel=1e-3)


def test_parallel_branches_are_off_the_critical_path() -> None:
    found = report("googlenet")
    assert found.critical_path.flops_fraction < 1
    assert not all(s.on_critical_path for s in found.subgraphs)


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
    counted = {row.type: row.count for row in report(model).operators_by_class}
    assert {name: counted.get(name, 0) for name in classes} == classes


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
    heads = {s.operators[0]: s for s in found.subgraphs}
    same = [(heads[o.id], o) for o in found.operators if o.id in heads]
    assert same
    assert all(s.channel_parallelism >= 1 for s, _ in same)


def test_a_convolution_says_its_shapes_groups_and_parallelism() -> None:
    first = next(o for o in report("fasterrcnn_resnet50_fpn_v2", 4).operators if o.operator_class == "conv")
    image, weight = first.inputs
    assert (weight.role, weight.dtype, weight.shape) == ("weight", "float32", (64, 3, 7, 7))
    assert (image.role, image.shape, first.groups) == ("input", ("batch", 3, 800, 800), 1)
    assert first.outputs[0].shape == ("batch", 64, 400, 400)
    assert (first.batch_parallelism, first.channel_parallelism, first.spatial_parallelism) == (4, 64, 160000)
