"""Concurrency: a diamond by hand, and what no model may violate."""

import networkx
import pytest
import reports_grid as grid

from analysis.estimate.estimate import Estimate
from hwexplorer.reports.show.concurrency import HALF_SPEED, NEAR_BEST, concurrency
from tests.sampling import for_each

DIAMOND = [
    ("a", "copy", ("x",), 100_000),
    ("b", "copy", ("a",), 100_000),
    ("c", "copy", ("a",), 100_000),
    ("d", "cat", ("b", "c"), 200_000),
]


def test_diamond() -> None:
    result = grid.run_toy(DIAMOND)
    found = concurrency(result)
    assert (found.n_stages, found.widest_stage, found.widest_operators) == (3, 1, 2)
    assert found.widest_subgraphs == ("b", "c")
    assert found.critical_path.operators == 3
    assert found.critical_path.flops == 400_000
    assert found.critical_path.flops_fraction == pytest.approx(0.8)
    a, b, c, d = result.run.latency_s.tolist()
    assert found.critical_path.time_s == pytest.approx(a + max(b, c) + d)
    assert found.theoretical_speedup == pytest.approx((a + b + c + d) / (a + max(b, c) + d))
    assert [stage.subgraphs for stage in found.stages] == [("a",), ("b", "c"), ("d",)]


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


def test_chain_has_no_branches() -> None:
    found = concurrency(grid.run_toy(DIAMOND[:2]))
    assert found.theoretical_speedup == pytest.approx(1.0, rel=1e-12)
    assert found.widest_operators == 1


@for_each(("model", "device", "batch", "execution"), grid.CASES)
def test_invariants(model: str, device: str, batch: int, execution: str) -> None:
    result = grid.run(model, device, batch, execution)
    found = concurrency(result)
    path = found.critical_path
    assert all(check.holds for check in found.checks), found.checks
    assert path.flops <= found.total_flops * (1 + 1e-12)
    assert path.operators == found.operator_stages
    assert found.theoretical_speedup == pytest.approx(result.latency_s / longest(result, result.run.latency_s.tolist()))
    assert sum(len(stage.subgraphs) for stage in found.stages) == len(result.partition.id)
    assert sum(stage.serial_s for stage in found.stages) == pytest.approx(result.latency_s)
    assert sum(stage.flops for stage in found.stages) == pytest.approx(found.total_flops)
    assert {p.level for p in found.parallelism} == {"graph", "batch", "thread", "pipeline"}
    for kind in found.parallelism:
        assert kind.speedup >= 1 - 1e-9
        assert kind.most >= kind.mean > 0
    assert found.parallelism[1].most == batch
    for units in found.units:
        assert 1 <= units.minimum <= units.optimal <= units.units_total == result.device.units
        assert units.best_s <= units.optimal_s <= units.best_s * NEAR_BEST
        assert all(split.ways > 1 for split in units.splits)
    assert HALF_SPEED > NEAR_BEST


def test_branches_of_googlenet() -> None:
    found = concurrency(grid.run("googlenet", "gpu"))
    assert found.widest_operators == 4, "an inception block has four branches"


def test_splits_of_a_product() -> None:
    (units,) = concurrency(grid.run("gemm:M=48,N=80,K=112", "gpu")).units
    ways = {split.dimension: split.ways for split in units.splits}
    assert ways == {"rows": 48, "columns": 80, "reduction": 112}
    reduction = next(split for split in units.splits if split.dimension == "reduction")
    assert reduction.exchanged_bytes == 48 * 80 * 4


def test_more_work_wants_no_fewer_units() -> None:
    small, large = (concurrency(grid.run("gemm:M=64,N=64,K=512", "gpu", batch)).units[0] for batch in (1, 256))
    assert small.threads < large.threads
    assert small.optimal <= large.optimal
