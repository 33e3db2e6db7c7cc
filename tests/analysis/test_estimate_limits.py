"""The peak that a large product reaches, the bands, and a few wide envelopes from published figures."""

import grid
import pytest

from analysis.estimate.scenario import Scenario
from analysis.estimate.tree_figures import tree
from analysis.wording import operator_reason
from hardware.base.text import quantity
from hardware.demand import OpClass
from hardware.device import Device
from hardware.mapping.common import units_in_all
from tests.sampling import every, for_each


def fastest_native(on: Device) -> str:
    """The precision whose products run at the highest peak, as asked of the software that runs it there."""
    runs = {p: contraction(on, p) for p in grid.PRECISIONS}
    return max((p for p, (_, form) in runs.items() if form == p), key=lambda p: on.peaks[runs[p]])


def contraction(on: Device, precision: str) -> tuple[str, str]:
    return Scenario(1, precision).setup_on(on, grid.toy_gemm(64, 64, 64)).plan.contraction


@every(3)
def test_large_products_reach_half_the_peak_or_say_why_not(nth: int) -> None:
    for on in grid.catalogue()[::nth]:
        check_large_product(on)


def check_large_product(on: Device) -> None:
    precision = fastest_native(on)
    peak = on.peaks[contraction(on, precision)]
    result = grid.run(grid.toy_gemm(8192, 8192, 8192), on, 1, precision)
    reached = 2.0 * 8192.0**3 / result.latency_s / peak
    assert reached <= 1.0
    assert result.utilization == pytest.approx(reached, rel=1e-6)
    reason = operator_reason(tree(result), 0)
    if reached < 0.5:
        assert f"{result.bound} bound" in reason
        if result.bound == "compute":  # the rate that software reaches, and the ridge, where memory is busy too
            compute, memory = (float(s[0]) for s in (result.run.kernel_compute_s, result.run.kernel_memory_s))
            assert f"against {quantity(memory, 's')} of memory" in reason
            kernels = result.runtime.compute
            own = kernels.get(on.software_class + "_vector" * (not result.run.mapping.on_matrix[0]), {}).get("GEMM")
            software = on.software.efficiency.compute[0, OpClass.GEMM] * (own.value if own else 1.0)
            at_work = result.run.mapping.units[0] / units_in_all(result.setup, result.run.mapping.on_matrix)[0]
            least = 0.9 * software * at_work
            assert 2.0 * 8192.0**3 / compute / peak >= least, "tiles and waves of a large product lose little"
            assert software < 0.6 or memory > compute / 2, reason
        if result.bound == "power":
            assert "throttled" in reason
            assert result.average_power_w == pytest.approx(on.power_limit_w, rel=1e-9)


@for_each("name", grid.representatives())
def test_bands_contain_the_nominal(name: str) -> None:
    for model in ("resnet50", "vit_b_16", "mobilenet_v2", "conv2d"):
        for precision in grid.distinct_precisions(grid.device(name)):
            for batch, mode in zip((1, 64), grid.MODES, strict=True):
                result = grid.run(model, name, batch, precision, mode)
                low, high = result.latency_band_s
                assert 0 < low <= result.latency_s * (1 + 1e-12)
                assert result.latency_s <= high * (1 + 1e-12)
                below, above = result.energy_band_j
                assert 0 < below < result.energy_j < above


# Measured or published; [least, most] a factor of about three around it, so that a wrong unit, peak or
# precision fails and a refit does not. Milliseconds, or inferences per second.
ENVELOPES = [
    # NVIDIA DeepLearningExamples, A100: ResNet-50 fp16 inference about 2,900 images/s in PyTorch, batch 256.
    ("resnet50", "a100_sxm4_80gb", 256, "fp16", "eager", "throughput", 1_000, 12_000),
    # MLPerf Inference closed, datacentre offline: 88,000 (H100 SXM) and 38,000 (A100) images/s of ResNet-50 in int8.
    ("resnet50", "h100_sxm", 256, "int8", "fused", "throughput", 30_000, 150_000),
    # PyTorch eager on H100: about 60 kernels of ResNet-18 at 6 to 25 us of dispatch each.
    ("resnet18", "h100_sxm", 1, "fp32", "eager", "latency", 0.4e-3, 2.5e-3),
    # 60 cores, 11 TFLOP/s of fp32: ResNet-50 at batch 1 takes 3 to 12 ms in PyTorch.
    ("resnet50", "xeon_8490h", 1, "fp32", "eager", "latency", 1.5e-3, 15e-3),
    # TPU v4, about 275 TFLOP/s of bf16 and 4.1 GMAC an image: between 10 and 60 % of peak in MLPerf.
    ("resnet50", "tpu_v4", 256, "bf16", "fused", "throughput", 3_000, 25_000),
]


# Measured seconds of single products under eager. The joules of the Jetson (10.4 and 8.9 W at full load) are of a rail
# that is not stated: they are below the band of the whole module.
PRODUCTS = [
    ("gemm:2048x64x4096", "i7_12700k", "fp32", 2.09e-3),
    ("gemm:2048x2048x4096", "jetson_orin_nano", "fp16", 5.62e-3),
    ("gemm:4096x1280x1280", "jetson_orin_nano", "fp16", 1.87e-3),
]


@for_each(("model", "name", "precision", "seconds"), PRODUCTS)
def test_measured_products_are_inside_the_band(model: str, name: str, precision: str, seconds: float) -> None:
    low, high = grid.run(model, name, 1, precision, "eager").latency_band_s
    assert low <= seconds <= high


@pytest.mark.parametrize(("model", "name", "batch", "precision", "mode", "what", "least", "most"), ENVELOPES)
def test_envelopes(
    model: str, name: str, batch: int, precision: str, mode: str, what: str, least: float, most: float
) -> None:
    result = grid.run(model, name, batch, precision, mode)
    value = result.latency_s if what == "latency" else result.throughput_per_s
    assert least <= value <= most


def test_depthwise_never_runs_on_tensor_cores() -> None:
    result = grid.run("mobilenet_v2", "h100_sxm", 64, "fp16")
    depthwise = result.demand.op_class == OpClass.DEPTHWISE
    assert depthwise.sum() == 17
    assert not result.run.mapping.on_matrix[depthwise].any()
    assert result.run.utilization[result.demand.kernel[depthwise]].max() < 0.5


def test_unpacking_of_weights_is_held_against_the_lanes_that_do_it() -> None:
    """Lanes unpack bytes faster than they multiply fp32: a kernel of experts was at 101 % of a peak."""
    name = "llama4_scout:decode,layers=2,kv=512,tp=4,ep=4"
    assert grid.run(name, "xeon_8480_plus", 200, "int4", "llama_cpp").run.utilization.max() <= 1.0
