"""Requests (prefill and decoding together), windows and latent attention: against steps taken one by one."""

import numpy as np
import pytest
from transformer_cases import total, workload

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.figures import serving
from analysis.estimate.scenario import Scenario
from analysis.model.ir.workload import Routing, derived, through_window
from analysis.model.model_errors import ModelSpecError
from analysis.model.transformer import transformer_request
from hardware.device_catalog import load_device
from lab.closed_form import macs

LATENT = "hidden=64,layers=2,heads=4,head_dim=24,value_dim=16,rotary=8,kv_lora=32,q_lora=48,ffn=160,vocab=1000"
SMALL = (
    "decoder:hidden=64,layers=2,heads=4,kv_heads=2,ffn=160,vocab=1000",
    "decoder:hidden=64,layers=4,heads=4,ffn=96,vocab=1000,window=16,full_every=2",
    "decoder:hidden=64,layers=3,heads=4,ffn=96,vocab=1000,experts=8,active=2,dense_layers=1",
    f"decoder:{LATENT}",
)


def run(name: str, on: str = "h100_sxm", batch: int = 1, runtime: str = "auto") -> Estimate:
    return estimate(workload(name), load_device(on), Scenario(batch, "bf16", runtime))


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("batch", [1, 4])
def test_a_request_is_its_prefill_and_its_steps(name: str, batch: int) -> None:
    prompt, output = 24, 9
    request = run(f"{name},in={prompt},out={output}", batch=batch)
    prefill = run(f"{name},sequence={prompt}", batch=batch)
    steps = [run(f"{name},phase=decode,kv={prompt + i}", batch=batch) for i in range(output - 1)]
    for value in ("latency_s", "energy_j"):
        separately = getattr(prefill, value) + sum(getattr(step, value) for step in steps)
        assert getattr(request, value) == pytest.approx(separately, rel=2e-3), value
    counted = prefill.demand.macs.sum() + sum(step.demand.macs.sum() for step in steps)
    assert request.demand.macs.sum() == pytest.approx(counted, rel=1e-9)


@pytest.mark.parametrize("name", ["llama3_8b", "gemma2_2b", "mixtral_8x7b", "deepseek_v2_lite"])
def test_work_of_a_request_in_closed_form(name: str) -> None:
    asked = transformer_request.parse(f"{name}:request,in=300,out=50")
    model = workload(asked.text)
    by_hand = pytest.approx(macs(asked.config, asked.run, 3), rel=1e-3 if "8x7b" in name else 1e-9)
    assert model.total(model.operators.macs, batch=3) == by_hand


def test_the_cache_has_room_for_the_whole_request() -> None:
    config = transformer_request.preset("llama3_8b").config
    per_token = 2 * config.layers * config.kv_heads * config.head_dim * 2
    short, long = run("llama3_8b:request,in=1024,out=2"), run("llama3_8b:request,in=1024,out=1026")
    assert long.memory.peak_bytes - short.memory.peak_bytes == pytest.approx(1024 * per_token, rel=1e-6)


def test_a_step_of_a_request_reads_the_cache_that_is_filled() -> None:
    """Not the room for later tokens: a step takes as long as a single one with the mean number of cached tokens."""
    figures = serving(run("llama3_8b:request,in=128,out=4096", batch=32))
    step = run("llama3_8b:decode,kv=2176", batch=32)
    assert figures is not None
    assert figures.time_per_output_token_s == pytest.approx(step.latency_s, rel=0.02)


def test_a_window_bounds_what_is_seen_and_kept() -> None:
    assert through_window(4, 3, 0) == 2  # 1, 2, 3
    assert through_window(4, 3, 3) == 4  # each sees four
    assert through_window(4, 1, 100) == 4
    near, far = run("mistral_7b:decode,kv=4096"), run("mistral_7b:decode,kv=100000")
    assert near.memory.peak_bytes == far.memory.peak_bytes
    assert near.demand.macs.sum() == far.demand.macs.sum()
    open_, bounded = run("llama3_8b:decode,kv=8192"), run("llama3_8b:decode,window=1024,kv=8192")
    assert bounded.energy_j < open_.energy_j


def test_latent_attention_keeps_one_vector_per_token() -> None:
    config = transformer_request.preset("deepseek_v2_lite").config
    per_token = (config.kv_lora + config.rotary) * config.layers * 2
    few, many = run("deepseek_v2_lite:decode,kv=1000"), run("deepseek_v2_lite:decode,kv=9000")
    assert many.memory.peak_bytes - few.memory.peak_bytes == pytest.approx(8000 * per_token, rel=0.01)


def test_prefill_of_latent_attention_is_the_product_with_expanded_keys() -> None:
    model = workload(f"decoder:{LATENT}")
    sdpa = np.array([path.endswith("sdpa") for path in model.operators.path])
    tokens = 10
    per_layer = 4 * tokens * (tokens + 1) / 2 * (24 + 16)
    assert total(model.operators.macs[sdpa], model, sequence=tokens, kv=0) == 2 * per_layer


def test_experts_that_a_step_touches_are_those_of_its_batch() -> None:
    touched, rows = Routing(8, 2).expert_load(1)
    assert (touched, rows) == pytest.approx((2, 1))
    name = "decoder:hidden=64,layers=1,heads=4,ffn=96,vocab=1000,experts=8,active=2,in=64,out=8"
    model = workload(name)
    assert derived({"batch": 1, "sequence": 64, "output": 8}, (), model.routing)["experts_decoding"] == pytest.approx(2)
    first = [path.endswith("experts.up_proj") for path in model.operators.path].index(True)
    later = (
        len(model.operators.path) - 1 - [p.endswith("experts.up_proj") for p in model.operators.path[::-1]].index(True)
    )
    groups = (model.operators.gemm @ model.value_at(batch=1))[:, 0]
    assert groups[first] == pytest.approx(model.routing.expert_load(64)[0])
    assert groups[later] == pytest.approx(2)


def test_experts_are_spread_over_devices() -> None:
    """Each device holds its experts whole and attends to its sequences; tokens go to the experts and back."""
    whole, spread = run("mixtral_8x7b:decode,kv=512", batch=64), run("mixtral_8x7b:decode,kv=512,ep=8", batch=64)
    config = transformer_request.preset("mixtral_8x7b").config
    experts = 3 * config.layers * config.hidden * config.expert_ffn * 2  # of one, bytes
    assert whole.memory.weight_bytes - spread.memory.weight_bytes == pytest.approx(7 * experts)
    attended = [found.demand.macs[[path.endswith("sdpa") for path in found.workload.operators.path]].sum()
                for found in (whole, spread)]  # fmt: skip
    assert attended[0] == 8 * attended[1] > 0
    kinds = spread.workload.operators.kind
    assert kinds.count("all_to_all") == 2 * config.layers
    assert "all_to_all" not in whole.workload.operators.kind
    assert spread.demand.links is not None
    sent = spread.demand.links[0][[kind == "all_to_all" for kind in kinds]]
    assert sent == pytest.approx(
        8 * 2 * config.hidden * 2 * 7 / 8
    )  # 8 sequences, 2 experts each, all but one elsewhere
    # Were every expert chosen as often: no device would wait for the one with the most tokens.
    rows = spread.demand.gemm[1][[path.endswith("experts.up_proj") for path in spread.workload.operators.path]]
    assert (rows > 64 * 2 / 8).all()
    assert spread.demand.macs.sum() * 8 > whole.demand.macs.sum()


def test_experts_are_spread_over_devices_that_share_the_rest() -> None:
    """As vLLM's expert parallelism: every device has all tokens, a part of each head and projection, whole experts."""
    cut, spread = (run(f"mixtral_8x7b:decode,kv=512,tp=8{how}", batch=64) for how in ("", ",ep=8"))
    assert spread.memory.weight_bytes == pytest.approx(cut.memory.weight_bytes)
    kinds = spread.workload.operators.kind
    assert kinds == cut.workload.operators.kind
    experts = [path.endswith("experts.up_proj") for path in spread.workload.operators.path]
    assert np.array_equal(spread.demand.macs[[path.endswith("sdpa") for path in spread.workload.operators.path]],
                          cut.demand.macs[[path.endswith("sdpa") for path in cut.workload.operators.path]])  # fmt: skip
    # The busiest device reads its expert whole and multiplies more than an eighth of the tokens.
    assert spread.demand.macs[experts].sum() > cut.demand.macs[experts].sum()
    few = [run(f"mixtral_8x7b:decode,kv=512,tp=8{how}", batch=1).latency_s for how in ("", ",ep=8")]
    assert few[1] > few[0]


def test_more_sequences_over_devices_are_never_quicker() -> None:
    times = [run("deepseek_v3:decode,kv=256,layers=4,ep=8", batch=batch).latency_s for batch in range(1, 140, 6)]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("mixtral_8x7b:ep=3", "allowed: 1, 2, 4, 8"),
        ("llama3_8b:ep=2", "allowed: 1"),
        ("mixtral_8x7b:tp=4,ep=2", "allowed: 1, 4"),
    ],
)
def test_experts_are_spread_evenly(name: str, allowed: str) -> None:
    with pytest.raises(ModelSpecError, match=f"evenly; .*{allowed}$"):
        workload(name)


def test_a_request_has_lengths_of_its_own() -> None:
    assert transformer_request.parse("llama3_8b:request").text == "llama3_8b:request"
    assert transformer_request.parse("llama3_8b:in=100,out=50").text == "llama3_8b:request,in=100,out=50"
    with pytest.raises(ModelSpecError, match="in= and out="):
        transformer_request.parse("llama3_8b:request,kv=5")
    with pytest.raises(ModelSpecError, match="no parameter"):
        transformer_request.parse("bert_base:in=5")


def test_what_users_ask_of_a_request() -> None:
    found = run("llama3_8b:request,in=1024,out=256", batch=4)
    figures = serving(found)
    assert figures is not None
    assert (figures.prompt_tokens, figures.output_tokens) == (1024, 256)
    whole = figures.time_to_first_token_s + 255 * figures.time_per_output_token_s
    assert whole == pytest.approx(found.latency_s, rel=1e-9)
    # Alone, a prefill is over when its caches have left for memory; those of a request are what it goes on with.
    eager = serving(run("llama3_8b:request,in=1024,out=256", batch=4, runtime="eager"))
    alone = run("llama3_8b:sequence=1024", batch=4, runtime="eager").latency_s
    assert eager is not None
    assert 0.995 * alone < eager.time_to_first_token_s <= alone
    assert figures.time_to_first_token_s <= run("llama3_8b:sequence=1024", batch=4).latency_s
    assert figures.tokens_per_s * figures.energy_j_per_token == pytest.approx(found.energy_j / found.latency_s)
    for batch, waves in ((figures.largest_batch, 1), (int(figures.largest_batch * 1.1), 2)):
        many = run("llama3_8b:request,in=1024,out=256", batch=batch)
        assert many.fits  # requests that do not fit together wait for those before them
        assert many.waves == waves
    assert serving(run("llama3_8b:decode")) is None
