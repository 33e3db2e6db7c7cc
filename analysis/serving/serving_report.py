"""A language model under load on devices: how long requests take, what they cost, how much load fits within limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec
import numpy as np

from analysis.document import column
from analysis.estimate.estimate import Estimate
from analysis.explore.deployment_cost import S_PER_HOUR, prices, settings
from analysis.model.ir.workload import Floats
from analysis.serving.request_load import Lengths, Load, closed_load, open_load
from analysis.serving.scheduler import Scheduler, find_scheduler
from analysis.serving.simulation import Run, simulate
from analysis.serving.step_costs import Evaluate, StepCosts, step_costs

CLIENTS = (1, 4, 16, 64, 256)  # of the curve that is shown where no load is named
KNEE = 0.8  # of the highest rate; more load buys little beyond
BEHIND = 1.1  # times the time in which requests arrive: a run that takes longer falls behind


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that a request may take at most, to its first token and for each token after it."""

    ttft_s: float = np.inf
    tpot_s: float = np.inf


class ServedLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A device serves a load. Seconds of requests are percentiles; `arrivals_per_s` is 0 for clients that wait
    for their answers; `lag_per_s` is how many more requests arrive in a second than are served, 0 where the server
    keeps up; `good_per_s` are requests a second within the limits."""

    device: Annotated[str, column("Device", role="text")]
    runtime: Annotated[str, column("Software", keep=2)]
    load: Annotated[str, column("Load")]
    ttft_p50_s: Annotated[float, column("TTFT p50", "s", help="time to first token, half of the requests are below")]
    ttft_p90_s: Annotated[float, column("TTFT p90", "s", keep=4)]
    ttft_p99_s: Annotated[float, column("TTFT p99", "s")]
    tpot_p50_s: Annotated[float, column("TPOT p50", "s", help="time per output token after the first")]
    tpot_p90_s: Annotated[float, column("TPOT p90", "s", keep=4)]
    tpot_p99_s: Annotated[float, column("TPOT p99", "s")]
    tpot_band_s: tuple[float, float]
    requests_per_s: Annotated[float, column("Requests/s", "1/s", keep=1)]
    arrivals_per_s: float
    good_per_s: Annotated[float, column("Within limits", "1/s", keep=3, help="requests a second within the limits")]
    lag_per_s: float
    tokens_per_s: Annotated[float, column("Tokens/s", "1/s", help="output tokens a second")]
    power_w: Annotated[float, column("Power", "W", keep=3, help="watts of all devices, idle time included")]
    energy_j_per_token: Annotated[float, column("J/token", "J", help="joules per output token, idle time included")]
    energy_band_j_per_token: tuple[float, float]
    usd_per_million_tokens: Annotated[
        float | None, column("USD/M tokens", help="hire of all devices per million output tokens")
    ]
    mean_batch: Annotated[float, column("Batch", keep=2, help="sequences in a step, averaged over time")]
    busy_fraction: float
    devices: int


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the time of requests takes these seconds of the median request and of the slowest percent."""

    device: Annotated[str, column("Device", role="text")]
    part: Annotated[str, column("Time of a request", role="text")]
    typical_s: Annotated[float, column("Median", "s")]
    slowest_s: Annotated[float, column("Slowest 1 %", "s")]
    slowest_fraction: Annotated[float, column("Share", role="bar", key="bar", keep=2)]


class ServingReport(msgspec.Struct, frozen=True, kw_only=True):
    """A report holds the loads of all devices, what requests wait for, sentences that answer, and the schedulers."""

    model: str
    prompt_tokens: int
    output_tokens: int
    loads: tuple[ServedLoad, ...]
    waits: tuple[Wait, ...]
    answers: tuple[str, ...]
    schedulers: tuple[str, ...]


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A device with its software, ready to serve loads of these lengths."""

    first: Estimate
    scheduler: Scheduler
    costs: StepCosts

    @property
    def hire_usd(self) -> float | None:
        """The published price to hire all its devices for an hour, USD; None where none is known."""
        known = prices(self.first, settings({}, {}, {}))
        hire = next((price.value for price in known if price.kind == "hire"), None)
        return hire and hire * self.first.workload.devices

    def serve(self, load: Load) -> Run:
        """Simulate a load."""
        return simulate(self.costs, self.scheduler, load)


def make_server(evaluate: Evaluate, longest: int) -> Server:
    """Return the server of a device; `evaluate` makes estimates of its steps, caches grow to `longest` tokens."""
    first = evaluate("decode", 1, 1, max(longest // 2, 2))
    scheduler = find_scheduler(first.runtime.id, first.device.memory_bytes)
    costs = step_costs(
        evaluate, scheduler.max_sequences, scheduler.max_tokens, (longest // 2, longest), scheduler.memory_share
    )
    return Server(first=first, scheduler=scheduler, costs=costs)


def serving_report(
    model: str, servers: Sequence[Server], lengths: Lengths, loads: Sequence[tuple[str, Load]], limits: Limits
) -> ServingReport:
    """Serve the named loads on every device, or, where there are none, a curve over numbers of clients."""
    named = loads or [(client_words(clients), closed_load(clients, lengths)) for clients in CLIENTS]
    rows, waits, answers = [], [], []
    for server in servers:
        runs = [(text, load, server.serve(load)) for text, load in named]
        rows += [_row(server, text, load, run, limits) for text, load, run in runs]
        waits += _waits(server, runs[-1][2])
        answers += _answers(server, rows[-len(runs) :], lengths, limits, not loads)
    said = dict.fromkeys(f"{s.first.runtime.name}: {_scheduler_words(s.scheduler)}" for s in servers)
    return ServingReport(
        model=model,
        prompt_tokens=lengths.prompt,
        output_tokens=lengths.output,
        loads=tuple(rows),
        waits=tuple(waits),
        answers=tuple(answers),
        schedulers=tuple(said),
    )


def client_words(clients: int) -> str:
    """Return the name of a closed load."""
    return f"{clients:,} client{'s' * (clients != 1)}"


def _scheduler_words(scheduler: Scheduler) -> str:
    mixes = "prompts and decoding in one step" if scheduler.mixes else "prompts in steps of their own"
    return (
        f"at most {scheduler.max_sequences:,} sequences and {scheduler.max_tokens:,} tokens a step, {mixes} "
        f"(defaults of {scheduler.version})"
    )


def time_per_token_s(run: Run) -> Floats:
    """Return seconds per output token after the first, (n,), 0 for answers of one token."""
    return np.asarray((run.end_s - run.first_s) / np.maximum(run.output - 1, 1))


def _steady(run: Run, load: Load) -> slice:
    """Return the requests that count: of a closed load those after the first of each client, which arrive at once."""
    return slice(min(load.concurrency, len(run.end_s) - 1), None)


def _row(server: Server, text: str, load: Load, run: Run, limits: Limits) -> ServedLoad:
    kept = _steady(run, load)
    ttft_s, tpot_s = (run.first_s - run.arrival_s)[kept], time_per_token_s(run)[kept]
    low, high = server.costs.latency_factors
    per_token_j = run.energy_j / run.output_tokens
    is_good = (ttft_s <= limits.ttft_s) & (tpot_s <= limits.tpot_s)
    rate = load.requests / run.end_of_run_s
    hire_usd = server.hire_usd
    return ServedLoad(
        device=server.first.device.name,
        runtime=server.first.runtime.name,
        load=text,
        **{f"ttft_p{p}_s": float(np.percentile(ttft_s, p)) for p in (50, 90, 99)},
        **{f"tpot_p{p}_s": float(np.percentile(tpot_s, p)) for p in (50, 90, 99)},
        tpot_band_s=(float(np.median(tpot_s)) * low, float(np.median(tpot_s)) * high),
        requests_per_s=rate,
        arrivals_per_s=0.0 if load.concurrency or not load.arrival_s[-1] else load.requests / float(load.arrival_s[-1]),
        good_per_s=rate * float(is_good.mean()),
        lag_per_s=_lag(load, run),
        tokens_per_s=run.output_tokens / run.end_of_run_s,
        power_w=run.energy_j / run.end_of_run_s,
        energy_j_per_token=per_token_j,
        energy_band_j_per_token=(
            per_token_j * server.costs.energy_factors[0],
            per_token_j * server.costs.energy_factors[1],
        ),
        usd_per_million_tokens=hire_usd and hire_usd * 1e6 / (run.output_tokens / run.end_of_run_s * S_PER_HOUR),
        mean_batch=run.sequence_seconds / run.busy_s,
        busy_fraction=run.busy_s / run.end_of_run_s,
        devices=server.first.workload.devices,
    )


def _lag(load: Load, run: Run) -> float:
    """Return how many more requests arrive in a second than end, 0 for a server that keeps up: one that ends its last
    request soon after it arrived."""
    last_s = float(load.arrival_s[-1])
    quickest_s = float((run.end_s - run.arrival_s).min())
    if load.concurrency or run.end_of_run_s <= BEHIND * last_s + 2 * quickest_s:
        return 0.0
    return load.requests / last_s - load.requests / run.end_of_run_s if last_s else 0.0


PARTS: tuple[tuple[str, Callable[[Run], Floats]], ...] = (
    ("API server and queue", lambda run: run.start_s - run.arrival_s),
    ("prefill of its prompt", lambda run: run.first_s - run.start_s),
    ("its own decode steps", lambda run: run.end_s - run.first_s - run.others_s),
    ("prefill of others", lambda run: run.others_s),
)


def _waits(server: Server, run: Run) -> list[Wait]:
    total_s = run.end_s - run.arrival_s
    order = np.argsort(total_s, kind="stable")
    slowest = order[-max(len(order) // 100, 1) :]
    around = order[len(order) * 45 // 100 : max(len(order) * 55 // 100, 1)]
    around = around if len(around) else order
    parts = [(name, find(run)) for name, find in PARTS]
    return [
        Wait(
            device=server.first.device.name,
            part=name,
            typical_s=float(seconds[around].mean()),
            slowest_s=float(seconds[slowest].mean()),
            slowest_fraction=float(seconds[slowest].mean() / total_s[slowest].mean()),
        )
        for name, seconds in parts
    ]


def _answers(server: Server, rows: Sequence[ServedLoad], lengths: Lengths, limits: Limits, is_curve: bool) -> list[str]:
    name = server.first.device.name
    lines = [
        f"{name} falls behind by {row.lag_per_s:.2g} requests/s at {row.load}: its queue grows without end"
        for row in rows
        if row.lag_per_s > 0
    ]
    if is_curve:
        highest = max(row.tokens_per_s for row in rows)
        knee = next(row for row in rows if row.tokens_per_s >= KNEE * highest)
        if knee is rows[-1]:
            lines.append(f"{name} still gains at {knee.load}: {highest:,.0f} tokens/s")
        else:
            lines.append(f"{name}: {knee.load} reach {knee.tokens_per_s:,.0f} of {highest:,.0f} tokens/s (the knee)")
    if np.isfinite(min(limits.ttft_s, limits.tpot_s)):
        lines += _limit_answers(server, rows, lengths, limits)
    return lines


def _limit_answers(server: Server, rows: Sequence[ServedLoad], lengths: Lengths, limits: Limits) -> list[str]:
    name, rate = server.first.device.name, highest_rate(server, lengths, limits)
    if not rate:
        return [f"{name} is within the limits at no load"]
    lines = [f"{name} holds {rate:.3g} requests/s within the limits (99 % of requests)"]
    if wanted := max((row.arrivals_per_s for row in rows), default=0.0):
        copies = math.ceil(wanted / rate)
        devices = f" of {server.first.workload.devices} devices" * (server.first.workload.devices > 1)
        lines.append(f"{wanted:.3g} requests/s take {copies:,} such server{'s' * (copies > 1)}{devices}")
    return lines


def highest_rate(server: Server, lengths: Lengths, limits: Limits) -> float:
    """Return the highest rate of requests, 1/s, of which 99 % are within the limits; 0 where none is."""

    def holds(rate: float) -> bool:
        """Return True if 99 % of the requests stay within the limits at a rate."""
        run = server.serve(open_load(rate, lengths))
        ttft_s, tpot_s = run.first_s - run.arrival_s, time_per_token_s(run)
        return bool(np.percentile(ttft_s, 99) <= limits.ttft_s and np.percentile(tpot_s, 99) <= limits.tpot_s)

    alone = server.serve(closed_load(1, lengths))
    low = 0.01 * alone.output_tokens / lengths.output / alone.end_of_run_s
    if not holds(low):
        return 0.0
    high = low
    while holds(high * 4) and high < 1e6:
        high *= 4
    low, high = high, high * 4
    for _ in range(6):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
