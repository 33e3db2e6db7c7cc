"""What public documents say of chips, where the product once said otherwise."""

import msgspec
import pytest

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.figures import describe_deviations
from analysis.estimate.scenario import Scenario
from hardware.device_catalog import load_device
from hardware.engines.runtime import LIKE_FOR_LIKE
from hardware.execute import execute
from hardware.precision import uniform
from hardware.setup import make_setup, runtime_of_mode
from lab.single_kernels import KERNEL_KINDS, kernel_demand
from tests.models import load_once


def run(model: str, on: str, precision: str = "int8", runtime: str = "fused", batch: int = 1) -> Estimate:
    return estimate(load_once(model), load_device(on), Scenario(batch, precision, runtime))


@pytest.mark.parametrize("name", ["xeon_8490h", "xeon_8592_plus"])
def test_amx_multiplies_a_tile_in_sixteen_cycles(name: str) -> None:
    """TDPBF16PS: 16 x 16 results of 32 products in 16 cycles, TDPBSSD of 64, at a lower clock than other code."""
    device = load_device(name)
    matrix = device.file.fma_per_clock["matrix"]
    assert matrix["bf16"].value == 16 * 16 * 32 / 16
    assert matrix["int8"].value == 16 * 16 * 64 / 16
    assert device.matrix_clock_hz < device.clock_hz
    assert device.peaks["matrix", "bf16"] == device.units * 1024 * device.matrix_clock_hz
    assert device.peaks["vector", "fp32"] == device.units * 64 * device.vector_clock_hz


@pytest.mark.parametrize("on", ["tpu_v1", "tpu_v4"])
@pytest.mark.parametrize("runtime", ["fused", "auto", "xla"])
def test_tpus_read_their_weights_at_every_call(on: str, runtime: str) -> None:
    """A buffer of activations holds no weights, and XLA is not known to keep them in CMEM between calls."""
    result = run("mobilenet_v2", on, "int8", runtime)
    weights = result.memory.weight_bytes
    assert weights < 0.75 * result.device.last_level_bytes
    assert result.run.mapping.traffic.weight_read.sum() == pytest.approx(weights, rel=0.01)


def test_the_edge_tpu_keeps_weights_that_fit() -> None:
    result = run("mobilenet_v2", "coral_edge_tpu")
    assert result.run.mapping.traffic.weight_read.sum() == 0
    assert run("resnet50", "coral_edge_tpu").run.mapping.traffic.weight_read.sum() > 0


@pytest.mark.parametrize("on", ["tpu_v1", "coral_edge_tpu", "hailo8"])
def test_tf32_on_integer_chips_is_quantised_as_fp32_is(on: str) -> None:
    """Tensors of tf32 are those of fp32: what the chip does with one it does with the other."""
    asked, known = run("resnet50", on, "tf32"), run("resnet50", on, "fp32")
    assert asked.plan.stored == known.plan.stored == "int8"
    assert asked.latency_s == known.latency_s
    assert "tf32 is not supported: runs as int8" in describe_deviations(asked)[0]


@pytest.mark.parametrize(
    ("on", "bytes_per_s"),
    [("mi300x", 17.2e12), ("a100_sxm4_80gb", 5120 * 1.41e9), ("h100_sxm", 5120 * 1.83e9), ("v100_sxm2_16gb", 3.13e12)],
)
def test_last_levels_have_a_bandwidth_of_their_own(on: str, bytes_per_s: float) -> None:
    """Not a multiple of the DRAM's, where makers or measurements say what it is."""
    device = load_device(on)
    fact = device.facts["last_level_bandwidth"]
    assert fact.value == pytest.approx(bytes_per_s, rel=0.01)
    assert fact.quality == "published"
    assert 0.5 < device.arch.constants.last_level_reached < 0.9


@pytest.mark.parametrize(
    ("on", "tflops"),
    # H100: measured for this project, random data; B200: ml-engineering's MAMF; A100: 0.8-0.93 of 312
    [("h100_sxm", 700), ("b200", 1745), ("a100_sxm4_80gb", 268)],
)
def test_large_products_within_the_power_limit(on: str, tflops: float) -> None:
    """8192^3 in bf16: cards at their power limit reach what is measured, not two thirds of it."""
    result = estimate(load_once("gemm:M=8192,N=8192,K=8192"), load_device(on), Scenario(1, "bf16", LIKE_FOR_LIKE))
    assert 2 * 8192**3 / result.latency_s / 1e12 == pytest.approx(tflops, rel=0.1)
    assert result.average_power_w <= result.device.power_limit_w * (1 + 1e-9)


@pytest.mark.parametrize(
    ("newest", "width", "tflops"), [(False, 64, 324), (False, 128, 370), (True, 64, 497), (True, 128, 646)]
)
def test_attention_by_the_generation_of_its_kernel(newest: bool, width: int, tflops: float) -> None:
    """16,384 tokens on an H100 as printed for FlashAttention-2 and -3: products by instructions of their time, and all
    scores through the special functions between them."""
    device = load_device("h100_sxm")
    heads, tokens = 2048 // width, 16384.0
    kernel = KERNEL_KINDS["attention_fwd"](
        {"batch": 1.0, "q": tokens, "kv": tokens, "heads": heads, "kv_heads": heads}
        | {"dim_qk": width, "dim_v": width, "causal": 0.0}
    )
    runtime = msgspec.structs.replace(runtime_of_mode(device, "fused"), asynchronous=newest)
    run = execute(kernel_demand([kernel], uniform(2.0)), make_setup(device, "fp16", runtime, "channels_last"))
    assert 4 * heads * tokens**2 * width / run.kernel_s.sum() / 1e12 == pytest.approx(tflops, rel=0.12)


def test_runtimes_say_which_attention_they_use() -> None:
    older, newest = (run("llama3_8b:sequence=8192", "h100_sxm", "bf16", name) for name in ("pytorch_eager", "vllm"))
    attention = [kind == "attention" for kind in older.workload.operators.kind]
    assert older.run.mapping.matrix_s[0][attention].sum() > 1.3 * newest.run.mapping.matrix_s[0][attention].sum()
    assert load_device("a100_sxm4_80gb").synchronous_matrix_rate == 1.0
