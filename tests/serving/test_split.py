"""Prefill and decode on separate workers, and speculative decoding: conservation, limits, and who gains."""

import msgspec
import numpy as np
import pytest

from analysis.serving.request_load import Lengths, Load, closed_load, open_load
from analysis.serving.simulation import Run, simulate, simulate_split
from analysis.serving.step_costs import speculate, tokens_per_step
from hardware.engines.runtime import Scheduler
from tests.serving.test_simulation import COSTS, VLLM

LENGTHS = Lengths(prompt=500, output=40, spread=0.4)


def serve_apart(load: Load, workers: tuple[int, int] = (1, 2), scheduler: Scheduler = VLLM, hop_s: float = 1e-3) -> Run:
    prefill, decode = ([COSTS] * count for count in workers)
    return simulate_split(prefill, decode, lambda tokens: hop_s + 1e-6 * tokens, scheduler, load)


@pytest.mark.parametrize("load", [open_load(8, LENGTHS), closed_load(12, LENGTHS)], ids=["open", "closed"])
@pytest.mark.parametrize("workers", [(1, 1), (1, 3), (2, 1), (3, 4)])
def test_every_request_gets_its_tokens_in_order(workers: tuple[int, int], load: Load) -> None:
    run = serve_apart(load, workers)
    assert run.output_tokens == run.output.sum()
    assert (run.arrival_s < run.first_s).all()
    assert (run.first_s < run.end_s).all()
    assert run.evictions.any() or run.prompt_tokens == load.prompt.sum()
    assert run.busy_s <= sum(workers) * run.end_of_run_s
    idle_s = sum(workers) * run.end_of_run_s - run.busy_s
    assert run.idle_j == pytest.approx(idle_s * COSTS.static_w)
    assert serve_apart(load, workers).end_s.tolist() == run.end_s.tolist()


def test_decoding_apart_waits_for_no_prompt_but_for_the_cache() -> None:
    load = open_load(5, Lengths(prompt=1500, output=60))
    together, apart = simulate(COSTS, VLLM, load), serve_apart(load)
    assert together.others_s.max() > 0
    assert not apart.others_s.any()
    far = serve_apart(load, hop_s=0.5)
    assert (far.first_s - apart.first_s).mean() == pytest.approx(0.5, rel=0.2)
    assert (far.end_s - apart.end_s).mean() == pytest.approx(0.5, rel=0.2)


def test_one_request_alone_takes_its_steps_the_hop_and_a_second_server() -> None:
    load = open_load(1e-3, Lengths(prompt=64, output=3))
    together, apart = simulate(COSTS, VLLM, load), serve_apart(load)
    hop_s = 1e-3 + 64e-6 + VLLM.request_s.value
    assert apart.first_s[0] - together.first_s[0] == pytest.approx(hop_s)
    assert apart.end_s[0] - together.end_s[0] == pytest.approx(hop_s)


def test_a_full_decoder_delays_the_first_token() -> None:
    load = closed_load(12, LENGTHS)
    small = msgspec.structs.replace(VLLM, max_sequences=2)
    wide, narrow = (serve_apart(load, scheduler=scheduler) for scheduler in (VLLM, small))
    assert np.median(narrow.first_s - narrow.start_s) > 2 * np.median(wide.first_s - wide.start_s)


@pytest.mark.parametrize(("drafts", "accept", "tokens"), [(0, 0.9, 1.0), (4, 0.0, 1.0), (4, 1.0, 5.0), (2, 0.5, 1.75)])
def test_tokens_of_a_step_with_proposals(drafts: int, accept: float, tokens: float) -> None:
    assert tokens_per_step(drafts, accept) == tokens


def test_proposals_that_are_kept_save_time_and_others_cost_it() -> None:
    load = closed_load(2, Lengths(prompt=100, output=60))
    plain, kept, lost = (
        simulate(costs, VLLM, load) for costs in (COSTS, speculate(COSTS, 3, 0.8), speculate(COSTS, 3, 0.0))
    )
    assert kept.end_of_run_s < plain.end_of_run_s < lost.end_of_run_s
    assert kept.output_tokens == plain.output_tokens
    none = speculate(COSTS, 0, 0.7)
    for cached in (5.0, 700.0):
        assert none.line(3).step(cached) == pytest.approx(COSTS.line(3).step(cached))
