"""Every precision, with every cache, on every device: within physics, and its bytes are those of its formats."""

import re

import grid
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.model.ir.workload import WEIGHT, Workload
from hardware.engines.runtime import LIKE_FOR_LIKE
from hardware.mapping.common import wide_products
from hardware.plan import make_plan
from hardware.precision import FORMATS, NAMES, parse
from tests.models import load_once
from tests.sampling import for_each

MODELS = ("llama3_8b:decode,layers=2,kv=512", "llama3_8b:prefill,layers=1,sequence=256", "mobilenet_v2", "resnet18")
DEVICES = tuple(device.key for device in grid.catalogue(modes=False))
precisions = st.builds(str.__add__, st.sampled_from(NAMES), st.sampled_from(("", "kv4", "kv8", "kv16")))

FOUR_BIT_DEVICES = ("b200", "b300", "gb200", "gb300", "mi355x", "mi455x", "vr200", "tpu_8i", "rtx_5090", "jetson_thor")


def run(model: str, on: str, precision: str, batch: int, mode: str = LIKE_FOR_LIKE, **lengths: int) -> Estimate:
    return estimate(load_once(model), grid.device(on), Scenario(batch, precision, mode, **lengths))  # type: ignore[arg-type]


def elements(work: Workload, role: int) -> float:
    return float((work.tensors.numel @ work.value_at(batch=1))[work.tensors.role == role].sum())


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(MODELS), st.sampled_from(DEVICES), precisions, st.sampled_from(grid.ALL_MODES), st.integers(1, 64)
)
def test_within_physics(model: str, on: str, precision: str, mode: str, batch: int) -> None:
    check_random(model, on, precision, mode, batch)


def check_random(model: str, on: str, precision: str, mode: str, batch: int) -> None:
    result = run(model, on, precision, batch, mode)
    device, flow = result.device, result.run.mapping.traffic
    assert result.average_power_w <= device.power_limit_w * (1 + 1e-9)
    assert result.utilization <= 1 or result.run.mapping.is_reduced.any()
    moved = grid.per_kernel(result, flow.dram_read + flow.dram_write)
    assert (result.run.kernel_s >= moved / device.memory_bandwidth * (1 - 1e-9)).all()
    assert result.run.energy_j.sum() == pytest.approx(result.event_energy_j.sum(), rel=1e-9)
    assert result.run.latency_s.sum() == pytest.approx(result.run.kernel_s.sum(), rel=1e-9)
    more = run(model, on, precision, batch + 1, mode)
    assert more.latency_s >= result.latency_s * (1 - 1e-9)
    assert more.memory.peak_bytes >= result.memory.peak_bytes
    assert Scenario(1, precision.upper()).precision == result.scenario.precision


@for_each("precision", ["w4a16", "nvfp4", "w8a8", "w4a16kv8", "mxfp4kv8"])
@for_each("on", [*grid.DEFAULTS, "b200", "i7_12700k"])
def test_bytes_are_those_of_the_formats(on: str, precision: str) -> None:
    """Weights of layers in the format asked for; embedding, head and norms in 16 bits."""
    model = "llama3_8b:decode,layers=2,kv=512"
    result, asked = run(model, on, precision, 1), parse(precision)
    names = result.workload.tensors.name
    wide = np.array(["norm" in n or "lm_head" in n or "embed" in n for n in names])
    numel = result.workload.tensors.numel @ result.workload.value_at(batch=1)
    is_weight = result.workload.tensors.role == WEIGHT
    expected = numel[is_weight & ~wide].sum() * FORMATS[asked.weights].bytes + numel[is_weight & wide].sum() * 2.0
    rotary = 128 * result.plan.element_bytes
    assert result.memory.weight_bytes == pytest.approx(expected + rotary, rel=1e-12)
    cache = 2 * 2 * 8 * 128 * FORMATS[asked.cache].bytes  # keys and values of 8 heads in 2 layers, a token
    longer = run(model, on, precision, 1, kv=1512)
    grown = longer.memory.peak_bytes - result.memory.peak_bytes
    assert grown == pytest.approx(1000 * cache, rel=1e-9)


@for_each("published", [  # GiB by llama-bench, tables of many users
    "llama3_8b q4_k_m 4.58", "llama2_7b q4_0 3.56", "llama2_7b q6_k 5.15", "qwen2_7b q4_0 4.12",
    "gemma3_4b q4_k_m 2.31", "gemma3_27b q4_0 14.49", "qwen3_30b_a3b q2_k 10.48", "mistral_nemo_12b q5_k_m 8.12",
    "phi3_mini q4_k_m 2.23", "deepseek_v2_lite q4_k_m 9.65", "deepseek_v2_lite q4_0 8.29", "llama3_2_1b q5_k_m 0.842",
    "smollm2_360m q4_k_m 0.2503",
])  # fmt: skip
def test_files_of_llama_cpp_have_their_published_sizes(published: str) -> None:
    """Head and some layers have more bits than the others; rows that fill no block of 256 values take wider types."""
    model, precision, gib = published.split()
    weights = run(f"{model}:decode,kv=64", "h200", precision, 1).memory.weight_bytes
    assert weights == pytest.approx(float(gib) * 2**30, rel=0.008)


@pytest.mark.parametrize(
    ("model", "precision", "wide"),
    [
        ("gpt_oss_20b", "mxfp4", "router q_proj k_proj v_proj o_proj"),
        ("deepseek_v3", "nvfp4", "router q_a_proj q_b_proj kv_a_proj kv_b_query kv_b_value"),
        ("deepseek_v3", "fp8kv16", "router"),
        (
            "deepseek_v4_flash",
            "mxfp4",
            "router fn weights_proj scores q_a_proj q_proj k_proj kv_proj o_a_proj o_proj gate_proj up_proj down_proj",
        ),
    ],
)
def test_products_that_checkpoints_keep_wide_run_wide(model: str, precision: str, wide: str) -> None:
    result = run(f"{model}:decode,kv=512", "b200", precision, 1, "vllm")
    paths = np.array(result.workload.operators.path)[wide_products(result.demand, result.plan)]
    assert {path.rpartition(".")[2] for path in paths} == {*wide.split(), "lm_head"}


def test_a_smaller_cache_is_read_faster() -> None:
    model = "llama3_8b:decode,kv=100000"
    by_width = [run(model, "h100_sxm", name, 8).latency_s for name in ("w4a16", "w4a16kv8", "w4a16kv4")]
    assert by_width == sorted(by_width, reverse=True)
    assert by_width[0] / by_width[1] > 1.5


@pytest.mark.parametrize("on", ["h100_sxm", "rtx_4090", "jetson_agx_orin", "xeon_8490h"])
def test_narrow_weights_decode_faster_and_prefill_no_faster(on: str) -> None:
    """Decoding waits for weights; a long prompt for products, in 16 bits either way, and unpacking is work."""
    fp16, w4a16 = (run("llama3_8b:decode,kv=512", on, name, 1) for name in ("fp16", "w4a16"))
    assert 2.0 < fp16.latency_s / w4a16.latency_s < 4.0
    assert w4a16.energy_j < fp16.energy_j
    prompt = [run("llama3_8b:prefill,layers=2,sequence=4096", on, name, 4) for name in ("fp16", "w4a16")]
    if prompt[0].bound == "compute":
        assert prompt[1].latency_s > 0.9 * prompt[0].latency_s
    counted = [grid.counted(each, "FLOP").sum() for each in prompt]
    assert counted[1] > counted[0]


def test_block_scaled_units_multiply_four_bits() -> None:
    """B200, RTX 50 and PRO 6000, Spark and Thor multiply fp4 at twice their fp8 rate or more; others unpack, say so."""
    for device in grid.catalogue(modes=False):
        runs, has = make_plan(device, "nvfp4"), ("matrix", "fp4") in device.peaks
        assert has == (
            device.id in FOUR_BIT_DEVICES
            or device.id in ("mi350x", "tpu_8t", "dgx_spark")
            or re.fullmatch(r"rtx_(pro_6000|50\d0).*(?<!_ada)", device.id) is not None
        )
        assert bool(runs.marks) != has
        assert (runs.contraction[1] == "fp4") == has
        assert runs.widths.weights == 4.5 / 8
        if has:
            assert device.peaks["matrix", "fp4"] >= 2 * device.peaks["matrix", "fp8"]
            assert runs.widths.unpack_weights == 0
    fast, slow = (run("llama3_8b:prefill,layers=2,sequence=4096", "b200", name, 4) for name in ("nvfp4", "bf16"))
    assert slow.latency_s > 1.5 * fast.latency_s


@pytest.mark.parametrize("precision", ["w8a8", "w4a8", "nvfp4", "q4_k_m"])
def test_attention_stays_in_sixteen_bits(precision: str) -> None:
    """A long prompt on a B200: products of weights are quicker than in bf16, those of queries and keys are not."""
    model = "llama3_8b:prefill,layers=1,sequence=32768"
    wide, narrow = (run(model, "b200", name, 1) for name in ("bf16", precision))
    is_attention = np.array([kind == "attention" for kind in wide.workload.operators.kind])
    is_linear = np.array([path.endswith("up_proj") for path in wide.workload.operators.path])
    taken = [result.run.mapping.matrix_s[0] for result in (wide, narrow)]
    assert taken[1][is_attention].sum() == pytest.approx(taken[0][is_attention].sum(), rel=0.1)
    assert taken[1][is_linear].sum() < 0.6 * taken[0][is_linear].sum()
