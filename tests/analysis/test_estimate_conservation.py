"""Energy and latency add up exactly: events = operator, operators = subgraph, subgraphs = model."""

import grid
import numpy as np
import pytest
from grid import EXACT
from test_estimate_physics import check_physics

from analysis.estimate.estimate import COMPONENTS, Estimate
from analysis.estimate.tree_figures import tree
from hwexplorer.reports.show.events import event_report
from hwexplorer.reports.tree.tree import node
from tests.sampling import every, for_each

ADD_UP = ("energy_j", "latency_s", "share", "macs", "flops", "bytes", "dram_bytes", "transfers")


def _close(actual: float, expected: float, what: str) -> None:
    assert actual == pytest.approx(expected, rel=EXACT, abs=0.0), what


def check_sums(result: Estimate) -> None:
    """The columns of the tree against each other, recomputed from the members of each subgraph."""
    run, figures = result.run, tree(result)
    operators, subgraphs = figures.operators, figures.subgraphs
    np.testing.assert_allclose(
        (run.scale_counts(run.counts) * run.prices.value[:, None]).sum(axis=0), run.energy_j, rtol=EXACT, atol=0
    )
    np.testing.assert_allclose(result.component_energy_j.sum(axis=0), operators.energy_j, rtol=EXACT, atol=0)
    members = result.partition.members
    assert sorted(i for group in members for i in group) == list(range(result.workload.n_operators))
    assert all(members)
    order, ends = np.concatenate([list(group) for group in members]), np.cumsum([len(group) for group in members])
    low, high = (
        np.stack([*(getattr(level, name) for name in ADD_UP), *level.component_j]) for level in (operators, subgraphs)
    )
    sums = np.add.reduceat(low[:, order], [0, *ends[:-1]], axis=1)
    np.testing.assert_allclose(sums, high, rtol=EXACT, atol=1e-300)
    assert len(operators.component_j) == len(COMPONENTS)
    for level in (operators, subgraphs):
        _close(level.energy_j.sum(), result.energy_j, "energy of a level")
        _close(level.latency_s.sum(), result.latency_s, "latency of a level")
        _close(level.share.sum(), 1.0, "shares of a level")
        _close(level.component_j.sum(), result.energy_j, "components of a level")
        _close(level.cumulative.max(), 1.0, "cumulative share of the last node")
        for column in (level.energy_j, level.latency_s, level.share, level.dram_bytes, level.component_j):
            assert np.isfinite(column).all()
            assert (column >= 0).all()
    kernel_s = grid.per_kernel(result, run.latency_s)
    np.testing.assert_allclose(kernel_s, run.kernel_s, rtol=EXACT, err_msg="operator times of a kernel")
    for values in (operators.energy_j, operators.latency_s):
        assert values.sum() > 0


@for_each("name", grid.DEFAULTS)
@for_each("model", [*grid.MODELS[::2], *grid.BLOCKS])
def test_sums_add_up_within_physics(model: str, name: str) -> None:
    """In each precision; batches and modes take turns."""
    turn = [*grid.MODELS, *grid.BLOCKS].index(model) + grid.DEFAULTS.index(name)
    for i, precision in enumerate(grid.distinct_precisions(grid.device(name))):
        batch, mode = grid.BATCHES[(turn + i) // 2 % len(grid.BATCHES)], grid.MODES[(turn + i) % 2]
        result = grid.run(model, name, batch, precision, mode)
        check_sums(result)
        check_physics(result)


@pytest.mark.parametrize("name", grid.DEFAULTS)
def test_precisions_that_run_alike_cost_alike(name: str) -> None:
    """So that one of each is enough above: whatever was asked for, the same plan gives the same figures."""
    figures: dict[tuple[object, ...], tuple[float, float]] = {}
    for precision in grid.PRECISIONS:
        for model in ("resnet18", "transformer_block"):
            for mode in grid.MODES:
                result = grid.run(model, name, 8, precision, mode)
                check_sums(result)
                key = (model, mode, *grid.plan_key(result.plan))
                assert figures.setdefault(key, (result.latency_s, result.energy_j)) == (
                    result.latency_s,
                    result.energy_j,
                )


@every(6)
def test_sums_add_up_on_every_device(nth: int) -> None:
    for device in grid.catalogue(modes=False)[::nth]:
        for model in ("mobilenet_v2", "transformer_block"):
            for mode in grid.ALL_MODES:
                result = grid.run(model, device, 8, "int8", mode)
                check_sums(result)
                check_physics(result)


@for_each("mode", grid.MODES)
@for_each("name", grid.DEFAULTS)
def test_event_report_adds_up_at_every_node(name: str, mode: str) -> None:
    result = grid.run("resnet18", name, 8, "fp16", mode)
    root = node(result)
    subgraph = root.children[3]
    for each in (root, subgraph, *subgraph.children):
        events = event_report(result, each.id)
        _close(events.total_j, each.energy_j, each.id)
        _close(sum(row.energy_j for row in events.events), each.energy_j, each.id)
        _close(sum(row.fraction for row in events.events), 1.0, each.id)
        _close(sum(row.energy_j for row in events.events if row.component == "static"), each.static_j, each.id)
        for row in events.events:
            assert row.energy_j == pytest.approx(row.count * row.coefficient_j, rel=EXACT)
            assert row.coefficient_low_j <= row.coefficient_j <= row.coefficient_high_j
        assert 0.0 <= events.overhead_j <= events.total_j
        assert all(0.0 <= rate <= 1.0 for rate in events.rates.values()), events.rates


def test_power_time_and_energy_agree() -> None:
    result = grid.run("resnet50", "h100_sxm", 64, "bf16")
    _close(result.average_power_w * result.latency_s, result.energy_j, "power x time")
    _close(result.throughput_per_s * result.latency_s, 64.0, "throughput x time")
    _close(result.edp_js, result.energy_j / 64 * result.latency_s, "EDP")
    static = float(result.component_energy_j[2].sum())
    _close(static / result.latency_s, grid.static_w(result.device), "static power is that of the clocked idle device")
