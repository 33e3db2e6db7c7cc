"""The report of kernels and occupancy: sums, limits, and a tile by hand."""

import numpy as np
import pytest
import reports_grid as grid

from hardware.architectures.gpu import blocks, occupancy, resident_limit
from hardware.base.errors import RequestError
from hwexplorer.reports.show.events import event_report
from hwexplorer.reports.show.kernels import kernel_report
from hwexplorer.reports.show.structure import structure
from hwexplorer.state import State
from hwexplorer.views import tree_view
from tests.sampling import for_each


@for_each(("model", "device", "batch", "execution"), grid.CASES)
def test_rows_add_up(model: str, device: str, batch: int, execution: str) -> None:
    result = grid.run(model, device, batch, execution)
    found = kernel_report(result)
    assert len(found.kernels) == result.demand.n_kernels
    assert sum(k.latency_s for k in found.kernels) + found.host_s == pytest.approx(found.latency_s)
    assert found.latency_s == pytest.approx(result.latency_s)
    assert found.average_utilization == pytest.approx(result.utilization)
    for parts in (found.utilization, found.bounds):
        assert sum(p.count for p in parts) == len(found.kernels)
        assert sum(p.fraction for p in parts) == pytest.approx(1.0)
        assert sum(p.time_fraction for p in parts) == pytest.approx(1.0)
    assert sum(k.operators for k in found.kernels) == result.workload.n_operators
    assert 0 < found.units_active <= found.units_total
    assert found.ridge_flop_per_byte == pytest.approx(found.peaks_flop_per_s[found.peak] / found.memory_byte_per_s)
    for k in found.kernels:
        assert k.units > 0
        assert 0 < k.units_fraction <= 1
        assert k.blocks >= 1
        assert k.waves >= 1
        assert 0 <= k.utilization <= 1 + 1e-9
        assert k.effective_flop_per_s * k.latency_s == pytest.approx(k.flops)
        assert k.effective_flop_per_s <= k.attainable_flop_per_s * (1 + 1e-9)
        assert k.efficiency <= 1 + 1e-9
        assert max(k.compute_s, k.memory_s) <= k.latency_s * (1 + 1e-9)
        assert k.sentence
        assert k.flips
        assert len(k.parts) == k.operators
    assert sum(k.flops for k in found.kernels) == pytest.approx(
        float((result.workload.operators.flops @ result.workload.value_at(batch=batch)).sum())
    )


@pytest.mark.parametrize(("model", "device"), [("vit_b_16", "jetson_agx_orin"), ("resnet50", "h100_sxm")])
def test_a_kernel_has_one_bound_in_every_report(model: str, device: str) -> None:
    result = grid.run(model, device)
    of_kernels = {part: kernel.bound for kernel in kernel_report(result).kernels for part in kernel.parts}
    in_json = {operator.id: operator.bound for operator in structure(result).operators}
    assert of_kernels == in_json
    table = tree_view.tree(State(model, devices=(device,), by="subgraph", open=result.partition.id))
    place = [column.key for column in table.columns].index("bound")
    on_screen = {row.key: row.cells[place] for row in table.rows if row.key in of_kernels and row.cells[place]}
    assert len(on_screen) > 50
    assert on_screen.items() <= of_kernels.items()


@for_each("model", grid.MODELS)
@for_each("batch", [1, 64])
def test_occupancy_is_between_nothing_and_full(model: str, batch: int) -> None:
    result = grid.run(model, "gpu", batch)
    found = occupancy(result.demand, result.device, result.run.mapping)
    assert (found > 0).all()
    assert (found <= 1).all()
    assert kernel_report(result).occupancy == pytest.approx(event_report(result).rates["occupancy"], rel=0.2)
    assert kernel_report(grid.run(model, "cpu", batch)).occupancy is None


def test_occupancy_by_hand() -> None:
    """Limits of one SM, from registers, shared memory, threads and the blocks there are."""
    result = grid.run("resnet18", "gpu", 256)
    device, tiling = result.device, result.run.mapping.tiling
    assumed = device.arch.constants
    threads = assumed.block_threads
    limit = resident_limit(device, result.run.mapping)
    tiled = tiling.tile_m > 0
    assert (limit[~tiled] == device.threads_per_unit // threads).all(), "32 registers fill an SM exactly"
    for i in np.flatnonzero(tiled):
        tile_m, tile_n = tiling.tile_m[i], tiling.tile_n[i]
        registers = min(tile_m * tile_n / threads + assumed.tile_registers, 255)
        by_registers = device.registers_bytes_per_unit // (registers * 4 * threads)
        shared = (tile_m + tile_n) * assumed.tile_step_bytes * assumed.tile_stages
        by_shared = device.l1_bytes_per_unit * assumed.shared_part // shared
        by_threads = device.threads_per_unit // threads
        assert limit[i] == max(min(by_registers, by_shared, by_threads, device.blocks_per_unit), 1)
    found = occupancy(result.demand, device, result.run.mapping)
    full = blocks(result.demand, device, result.run.mapping) >= limit * device.units
    np.testing.assert_allclose(found[full], np.minimum(limit[full] * threads / device.threads_per_unit, 1))


def test_node_and_unknown_node() -> None:
    result = grid.run("resnet18", "gpu", execution="eager")
    found = kernel_report(result, "layer1.0.conv1")
    assert [(k.type, k.vector_width) for k in found.kernels] == [("conv", None), ("batch_norm", 128), ("relu", 128)]
    with pytest.raises(RequestError, match="unknown node"):
        kernel_report(result, "layer9")
