"""The mapping report and occupancy: sums, limits, and a tile by hand."""

import numpy as np
import pytest
import reports_grid as grid

from hardware.architectures.gpu import blocks, occupancy, resident_limit
from hardware.base.errors import RequestError
from hwexplorer.reports.show.events import event_report
from hwexplorer.reports.show.mapping import mapping_report
from tests.sampling import for_each


@for_each(("model", "device", "batch", "execution"), grid.CASES)
def test_rows_add_up(model: str, device: str, batch: int, execution: str) -> None:
    result = grid.run(model, device, batch, execution)
    found = mapping_report(result)
    assert found.kernels == len(found.rows) == result.demand.n_kernels
    assert sum(r.latency_s for r in found.rows) == pytest.approx(found.latency_s)
    assert found.latency_s == pytest.approx(result.latency_s)
    assert found.average_utilization == pytest.approx(result.utilization)
    for parts in (found.utilization, found.bounds):
        assert sum(p.count for p in parts) == found.kernels
        assert sum(p.fraction for p in parts) == pytest.approx(1.0)
    assert sum(b.weight for b in found.utilization) == pytest.approx(1.0)
    assert sum(b.time_s for b in found.bounds) == pytest.approx(result.latency_s)
    assert sum(r.operators for r in found.rows) == result.workload.n_operators
    assert 0 < found.units_active <= found.units_total
    for row in found.rows:
        assert 0 < row.units <= row.units_total
        assert row.blocks >= 1
        assert row.waves >= 1
        assert 0 <= row.utilization <= 1 + 1e-9
        assert row.effective_flop_per_s * row.latency_s == pytest.approx(row.flops)
        assert row.sentence
    assert sum(r.flops for r in found.rows) == pytest.approx(
        float((result.workload.operators.flops @ result.workload.value_at(batch=batch)).sum())
    )


@for_each("model", grid.MODELS)
@for_each("batch", [1, 64])
def test_occupancy_is_between_nothing_and_full(model: str, batch: int) -> None:
    result = grid.run(model, "gpu", batch)
    found = occupancy(result.demand, result.device, result.run.mapping)
    assert (found > 0).all()
    assert (found <= 1).all()
    assert mapping_report(result).occupancy == pytest.approx(event_report(result).rates["occupancy"], rel=0.2)
    assert mapping_report(grid.run(model, "cpu", batch)).occupancy is None


def test_occupancy_by_hand() -> None:
    """Limits of one SM, from registers, shared memory, threads and the blocks there are."""
    result = grid.run("resnet18", "gpu", 256)
    device, tiling = result.device, result.run.mapping.tiling
    assumed = device.arch.data.assumed
    threads = assumed("block_threads")
    limit = resident_limit(device, result.run.mapping)
    tiled = tiling.tile_m > 0
    assert (limit[~tiled] == device.threads_per_unit // threads).all(), "32 registers fill an SM exactly"
    for i in np.flatnonzero(tiled):
        tile_m, tile_n = tiling.tile_m[i], tiling.tile_n[i]
        registers = min(tile_m * tile_n / threads + assumed("tile_registers"), 255)
        by_registers = device.registers_bytes_per_unit // (registers * 4 * threads)
        shared = (tile_m + tile_n) * assumed("tile_step_bytes") * assumed("tile_stages")
        by_shared = device.l1_bytes_per_unit * assumed("shared_part") // shared
        by_threads = device.threads_per_unit // threads
        assert limit[i] == max(min(by_registers, by_shared, by_threads, device.blocks_per_unit), 1)
    found = occupancy(result.demand, device, result.run.mapping)
    full = blocks(result.demand, device, result.run.mapping) >= limit * device.units
    np.testing.assert_allclose(found[full], np.minimum(limit[full] * threads / device.threads_per_unit, 1))


def test_node_and_unknown_node() -> None:
    result = grid.run("resnet18", "gpu", execution="eager")
    found = mapping_report(result, "layer1.0.conv1")
    assert [r.type for r in found.rows] == ["conv", "batch_norm", "relu"]
    with pytest.raises(RequestError, match="unknown node"):
        mapping_report(result, "layer9")
