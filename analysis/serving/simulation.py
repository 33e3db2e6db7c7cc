"""A server under a load, step by step: who waits, who is in a step, when each request gets its tokens.

Steps between two events (an arrival that can start, an end, a full cache) hold the same sequences, whose caches grow by
a token a step, so they are evaluated at once.
"""

from __future__ import annotations

import heapq
from collections import deque

import msgspec
import numpy as np

from analysis.model.ir.workload import Floats
from analysis.serving.request_load import Counts, Load
from analysis.serving.scheduler import Scheduler
from analysis.serving.step_costs import StepCosts

MOST_STEPS = 4096  # that are evaluated at once


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run says of each request, shape (n,), when it arrived, started (its first token of the prompt went in), had
    its first token and ended, in seconds; `others_s` is how much longer its decode steps took because they held prompts
    of others; `evictions` how often its cache was thrown away. And what the server did: seconds in steps, joules of
    steps and between them, sequences x seconds, tokens that went through it."""

    arrival_s: Floats
    start_s: Floats
    first_s: Floats
    end_s: Floats
    others_s: Floats
    evictions: Counts
    output: Counts
    end_of_run_s: float
    busy_s: float
    step_j: float
    idle_j: float
    sequence_seconds: float
    steps: int
    prompt_tokens: int
    output_tokens: int

    @property
    def energy_j(self) -> float:
        """Joules of the run, idle time included."""
        return self.step_j + self.idle_j


class _Server:
    """The state of a run. A request is an index into the load."""

    def __init__(self, costs: StepCosts, scheduler: Scheduler, load: Load) -> None:
        n = load.requests
        self.costs, self.scheduler, self.load = costs, scheduler, load
        self.now = self.busy_s = self.step_j = self.idle_j = self.sequence_seconds = self.others_s = 0.0
        self.steps = self.prompt_tokens = self.output_tokens = 0
        self.arrival_s = load.arrival_s.astype(np.float64)
        self.start_s, self.first_s, self.end_s = (np.full(n, np.nan) for _ in range(3))
        self.others_until_first, self.others = np.zeros(n), np.zeros(n)
        self.evictions = np.zeros(n, dtype=np.int64)
        self.prompt_left = load.prompt.astype(np.int64)  # tokens that must go in before the next token comes out
        self.output_left = load.output.astype(np.int64)
        self.in_cache = np.zeros(n, dtype=np.int64)
        self.waiting: deque[int] = deque()
        self.prefilling: deque[int] = deque()
        self.decoding: list[int] = []
        self.cache_used = 0
        # Requests on their way: the moment at which the API server has them ready, and their number.
        self.coming: list[tuple[float, int]] = []
        self.sent = load.concurrency or n
        for request in range(min(self.sent, n)):
            self._send(request, float(self.arrival_s[request]))

    def run(self) -> None:
        """Serve all requests."""
        while self.waiting or self.prefilling or self.decoding or self.coming:
            while self.coming and self.coming[0][0] <= self.now:
                self.waiting.append(heapq.heappop(self.coming)[1])
            self._admit()
            if self.prefilling:
                self._step_with_prompts()
            elif self.decoding:
                self._decode_steps()
            else:
                self._idle_until(self.coming[0][0])

    def _send(self, request: int, time_s: float) -> None:
        self.arrival_s[request] = time_s
        prompt = float(self.load.prompt[request] + self.load.cached[request])
        ready_s = time_s + self.scheduler.request_s.value + self.scheduler.prompt_token_s.value * prompt
        heapq.heappush(self.coming, (ready_s, request))

    def _needs(self, request: int) -> int:
        """Return the tokens of cache that a request needs to start."""
        prompt = int(self.load.cached[request] + self.prompt_left[request])
        return prompt + (int(self.output_left[request]) if self.scheduler.reserves else 1)

    def _reserved(self) -> int:
        if not self.scheduler.reserves:
            return self.cache_used + sum(int(self.prompt_left[r]) for r in self.prefilling)
        running = (*self.decoding, *self.prefilling)
        return sum(int(self.in_cache[r] + self.prompt_left[r] + self.output_left[r]) for r in running)

    def _admit(self) -> None:
        reserved = self._reserved() if self.waiting else 0
        while self.waiting and len(self.decoding) + len(self.prefilling) < self.scheduler.max_sequences:
            request = self.waiting[0]
            needed = self._needs(request)
            is_alone = not self.decoding and not self.prefilling
            if reserved + needed > self.costs.cache_tokens and not is_alone:
                return
            self.waiting.popleft()
            self.prefilling.append(request)
            self.in_cache[request] = self.load.cached[request]
            self.cache_used += int(self.load.cached[request])
            reserved += needed
            if np.isnan(self.start_s[request]):
                self.start_s[request] = self.now

    def _idle_until(self, time_s: float) -> None:
        self.idle_j += (time_s - self.now) * self.costs.static_w
        self.now = time_s

    def _spend(self, time_s: float, energy_j: float, sequences: int, steps: int) -> None:
        self.now += time_s
        self.busy_s += time_s
        self.step_j += energy_j
        self.sequence_seconds += time_s * sequences
        self.steps += steps

    def _step_with_prompts(self) -> None:
        """Run one step that holds pieces of prompts, and the decoding sequences where the scheduler mixes them."""
        decoding = list(self.decoding) if self.scheduler.mixes else []
        room = max(self.scheduler.max_tokens - len(decoding), 1)
        pieces, pairs = [], 0.0
        for request in self.prefilling:
            piece = min(int(self.prompt_left[request]), room)
            if piece == 0:
                break
            pieces.append((request, piece))
            pairs += piece * (float(self.in_cache[request]) + piece / 2)
            room -= piece
        tokens = sum(piece for _, piece in pieces)
        mean = self._mean_cache(decoding)
        cost = self.costs.mixed(len(decoding), mean, tokens, pairs)
        held = len(self.decoding)
        alone_s = float(self.costs.decode(held, np.array([self._mean_cache(self.decoding)]))[0, 0]) if held else 0.0
        self._spend(float(cost[0]), float(cost[1]), len(decoding) + len(pieces), 1)
        # Sequences that decode wait for the prompts of others: the whole step where it holds none of their tokens.
        self.others_s += float(cost[0]) - (alone_s if decoding else 0.0) if held else 0.0
        self.prompt_tokens += tokens
        for request, piece in pieces:
            self.prompt_left[request] -= piece
            self.in_cache[request] += piece
            self.cache_used += piece
        self._give_tokens(decoding, 1)
        while self.prefilling and self.prompt_left[self.prefilling[0]] == 0:
            request = self.prefilling.popleft()
            self.decoding.append(request)
            if np.isnan(self.first_s[request]):
                self.first_s[request] = self.now
                self.others_until_first[request] = self.others_s
            self._give_tokens([request], 1)
        self._evict()

    def _mean_cache(self, requests: list[int]) -> float:
        return float(self.in_cache[requests].mean()) if requests else 0.0

    def _decode_steps(self) -> None:
        """Run the steps until a request ends, one that can start arrives, or the cache is full."""
        decoding = list(self.decoding)
        n = len(decoding)
        most = min(int(self.output_left[decoding].min()), MOST_STEPS)
        if np.isfinite(self.costs.cache_tokens):
            most = min(most, max(int((self.costs.cache_tokens - self.cache_used) // n), 1))
        figures = self.costs.decode(n, self._mean_cache(decoding) + np.arange(most, dtype=np.float64))
        ends = np.cumsum(figures[0])
        if self.coming:
            most = min(most, int(np.searchsorted(ends, self.coming[0][0] - self.now)) + 1)
        self._spend(float(ends[most - 1]), float(figures[1, :most].sum()), n, most)
        self._give_tokens(decoding, most)
        self._evict()

    def _give_tokens(self, requests: list[int], tokens: int) -> None:
        """Each request gets tokens, which its cache keeps; those with all of them end."""
        if not requests:
            return
        self.output_left[requests] -= tokens
        self.in_cache[requests] += tokens
        self.cache_used += tokens * len(requests)
        self.output_tokens += tokens * len(requests)
        for request in [request for request in requests if self.output_left[request] == 0]:
            self.decoding.remove(request)
            self.cache_used -= int(self.in_cache[request])
            self.end_s[request] = self.now
            self.others[request] = self.others_s - self.others_until_first[request]
            if self.sent < self.load.requests:  # a client of a closed load sends its next one
                self._send(self.sent, self.now)
                self.sent += 1

    def _evict(self) -> None:
        """Throw away the cache of the newest sequences while the next step does not fit."""
        while len(self.decoding) > 1 and self.cache_used + len(self.decoding) > self.costs.cache_tokens:
            request = self.decoding.pop()
            self.cache_used -= int(self.in_cache[request])
            self.prompt_left[request] = int(self.in_cache[request] - self.load.cached[request])
            self.in_cache[request] = 0
            self.evictions[request] += 1
            self.waiting.appendleft(request)


def simulate(costs: StepCosts, scheduler: Scheduler, load: Load) -> Run:
    """Serve a load. Deterministic. A request that the cache cannot hold alone is served all the same."""
    server = _Server(costs, scheduler, load)
    server.run()
    return Run(
        arrival_s=server.arrival_s,
        start_s=server.start_s,
        first_s=server.first_s,
        end_s=server.end_s,
        others_s=server.others,
        evictions=server.evictions,
        output=load.output,
        end_of_run_s=server.now,
        busy_s=server.busy_s,
        step_j=server.step_j,
        idle_j=server.idle_j,
        sequence_seconds=server.sequence_seconds,
        steps=server.steps,
        prompt_tokens=server.prompt_tokens,
        output_tokens=server.output_tokens,
    )
