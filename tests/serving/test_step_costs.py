"""What a step costs: equal layers written once, many steps at once, and what a sequence holds."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.estimate.estimate import estimate, evaluate_steps
from analysis.estimate.scenario import Scenario
from analysis.model.transformer import transformer_request
from analysis.model.transformer.config import Config, StepSettings
from analysis.model.transformer.transformer_request import parse
from analysis.model.transformer.transformer_workload import build, layer_times
from analysis.serving.deployment import open_step
from analysis.serving.request_load import Lengths, closed_load
from analysis.serving.simulation import simulate
from analysis.serving.step_costs import StepLine, StepModel, step_costs
from hardware.device_catalog import load_device
from hardware.engines.runtime import find_scheduler


@pytest.mark.parametrize(
    ("model", "device"),
    [
        ("llama3_8b:decode,tp=4", "h100_sxm"),
        ("gpt_oss_120b:decode,ep=8", "mi300x"),
        ("gemma3_27b", "tpu_v5e"),
        ("deepseek_v3:decode,tp=8,ep=8", "b200"),
        ("opt_1_3b:decode", "epyc_9654"),
    ],
)
def test_merged_layers_cost_what_all_layers_cost(model: str, device: str) -> None:
    request = parse(model)
    on, scenario = load_device(device), Scenario(precision="bf16")
    lengths = [{"sequence": 1, "kv": kv} if "decode" in model else {"sequence": 64, "kv": kv - 1} for kv in (1, 3000)]
    whole, merged = build(request.text, request.config, request.run), open_step(model)
    assert merged.n_operators * 3 < whole.n_operators
    figures = evaluate_steps([merged.bound(**each) for each in lengths], [1, 32], on, scenario)
    for place, each in enumerate(lengths):
        for column, batch in enumerate((1, 32)):
            at = msgspec.structs.replace(scenario, batch=batch)
            alone, joint = (estimate(workload.bound(**each), on, at) for workload in (whole, merged))
            assert joint.latency_s == pytest.approx(alone.latency_s, rel=1e-12)
            assert joint.memory.weight_bytes == pytest.approx(alone.memory.weight_bytes, rel=1e-12)
            assert figures[:, place, column] == pytest.approx([alone.latency_s, alone.energy_j], rel=1e-12)


def test_layers_that_are_written_stand_for_all_layers_of_every_model() -> None:
    for name in transformer_request.preset_names():
        config = parse(name).config
        times = layer_times(config)
        assert sum(times.values()) == config.layers, name
        has_period = len(config.pattern) < config.layers
        assert len(times) <= (20 if has_period else config.layers), name


def steps_of(pattern: str) -> StepModel:
    sizes = {"hidden": 1024, "layers": 8, "heads": 16, "ffn": 2816, "vocab": 32_000}
    states = {"mixer": "mamba2", "state_heads": 32, "state_keys": 64, "state_values": 64}
    config = Config(**sizes, **states, pattern=pattern)
    prefill, decode = (
        build("net", config, StepSettings(phase=phase, sequence=1, kv=1), is_merged=True)
        for phase in ("prefill", "decode")
    )
    return StepModel(prefill=prefill, decode=decode, device=load_device("l4"), scenario=Scenario(precision="bf16"))


def test_states_of_recurrent_layers_limit_the_sequences() -> None:
    scheduler = find_scheduler("vllm", 24e9)
    costs = {}
    for pattern in ("a", "ra", "r"):
        steps = steps_of(pattern)
        costs[pattern] = step_costs(steps, steps.estimate(1), 4096, scheduler)
    assert steps_of("a").state_bytes == 0
    assert steps_of("r").state_bytes == pytest.approx(2 * steps_of("ra").state_bytes)
    assert steps_of("r").state_bytes > 8 * 32 * 64 * 64
    assert np.isinf(costs["r"].cache_tokens)
    room = costs["r"].most_sequences * steps_of("r").state_bytes
    assert 0.5 * 24e9 < room < 24e9
    # A sequence of a hybrid takes its state beside its tokens: fewer fit than tokens alone would let in.
    assert costs["a"].sequence_tokens == 0
    load = closed_load(4, Lengths(prompt=100, output=100))
    full = msgspec.structs.replace(costs["ra"], cache_tokens=1.5 * (costs["ra"].sequence_tokens + 200))
    stateless = msgspec.structs.replace(full, sequence_tokens=0.0)
    assert simulate(full, scheduler, load).end_of_run_s > simulate(stateless, scheduler, load).end_of_run_s


def test_a_scheduler_that_looks_ahead_takes_requests_a_step_later() -> None:
    scheduler = find_scheduler("sglang", 24e9)
    assert scheduler.forms_ahead
    steps = steps_of("a")
    costs = step_costs(steps, steps.estimate(1), 4096, scheduler)
    load = Lengths(prompt=500, output=50).draw(np.linspace(0, 0.2, 20))
    ahead, behind = (
        simulate(costs, msgspec.structs.replace(scheduler, forms_ahead=forms_ahead), load)
        for forms_ahead in (True, False)
    )
    assert (ahead.start_s - ahead.arrival_s).mean() > (behind.start_s - behind.arrival_s).mean()
    assert ahead.output_tokens == behind.output_tokens


def test_the_host_starts_the_kernels_of_prompts_alone() -> None:
    """Steps that decode are recorded as graphs, however many sequences they hold; those with prompts are not."""
    prefill, decode = (open_step(f"gpt_oss_120b:{phase},tp=8") for phase in ("prefill", "decode"))
    scenario = Scenario(precision="bf16", execution="vllm")
    steps = StepModel(prefill=prefill, decode=decode, device=load_device("h200_sxm"), scenario=scenario)
    costs = step_costs(steps, steps.estimate(1), 4096, find_scheduler("vllm", 141e9))
    added_s = costs.without_attention(600, True)[0] - costs.without_attention(600)[0]
    assert 1e-3 < added_s < 60e-3
    assert costs.host_seconds(600) == (costs.without_attention(64, True)[0], added_s)
    scheduler, load = find_scheduler("vllm", 141e9), Lengths(prompt=500, output=50).draw(np.linspace(0, 1, 20))
    runs = (simulate(costs, msgspec.structs.replace(scheduler, forms_ahead=ahead), load) for ahead in (True, False))
    ahead, behind = (run.others_s.sum() for run in runs)
    assert ahead < 0.9 * behind  # a host that forms steps ahead starts kernels of prompts during the last step
    assert costs.mixed(0, 0.0, 600, 0.0)[0] == costs.without_attention(600, True)[0]
    assert costs.line(256).step(1.0)[0] == pytest.approx(steps.decoding([256], [1])[0, 0, 0], rel=0.1)


def test_devices_that_attend_to_their_sequences_hold_caches_and_prompts_of_their_own() -> None:
    scheduler = find_scheduler("vllm", 141e9)
    phases = {phase: open_step(f"deepseek_v3:{phase},ep=8") for phase in ("prefill", "decode")}
    steps = StepModel(**phases, device=load_device("h200_sxm"), scenario=Scenario(precision="fp8"))
    eight = step_costs(steps, steps.estimate(1), 4096, scheduler.of_copies(8))
    room = 0.9 * 141e9 - steps.estimate(1).memory.weight_bytes
    assert eight.copies == 8
    assert eight.cache_tokens > 4 * room / eight.token_bytes
    spread, lone = (eight.uneven(0, 0.0, tokens, [0.0] * 8) for tokens in ([512] * 8, [4096] + [0] * 7))
    assert spread == eight.mixed(0, 0.0, 4096, 0.0)
    assert lone[0] > 1.5 * spread[0]
    assert lone[1] > spread[1]


def test_limits_of_a_step_are_those_of_each_device() -> None:
    vllm = find_scheduler("vllm", 141e9)
    assert vllm.of_copies(8).max_tokens == 8 * vllm.max_tokens
    assert [find_scheduler("sglang", size * 2.0**30).max_tokens for size in (24, 80, 180)] == [2048, 8192, 16384]


def test_devices_with_all_tokens_gather_those_of_their_experts_alone() -> None:
    moved = {}
    for layout in ("tp=8", "tp=8,ep=8"):
        workload = open_step(f"deepseek_v3:{layout}")
        place = next(t for t, name in enumerate(workload.tensors.name) if name.endswith("mlp.dispatch"))
        moved[layout] = float(workload.tensors.numel[place] @ workload.value_at(batch=1, sequence=4096, kv=0))
    assert moved["tp=8"] / 8 < moved["tp=8,ep=8"] < moved["tp=8"] / 3


@given(st.floats(1e-4, 1.0), st.floats(1e-9, 1e-3), st.integers(0, 100_000), st.integers(1, 60), st.floats(0.0, 1.2))
def test_steps_at_once_are_those_one_by_one(
    first_s: float, slope_s: float, cached: int, most: int, part: float
) -> None:
    """As many as begin in time, with the time and energy of each."""
    line = StepLine(first_s, slope_s, 2.0, 1e-3)
    times_s, energies_j = zip(*(line.step(cached + place) for place in range(most)), strict=True)
    within_s = part * sum(times_s)
    steps, time_s, energy_j = line.run(cached, most, within_s)
    assert time_s == pytest.approx(sum(times_s[:steps]))
    assert energy_j == pytest.approx(sum(energies_j[:steps]))
    assert steps == 1 or sum(times_s[: steps - 1]) <= within_s * (1 + 1e-9)
    assert steps == most or sum(times_s[:steps]) >= within_s * (1 - 1e-9)
