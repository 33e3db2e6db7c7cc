"""A server under load: what always holds, over random loads and schedulers."""

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from analysis.serving.request_load import Lengths, Load, closed_load, open_load, read_load
from analysis.serving.simulation import Run, simulate
from analysis.serving.step_costs import StepCosts
from hardware.base.errors import RequestError
from hardware.base.records import exact_value
from hardware.engines.runtime import Scheduler, find_scheduler

TOKENS = np.array([1.0, 64.0, 4096.0])
COSTS = StepCosts(
    tokens=TOKENS,
    linear=np.array([[8e-3, 9e-3, 0.1], [4.0, 5.0, 60.0]]),
    sequences=np.array([1.0, 64.0]),
    decoding=np.array([[[1e-5, 1e-3], [9e-8, 4e-6]], [[1e-3, 1e-1], [9e-6, 9e-4]]]),
    pair=np.array([1e-9, 1e-6]),
    static_w=100.0,
    cache_tokens=20_000.0,
    latency_factors=(0.8, 1.3),
    energy_factors=(0.8, 1.2),
)
VLLM = find_scheduler("vllm", 24e9)
LOADS = st.builds(
    lambda rate, prompt, output, spread: open_load(rate, Lengths(prompt=prompt, output=output, spread=spread)),
    st.floats(0.05, 50),
    st.integers(1, 3000),
    st.integers(1, 200),
    st.sampled_from([0.0, 0.5]),
) | st.builds(
    lambda clients, prompt, output: closed_load(clients, Lengths(prompt=prompt, output=output, spread=0.3)),
    st.integers(1, 40),
    st.integers(1, 3000),
    st.integers(1, 200),
)
SCHEDULERS = st.builds(
    lambda mixes, reserves, finds, sequences, tokens: msgspec.structs.replace(
        VLLM,
        mixes=mixes,
        reserves=reserves,
        finds_evicted=finds,
        max_sequences=sequences,
        max_tokens=tokens,
    ),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(1, 64),
    st.integers(64, 4096),
)


def first_requests(load: Load, count: int) -> Load:
    """Return a load of the first requests, which is simulated in no time."""
    parts = {name: getattr(load, name)[:count] for name in ("arrival_s", "prompt", "cached", "output")}
    return msgspec.structs.replace(load, **parts)


@settings(max_examples=60, deadline=None)
@given(LOADS, SCHEDULERS)
@example(
    closed_load(15, Lengths(prompt=1526, output=6, spread=0.3)),
    msgspec.structs.replace(VLLM, mixes=False, max_sequences=15, max_tokens=64),
)
def test_tokens_time_and_energy_are_conserved(load: Load, scheduler: Scheduler) -> None:
    load = first_requests(load, 60)
    run = simulate(COSTS, scheduler, load)
    assert run.output_tokens == load.output.sum()
    recomputed = run.prompt_tokens - load.prompt.sum()
    if not run.evictions.any():
        assert recomputed == 0
    else:  # a cache that is found whole needs no token of it again
        assert recomputed >= 0 if scheduler.finds_evicted else recomputed > 0
    assert (run.arrival_s <= run.start_s).all()
    assert (run.start_s < run.first_s).all()
    assert (run.first_s <= run.end_s).all()
    assert run.end_s.max() == run.end_of_run_s
    idle_s = run.end_of_run_s - run.busy_s
    assert idle_s >= -1e-9
    assert run.idle_j == pytest.approx(idle_s * COSTS.static_w, abs=1e-6)
    # No token is computed sooner than a step of its own takes, and no step is quicker than one token.
    alone_s, at_once = COSTS.line(1).step(1.0)[0], dict.fromkeys(("intake_s", "chunk_s"), exact_value(0.0))
    computed = simulate(COSTS, msgspec.structs.replace(scheduler, **at_once), load)
    assert ((computed.end_s - computed.first_s) >= (run.output - 1) * alone_s * (1 - 1e-9)).all()
    assert run.busy_s >= run.steps * float(COSTS.linear[0, 0]) * (1 - 1e-9)
    assert (run.others_s >= -1e-9).all()
    assert (run.others_s <= run.end_s - run.first_s + 1e-9).all()


def in_system(run: Run) -> float:
    """Return the mean number of requests between arrival and end, from the events."""
    times = np.concatenate([run.arrival_s, run.end_s])
    steps = np.concatenate([np.ones(len(run.arrival_s)), -np.ones(len(run.end_s))])
    order = np.argsort(times, kind="stable")
    held = np.cumsum(steps[order])[:-1]
    return float((held * np.diff(times[order])).sum() / np.ptp(times))


@settings(max_examples=20, deadline=None)
@given(LOADS)
def test_littles_law_holds(load: Load) -> None:
    run = simulate(COSTS, VLLM, first_requests(load, 60))
    span_s = run.end_s.max() - run.arrival_s.min()
    rate, latency_s = len(run.end_s) / span_s, float((run.end_s - run.arrival_s).mean())
    assert in_system(run) == pytest.approx(rate * latency_s, rel=1e-9)


def test_more_load_is_never_less_latency() -> None:
    lengths = Lengths(prompt=500, output=50)
    waits = [simulate(COSTS, VLLM, open_load(rate, lengths)) for rate in (0.01, 0.1, 1, 3, 10, 30)]
    means = [float((run.end_s - run.arrival_s).mean()) for run in waits]
    assert means == sorted(means)


def test_a_request_alone_takes_its_steps_and_nothing_else() -> None:
    run = simulate(COSTS, VLLM, open_load(1e-4, Lengths(prompt=64, output=3)))
    prefill_s = float(COSTS.mixed(0, 0.0, 64, 64 * 32.0)[0])
    decode_s = COSTS.line(1).run(65.0, 2, np.inf)[1]
    host_s = VLLM.intake_s.value + VLLM.request_s.value + 64 * VLLM.prompt_token_s.value + VLLM.chunk_s.value
    assert run.end_s[0] - run.arrival_s[0] == pytest.approx(host_s + prefill_s + decode_s)
    assert not run.others_s.any()


def test_a_full_cache_evicts_or_waits() -> None:
    lengths = Lengths(prompt=900, output=200)
    evicting = simulate(COSTS, VLLM, closed_load(40, lengths))
    waiting = simulate(COSTS, msgspec.structs.replace(VLLM, reserves=True), closed_load(40, lengths))
    assert evicting.evictions.sum() > 0
    assert waiting.evictions.sum() == 0
    assert waiting.prompt_tokens == closed_load(40, lengths).prompt.sum()


def test_what_nothing_overwrote_of_an_evicted_cache_is_found_again() -> None:
    load = closed_load(40, Lengths(prompt=900, output=200))
    finds, forgets = (
        simulate(COSTS, msgspec.structs.replace(VLLM, finds_evicted=finds), load) for finds in (True, False)
    )
    assert load.prompt.sum() < finds.prompt_tokens < forgets.prompt_tokens
    assert finds.end_of_run_s < forgets.end_of_run_s
    assert finds.output_tokens == forgets.output_tokens


def test_an_evicted_sequence_whose_cache_is_found_whole_decodes_at_once() -> None:
    scheduler = msgspec.structs.replace(VLLM, mixes=False, max_sequences=15, max_tokens=64, forms_ahead=False)
    load = first_requests(closed_load(15, Lengths(prompt=1526, output=6, spread=0.3)), 60)
    run = simulate(COSTS, scheduler, load)
    assert run.evictions.sum() == 1
    assert run.prompt_tokens == load.prompt.sum()


def test_a_cached_prompt_starts_sooner() -> None:
    cold, warm = (simulate(COSTS, VLLM, open_load(0.1, Lengths(prompt=2000, output=5, cached=n))) for n in (0, 1500))
    assert (warm.first_s < cold.first_s).all()
    assert warm.energy_j < cold.energy_j


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\n", "no column arrival_s"),
        ("arrival_s,prompt_tokens,output_tokens\n", "no request"),
        ("arrival_s,prompt_tokens,output_tokens\n1,5,5\n0,5,5\n", "line 3: arrives before"),
        ("arrival_s,prompt_tokens,output_tokens\n-1,5,5\n", "line 2: expected a time of 0 s or more"),
        ("arrival_s,prompt_tokens,output_tokens\nnan,5,5\n", "line 2: expected a time of 0 s or more"),
        ("arrival_s,prompt_tokens,output_tokens\n0,x,5\n", "line 2: expected a time"),
        ("arrival_s,prompt_tokens,output_tokens\n0,5\n", "line 2: expected a time"),
    ],
)
def test_a_wrong_trace_is_one_line(text: str, says: str) -> None:
    with pytest.raises(RequestError, match=says) as error:
        read_load(text, "trace.csv")
    assert "\n" not in str(error.value)


def test_an_api_server_sends_no_more_tokens_than_it_can() -> None:
    slow = msgspec.structs.replace(VLLM, chunk_s=msgspec.structs.replace(VLLM.chunk_s, value=0.01))
    lengths = Lengths(prompt=100, output=50)
    quick_run, slow_run = (simulate(COSTS, each, closed_load(20, lengths)) for each in (VLLM, slow))
    assert quick_run.output_tokens / quick_run.end_of_run_s > 100
    assert slow_run.output_tokens / slow_run.end_of_run_s <= 100
    assert (slow_run.end_s > quick_run.end_s).all()


def test_requests_that_come_at_once_are_read_one_after_another() -> None:
    run = simulate(COSTS, VLLM, closed_load(10, Lengths(prompt=10, output=5)))
    assert np.diff(run.start_s[:10]).min() >= 0
    assert run.start_s[9] >= 10 * VLLM.intake_s.value


def test_a_closed_load_begins_and_ends_in_its_steady_state() -> None:
    clients, lengths = 16, Lengths(prompt=300, output=64)
    load = closed_load(clients, lengths)
    assert (load.prompt + load.cached + load.output)[: 5 * clients].max() == 364
    run = simulate(COSTS, VLLM, load)
    # Ends are as evenly apart in the first answers as in the last: clients do not go on together.
    gaps_s = np.diff(np.sort(run.end_s)[: 5 * clients])
    assert gaps_s.max() < 6 * gaps_s.mean()
    together = simulate(COSTS, VLLM, lengths.draw(np.zeros(6 * clients), clients))
    inner = slice(clients, -clients)
    assert np.median((run.first_s - run.arrival_s)[inner]) < np.median((together.first_s - together.arrival_s)[inner])
    rates = [each.output_tokens / each.end_of_run_s for each in (run, together)]
    assert rates[0] == pytest.approx(rates[1], rel=0.2)
