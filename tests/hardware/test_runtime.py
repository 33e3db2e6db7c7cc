"""Runtimes: what runs where, what a mode is, and that what they cost is counted once."""

import numpy as np
import pytest

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.figures import describe_deviations
from analysis.estimate.scenario import Scenario
from analysis.model import store
from analysis.model.ir.workload import Workload
from hardware import known_architectures
from hardware.base.errors import RequestError
from hardware.demand import OpClass
from hardware.device_catalog import load_device, load_devices
from hardware.engines.runtime import LIKE_FOR_LIKE, MODES, WORK, runtime_names, runtimes
from hardware.map_demand import _packed_products
from hardware.plan import make_plan
from hardware.setup import deployed_runtime, is_unsupported, resolve_runtime
from tests.models import load_once
from tests.sampling import for_each

DEVICES = ("xeon_8490h", "h100_sxm", "jetson_agx_orin", "tpu_v4", "kpu_t256")


def run(model: str, on: str, runtime: str, batch: int = 1, precision: str = "fp16", **lengths: int) -> Estimate:
    return estimate(load_once(model).bound(**lengths), load_device(on), Scenario(batch, precision, runtime))


@for_each("name", runtimes())
def test_every_constant_has_a_spread_and_a_source(name: str) -> None:
    runtime = runtimes()[name]
    assert runtime.mode in MODES
    assert set(runtime.work) <= set(WORK)
    products = [share for shares in runtime.compute.values() for share in shares.values()]
    host = (*runtime.dispatch_on.values(), *runtime.launch_on.values(), runtime.call_s, runtime.sequence_s)
    kernels = (*products, *runtime.product_library.unpack_rows.values(), *runtime.streaming.values())
    for ends in (*host, runtime.dispatch, runtime.launch, runtime.early_launch, *kernels):
        assert 0 <= ends.low <= ends.value <= ends.high
        assert ends.source or ends.low == ends.high in (0.0, 1.0)
    assert all(0 < share.high <= 1 for share in runtime.streaming.values())
    software = {on: one for arch in known_architectures.ALL.values() for on, one in arch.data.software.items()}
    for on, shares in runtime.compute.items():
        usual = software[max((name for name in software if on.startswith(name)), key=len)].compute
        for kind, share in shares.items():
            # A library may be better than most, never than the unit.
            assert 0 < share.high * usual.get(kind, (1.0,))[0] <= 1


def test_every_device_has_something_that_one_would_deploy() -> None:
    for device in load_devices()[0]:
        for work in WORK:
            found = deployed_runtime(device, work)
            assert not found.runs_on or found.fits(device, work) or is_unsupported(device, work)


@for_each(
    ("on", "asked", "work", "name"),
    [
        ("h100_sxm", "auto", "vision", "TensorRT"),
        ("mi300x", "auto", "vision", "torch.compile"),
        ("mi300x", "tensorrt", "vision", "torch.compile"),  # it does not run there
        ("h100_sxm", "auto", "language", "vLLM"),
        ("xeon_8490h", "auto", "vision", "OpenVINO"),
        ("raspberry_pi_5", "auto", "vision", "ONNX Runtime"),
        ("raspberry_pi_5", "tflite", "vision", "TFLite with XNNPACK"),
        ("xeon_8490h", "llama_cpp", "language", "llama.cpp"),
        ("tpu_v4", "tensorrt", "vision", "XLA"),
        ("coral_edge_tpu", "auto", "vision", "Edge TPU compiler"),
        ("h100_sxm", "eager", "vision", "PyTorch eager"),
        ("kpu_t256", "eager", "vision", "eager"),
    ],
)
def test_what_runs_on_a_device(on: str, asked: str, work: str, name: str) -> None:
    assert resolve_runtime(load_device(on), asked, work).name == name


def test_an_unknown_runtime_is_named_with_the_nearest() -> None:
    with pytest.raises(RequestError, match="tensorrt"):
        Scenario(execution="tensort")


@for_each("on", DEVICES)
@for_each("name", runtime_names())
def test_physics_holds_under_every_runtime(on: str, name: str) -> None:
    for model in ("resnet18", "llama3_2_1b:decode,kv=512"):
        found = run(model, on, name)
        assert found.run.latency_s.sum() == pytest.approx(found.latency_s, rel=1e-9)
        assert found.event_energy_j.sum() == pytest.approx(found.energy_j, rel=1e-9)
        assert found.energy_j / found.latency_s <= found.device.power_limit_w * (1 + 1e-9)
        assert (found.run.utilization <= 1 + 1e-9).all()
        moved = found.run.mapping.traffic.dram_read + found.run.mapping.traffic.dram_write
        assert (moved / found.device.memory_bandwidth <= found.run.mapping.dram_s[0] * (1 + 1e-9)).all()
        fast, slow = found.latency_band_s
        assert fast <= found.latency_s * (1 + 1e-9)
        assert found.latency_s <= slow * (1 + 1e-9)


def test_a_call_costs_what_the_runtime_says_once() -> None:
    with_host, without = run("resnet18", "h100_sxm", "cuda_graphs"), run("resnet18", "h100_sxm", "compiled")
    launches = with_host.run.kernel_s.sum() - runtimes()["cuda_graphs"].call_s.value
    assert launches < without.latency_s
    former, later = ("vllm_2025", "vllm")  # the same kernels
    waits_s = sum(
        getattr(runtimes()[former], name).value - getattr(runtimes()[later], name).value
        for name in ("call_s", "sequence_s")
    )
    slow, fast = (run("llama3_2_1b:request,in=64,out=33", "h100_sxm", runtime) for runtime in (former, later))
    assert slow.latency_s - fast.latency_s == pytest.approx(33 * waits_s, rel=0.01)


def test_decoding_streams_weights_faster_than_other_traffic_on_a_cpu() -> None:
    model = "llama3_8b:decode,kv=256"
    device = load_device("ryzen9_7950x")
    weights = 7.5e9 * 2 / device.memory_bandwidth
    for runtime in ("llama_cpp", "fused"):
        streamed = run(model, "ryzen9_7950x", runtime, precision="bf16")
        assert weights < streamed.latency_s < 0.5 * weights / device.software.bandwidth["other"][0]


def test_serving_spends_on_each_sequence_of_a_step() -> None:
    later, former = "vllm", "vllm_2025"  # the same kernels
    host = runtimes()[former].sequence_s.value - runtimes()[later].sequence_s.value
    model = "llama3_2_1b:decode,kv=64"
    few, many = (
        run(model, "h100_sxm", former, n).latency_s - run(model, "h100_sxm", later, n).latency_s for n in (1, 257)
    )
    assert many - few == pytest.approx(256 * host, rel=0.01)


def test_weights_are_unpacked_as_often_as_the_runtime_unpacks_them() -> None:
    """A prefill of llama.cpp unpacks for each row of activations, ik_llama.cpp for eight; for one row ik_llama.cpp
    takes `widening` of the instructions."""
    prefill, decode = "llama2_7b:prefill,sequence=512", "llama2_7b:decode,kv=64"
    slow, fast = (run(prefill, "ryzen9_7950x", name, precision="iq3_s") for name in ("llama_cpp", "ik_llama_cpp"))
    assert slow.latency_s > 3 * fast.latency_s
    slow, fast = (run(decode, "ryzen9_7950x", name, precision="iq3_s") for name in ("llama_cpp", "ik_llama_cpp"))
    assert (
        runtimes()["ik_llama_cpp"].product_library.unpack_ops_factor["cpu"].value * slow.latency_s
        < fast.latency_s
        < slow.latency_s
    )


def test_rows_that_fill_no_block_are_unpacked_for_as_a_whole_block() -> None:
    """ik_llama.cpp unpacks once for eight rows: nine take as much as sixteen."""
    unpacked = []
    for rows in (8, 9, 16, 17):
        found = run(f"llama2_7b:prefill,layers=1,sequence={rows}", "ryzen9_7950x", "ik_llama_cpp", precision="iq3_s")
        unpack_ops = _packed_products(found.demand, found.setup)["unpack_ops"]
        unpacked.append(unpack_ops[found.demand.gemm[1] == rows].sum())
    assert np.array(unpacked) / unpacked[0] == pytest.approx([1, 2, 2, 3])


def test_only_the_prefill_of_a_request_reads_its_prompt() -> None:
    found = run("llama3_2_1b:request,in=64,out=33", "h100_sxm", "vllm")
    decodes = np.array([path.startswith("decode.") for path in found.workload.operators.path])
    assert 0 < decodes.sum() < len(decodes)
    np.testing.assert_array_equal(found.demand.calls.prompts, np.where(decodes, 0.0, 1.0))


def test_a_kernel_starts_in_cycles_of_the_clock() -> None:
    fast, slow = load_device("jetson_agx_orin"), load_device("jetson_agx_orin:15w")
    cycles = fast.facts["launch_cycles"].value
    assert slow.kernel_start_s - fast.kernel_start_s == pytest.approx(cycles / slow.clock_hz - cycles / fast.clock_hz)
    assert load_device("xeon_8490h").kernel_start_s == load_device("xeon_8490h").launch_s


def test_files_of_llama_cpp_run_in_it_where_it_runs() -> None:
    model = "llama3_8b:decode,kv=64"
    for on, name in (("rtx_4090", "llama.cpp"), ("mi300x", "llama.cpp"), ("tpu_v4", "XLA")):
        assert run(model, on, "auto", precision="q4_k_m").runtime.name == name
    assert run(model, "rtx_4090", "auto", precision="w4a16").runtime.name == "vLLM"
    assert run(model, "rtx_4090", "vllm", precision="q4_k_m").runtime.name == "vLLM"


def test_what_takes_the_place_of_a_runtime_is_said() -> None:
    for asked, said in (("tensorrt", "TensorRT does not run"), ("fused", "no engine is usual for")):
        sentence = f"{said} vision models on it: torch.compile takes its place"
        assert sentence in describe_deviations(run("resnet18", "mi300x", asked))
    assert (
        describe_deviations(run("resnet18", "h100_sxm", "tensorrt"))
        == describe_deviations(run("resnet18", "h100_sxm", "fused"))
        == ()
    )


def test_only_what_sums_in_fp16_has_the_rate_of_it() -> None:
    """GeForce cards: a prompt in vLLM, as in PyTorch, is summed in fp32, whichever 16 bits it is of."""
    prompt = "llama3_8b:prefill,sequence=2048"
    half, brain = (run(prompt, "rtx_4090", "vllm", precision=name) for name in ("fp16", "bf16"))
    assert half.latency_s == pytest.approx(brain.latency_s, rel=0.01)
    assert run("vgg16", "rtx_4090", "tensorrt", 64).plan.matrix_rate == 2.0
    assert run("vgg16", "rtx_4090", "torch_compile", 64).plan.matrix_rate == 1.0


def test_a_tpu_is_called_by_a_host_as_a_gpu_is() -> None:
    """What compares them would else compare a program that nobody calls with one that somebody does."""
    tpu, gpu = (run("resnet18", on, "auto").runtime for on in ("tpu_v4", "h100_sxm"))
    assert tpu.name == "XLA"
    assert tpu.call_s.value >= gpu.call_s.value > 0


def test_a_runtime_that_starts_each_kernel_is_no_quicker_than_one_that_records_them() -> None:
    assert run("resnet50", "h100_sxm", "onnxruntime").latency_s > run("resnet50", "h100_sxm", "tensorrt").latency_s


def read(model: str, **lengths: int) -> Workload:
    workload = store.ready(model)
    assert workload is not None
    return workload.bound(**lengths)


def test_lanes_read_packed_weights_faster_than_wide_ones() -> None:
    """One row of Q4 on an Apple GPU is not limited by lanes that are fed with fp32 values."""
    device, workload = load_device("apple_m3_max_gpu"), read("llama3_8b:decode", kv=512)
    packed, wide = (
        estimate(workload, device, Scenario(1, precision, "llama_cpp")).latency_s for precision in ("q4_k_m", "fp16")
    )
    assert 0.3 * wide < packed < 0.5 * wide


def test_llama_cpp_multiplies_packed_weights_as_the_generation_of_the_device_allows() -> None:
    """Volta and CDNA 1 and 2 leave many rows to a library in 16 bits; int8 instructions multiply where there are."""
    names = ["v100_sxm2_16gb", "p100_pcie_16gb", "mi210", "p4", "t4", "mi300x", "rx_7900_xtx"]
    plans = {name: make_plan(load_device(name), "q4_k_m", runtimes()["llama_cpp"]) for name in names}
    assert [plan.contraction[1] for plan in plans.values()] == ["fp16"] * 3 + ["int8"] * 4
    assert {plan.weights for plan in plans.values()} == {"q4_k_m"}
    prefill = [run("llama3_8b:prefill,layers=1", name, "llama_cpp", precision="q4_k_m") for name in ("v100", "p4")]
    assert prefill[0].latency_s < 0.2 * prefill[1].latency_s


def test_llama_cpp_scales_blocks_on_lanes_and_waits_for_matrix_units() -> None:
    """Seven billion weights in Q4_0, 512 tokens: 935 a second on a P40 (ggml-org/llama.cpp pull request 4766; 681 were
    predicted). A H100 multiplies twice as fast as a RTX 4090 by warpgroup instructions, which ggml does not use."""
    prompts = {
        name: 512 / run("llama2_7b:prefill", name, "llama_cpp", precision="q4_0", sequence=512).latency_s
        for name in ("p40", "rtx_4090", "h100_pcie")
    }
    assert prompts["p40"] == pytest.approx(935, rel=0.1)
    assert prompts["h100_pcie"] < 1.2 * prompts["rtx_4090"]


def test_a_runtime_has_what_its_base_states() -> None:
    older, newer = runtimes()["vllm_2025"], runtimes()["vllm"]
    assert older.base == newer.id
    assert older.streaming == newer.streaming
    assert older.call_s.value > newer.call_s.value


def test_llama_cpp_multiplies_a_prompt_in_micro_batches() -> None:
    def products_s(tokens: int) -> float:
        result = run(f"llama3_8b:prefill,sequence={tokens}", "rtx_4090", "llama_cpp")
        return float(result.run.mapping.matrix_s[0][result.demand.op_class == OpClass.GEMM].sum())

    assert products_s(2048) == pytest.approx(4.0 * products_s(512), rel=0.02)


def test_engines_join_products_of_one_input() -> None:
    def products(runtime: str) -> int:
        demand = run("bert_base:sequence=64", "a100_sxm4_80gb", runtime).demand
        return int((demand.head & (demand.op_class == OpClass.GEMM)).sum())

    assert products(LIKE_FOR_LIKE) - products("tensorrt") == 2 * 12  # keys and values of twelve layers join queries


# tokens/s of a prompt of 2,048 tokens by llama.cpp on a GB10 (ggml-org/llama.cpp discussion 16578, before products of
# 4 bits) and, for the last, on a card of Blackwell with them.
@for_each(
    ("model", "device", "precision", "tokens_per_s"),
    [
        ("gpt_oss_120b", "dgx_spark", "mxfp4", 2438),
        ("qwen3_30b_a3b", "dgx_spark", "q8_0", 2933), ("glm4_5_air", "dgx_spark", "q4_k_m", 841),
        ("qwen2_7b", "dgx_spark", "q8_0", 2267), ("gemma3_4b", "dgx_spark", "q4_0", 5694),
        ("gpt_oss_20b", "rtx_5090", "mxfp4", 13700),
    ],
)  # fmt: skip
def test_prompts_by_llama_cpp_take_what_was_published(
    model: str, device: str, precision: str, tokens_per_s: float
) -> None:
    result = estimate(load_once(f"{model}:sequence=2048"), load_device(device), Scenario(1, precision, "llama_cpp"))
    assert 0.6 < 2048 / result.latency_s / tokens_per_s < 1.6
