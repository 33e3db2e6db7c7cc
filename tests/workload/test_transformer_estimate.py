"""Transformers on devices: what bounds them, what they hold, and that figures add up and grow with the work."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformer_cases import SMALL, run, total, workload

from analysis.estimate.figures import describe_deviations
from analysis.estimate.peak_memory import cache_bytes, peak_memory
from analysis.estimate.tree_figures import tree
from analysis.model.ir.workload import Routing
from hardware.device_catalog import load_device
from hardware.execute import BOUNDS, MEMORY
from hardware.map_demand import link_seconds
from hardware.precision import uniform
from hwexplorer.reports.show.memory import memory_report
from tests.sampling import for_each

DEVICES = ("xeon_8490h", "h100_sxm", "tpu_v4", "kpu_t256")


def test_decode_reads_every_weight_once_a_token() -> None:
    """At batch 1 a token costs about weights / bandwidth; the host's dispatch of a dozen kernels a layer comes on
    top where it is not one program."""
    for execution in ("compiled", "fused"):
        result = run("llama3_8b:decode", execution=execution, kv=0)
        host_s = result.demand.n_kernels * result.runtime.dispatch.value * result.device.dispatch_s
        assert result.bound == BOUNDS[MEMORY]
        read = 2 * (8_030_261_248 - 128256 * 4096)  # of the embedding one row is read
        least = read / load_device("h100_sxm").memory_bandwidth
        assert least < result.latency_s < 1.6 * least + host_s


def test_prefill_is_compute_bound() -> None:
    result = run("llama3_8b", execution="fused", sequence=4096)
    assert result.bound in ("compute", "power")
    assert result.utilization > 0.4


@for_each("kv", [0, 4096, 100_000])
@for_each(("precision", "width"), [("bf16", 2.0), ("int8", 1.0), ("fp32", 4.0)])
def test_cache_takes_its_bytes(kv: int, precision: str, width: float) -> None:
    """Llama 3 8B: 32 layers x 2 x 8 heads x 128 elements a token: 128 KiB at 16 bit."""
    per_token = 32 * 2 * 8 * 128 * width
    result = run("llama3_8b:decode", batch=4, precision=precision, kv=kv)
    assert result.plan.widths.cache == width
    assert cache_bytes(result.workload, 4, uniform(width)) == 4 * (kv + 1) * per_token
    held = result.memory.peak_bytes - result.memory.weight_bytes
    assert 4 * kv * per_token <= held < 4 * (kv + 1) * per_token + 4 * 128256 * result.plan.element_bytes + 1e7
    assert result.fits == (result.memory.peak_bytes <= result.device.memory_bytes)


def test_the_cache_of_a_request_is_held_once() -> None:
    """What its prompt adds is part of what its last token reads."""
    result = run("llama3_8b:request,in=1024,out=256", precision="bf16")
    held = next(each for each in memory_report(result).roles if each.role == "key-value cache")
    assert cache_bytes(result.workload, 1, result.plan.widths) == held.bytes == 1280 * 32 * 2 * 8 * 128 * 2


def test_memory_grows_with_the_cache_to_where_it_no_longer_fits() -> None:
    peaks = [run("llama3_8b:decode", batch=8, kv=kv).memory.peak_bytes for kv in (1, 1000, 10_000, 100_000)]
    assert peaks == sorted(peaks)
    last = run("llama3_8b:decode", batch=8, kv=100_000)
    assert not last.fits
    assert any("does not fit" in mark for mark in describe_deviations(last))


def test_all_experts_are_held_and_the_touched_ones_read() -> None:
    model = workload("mixtral_8x7b:decode")
    assert peak_memory(model, 1, uniform(2.0), "fused").weight_bytes == pytest.approx(2 * model.parameters, rel=1e-4)
    per_expert = 2.0 * 32 * 3 * 4096 * 14336
    for batch in (1, 4, 64):
        assert model.routing is not None
        touched, _ = model.routing.expert_load(batch)
        result = run("mixtral_8x7b:decode", batch=batch, execution="fused", kv=1)
        read = result.demand.per_op(result.demand.transfers.size_bytes, 1)
        experts = np.array(["experts." in path for path in result.workload.operators.path])
        assert read[experts].sum() == pytest.approx(touched * per_expert, rel=1e-9)


@given(st.integers(1, 256), st.integers(1, 16), st.integers(1, 10_000), st.floats(0, 2.5))
def test_routing(experts: int, active: int, tokens: int, spread: float) -> None:
    active = min(active, experts)
    touched, rows = Routing(experts, active, 1, spread).expert_load(tokens)
    assert active <= touched * (1 + 1e-9)
    assert touched <= experts
    assert touched * rows == pytest.approx(tokens * active)
    assert Routing(experts, active, 1, spread).expert_load(1)[0] == pytest.approx(active)
    evenly, _ = Routing(experts, active).expert_load(tokens)
    assert evenly == pytest.approx(experts * (1 - (1 - active / experts) ** tokens))
    assert touched <= evenly * (1 + 1e-9), "popular experts are met again"


@given(st.sampled_from([(128, 4), (256, 8), (16, 1), (8, 2)]), st.sampled_from([1, 2, 4, 8]), st.integers(1, 5_000))
def test_the_busiest_of_devices_has_at_least_the_mean_load(kind: tuple[int, int], devices: int, tokens: int) -> None:
    experts, active = kind
    touched, rows = Routing(experts, active, devices, 1.2).expert_load(tokens)
    assert touched <= experts / devices * (1 + 1e-9)
    assert (
        tokens * active / devices * (1 - 1e-9) <= touched * rows <= tokens * min(active, experts / devices) * (1 + 1e-9)
    )


@for_each("name", [*SMALL, "llama3_8b:decode,tp=4", "mixtral_8x7b:decode", "gpt2", "llama3_2_1b:request,in=128,out=64"])
@for_each("execution", ["eager", "compiled", "fused"])
def test_figures_add_up(name: str, execution: str) -> None:
    for on in DEVICES:
        result = run(name, on, 3, execution=execution)
        figures = tree(result)
        assert result.run.latency_s.sum() == pytest.approx(result.latency_s, rel=1e-9)
        assert result.event_energy_j.sum() == pytest.approx(result.energy_j, rel=1e-9)
        assert result.run.kernel_s.sum() == pytest.approx(result.latency_s, rel=1e-9)
        assert figures.estimate is result
        assert (result.run.utilization <= 1 + 1e-9).all()
        assert result.average_power_w <= result.power_limit_w * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(SMALL),
    st.sampled_from(DEVICES),
    st.sampled_from(["eager", "fused"]),
    st.sampled_from(["batch", "sequence", "kv"]),
    st.integers(1, 64),
    st.integers(1, 600),
    st.integers(0, 600),
    st.integers(1, 700),
)
def test_more_work_is_never_quicker(
    name: str, on: str, execution: str, grows: str, batch: int, sequence: int, kv: int, more: int
) -> None:
    at = {"batch": batch, "sequence": sequence, "kv": kv}
    larger = at | {grows: at[grows] + more}
    one, two = (run(name, on, execution=execution, **lengths) for lengths in (at, larger))
    for quantity in ("latency_s", "energy_j"):
        assert getattr(two, quantity) >= getattr(one, quantity) * (1 - 1e-9), quantity
    assert two.memory.peak_bytes >= one.memory.peak_bytes


def test_lengths_that_a_model_lacks_change_nothing() -> None:
    plain, asked = run("resnet50"), run("resnet50", sequence=7, kv=9)
    assert plain.workload is asked.workload
    assert plain.latency_s == asked.latency_s


def test_bound_workloads_are_remembered_and_apart() -> None:
    model = workload(SMALL[0])
    assert model.bound(kv=5) is model.bound(kv=5)
    assert model.bound(kv=5) is not model.bound(kv=6)
    assert model.bound(kv=0, sequence=512) is model
    assert run(SMALL[0], kv=5).demand is not run(SMALL[0], kv=6).demand


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_devices_share_the_work(tp: int) -> None:
    whole, part = workload("llama3_70b:decode"), workload(f"llama3_70b:decode,tp={tp}")
    assert tp * total(part.operators.macs, part) == total(whole.operators.macs, whole)
    assert part.parameters < whole.parameters / tp * 1.01
    assert run(f"llama3_70b:decode,tp={tp}").latency_s < run("llama3_70b:decode").latency_s
    assert tp * cache_bytes(part, 1, uniform(2.0)) == cache_bytes(whole, 1, uniform(2.0))


def test_collectives_send_their_bytes() -> None:
    """Two all-reduces a layer of (batch x sequence x hidden), each 2 (N - 1) / N of its bytes over the link."""
    result = run("llama2_7b:tp=4,link=100", sequence=1000, execution="fused")
    assert result.demand.links is not None
    sent, messages, speed, _ = result.demand.links
    link = link_seconds(result.demand.links, result.device)
    kinds = result.workload.operators.kind
    reduces = [i for i, kind in enumerate(kinds) if kind == "all_reduce"]
    assert len(reduces) == 2 * 32 + 1  # and one of the embedding
    assert sent[reduces] == pytest.approx(1000 * 4096 * 2 * 1.5)
    assert (messages[reduces] == 2 * 3).all()
    assert (speed == 100e9).all()
    assert (link[reduces] > sent[reduces] / speed[reduces]).all()
    assert (result.run.latency_s[reduces] >= link[reduces]).all()
    assert any("links of 100 GB/s" in mark for mark in describe_deviations(result))
    assert result.latency_s > run("llama2_7b:tp=4,link=900", sequence=1000, execution="fused").latency_s


def test_prompts_are_enqueued_where_only_decoding_is_recorded() -> None:
    """TensorRT-LLM records batches that only generate: a short prompt waits for the host at each kernel, a long one
    hides it, and decoding does not know it."""
    load_of = {"execution": "tensorrt_llm", "precision": "fp8"}
    short, long = (run("llama2_7b", "h100_sxm", sequence=s, **load_of) for s in (64, 8192))
    assert not run("llama2_7b:decode", "h100_sxm", **load_of).demand.calls.prompts.any()
    request = run("llama2_7b:request,in=128,out=8", "h100_sxm", **load_of)
    assert 0 < request.demand.calls.prompts.sum() < request.demand.n
    graphs = run("llama2_7b", "h100_sxm", sequence=64, precision="fp8", execution="fused")
    assert graphs.latency_s < short.latency_s
    assert long.bound != "launch"
    hidden = run("llama2_7b", "h100_sxm", sequence=8192, precision="fp8", execution="fused")
    assert short.latency_s / graphs.latency_s > long.latency_s / hidden.latency_s


@pytest.mark.parametrize(("device", "limit"), [("a100_sxm4_40gb", "host"), ("l4", "device")])
def test_a_host_runs_ahead_of_the_device(device: str, limit: str) -> None:
    """A token of Llama 2 7B in eager mode took the sum over kernels of the slower of host and device."""
    one = run("llama2_7b:decode", device, precision="fp16", kv=300, execution="transformers")
    host_s = one.demand.n_kernels * one.device.dispatch_s * one.runtime.dispatch.value
    device_s = run("llama2_7b:decode", device, precision="fp16", kv=300, execution="transformers_graph").latency_s
    assert (host_s > device_s) == (limit == "host")
    assert one.latency_s == pytest.approx(max(host_s, device_s), rel=0.02)


def test_a_collective_takes_words_or_blocks() -> None:
    """Eight H100: 195 us for 32 MB (nccl-tests, kvcache-ai/Mooncake pull request 3484), 16 us beside the start of the
    kernel for 2 MB by the kernels of vLLM and SGLang (AIConfigurator: 19.4 and 20.1); few bytes end with the kernel,
    and through memory of the host each message waits."""
    rounds, sizes = 14.0, np.array([16e3, 2.0**21, 2.0**25])
    links = np.stack([sizes * rounds / 8, np.full(3, rounds), np.zeros(3), np.zeros(3)])
    own, hosted = (link_seconds(links, load_device(name)) * 1e6 for name in ("h100_sxm", "rtx_4090"))
    assert own[0] < 3
    assert own[1:] == pytest.approx([16.4, 195.0], rel=0.35)
    assert own[2] == pytest.approx(195.0, rel=0.05)
    assert (hosted > own + 14 * 3).all()
    assert (np.diff(own) > 0).all()


def test_links_are_the_device_s_own() -> None:
    """A card without NVLink sends over PCIe; a request may state another speed."""
    for on, speed in (("h100_sxm", 450), ("a100_sxm4_80gb", 300), ("rtx_4090", 31.5), ("xeon_w2155", 15.75)):
        result = run("llama2_7b:tp=4", on, sequence=1000, execution="fused")
        stated = run(f"llama2_7b:tp=4,link={speed}", on, sequence=1000, execution="fused") if speed > 32 else None
        assert any(f"links of {speed:.3g} GB/s" in mark for mark in describe_deviations(result))
        assert stated is None or result.latency_s == pytest.approx(stated.latency_s)
    assert run("llama2_7b:tp=4", "rtx_4090").latency_s > run("llama2_7b:tp=4,link=450", "rtx_4090").latency_s


def test_energy_and_power_are_those_of_the_group() -> None:
    """Each of eight devices computes its share at the same time; all of them draw power meanwhile."""
    group = run("llama3_70b:decode,tp=8", execution="fused")
    static_w = float(group.run.prices.value[group.device.arch.static_rows].sum())
    assert group.workload.devices == 8
    assert group.component_j["static"] == pytest.approx(8 * static_w * group.latency_s)
    assert group.energy_j == pytest.approx(float(group.event_energy_j.sum()))
    assert 8 * static_w < group.average_power_w <= group.power_limit_w == 8 * group.device.power_limit_w
    assert group.energy_band_j[0] < group.energy_j < group.energy_band_j[1]


# Measured: gpt-fast README (github.com/pytorch-labs/gpt-fast, commit 0f925b5), "8xA100-80GB, power limited to 330W",
# batch 1, bfloat16, prompt of 5 and 200 new tokens: tokens per second by number of GPUs. torch.compile with CUDA
# graphs: fewer launches than our 'compiled', less fusion than our 'fused'. NVLink 3: 300 GB/s in each direction.
# Quality: published by the authors of the software, one machine, no spread stated.
MEASURED = {
    ("llama2_7b", 1): 104.9, ("llama2_7b", 2): 168.84, ("llama2_7b", 4): 254.02, ("llama2_7b", 8): 328.43,
    ("llama2_70b", 2): 21.32, ("llama2_70b", 4): 38.01, ("llama2_70b", 8): 62.50,
}  # fmt: skip


@pytest.mark.parametrize(("name", "tp"), MEASURED)
def test_measured_decoding_lies_in_the_band(name: str, tp: int) -> None:
    spec = f"{name}:decode,kv=100,tp={tp},link=300" if tp > 1 else f"{name}:decode,kv=100"
    modes = ("compiled", "cuda_graphs", "fused")
    compiled, recorded, fused = (run(spec, "a100_sxm4_80gb", execution=mode) for mode in modes)
    measured_s = 1 / MEASURED[name, tp]
    assert recorded.latency_band_s[0] <= measured_s <= recorded.latency_band_s[1]  # what gpt-fast is
    assert fused.latency_band_s[0] <= measured_s <= fused.latency_band_s[1]
    assert fused.latency_s * 0.9 <= measured_s <= compiled.latency_s * 1.1
