"""Costs of one step of a server, interpolated between estimates of single steps.

A step holds n sequences that decode, each with a cache, and c tokens of prompts. Its time is a sum of three terms: n +
c tokens through everything but attention, attention of the n sequences to their caches, and attention of the c tokens
to the tokens before them. Each term is interpolated between estimates; energy likewise. Attention is linear in the
length of the caches: with a third length between, no median error of 1,018 published runs changed by 0.5 %.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from analysis.estimate.estimate import Estimate, estimate, evaluate_steps
from analysis.estimate.operator_facts import select_values
from analysis.estimate.peak_memory import Memory, peak_memory
from analysis.estimate.scenario import Scenario
from analysis.model.ir.workload import INPUT, Floats, Workload
from hardware.base import file_access
from hardware.base.records import memoize
from hardware.device import Device
from hardware.engines.runtime import Scheduler

NO_CACHE = 1  # tokens in the cache of a step that counts as a step without attention
SHORT, MEDIUM, LONG = 64, 512, 4096  # tokens of a prompt with negligible attention, of a part, and of one that shows it
_DRAFT = Path(__file__).with_name("speculation.toml")


class StepLine(NamedTuple):
    """The cost of a step of a number of sequences: seconds and joules, and more for each token of their mean cache."""

    first_s: float
    slope_s: float
    first_j: float
    slope_j: float

    def step(self, cached: float) -> tuple[float, float]:
        """Return (time_s, energy_j) of one step."""
        return self.first_s + self.slope_s * cached, self.first_j + self.slope_j * cached

    def run(self, cached: float, most: int, within_s: float) -> tuple[int, float, float]:
        """Return (steps, time_s, energy_j) of steps whose caches grow by a token each: at least one, at most `most`,
        and none that begins after `within_s`."""
        steps, now_s = most, self.first_s + self.slope_s * cached
        if within_s < most * (now_s + self.slope_s * (most - 1) / 2):
            # Steps that grow by `slope_s` each add up to `within_s`.
            half, within_s = now_s - self.slope_s / 2, max(within_s, 0.0)
            within = 2 * within_s / (half + math.sqrt(half * half + 2 * self.slope_s * within_s))
            steps = max(min(most, math.ceil(within)), 1)
        tokens = steps * (cached + (steps - 1) / 2)
        return steps, steps * self.first_s + tokens * self.slope_s, steps * self.first_j + tokens * self.slope_j


class StepCosts(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Figures are (time_s, energy_j) along a first axis of 2.

    `tokens` (t,) and `linear` (2, t): a step of so many tokens without attention. `started` (2, t): the additional cost
    of steps with prompts, whose kernels the host starts one by one. `sequences` (b,) and `decoding` (2, 2, b): the cost
    of a step of so many sequences beyond its tokens (sampling, and the host's work on each sequence), and for each
    token of their mean cache (attention). `pair` (2,): one prompt token that attends to one earlier token. `static_w`
    is drawn between steps. The server holds `cache_tokens` of `token_bytes` each, and the states of `most_sequences`.
    Each sequence takes the memory of `sequence_tokens` tokens in addition to its own. `copies` devices compute
    attention, each for its sequences; all share the experts, which take `expert_token_s` per token.
    """

    tokens: Floats
    linear: Floats
    sequences: Floats
    decoding: Floats
    pair: Floats
    static_w: float
    cache_tokens: float
    latency_factors: tuple[float, float]
    energy_factors: tuple[float, float]
    token_bytes: float = 0.0
    sequence_tokens: float = 0.0
    most_sequences: float = math.inf
    copies: int = 1
    expert_token_s: float = 0.0
    started: Floats | None = None
    prompt_factors: tuple[float, float] = (1.0, 1.0)  # of prompts over links whose rate is not stated

    def mixed(self, sequences: int, cached: float, tokens: int, pairs: float) -> tuple[float, float]:
        """Return (time_s, energy_j) of a step that also holds `tokens` of prompts, which attend to `pairs` earlier
        tokens in total."""
        time_s, energy_j = self.without_attention(sequences + tokens, True)
        if sequences:
            with_s, with_j = self.line(sequences).step(cached)
            without_s, without_j = self.without_attention(sequences)
            time_s, energy_j = time_s + with_s - without_s, energy_j + with_j - without_j
        return time_s + float(self.pair[0]) * pairs, energy_j + float(self.pair[1]) * pairs

    def uneven(self, sequences: int, cached: float, tokens: list[int], pairs: list[float]) -> tuple[float, float]:
        """Return (time_s, energy_j) of a step whose copies of attention hold `tokens` (copies,) of prompts with
        `pairs`. The busiest copy sets the time of all parts but the experts; the others wait."""
        total = sum(tokens)
        time_s, energy_j = self.mixed(sequences, cached, total, sum(pairs))
        if len(tokens) == 1:
            return time_s, energy_j
        highest = self.copies * max(tokens)
        busiest_s = self.mixed(sequences, cached, highest, self.copies * max(pairs))[0]
        waits_s = max(busiest_s - self.expert_token_s * (highest - total) - time_s, 0.0)
        return time_s + waits_s, energy_j + waits_s * self.static_w

    @memoize()
    def without_attention(self, tokens: int, has_prompts: bool = False) -> tuple[float, float]:
        """Return (time_s, energy_j) of a step of so many tokens without attention."""
        values = self.linear if self.started is None or not has_prompts else self.linear + self.started
        time_s, energy_j = _along(self.tokens, values, tokens).tolist()
        return time_s, energy_j

    def host_seconds(self, tokens: int) -> tuple[float, float]:
        """Return the seconds in which the host starts the kernels of a step with prompts, the same for any number of
        tokens, and those of a step of so many in which the device waits for it."""
        waits_s = self.without_attention(tokens, True)[0] - self.without_attention(tokens)[0]
        return self.without_attention(SHORT, True)[0], waits_s

    @memoize()
    def line(self, sequences: int) -> StepLine:
        """Return the costs of steps of so many sequences over the length of their caches."""
        (first_s, slope_s), (first_j, slope_j) = _along(self.sequences, self.decoding, sequences).tolist()
        time_s, energy_j = self.without_attention(sequences)
        return StepLine(time_s + first_s, slope_s, energy_j + first_j, slope_j)


def _along(grid: Floats, values: Floats, at: float) -> Floats:
    """Interpolate `values` (..., g) along their last axis. Extrapolate along the last piece."""
    if len(grid) == 1:
        return np.asarray(values[..., 0])
    i = min(max(int(np.searchsorted(grid, at)) - 1, 0), len(grid) - 2)
    part = (at - grid[i]) / (grid[i + 1] - grid[i])
    return np.asarray(values[..., i] + (values[..., i + 1] - values[..., i]) * part)


class StepModel(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of a model on devices that share it: workloads of prefill and of decoding."""

    prefill: Workload
    decode: Workload
    device: Device
    scenario: Scenario

    def estimate(self, cached: int, tokens: int = 1) -> Estimate:
        """Return the estimate of a step of one sequence that attends to so many tokens, or of a prompt of `tokens`."""
        scenario = msgspec.structs.replace(self.scenario, sequence=tokens, kv=cached)
        return estimate(self.decode if tokens == 1 else self.prefill, self.device, scenario)

    def memory(self, step: Workload) -> Memory:
        """Return the peak memory of a step of one sequence."""
        setup = self.scenario.setup_on(self.device, step)
        return peak_memory(step, 1, setup.plan.widths, setup.joins)

    @property
    def state_bytes(self) -> float:
        """The bytes that each sequence takes on a device at any length: the states of recurrent layers."""
        tensors, widths = self.decode.tensors, self.scenario.setup_on(self.device, self.decode).plan.widths
        is_state = (tensors.role == INPUT) & [kind.startswith("float") for kind in tensors.dtype]
        states = select_values(self.decode, is_state)
        return float(states.size_bytes(self.decode.value_at(batch=1, sequence=1, kv=0), widths).sum())

    def decoding(self, sequences: Sequence[int], cached: Sequence[int]) -> Floats:
        """Return (time_s, energy_j) of steps of so many sequences with caches of these lengths, (2, k, b)."""
        steps = [self.decode.bound(sequence=1, kv=length) for length in cached]
        return evaluate_steps(steps, sequences, self.device, self.scenario)

    def prompts(self, batches: Sequence[int], tokens: int, is_recorded: bool = False) -> Floats:
        """Return (time_s, energy_j) of batches of prompts of so many tokens, (2, 1, b). With `is_recorded` those of
        prompts held by graphs come first, (4, 1, b)."""
        step = self.prefill.bound(sequence=tokens, kv=0)
        return evaluate_steps([step], batches, self.device, self.scenario, is_recorded)


def step_costs(steps: StepModel, first: Estimate, longest: int, scheduler: Scheduler) -> StepCosts:
    """Return the costs of the steps that a scheduler forms, for caches up to `longest` tokens. `first` is the estimate
    of a step of one sequence without a cache."""
    sequences = _doubling(scheduler.max_sequences)
    batches = _doubling(max(scheduler.max_tokens // SHORT, 1))
    # The host's work on each sequence does not count as work on tokens. The device draws static power meanwhile.
    static_w = first.static_fraction * first.energy_j / first.latency_s
    of_sequence = first.runtime.sequence_s.value * np.array([[1.0], [static_w]])
    copies = steps.decode.attention_copies  # each has its share of the sequences and of all caches
    knots = (max(longest // 2, NO_CACHE), max(longest, NO_CACHE + 1))
    halfway, longest_each = steps.decoding(sequences, knots).swapaxes(0, 1)
    prompt = steps.prompts(sorted({1, copies}), MEDIUM)
    small = [n for n in sequences if n < SHORT]
    tokens = np.array([*small, *(SHORT * n for n in batches)], dtype=np.float64)
    is_recorded = bool(first.runtime.prompt_dispatch.value)
    prompts = steps.prompts(batches, SHORT, is_recorded)[:, 0]
    long = steps.prompts([copies], LONG, is_recorded)[:2, 0] - of_sequence * copies
    recorded, prompts = prompts[:2], prompts[-2:]
    linear = np.concatenate([steps.decoding(small, [NO_CACHE])[:, 0], recorded], axis=1)
    started = np.maximum(prompts - recorded, 0.0)
    started = np.concatenate([np.repeat(started[:, :1], len(small), axis=1), started], axis=1)
    linear = linear - of_sequence * [*small, *batches]
    pair = np.maximum(long[:, 0] - _along(tokens, linear, copies * LONG), 0.0) / (copies * LONG * (LONG - SHORT) / 2)
    linear[:, len(small) :] -= pair[:, None] * tokens[len(small) :] * SHORT / 2
    linear = np.maximum.accumulate(linear, axis=1)
    slope = np.maximum(longest_each - halfway, 0.0) / (knots[1] - knots[0])
    base = np.stack([_along(tokens, linear, n) for n in sequences], axis=1)
    decoding = np.stack([np.maximum(halfway - slope * knots[0] - base, 0.0), slope], axis=1)
    full_bytes = steps.memory(steps.decode.bound(sequence=1, kv=knots[1])).peak_bytes
    token_bytes, state_bytes = (full_bytes - first.peak_memory_bytes) / (knots[1] - NO_CACHE), steps.state_bytes
    room = first.device.memory_bytes * scheduler.memory_share - first.memory.weight_bytes
    if not scheduler.activations_apart:
        of_prompt = steps.memory(steps.prefill.bound(sequence=MEDIUM, kv=0)).activation_peak_bytes
        room = max(room - of_prompt * (scheduler.max_tokens // copies) / MEDIUM, 0.0)
    return StepCosts(
        tokens=tokens,
        linear=linear,
        started=started if started.any() else None,
        sequences=np.array(sequences, dtype=np.float64),
        decoding=np.maximum.accumulate(decoding, axis=2),
        pair=pair,
        copies=copies,
        expert_token_s=float(prompt[0, 0, -1] - prompt[0, 0, 0]) / (MEDIUM * max(copies - 1, 1)),
        static_w=static_w,
        cache_tokens=copies * max(room / token_bytes, 0.0) if token_bytes > 0 else np.inf,
        token_bytes=token_bytes,
        sequence_tokens=state_bytes / token_bytes if token_bytes > 0 else 0.0,
        most_sequences=copies * max(int(room / state_bytes), 1) if state_bytes > 0 else math.inf,
        latency_factors=(first.latency_band_s[0] / first.latency_s, first.latency_band_s[1] / first.latency_s),
        prompt_factors=steps.estimate(0, MEDIUM).trust.band if first.has_open_links else (1.0, 1.0),
        energy_factors=(first.energy_band_j[0] / first.energy_j, first.energy_band_j[1] / first.energy_j),
    )


def tokens_per_step(drafts: int, accept: float) -> float:
    """Return the tokens of a sequence that a step gives: proposals up to the first that is rejected, and one more.
    `accept` is the probability that a proposal is accepted if those before it are."""
    return sum(accept**kept for kept in range(drafts + 1))


def speculate(costs: StepCosts, drafts: int, accept: float) -> StepCosts:
    """Return the costs of a token if steps check `drafts` proposals of a cheap draft for each sequence, in addition to
    its next token. The cache is read once for all of them."""
    if not drafts:
        return costs
    draft, tokens = file_access.shipped(_DRAFT)["draft"]["value"], tokens_per_step(drafts, accept)
    base, checked = (
        np.array([costs.without_attention(int(n) * times) for n in costs.sequences]).T for times in (1, drafts + 1)
    )
    decoding = costs.decoding * (1.0 + drafts * draft) / tokens
    decoding[:, 0] += (checked + drafts * draft * base) / tokens - base
    return msgspec.structs.replace(costs, decoding=decoding)


def _doubling(most: int) -> list[int]:
    return sorted({min(2**power, most) for power in range(most.bit_length() + 1)})
