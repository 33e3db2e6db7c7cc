"""Prefill and decode on separate workers: one group processes prompts and sends the caches over a link to the other."""

from __future__ import annotations

import heapq
import math

import msgspec

from analysis.serving.request_load import Load
from analysis.serving.scheduler import Scheduler
from analysis.serving.simulation import BatchEngine, Requests, Run, make_run
from analysis.serving.step_costs import StepCosts


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """The workers that prefill and the workers that decode, each kind with its costs. To move from one to the other, a
    cache takes `hop_s`, plus `token_hop_s` per token."""

    prefill: StepCosts
    decode: StepCosts
    prefill_workers: int
    decode_workers: int
    hop_s: float
    token_hop_s: float


class _Decoder(BatchEngine):
    """An engine that receives requests with the caches of their prompts."""

    def __init__(self, costs: StepCosts, requests: Requests) -> None:
        super().__init__(costs, requests)
        self.coming = []

    @property
    def requests_held(self) -> int:
        """The number of requests that it has or that are on their way to it."""
        return len(self.coming) + len(self.waiting) + len(self.decoding) + len(self.prefilling)

    @property
    def next_end_s(self) -> float:
        """The earliest time at which a request can end."""
        if not self.decoding:
            return self.next_s
        step_s = self.costs.line(len(self.decoding)).step(self.decode_cache / len(self.decoding))[0]
        return self.now + (self.ends[0][0] - self.ticks) * step_s

    def _begin(self, request: int, left: int) -> None:
        if request in self.evicted:  # its cache is lost, so its prompt is computed here
            super()._begin(request, left)
            return
        self.cache_used += left + 1
        self.reserved += not self.scheduler.reserves
        self.requests.first_s[request] = max(self.now, self.outlet_s)
        self.others_until_first_s[request] = self.others_s
        self._decode(request, self.requests.output[request] - 1)


class _Prefiller(BatchEngine):
    """An engine that computes the first token of each request, and passes it to the decoder with the fewest requests,
    which sends the token to the client."""

    def __init__(self, split: Split, requests: Requests, scheduler: Scheduler, decoders: list[_Decoder]) -> None:
        super().__init__(split.prefill, requests)
        self.scheduler = scheduler
        self.split, self.decoders = split, decoders

    def _takes_more(self) -> bool:
        held = sum(self.requests.prompt[request] for request in (*self.waiting, *self.prefilling))
        return held < self.scheduler.max_tokens

    def _finish_prompt(self, request: int) -> None:
        requests, tokens = self.requests, self.requests.prompt[request] + self.requests.cached[request]
        self.cache_used -= tokens + self.costs.sequence_tokens
        self.reserved -= tokens + self.costs.sequence_tokens
        if requests.output[request] == 1:
            requests.first_s[request] = requests.end_s[request] = self.outlet_s
            requests.send_next(self.outlet_s, self.queue)
            return
        decoder = min(self.decoders, key=lambda each: each.requests_held)
        hop_s = self.split.hop_s + self.split.token_hop_s * tokens
        there_s = self.now + self.scheduler.request_s.value + hop_s
        heapq.heappush(decoder.coming, (there_s, request))


def simulate_split(split: Split, scheduler: Scheduler, load: Load) -> Run:
    """Serve a load by workers that prefill and workers that decode. Deterministic."""
    requests = Requests(load, scheduler)
    decoders = [_Decoder(split.decode, requests) for _ in range(split.decode_workers)]
    of_prompts = msgspec.structs.replace(scheduler, reserves=False)
    prefillers = [_Prefiller(split, requests, of_prompts, decoders) for _ in range(split.prefill_workers)]
    engines = [*prefillers, *decoders]
    while (engine := min(engines, key=lambda each: each.next_s)).next_s < math.inf:
        until_s = math.inf
        if isinstance(engine, _Decoder):  # until a request may be passed to it, or an end elsewhere sends a new request
            others = [each.next_end_s for each in decoders if each is not engine]
            until_s = min(*(each.next_s for each in prefillers), *others, math.inf)
        engine.act(until_s)
    return make_run(requests, engines)
