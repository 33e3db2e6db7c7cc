"""Simulate a server under a load, step by step: which requests wait or are in a step, and when each gets its tokens.

Steps between two events (an arrival that can start, an end, a full cache) have the same sequences, whose caches grow by
a token per step, so they are evaluated at once. Where prefill and decode run on separate workers, one group processes
prompts and sends the caches over a link to the other. The parts of a request's time are read from a run.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np

from analysis.document import column
from analysis.model.ir.workload import Floats
from analysis.serving.request_load import Counts, Load
from analysis.serving.step_costs import StepCosts
from hardware.engines.runtime import Scheduler


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The times of each request, shape (n,), in seconds: its arrival, its start (the first token of its prompt is
    processed), its first token and its end. `others_s` is how much longer its decode steps took because they also held
    prompts of other requests; `evictions` is how often its cache was dropped. For the server: seconds in steps, joules
    of steps and of idle time, sequences x seconds, and the tokens processed."""

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


class Requests:
    """The requests of a load with their times. API servers pass them to engines, and tokens to clients. Each of n
    `queues` receives every n-th request, and the next one of a client after the last has ended."""

    def __init__(self, load: Load, scheduler: Scheduler, queues: int = 1) -> None:
        n = load.requests
        clients = min(load.concurrency or n, n)
        self.load, self.scheduler, self.used = load, scheduler, min(queues, clients)
        self.prompt: list[int] = load.prompt.tolist()
        self.cached: list[int] = load.cached.tolist()
        self.output: list[int] = load.output.tolist()
        self.total: list[int] = (load.prompt + load.cached + load.output).tolist()
        self.arrival_s: list[float] = load.arrival_s.astype(np.float64).tolist()
        self.start_s, self.first_s, self.end_s = ([math.nan] * n for _ in range(3))
        self.others_s, self.evictions = [0.0] * n, [0] * n
        self.unsent = list(range(queues))  # the next request of each queue
        self.intake_s = [0.0] * queues  # when each API server can read it
        # Requests on their way: the time at which the API server has them ready, and their index.
        self.coming: list[list[tuple[float, int]]] = [[] for _ in range(queues)]
        for client in range(clients):
            self.send_next(0.0, client % self.used)

    def send_next(self, time_s: float, queue: int) -> float:
        """Send the next request of a queue, if there is one. In a closed load it arrives at `time_s`. Return the time
        that the API server spends on it."""
        request, intake_s = self.unsent[queue], self.scheduler.intake_s.value
        if request >= len(self.prompt):
            return 0.0
        self.unsent[queue] += self.used
        if self.load.concurrency:
            self.arrival_s[request] = time_s
        read_s = max(self.intake_s[queue], self.arrival_s[request]) + intake_s
        self.intake_s[queue] = read_s
        tokens_s = self.scheduler.prompt_token_s.value * (self.prompt[request] + self.cached[request])
        heapq.heappush(self.coming[queue], (read_s + self.scheduler.request_s.value + tokens_s, request))
        return intake_s


class BatchEngine:
    """An engine that forms steps from its requests. A request is an index into the load; `ticks` counts the steps that
    gave each decoding sequence a token."""

    def __init__(self, costs: StepCosts, requests: Requests, queue: int = 0) -> None:
        self.costs, self.scheduler, self.requests, self.queue = costs, requests.scheduler, requests, queue
        self.coming = requests.coming[queue]
        self.now = self.busy_s = self.step_j = self.idle_j = self.sequence_seconds = self.others_s = 0.0
        self.formed_s = 0.0  # when the host forms the next step: later requests are not in it
        # When the API server has read all requests that came at once, and has sent all tokens so far.
        self.outlet_s = requests.intake_s[queue] if requests.load.concurrency else 0.0
        self.ticks = self.steps = self.prompt_tokens = self.output_tokens = 0
        self.waiting: deque[int] = deque()
        self.prefilling: deque[int] = deque()
        self.prompt_left: dict[int, int] = {}  # prompt tokens to process before the next output token
        self.evicted: dict[int, int] = {}  # output tokens that an evicted sequence still lacks
        self.written_at: dict[int, int] = {}  # tokens that the engine had processed at its eviction
        self.decoding: dict[int, int] = {}  # the tick at which each sequence ends, the newest sequence last
        self.ends: list[tuple[int, int]] = []  # the same as a heap; entries of evicted sequences stay
        self.decode_cache = 0
        self.cache_used = self.reserved = 0.0
        self.others_until_first_s: dict[int, float] = {}

    @property
    def has_work(self) -> bool:
        """True while it has a request."""
        return bool(self.waiting or self.prefilling or self.decoding)

    @property
    def next_s(self) -> float:
        """The time of its next step, infinite if no request is here or on its way."""
        if self.has_work:
            return self.now
        return max(self.coming[0][0], self.now) if self.coming else math.inf

    def act(self, until_s: float = math.inf) -> None:
        """Idle until a request arrives, or run a step with prompts, or decode until a request may come."""
        if not self.has_work:
            self.idle_until(self.next_s)
            self.formed_s = self.now
        while self.coming and self.coming[0][0] <= self.formed_s and self._takes_more():
            self.waiting.append(heapq.heappop(self.coming)[1])
        if self.waiting:
            self._admit()
        if self.prefilling:
            self._step_with_prompts()
        elif self.decoding:
            self._decode_steps(min(self.coming[0][0] if self.coming else math.inf, until_s) - self.now)

    def _takes_more(self) -> bool:
        return True

    def _admit(self) -> None:
        reserves, room = self.scheduler.reserves, self.costs.cache_tokens
        while self.waiting and len(self.decoding) + len(self.prefilling) < self.scheduler.max_sequences:
            request = self.waiting[0]
            cached = self.requests.cached[request]
            left = self._prompt_of(request)
            needed = self.costs.sequence_tokens + (self.requests.total[request] if reserves else cached + left)
            is_alone = not self.decoding and not self.prefilling
            if self.reserved + needed + (not reserves) > room and not is_alone:
                return
            self.waiting.popleft()
            self.cache_used += cached + self.costs.sequence_tokens
            self.reserved += needed
            if math.isnan(self.requests.start_s[request]):
                self.requests.start_s[request] = self.now
            kept = self._keep_evicted(request, left)
            self.cache_used += kept
            self._begin(request, left - kept)

    def _prompt_of(self, request: int) -> int:
        """Return the tokens of a waiting request to process: its prompt, and the output that was evicted."""
        left = self.requests.total[request] - self.requests.cached[request]
        return left - self.evicted.get(request, self.requests.output[request])

    def _keep_evicted(self, request: int, left: int) -> int:
        """Return the tokens of an evicted sequence that have not been overwritten since."""
        written = self.prompt_tokens + self.output_tokens
        overwritten = written - self.written_at.pop(request, 0) if self.scheduler.finds_evicted else left
        return min(max(left - overwritten, 0), left - 1) if request in self.evicted else 0

    def _begin(self, request: int, left: int) -> None:
        if left == 1 and request in self.evicted:  # its cache was found: only its newest token is not in it
            self.cache_used += 1
            self._decode(request, self.evicted.pop(request))
            return
        self.prompt_left[request] = left
        self.prefilling.append(request)

    def idle_until(self, time_s: float) -> None:
        """Let time pass without a step."""
        self.idle_j += (time_s - self.now) * self.costs.static_w
        self.now = time_s

    def _spend(self, time_s: float, energy_j: float, sequences: int, steps: int, last_s: float) -> None:
        """Account for steps. In the last `last_s` of them a host that looks ahead forms and starts the next one."""
        self.now += time_s
        self.formed_s = self.now - last_s * self.scheduler.forms_ahead
        self.busy_s += time_s
        self.step_j += energy_j
        self.sequence_seconds += time_s * sequences
        self.steps += steps

    def _send_tokens(self, tokens: int, steps: int, first_step_s: float) -> None:
        """Let the API server send `tokens` tokens for each of the last steps, one after another."""
        self.output_tokens += tokens * steps
        each_s = tokens * self.scheduler.chunk_s.value
        late_s = max(self.outlet_s, first_step_s) + steps * each_s
        self.outlet_s = max(late_s, self.now + each_s)

    def _step_with_prompts(self) -> None:
        """Run one step that holds pieces of prompts, and the decoding sequences where the scheduler mixes them."""
        held = len(self.decoding)
        decoding = held if self.scheduler.mixes else 0
        copies = self.costs.copies
        room = max((self.scheduler.max_tokens - decoding) // copies, 1)
        pieces, tokens_of, pairs_of = 0, [0] * copies, [0.0] * copies
        for request in self.prefilling:
            left, copy = self.prompt_left[request], tokens_of.index(min(tokens_of))
            piece = min(left, room - tokens_of[copy])
            if piece == 0:
                break
            pieces += 1
            pairs_of[copy] += piece * (self.requests.cached[request] + self._prompt_of(request) - left + piece / 2)
            tokens_of[copy] += piece
            self.prompt_left[request] = left - piece
        tokens = sum(tokens_of)
        mean = self.decode_cache / held if held else 0.0
        time_s, energy_j = self.costs.uneven(decoding, mean, tokens_of, pairs_of)
        host_s, waits_s = self.costs.host_seconds(decoding + tokens)
        sooner_s = min(waits_s, self.now - self.formed_s)  # the host began to start its kernels during the last step
        time_s, energy_j = time_s - sooner_s, energy_j - sooner_s * self.costs.static_w
        self._spend(time_s, energy_j, decoding + pieces, 1, max(time_s - host_s, 0.0))
        # Decoding sequences wait for the prompts of others: the whole step if it holds none of their own tokens.
        if held:
            self.others_s += time_s - (self.costs.line(held).step(mean)[0] if decoding else 0.0)
        self.prompt_tokens += tokens
        self.cache_used += tokens
        ready = [request for request in self.prefilling if self.prompt_left[request] == 0]
        self.prefilling = deque(request for request in self.prefilling if self.prompt_left[request])
        self._send_tokens(decoding + len(ready), 1, self.now)
        if decoding:
            self._give_tokens(1)
        for request in ready:
            self._finish_prompt(request)
        self._evict()

    def _finish_prompt(self, request: int) -> None:
        """Give a request its first token, as its prompt is processed, and let it decode from now on."""
        self.cache_used += 1
        self.reserved += not self.scheduler.reserves
        if math.isnan(self.requests.first_s[request]):
            self.requests.first_s[request] = self.outlet_s
            self.others_until_first_s[request] = self.others_s
        self._decode(request, self.evicted.pop(request, self.requests.output[request]) - 1)

    def _decode(self, request: int, output_left: int) -> None:
        self.decoding[request] = self.ticks + output_left
        self.decode_cache += self.requests.total[request] - output_left
        heapq.heappush(self.ends, (self.ticks + output_left, request))
        self._end_requests()

    def _decode_steps(self, within_s: float) -> None:
        """Run steps until a request ends, a request that can start arrives, or the cache is full."""
        n = len(self.decoding)
        most = self.ends[0][0] - self.ticks
        if self.costs.cache_tokens != math.inf:
            most = min(most, max(int((self.costs.cache_tokens - self.cache_used) // n), 1))
        line, mean = self.costs.line(n), self.decode_cache / n
        first_step_s = self.now + line.step(mean)[0]
        steps, time_s, energy_j = line.run(mean, most, within_s)
        self._spend(time_s, energy_j, n, steps, line.step(mean + steps - 1)[0] if steps > 1 else time_s)
        self._send_tokens(n, steps, first_step_s)
        self._give_tokens(steps)
        self._evict()

    def _give_tokens(self, steps: int) -> None:
        """Give each decoding sequence a token per step, which its cache keeps. End complete sequences."""
        tokens = steps * len(self.decoding)
        self.ticks += steps
        self.decode_cache += tokens
        self.cache_used += tokens
        if not self.scheduler.reserves:
            self.reserved += tokens
        self._end_requests()

    def _end_requests(self) -> None:
        while self.ends and self.ends[0][0] <= self.ticks:
            tick, request = heapq.heappop(self.ends)
            if self.decoding.get(request) != tick:
                continue  # evicted since
            del self.decoding[request]
            self._drop_cache(request, self.requests.total[request])
            self.requests.end_s[request] = self.outlet_s
            waited_s = self.others_s - self.others_until_first_s.pop(request)
            self.requests.others_s[request] = min(waited_s, self.outlet_s - self.requests.first_s[request])
            self.outlet_s += self.requests.send_next(self.outlet_s, self.queue)

    def _drop_cache(self, request: int, tokens: int) -> None:
        self.decode_cache -= tokens
        self.cache_used -= tokens + self.costs.sequence_tokens
        self.reserved -= self.requests.total[request] if self.scheduler.reserves else tokens
        self.reserved -= self.costs.sequence_tokens

    def _evict(self) -> None:
        """Drop the cache of the newest sequences until the next step fits."""
        while len(self.decoding) > 1 and self.cache_used + len(self.decoding) > self.costs.cache_tokens:
            request, tick = self.decoding.popitem()
            self.evicted[request] = tick - self.ticks
            self.written_at[request] = self.prompt_tokens + self.output_tokens
            self._drop_cache(request, self.requests.total[request] - self.evicted[request])
            self.requests.evictions[request] += 1
            self.waiting.appendleft(request)
        while self.ends and self.decoding.get(self.ends[0][1]) != self.ends[0][0]:
            heapq.heappop(self.ends)


def simulate(costs: StepCosts, scheduler: Scheduler, load: Load, replicas: int = 1) -> Run:
    """Serve a load by replicas, deterministically. A request that is too long for the cache is served nevertheless,
    alone."""
    requests = Requests(load, scheduler, replicas)
    engines = [BatchEngine(costs, requests, queue) for queue in range(replicas)]
    for engine in engines:
        while engine.has_work or engine.coming:
            engine.act()
    return make_run(requests, engines)


def make_run(requests: Requests, engines: Sequence[BatchEngine]) -> Run:
    """Return the run of engines that have served all requests. They idle until the last one ends."""
    end_of_run_s = max(max(engine.now, engine.outlet_s) for engine in engines)
    for engine in engines:
        engine.idle_until(end_of_run_s)
    of_requests = ("arrival_s", "start_s", "first_s", "end_s", "others_s", "evictions", "output")
    sums = ("busy_s", "step_j", "idle_j", "sequence_seconds", "steps", "prompt_tokens", "output_tokens")
    fields: dict[str, Any] = {name: np.array(getattr(requests, name)) for name in of_requests}
    fields |= {name: sum(getattr(engine, name) for engine in engines) for name in sums}
    return Run(**fields, end_of_run_s=end_of_run_s)


class _Decoder(BatchEngine):
    """An engine that receives requests with the caches of their prompts."""

    def __init__(self, costs: StepCosts, requests: Requests) -> None:
        super().__init__(costs, requests)
        self.coming = []

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
        decoder = min(self.decoders, key=lambda d: len(d.coming) + len(d.waiting) + len(d.decoding) + len(d.prefilling))
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


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the time of a request, in seconds of the median request and of the slowest percent."""

    device: Annotated[str, column("Device", role="text")]
    part: Annotated[str, column("Time of a request", role="text")]
    typical_s: Annotated[float, column("Median", "s")]
    slowest_s: Annotated[float, column("Slowest 1 %", "s")]
    slowest_fraction: Annotated[float, column("Share", role="bar", key="bar", keep=2)]


PARTS: tuple[tuple[str, Callable[[Run], Floats]], ...] = (
    ("API server and queue", lambda run: run.start_s - run.arrival_s),
    ("its prompt, until its first token", lambda run: run.first_s - run.start_s),
    ("its own decode steps", lambda run: run.end_s - run.first_s - run.others_s),
    ("prefill of others", lambda run: run.others_s),
)


def list_waits(device: str, run: Run) -> list[Wait]:
    """Return the mean time of each part, for requests around the median and for the slowest percent."""
    total_s = run.end_s - run.arrival_s
    order = np.argsort(total_s, kind="stable")
    slowest = order[-max(len(order) // 100, 1) :]
    around = order[len(order) * 45 // 100 : max(len(order) * 55 // 100, 1)]
    around = around if len(around) else order
    parts = [(name, find(run)) for name, find in PARTS]
    return [
        Wait(
            device=device,
            part=name,
            typical_s=float(seconds[around].mean()),
            slowest_s=float(seconds[slowest].mean()),
            slowest_fraction=float(seconds[slowest].mean() / total_s[slowest].mean()),
        )
        for name, seconds in parts
    ]
