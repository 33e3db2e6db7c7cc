"""Event counts come from the graph and the mapping: MACs, bytes, and what batch, width, price and clock do to them."""

from itertools import product
from pathlib import Path
from typing import Any

import grid
import numpy as np
import pytest

from analysis.estimate.estimate import Estimate
from analysis.estimate.kernels import structure
from analysis.estimate.operator_facts import op_classes
from analysis.model.ir.workload import INPUT, WEIGHT, Bools, Floats, Workload
from hardware.demand import READ_WEIGHT, OpClass
from hardware.plan import make_plan
from tests.sampling import for_each


def macs_from_tensors(workload: Workload, batch: int) -> dict[int, float]:
    """MACs of convolutions and dense products from the sizes of their operands, not from the counted columns."""
    ops, tensors = workload.operators, workload.tensors
    point = workload.value_at(batch=batch)
    classes = op_classes(workload)
    found = {}
    for i in range(workload.n_operators):
        edges = range(ops.in_ptr[i], ops.in_ptr[i + 1])
        reads = [float(ops.in_numel[e] @ point) for e in edges]
        out = float(tensors.numel[ops.out_tensor[ops.out_ptr[i]]] @ point)
        g, _, n, _ = ops.gemm[i] @ point
        if classes[i] in (OpClass.CONV, OpClass.DEPTHWISE):
            found[i] = out * reads[1] / (g * n)  # each result sums over one filter
        elif classes[i] == OpClass.GEMM and len(reads) == 2:
            found[i] = float((reads[0] * reads[1] * out / g) ** 0.5)  # (GMK x GKN x GMN / G) = (GMNK)^2
    return found


@for_each("name", grid.DEFAULTS)
@for_each("model", [*grid.MODELS[::2], *grid.BLOCKS])
def test_mac_events_are_the_macs_of_the_graph(model: str, name: str) -> None:
    work = grid.workload(model)
    point, known = work.value_at(batch=8), macs_from_tensors(work, 8)
    for turn, precision in enumerate(grid.distinct_precisions(grid.device(name))):
        result = grid.run(model, name, 8, precision, grid.MODES[turn % 2])
        counted = grid.counted(result, "MAC")
        np.testing.assert_array_equal(counted, work.operators.macs @ point)
        for i, macs in known.items():
            assert counted[i] == pytest.approx(macs, rel=1e-12), work.operators.path[i]
        flops = grid.counted(result, "FLOP") + 2.0 * counted
        np.testing.assert_allclose(flops, work.operators.flops @ point + unpacking(result), rtol=1e-12)
        np.testing.assert_array_equal(grid.counted(result, "evaluation"), work.operators.special @ point)


def unpacking(result: Estimate) -> Floats:
    """Operations that unpack weights, by the tensors: each value once for every 128 rows that it meets. Arrays of an
    NPU take narrow weights as they are."""
    work, point = result.workload, result.workload.value_at(batch=result.scenario.batch)
    total = np.zeros(work.n_operators)
    if result.device.architecture == "npu":
        return total
    for i, kind in enumerate(work.operators.kind):
        edges = range(work.operators.in_ptr[i], work.operators.in_ptr[i + 1])
        weights = [e for e in edges if work.tensors.role[work.operators.in_tensor[e]] == WEIGHT]
        if kind != "bias" and work.operators.macs[i].any():
            values = float((work.operators.in_numel[weights] @ point).sum())
            blocks = max(np.ceil(float(work.operators.gemm[i][1] @ point) / 128), 1.0)
            total[i] = values * blocks * result.plan.widths.unpack_weights
    return total


@pytest.mark.parametrize("name", grid.DEFAULTS)
def test_bytes_that_cost_energy_are_those_that_cost_time(name: str) -> None:
    for model in ("resnet50", "swin_t", "transformer_block"):
        for batch in grid.BATCHES:
            for mode in grid.MODES:
                result = grid.run(model, name, batch, "int8", mode)
                flow = result.run.mapping.traffic
                np.testing.assert_array_equal(grid.counted(result, "dram_read"), flow.dram_read)
                np.testing.assert_array_equal(grid.counted(result, "dram_write"), flow.dram_write)
                # A kernel bound by DRAM takes exactly its bytes over the efficient bandwidth, plus its overhead.
                moved = grid.per_kernel(result, flow.dram_read + flow.dram_write)
                bandwidth = result.device.memory_bandwidth
                by_dram = (result.run.resource == 2) & (result.run.bound == 1)
                busy = result.run.busy_s[by_dram]
                assert (busy >= moved[by_dram] / bandwidth).all()
                large = moved[by_dram] > 50e6  # enough in flight to fill the interface
                worst = result.device.software.efficiency.bandwidth[0].min() / 2 ** (1 / 3)  # ridge rounded
                assert (busy <= moved[by_dram] / bandwidth / worst)[large].all(), "more time than bytes explain"


@pytest.mark.parametrize("name", grid.DEFAULTS)
def test_no_traffic_is_counted_that_no_operator_asks_for(name: str) -> None:
    """DRAM carries at most the transfers plus operands read again; at least what enters and leaves the model."""
    for model in ("resnet18", "mobilenet_v2", "vit_b_16"):
        work = grid.workload(model)
        for batch in (1, 64):
            for mode in grid.MODES:
                result = grid.run(work, name, batch, "fp16", mode)
                width = result.plan.element_bytes
                point = work.value_at(batch=batch)
                enters = float((work.tensors.numel @ point)[work.tensors.role == 1].sum()) * width
                leaves = float((work.tensors.numel @ point)[work.tensors.is_output].sum()) * width
                flow = result.run.mapping.traffic
                assert flow.dram_read.sum() >= enters
                assert flow.dram_write.sum() >= leaves
                assert (flow.dram_read <= flow.chip_read * (1 + 1e-12)).all()
                assert (flow.dram_write <= flow.chip_write).all()
                np.testing.assert_allclose(
                    flow.chip_write.sum(), result.demand.transfers.size_bytes[result.demand.transfers.role == 2].sum()
                )


def _from_weights_alone(result: Estimate) -> Bools:
    """Transfers of values that no input reaches (Swin's position bias is gathered from a table, once a run)."""
    work = result.workload
    ops, tensors = work.operators, work.tensors
    reached = tensors.role == INPUT
    for i in range(work.n_operators):
        if reached[ops.in_tensor[ops.in_ptr[i] : ops.in_ptr[i + 1]]].any():
            reached[ops.out_tensor[ops.out_ptr[i] : ops.out_ptr[i + 1]]] = True
    alone: Bools = ~reached[structure(work, result.joins).moves.tensor]
    return alone


@for_each("name", grid.DEFAULTS)
@for_each("model", [*grid.MODELS, *grid.BLOCKS])
def test_twice_the_batch_is_twice_the_arithmetic(model: str, name: str) -> None:
    for mode, batch in zip(grid.MODES, (1, 32), strict=True):
        one, two = (grid.run(model, name, b, "bf16", mode) for b in (batch, 2 * batch))
        if one.part or two.part:  # demands are of a part then: test_waves.py
            continue
        for unit in ("MAC", "FLOP", "evaluation"):
            # `counted` sums over units: a larger batch may move an operator between matrix and vector unit.
            np.testing.assert_array_equal(grid.counted(two, unit), 2.0 * grid.counted(one, unit))
        constant = (one.demand.transfers.role == READ_WEIGHT) | _from_weights_alone(one)
        moved, more = one.demand.transfers.size_bytes, two.demand.transfers.size_bytes
        np.testing.assert_array_equal(more, np.where(constant, moved, 2 * moved))


@pytest.mark.parametrize("name", [d for d in grid.DEFAULTS if make_plan(grid.device(d), "fp32").stored == "fp32"])
@pytest.mark.parametrize("mode", grid.MODES)
def test_int8_moves_a_quarter_of_fp32(name: str, mode: str) -> None:
    """Where device and runtime have both: at the boundaries of kernels, and from DRAM where nothing stays on chip."""
    if grid.run("conv2d", name, 1, "int8", mode).plan.stored != "int8":
        pytest.skip("the runtime has no int8 kernels there")
    splits = grid.device(name).arch.splits_batches
    for model in ("resnet50", "mobilenet_v2", "vit_b_16"):
        batch = 1 if splits else 4096  # demands are of a part if the compiler splits a batch
        wide, narrow = (grid.run(model, name, batch, p, mode) for p in ("fp32", "int8"))
        assert (wide.plan.stored, narrow.plan.stored) == ("fp32", "int8")
        np.testing.assert_array_equal(narrow.demand.transfers.size_bytes, wide.demand.transfers.size_bytes / 4.0)
        np.testing.assert_array_equal(narrow.demand.local_bytes, wide.demand.local_bytes / 4.0)
    if splits:
        return
    # Pooling reads nothing twice and at batch 4096 leaves nothing on chip that matters.
    wide, narrow = (grid.run("pooling", name, 4096, p, mode) for p in ("fp32", "int8"))
    cached = 3 * wide.device.last_level_bytes
    assert grid.dram_bytes(narrow).sum() * 4 == pytest.approx(grid.dram_bytes(wide).sum(), abs=4 * cached)
    assert grid.dram_bytes(wide).sum() > 10 * cached


def _cheaper(data: dict[str, Any]) -> None:
    """Every price of the memory and all logic, static and clock prices by way of idle and active power."""
    data["memory_technology"] = "HBM4"
    data["facts"]["process_nm"]["value"] = 2
    data["facts"].pop("active_w", None)
    _unlimited(data)
    data["facts"]["idle_w"] = {"value": 1.0, "unit": "W", "source": "test", "quality": "assumed"}


def _unlimited(data: dict[str, Any]) -> None:
    """Nothing waits for power, by which tiles may be chosen."""
    for name in ("tdp_w", "power_limit_w"):
        data["facts"][name] = {"value": 1e6, "unit": "W", "source": "test", "quality": "assumed"}


@pytest.mark.parametrize("mode", grid.MODES)
@pytest.mark.parametrize("name", grid.DEFAULTS)
def test_counts_do_not_depend_on_prices(name: str, mode: str, tmp_path: Path) -> None:
    unlimited, cheap = (grid.altered(tmp_path, name, change) for change in (_unlimited, _cheaper))
    for model in ("resnet18", "transformer_block", "mobilenet_v2"):
        for precision in ("fp32", "int8"):
            devices = (grid.device(name), unlimited, cheap)
            original, free_of_limits, other = (grid.run(model, d, 8, precision, mode) for d in devices)
            np.testing.assert_array_equal(grid.untimed(free_of_limits), grid.untimed(other))
            assert not np.allclose(original.run.prices.value, other.run.prices.value)
            # Clock cycles are those of the work, not of the time spent waiting for power: at its limit a device goes
            # without some in which it would wait for memory. Where tiles are others, so is the work.
            same_work = (grid.untimed(original) == grid.untimed(other)).all(axis=0)
            assert same_work.any()
            cycles, free = (r.run.counts[r.device.arch.timed_rows[0]] for r in (original, other))
            is_limited = original.run.price_scale < 1.0
            np.testing.assert_array_equal(cycles[same_work & ~is_limited], free[same_work & ~is_limited])
            assert (cycles <= free)[same_work].all()


@pytest.mark.parametrize("mode", grid.MODES)
@pytest.mark.parametrize("name", grid.DEFAULTS)
def test_counts_do_not_depend_on_the_clock(name: str, mode: str, tmp_path: Path) -> None:
    """Only cycles and seconds do: work is not latency times a rate."""
    faster = grid.faster(("clock_hz", "vector_clock_hz", "matrix_clock_hz"), factor=2.0)

    def quicker(data: dict[str, Any]) -> None:
        _unlimited(data)
        faster(data)

    usual, quick = (grid.altered(tmp_path, name, change) for change in (_unlimited, quicker))
    for model in ("resnet18", "transformer_block", "mobilenet_v2"):
        for precision in ("fp32", "int8"):
            original, other = (grid.run(model, d, 8, precision, mode) for d in (usual, quick))
            np.testing.assert_allclose(grid.untimed(original), grid.untimed(other), rtol=1e-12)


@pytest.mark.parametrize("name", grid.DEFAULTS)
def test_static_energy_is_clocked_idle_power_times_time(name: str) -> None:
    result = grid.run("resnet18", name, 1, "fp16")
    assert (result.run.price_scale == 1.0).all(), "a lower clock would lower the power of cores at rest"
    for event in grid.event_rows(result.device, "s"):
        np.testing.assert_array_equal(result.run.counts[event], result.run.latency_s)
    assert result.component_energy_j[2].sum() == pytest.approx(
        grid.static_w(result.device) * result.latency_s, rel=1e-12
    )


def test_clocks_run_while_a_kernel_works_and_for_a_part_of_its_start() -> None:
    """Kernels without products on a GPU under eager: no matrix unit rests the clocks, and none is near the limit."""
    result = grid.run("resnet18", "h100_sxm", 1, "fp32", "eager")
    run, demand, device = result.run, result.demand, result.device
    cycles = grid.per_kernel(result, run.counts[device.arch.timed_rows].max(axis=0))
    clocked_s = cycles / (device.clock_hz * device.units)
    is_plain = (grid.per_kernel(result, demand.macs) == 0) & (run.kernel_s < 2.0 * run.unthrottled_s)
    expected_s = run.busy_s + device.arch.constants.launch_clocked * device.light_start_s
    assert is_plain.sum() > 10
    assert clocked_s[is_plain] == pytest.approx(expected_s[is_plain])


@for_each("name", ["tpu_v4", "tpu_v5e", "tpu_v6e"])
def test_bundles_of_a_core_take_a_cycle_each(name: str) -> None:
    for model, batch in product(("bert_base", "resnet50", "mobilenet_v2"), (1, 128)):
        for precision in ("bf16", "int8"):
            result = grid.run(model, name, batch, precision)
            cycles = result.device.units * result.device.clock_hz * result.run.kernel_s
            assert (grid.per_kernel(result, grid.counted(result, "bundle_issue")) <= cycles * (1 + 1e-9)).all()
