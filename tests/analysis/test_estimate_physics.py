"""Never outside physics, per kernel and for the model, recomputed from the workload and the device's facts."""

from itertools import pairwise

import grid
import numpy as np
import pytest

from analysis.estimate.estimate import Estimate
from hardware.architectures import gpu
from hardware.demand import OpClass
from hardware.device_catalog import load_device
from hardware.execute import POWER
from hardware.mapping import result_blocks
from tests.sampling import every, for_each, slow

ROUNDING = 1 + 1e-9


def check_physics(result: Estimate) -> None:
    run, device = result.run, result.device
    assert result.latency_s > 0
    assert result.energy_j > 0
    # Power: the mean of the model and of kernels longer than the window, and the electrical limit of every kernel.
    assert result.average_power_w <= device.power_limit_w * ROUNDING
    energy, budget = grid.per_kernel(result, run.energy_j), device.power_budget(result.static_w)
    limit_w = np.where(run.kernel_s > budget.window_s, budget.limit_w, budget.peak_w)
    assert (energy <= limit_w * run.kernel_s * ROUNDING).all(), "a kernel exceeds its limit"
    at_rest_j = grid.per_kernel(result, run.latency_s * run.idle_scale) * result.static_w
    assert (energy >= at_rest_j / ROUNDING).all(), "a kernel draws less than the idle device"
    # Utilisation: the model, every kernel and node.
    assert 0.0 <= result.utilization <= ROUNDING
    assert (run.utilization <= ROUNDING).all()
    # Compute roofline of each kernel: its work on each unit at that unit's full dense peak.
    for least in _least_seconds(result):
        assert (grid.per_kernel(result, least) <= run.kernel_s * ROUNDING).all(), "faster than the peak"
    # Memory roofline: the DRAM bytes that cost energy, at the full bandwidth.
    moved = grid.per_kernel(result, grid.dram_bytes(result))
    assert (moved <= device.memory_bandwidth * run.kernel_s * ROUNDING).all(), "more than the memory bandwidth"
    # The throttle only ever slows, and bounds what it slows: all that it takes more than half of the time of.
    assert (run.kernel_s >= run.unthrottled_s / ROUNDING).all()
    assert (run.kernel_s > run.unthrottled_s * (1 + 1e-9))[run.bound == POWER].all()
    assert (run.kernel_s <= run.unthrottled_s * 2 * ROUNDING)[run.bound != POWER].all()


def _least_seconds(result: Estimate) -> list[grid.Floats]:
    """Seconds per operator on the matrix and on the vector unit, at peak, of the work the workload states; Winograd's
    F(4 x 4, 3 x 3) saves three multiplications of four and never more."""
    device, plan, operators = result.device, result.plan, result.workload.operators
    point = result.workload.value_at(batch=result.scenario.batch)
    macs = operators.macs @ point
    executed = macs * np.where(result.run.mapping.is_reduced, 0.25, 1.0)
    flops = operators.flops @ point
    is_conv = np.isin(result.demand.op_class, (OpClass.CONV, OpClass.DEPTHWISE))
    formats = np.where(is_conv, plan.convolution[1], plan.contraction[1])
    matrix_peak = np.array([device.peaks.get(("matrix", f), np.inf) for f in formats])
    vector_peak = device.peaks.get(("vector", plan.vector), device.peaks["vector", "fp32"])
    vector_mac_peak = device.peaks.get(("vector", plan.vector_mac), vector_peak)
    on_matrix = result.run.mapping.on_matrix
    on_vector = np.where(on_matrix, 0.0, 2.0 * executed / vector_mac_peak)
    on_matrix_s = np.where(on_matrix, 2.0 * macs / matrix_peak / plan.matrix_rate, 0.0)
    on_lanes = flops - 2.0 * macs
    if device.arch.id == "npu" and result_blocks.has_blocks(
        device
    ):  # results are scaled and clamped as they leave the array
        on_lanes = on_lanes * result_blocks.left_to_lanes(result.demand)
    return [on_matrix_s, on_vector + on_lanes / vector_peak]


@every(3)
@pytest.mark.parametrize("model", ["mobilenet_v2", "attention_head"])
def test_every_device_and_power_mode_with_its_default(model: str, nth: int) -> None:
    for device in grid.catalogue()[::nth]:
        check_physics(grid.run(model, device, 8, "fp16"))


@slow
@pytest.mark.parametrize("model", ["resnet50", "vit_b_16", "mobilenet_v2"])
def test_every_device_and_power_mode(model: str) -> None:
    for device in grid.catalogue():
        for precision in grid.distinct_precisions(device):
            for batch in (1, 64):
                check_physics(grid.run(model, device, batch, precision))


def test_every_power_mode_leaves_power_for_work() -> None:
    """The limit less the static power divides the energy of a throttled kernel: it must be positive."""
    for device in grid.catalogue():
        assert grid.static_w(device) < 0.9 * device.power_limit_w, device.key


@every(4)
def test_published_peaks_are_never_exceeded(nth: int) -> None:
    """Not even those of the data sheet, where it states one: the fastest kernels run at what it promises, twice that on
    cards that accumulate fp16 in fp16 faster, under engines that do."""
    work = grid.toy_gemm(8192, 8192, 8192)
    for device in grid.catalogue()[::nth]:
        for precision in grid.distinct_precisions(device):
            result = grid.run(work, device, 1, precision)
            stated = device.file.peak_flops.get(result.plan.contraction[1])
            if stated and not device.power_mode and result.plan.contraction[0] == "matrix":
                rate = 2.0 * 8192.0**3 / result.latency_s
                assert rate <= stated.value * result.plan.matrix_rate, (device.key, precision)


@pytest.mark.parametrize("name", grid.DEFAULTS)
def test_a_throttled_run_draws_the_limit(name: str) -> None:
    """Exactly the limit within each window: neither above it nor slower than it asks."""
    for precision in grid.PRECISIONS:
        result = grid.run("vit_b_16", name, 8, precision, "fused")
        if result.run.price_scale.max() < 1.0 and result.latency_s < 0.05:
            assert result.average_power_w == pytest.approx(result.device.power_limit_w, rel=1e-9)


def test_a_limit_holds_for_the_mean_of_a_run_and_not_for_each_kernel() -> None:
    """15.7 of 20.9 W as a mean: kernels of microseconds draw more, and nothing slows down."""
    result = grid.run("resnet18", "kpu_t256", 1, "int8")
    free = grid.run("resnet18", load_device("kpu_t256{power_limit_w=5000}"), 1, "int8")
    assert result.average_power_w == pytest.approx(15.7, abs=0.1)
    assert (result.latency_s, result.energy_j) == (free.latency_s, free.energy_j)
    power_w = grid.per_kernel(result, result.run.energy_j) / result.run.kernel_s
    assert 50 < power_w.max() < 90


def test_clock_and_voltage_lower_the_power_at_rest_of_a_processor() -> None:
    """Reviews of an i7-13700K keep 55 to 60 % of its rate at 65 W."""
    free, capped = (grid.run("vit_b_16", f"i7_13700k{cap}", 8, "int8") for cap in ("", "@65W"))
    assert 0.5 < free.latency_s / capped.latency_s < 0.65
    assert capped.energy_j < 0.6 * free.energy_j


@pytest.mark.parametrize("name", grid.DEFAULTS)
def test_fusing_never_adds_bytes(name: str) -> None:
    """Where a model is cut into parts that take turns on a chip the cuts fall between kernels: of fewer kernels the
    parts fit less well, and only what they must load stays the same."""
    for model in grid.MODELS:
        for batch in grid.BATCHES:
            for more, less in pairwise(grid.run(model, name, batch, "fp16", mode) for mode in grid.ALL_MODES):
                what = (model, batch, less.execution)
                if less.part or more.part:  # into parts of different sizes
                    continue
                assert less.demand.transfers.size_bytes.sum() <= more.demand.transfers.size_bytes.sum(), what
                assert less.demand.n_kernels <= more.demand.n_kernels, what
                resident = less.run.mapping.is_resident
                if resident is None or resident.all():
                    assert grid.dram_bytes(less).sum() <= grid.dram_bytes(more).sum() * ROUNDING, what
                    assert less.throughput_per_s >= more.throughput_per_s / ROUNDING, what
                else:
                    loaded = [r.run.mapping.traffic.weight_read.sum() for r in (less, more)]
                    assert loaded[0] == pytest.approx(loaded[1], rel=1e-12), what
                check_physics(less)


@for_each("name", ["h100_sxm", "t4", "rtx_4090", "mi300x", "jetson_agx_orin"])
def test_accumulators_of_resident_blocks_fit_in_registers(name: str) -> None:
    """Of 32 bits each; where not even one block fits, one runs."""
    for model in ("gemm:M=4096,N=4096,K=1024", "gemm:M=64,N=4096,K=4096", "resnet18"):
        result = grid.run(model, name, 8, "fp16")
        device, tiling = result.device, result.run.mapping.tiling
        held = gpu.resident_limit(device, result.run.mapping) * tiling.tile_m * tiling.tile_n * 4
        assert (held <= np.maximum(device.registers_bytes_per_unit, tiling.tile_m * tiling.tile_n * 4)).all()
