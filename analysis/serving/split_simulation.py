"""Prefill and decode on separate workers: one group processes prompts and sends the caches over a link to the other."""

import heapq
import math
from collections.abc import Callable, Sequence

import msgspec

from analysis.serving.request_load import Load
from analysis.serving.simulation import BatchEngine, Requests, Run, make_run
from analysis.serving.step_costs import StepCosts
from hardware.engines.runtime import Scheduler


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
        self.outlet_s = max(self.now, self.outlet_s) + self.scheduler.chunk_s.value
        self.requests.first_s[request] = self.outlet_s
        self.others_until_first_s[request] = self.others_s
        self._decode(request, self.requests.output[request] - 1)


class _Prefiller(BatchEngine):
    """An engine that computes the first token of each request, and passes it to the decoder with the fewest requests,
    which sends the token to the client."""

    def __init__(
        self, costs: StepCosts, requests: Requests, decoders: list[_Decoder], send_s: Callable[[int], float]
    ) -> None:
        super().__init__(costs, requests)
        self.scheduler = msgspec.structs.replace(self.scheduler, reserves=False)
        self.decoders, self.send_s = decoders, send_s

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
        there_s = self.now + self.scheduler.request_s.value + self.send_s(tokens)
        heapq.heappush(decoder.coming, (there_s, request))


def simulate_split(
    prefill: Sequence[StepCosts],
    decode: Sequence[StepCosts],
    send_s: Callable[[int], float],
    scheduler: Scheduler,
    load: Load,
) -> Run:
    """Serve a load by workers that prefill and workers that decode, with the costs of each. A cache of so many tokens
    takes `send_s` from one to the other. Deterministic."""
    requests = Requests(load, scheduler)
    decoders = [_Decoder(costs, requests) for costs in decode]
    prefillers = [_Prefiller(costs, requests, decoders, send_s) for costs in prefill]
    engines = [*prefillers, *decoders]
    while (engine := min(engines, key=lambda each: each.next_s)).next_s < math.inf:
        until_s = math.inf
        if isinstance(engine, _Decoder):  # until a request may be passed to it, or an end elsewhere sends a new request
            others = [each.next_end_s for each in decoders if each is not engine]
            until_s = min(*(each.next_s for each in prefillers), *others, math.inf)
        engine.act(until_s)
    return make_run(requests, engines)
