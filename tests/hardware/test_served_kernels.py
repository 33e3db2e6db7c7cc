"""Kernels of engines of language models: attention block by block, quantised activations, products of one input."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.estimate.causes import LAUNCH_CAUSE, causes
from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.kernels import structure
from analysis.estimate.scenario import Scenario
from analysis.explore.attribution import time_parts
from analysis.model import store
from hardware.device_catalog import load_device
from hardware.engines.runtime import LIKE_FOR_LIKE, runtimes
from hardware.execute import Execution, execute
from hardware.mapping.common import STARTS
from hardware.setup import make_setup
from lab.single_kernels import kernel_demand, product

LAYER = "llama3_8b:{phase},layers=1"


def _run(
    device: str, phase: str, batch: int, precision: str = "bf16", execution: str = "vllm", **lengths: int
) -> Estimate:
    workload = store.ready(LAYER.format(phase=phase), None)
    assert workload is not None
    return estimate(workload.bound(**lengths), load_device(device), Scenario(batch, precision, execution))


def _attention_s(result: Estimate) -> float:
    kernel = int(result.demand.kernel[np.flatnonzero(result.demand.is_attention)[0]])
    return float(result.run.kernel_s[kernel])


def test_attention_over_few_keys_waits_for_its_blocks() -> None:
    """FlashAttention-3 takes 9 to 12 us on an H200 however few the keys (AIConfigurator), not the start of a kernel."""
    assert 7e-6 < _attention_s(_run("h200_sxm", "decode", 1, kv=64)) < 14e-6


@settings(max_examples=20)
@given(
    batch=st.integers(1, 300), more=st.integers(1, 300), kv=st.integers(16, 40_000),
    device=st.sampled_from(["h100_sxm", "a100_sxm4_80gb", "b200", "l4"]),
)  # fmt: skip
def test_attention_never_falls_with_batch_or_keys(batch: int, more: int, kv: int, device: str) -> None:
    less = _attention_s(_run(device, "decode", batch, kv=kv))
    assert _attention_s(_run(device, "decode", batch + more, kv=kv)) >= less * (1 - 1e-9)
    assert _attention_s(_run(device, "decode", batch, kv=kv + more)) >= less * (1 - 1e-9)


def test_keys_of_a_full_block_are_divided_among_idle_units() -> None:
    """32 tokens of four heads each fill the 128 rows of a block; a token less takes as long, one more two blocks."""
    less, full, more = (_attention_s(_run("h100_sxm", "prefill", 1, sequence=n, kv=30_000)) for n in (31, 32, 33))
    assert full == pytest.approx(less, rel=0.01)
    assert more > 4 * full


def test_blocks_of_few_rows_start_while_others_attend() -> None:
    """900 sequences on an H200 read 1.5 MB of cache each, in 0.33 ms; their 55 rounds of blocks add no 4 us each."""
    result = _run("h200_sxm", "decode", 900, kv=384)
    serial_s = result.run.mapping.serial_s
    assert serial_s is not None
    assert serial_s[:, result.demand.is_attention].sum() < 0.2 * _attention_s(result)


def test_filling_blocks_of_attention_is_no_launch() -> None:
    """12 rounds of blocks hold the multiprocessors of an H100 while they fill: arithmetic that waits, not a start."""
    result = _run("h100_sxm", "prefill", 64, sequence=200)
    time_s, is_attention = causes(result).time_s, result.demand.is_attention
    assert time_s[LAUNCH_CAUSE, is_attention].sum() <= 3.0 * result.device.kernel_start_s
    np.testing.assert_allclose(time_s.sum(axis=0), result.run.latency_s)
    assert time_parts(result).sum() == pytest.approx(result.latency_s)


@pytest.mark.parametrize(("device", "precision", "share"), [("t4", "fp16", 0.40), ("t4", "int8", 0.42)])
def test_small_cards_lower_their_clock(device: str, precision: str, share: float) -> None:
    """The power limit of a T4 leaves products two fifths of its peak at most: 24 of 65 TFLOP/s are measured."""
    result = _run(device, "prefill", 1, precision, LIKE_FOR_LIKE, sequence=4096)
    products = np.array([kind == "linear" for kind in result.workload.operators.kind])
    seconds = result.run.latency_s[products].sum()
    assert 2.0 * result.demand.macs[products].sum() / seconds / result.setup.matrix_flops < share


def test_long_attention_is_bound_by_its_products() -> None:
    result = _run("h100_sxm", "prefill", 1, sequence=16384)
    ideal_s = 2.0 * result.demand.macs[result.demand.is_attention].sum() / result.setup.matrix_flops
    assert 1.4 * ideal_s < _attention_s(result) < 2.5 * ideal_s


@pytest.mark.parametrize("precision", ["fp8", "w8a8"])
def test_engines_quantise_activations_before_each_product(precision: str) -> None:
    """The rest of the layer stays in 16 bits; a small product takes the start of a kernel more than the same in a
    compiler that joins the rounding to what comes before."""
    served, joined = (_run("h100_sxm", "decode", 1, precision, runtime) for runtime in ("vllm", LIKE_FOR_LIKE))
    assert served.plan.widths.activations == 2.0
    assert served.plan.operand != served.plan.stored
    assert joined.plan.operand == joined.plan.stored
    serial_s = served.run.mapping.serial_s
    assert serial_s is not None
    products = [i for i, kind in enumerate(served.workload.operators.kind) if kind == "linear"]
    heads = [i for i in products if served.demand.head[i] and served.demand.right_bytes[i] <= 1.0]  # type: ignore[index]
    assert all(serial_s[STARTS, i] >= served.device.light_start_s for i in heads)
    assert _run("h100_sxm", "decode", 1, "bf16").run.mapping.serial_s is not None


def test_engines_multiply_one_input_once() -> None:
    """Queries, keys and values are one product, gate and up another; each kernel runs after those that feed it."""
    workload = store.ready(LAYER.format(phase="decode"), None)
    assert workload is not None
    kernels = structure(workload, "served")
    path = workload.operators.path
    at = {name.rpartition("layers.0.")[2]: int(kernels.kernel[i]) for i, name in enumerate(path)}
    assert at["attention.q_proj"] == at["attention.k_proj"] == at["attention.v_proj"]
    assert at["mlp.gate_proj"] == at["mlp.up_proj"] != at["mlp.down_proj"]
    assert at["mlp.activation"] == at["mlp.gate_mul"]
    assert at["attention_residual"] == at["mlp_norm"]
    producer, ops = workload.tensors.producer, workload.operators
    for i in range(len(path)):
        for t in ops.in_tensor[ops.in_ptr[i] : ops.in_ptr[i + 1]]:
            assert producer[t] < 0 or kernels.kernel[producer[t]] <= kernels.kernel[i]


def test_activations_stay_in_a_large_cache() -> None:
    """The 96 MB of an L40S keep the layers of a batch of 32 images in int8: less than a third of them reach memory. The
    power limit lowers its clock."""
    workload = store.ready("resnet50", None)
    assert workload is not None
    result = estimate(workload.bound(), load_device("l40s"), Scenario(32, "int8", "tensorrt"))
    flow = result.run.mapping.traffic
    assert (flow.dram_read + flow.dram_write).sum() < 0.35 * (flow.chip_read + flow.chip_write).sum()
    assert result.throughput_per_s > 35_000


def test_an_engine_that_python_calls_packs_its_image() -> None:
    """A pixel of three fp32 values is read, and written and read again as eight values of 16 bits."""
    workload = store.ready("resnet50", None)
    assert workload is not None
    recorded, called = (
        estimate(workload.bound(), load_device("jetson_agx_orin"), Scenario(32, "fp16", name)).run.mapping.traffic
        for name in ("tensorrt", "tensorrt_enqueue")
    )
    more = called.chip_read - recorded.chip_read
    assert more[0] == pytest.approx(32 * 224 * 224 * (3 * 4 + 2 * 16 - 3 * 2))
    assert not more[1:].any()


def test_frameworks_of_2020_cast_weights_and_store_scores() -> None:
    """BERT-large on a V100 in fp16 under TensorFlow takes 9.5 to 10.1 ms for 128 tokens."""
    workload = store.ready("bert_large", None)
    assert workload is not None
    results = [
        estimate(workload.bound(sequence=length), load_device("v100_sxm2_16gb"), Scenario(batch, "fp16", runtime))
        for batch, length, runtime in (
            (1, 128, "tensorflow_xla"),
            (1, 128, "torch_compile"),
            (8, 384, "tensorflow_xla"),
        )
    ]
    short, compiled, long = (result.latency_s for result in results)
    assert 6.5e-3 < short < 11e-3
    assert compiled < 0.75 * short
    attention = [
        float(result.run.kernel_memory_s[result.demand.kernel[result.demand.is_attention]].sum()) for result in results
    ]
    assert attention[0] > 2.0 * attention[1]
    assert long > 28e-3


@pytest.mark.parametrize("device", ["mi300x", "mi325x", "h200_sxm"])
def test_narrow_products_decode_no_slower_than_wide_ones(device: str) -> None:
    """AMD's libraries divide K where CUTLASS does not: few blocks of few rows still fill the chip."""
    workload = store.ready("llama3_405b:decode,layers=1,tp=8", None)
    assert workload is not None
    wide, narrow = (
        estimate(workload.bound(kv=1024), load_device(device), Scenario(64, precision, "vllm")).latency_s
        for precision in ("bf16", "fp8")
    )
    assert narrow < wide


def _experts_s(model: str, batch: int, sequence: int, precision: str = "bf16", *, at_work: bool = False) -> float:
    workload = store.ready(f"{model}:prefill,layers=1", None)
    assert workload is not None
    result = estimate(workload.bound(sequence=sequence), load_device("h200_sxm"), Scenario(batch, precision, "vllm"))
    members = [i for i, path in enumerate(result.workload.operators.path) if ".experts." in path]
    if at_work:  # without waits for the host, which kernels before them may take over
        return float(result.run.busy_s[np.unique(result.demand.kernel[members])].sum())
    return float(result.run.latency_s[members].sum())


def test_experts_of_one_token_wait_for_each_step_of_k() -> None:
    """K is not divided among multiprocessors: 75 MB of weights take an H200 16 us, the layer 24 us and more
    (AIConfigurator). Four kernels sort its tokens."""
    assert 20e-6 < _experts_s("qwen3_30b_a3b", 1, 1) < 50e-6


def test_packed_experts_multiply_at_half_the_rate() -> None:
    """Marlin's instructions reach half of an H200's rate, and its blocks of 64 rows unpack each weight again."""
    assert _experts_s("qwen3_30b_a3b", 8, 2048, "w4a16") > 1.5 * _experts_s("qwen3_30b_a3b", 8, 2048)


@given(tokens=st.integers(1, 3000), more=st.integers(1, 3000), precision=st.sampled_from(["bf16", "fp8", "w4a16"]))
def test_experts_never_get_faster_with_tokens(tokens: int, more: int, precision: str) -> None:
    few_s, all_s = (_experts_s("qwen3_30b_a3b", 1, n, precision, at_work=True) for n in (tokens, tokens + more))
    assert all_s >= few_s * (1.0 - 1e-9)


def test_calling_tensorflow_takes_as_long_as_several_layers() -> None:
    """BERT-large takes an A100 1.6 times as long as BERT-base (NVIDIA DeepLearningExamples), not twice as long."""
    seconds = []
    for name in ("bert_base:sequence=128", "bert_large:sequence=128"):
        workload = store.ready(name, None)
        assert workload is not None
        scenario = Scenario(1, "fp16", "tensorflow_xla")
        seconds.append(estimate(workload.bound(), load_device("a100_sxm4_80gb"), scenario).latency_s)
    assert 1.4 < seconds[1] / seconds[0] < 1.8


def _experts(precision: str, batch: int, layout: str = "tp=8,ep=8", device: str = "h100_sxm") -> Estimate:
    workload = store.ready(f"llama4_scout:decode,{layout}", None)
    assert workload is not None
    return estimate(workload.bound(kv=460), load_device(device), Scenario(batch, precision, "vllm_2025"))


def test_experts_that_devices_divide_run_by_default_tiles() -> None:
    """24.1 ms a step of 32 sequences (ML.ENERGY v3, vLLM 0.11.1): reading the weights takes 10. TensorRT-LLM has
    tiles of its own."""
    assert _experts("bf16", 32).latency_s == pytest.approx(24.1e-3, rel=0.2)
    workload = store.ready("llama4_scout:decode,tp=8,ep=8", None)
    assert workload is not None
    tuned = estimate(workload.bound(kv=460), load_device("h100_sxm"), Scenario(32, "bf16", "tensorrt_llm"))
    assert tuned.latency_s < 0.8 * _experts("bf16", 32).latency_s


def test_devices_rest_while_the_busiest_reads_its_experts() -> None:
    """8 tokens touch fewer experts on the mean device than on the busiest: eight H100 draw 2.0 kW, not 3.9."""
    few, many = _experts("bf16", 8), _experts("bf16", 2048)
    assert few.average_power_w == pytest.approx(2000, rel=0.2)
    least = [0.0 if each.demand.mean_work is None else each.demand.mean_work.min() for each in (few, many)]
    assert 0.3 < least[0] < 0.8
    assert least[1] > 0.99


def test_products_of_narrow_operands_store_a_tile_before_the_next_and_find_the_scales_of_blocks_in_one_pass() -> None:
    """B200 at 16,384 rows: a short K leaves the stores of tiles; scales of 16 values are found in registers."""

    def execution(precision: str, k: float) -> Execution:
        setup = make_setup(load_device("b200"), precision, runtimes()["vllm"])
        return execute(
            kernel_demand([msgspec.structs.replace(product(1, 16384, 8192, k), layers=np.inf)], setup.plan.widths),
            setup,
        )

    wide, narrow, scaled = (execution(name, 8192) for name in ("bf16", "fp8", "nvfp4"))
    assert scaled.mapping.tiling.tile_m[0] == 128
    assert scaled.serial_s[1].sum() < 0.7 * narrow.serial_s[1].sum()
    assert wide.serial_s[1].sum() == 0
    short, long = (execution("nvfp4", k).mapping.matrix_s[0, 0] for k in (256, 512))
    assert 1.2 * short < long < 1.8 * short


def test_tokens_are_sorted_by_expert_before_their_products_where_products_do_not_route() -> None:
    """A layer of experts starts four more kernels on a H200, none on a B200 nor for dense products of many heads."""

    def starts_s(device: str, phase: str) -> float:
        workload = store.ready(f"qwen3_30b_a3b:{phase},layers=1", None)
        assert workload is not None
        found = estimate(workload.bound(kv=512), load_device(device), Scenario(8, "bf16", "vllm"))
        assert found.run.mapping.serial_s is not None
        return float(found.run.mapping.serial_s[STARTS][found.demand.is_expert].sum())

    assert starts_s("h200_sxm", "decode") == pytest.approx(4 * load_device("h200_sxm").kernel_start_s)
    assert starts_s("b200", "decode") == 0.0


@pytest.mark.parametrize(("rows", "measured_s"), [(1, 7.5e-6), (16, 22e-6), (64, 63e-6), (256, 78e-6)])
def test_routers_in_fp32_are_multiplied_on_cuda_cores(rows: int, measured_s: float) -> None:
    """Measured on GB200 with their cast, 1.8 us (vLLM pull request 47973); the same product in bf16 takes 5 us."""
    setup = make_setup(load_device("gb200"), "bf16", runtimes()["vllm"], "channels_last")
    demand = kernel_demand([product(1, rows, 256, 6144)], setup.plan.widths).with_values(right_bytes=np.array([4.0]))
    assert execute(demand, setup).kernel_s[0] + 1.8e-6 == pytest.approx(measured_s, rel=0.2)
