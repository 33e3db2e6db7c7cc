"""A language model under load on devices: how long requests take, what they cost, how much load fits within limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np

from analysis.document import column
from analysis.estimate.estimate import Estimate
from analysis.explore import constraint, verdict
from analysis.explore.deployment_cost import S_PER_HOUR
from analysis.explore.odds import correlation, middle_and_spread, odds_of_less
from analysis.model.ir.workload import Floats
from analysis.model.transformer.load_spec import LoadSpec
from analysis.model.transformer.transformer_request import Request
from analysis.serving.deployment import Server
from analysis.serving.load_trust import load_band
from analysis.serving.request_load import MOST_OPEN, REQUESTS, ROUNDS, Lengths, Load, closed_load, open_load
from analysis.serving.scheduler import Scheduler
from analysis.serving.simulation import Run
from analysis.serving.waits import Wait, list_waits
from hardware.quantity import plain_number

KNEE = 0.8  # of the highest rate; more load buys little beyond
FILLING = 0.2  # of random arrivals: those that come while the server fills
NEAR = 0.75  # of capacity: at higher rates the server is also served full
WAITING = 1.1  # times the sequences that a full server holds: its clients
BEHIND = 1.1  # times the time in which requests arrive: a run that takes longer falls behind


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that a request may take at most, to its first token and for each token after it."""

    ttft_s: float = np.inf
    tpot_s: float = np.inf


class ServedLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Devices serve a load; `key` is how they are spelt (`l4*8`), `layout` how they share the model. Seconds of
    requests are percentiles; `arrivals_per_s` is 0 for clients that wait for their answers; `lag_per_s` is how many
    more requests arrive in a second than are served, 0 where the server keeps up; `good_per_s` are requests a second
    within the limits."""

    key: Annotated[str, column("Device", role="text")]
    device: Annotated[str, column("Name", role="text")]
    layout: Annotated[str, column("Layout", keep=2, help="tp shards, ep experts, pp stages, dp replicas")]
    runtime: Annotated[str, column("Software", keep=2)]
    load: Annotated[str, column("Load")]
    request_p50_s: Annotated[float, column("Request p50", "s", keep=4, help="time of a request, from arrival to end")]
    ttft_p50_s: Annotated[float, column("TTFT p50", "s", help="time to first token, half of the requests are below")]
    ttft_p90_s: Annotated[float, column("TTFT p90", "s", keep=4)]
    ttft_p99_s: Annotated[float, column("TTFT p99", "s")]
    tpot_p50_s: Annotated[float, column("TPOT p50", "s", help="time per output token after the first")]
    tpot_p90_s: Annotated[float, column("TPOT p90", "s", keep=4)]
    tpot_p99_s: Annotated[float, column("TPOT p99", "s")]
    ttft_band_s: tuple[float, float]
    tpot_band_s: tuple[float, float]
    requests_per_s: Annotated[float, column("Requests/s", "1/s", keep=1)]
    arrivals_per_s: float
    good_per_s: Annotated[float, column("Within limits", "1/s", keep=3, help="requests a second within the limits")]
    lag_per_s: float
    tokens_per_s: Annotated[float, column("Tokens/s", "1/s", help="output tokens a second")]
    power_w: Annotated[float, column("Power", "W", keep=3, help="watts of all devices, idle time included")]
    energy_j_per_token: Annotated[
        float, column("J/token", "J", key="energy_per_token", help="joules per output token, idle time included")
    ]
    energy_band_j_per_token: tuple[float, float]
    usd_per_million_tokens: Annotated[
        float | None, column("USD/M tokens", help="hire of all devices per million output tokens")
    ]
    mean_batch: Annotated[float, column("Batch", keep=2, help="sequences in a step of a replica, averaged over time")]
    busy_fraction: float
    utilization: Annotated[
        float, column("Use", "%", help="requests a second over those that full batches of such requests reach")
    ]
    devices: int

    def figure(self, metric: str) -> float:
        """Return what an aim makes least: time of a request (latency), joules per token (energy), or their product."""
        factors = {"latency": (self.request_p50_s,), "energy": (self.energy_j_per_token,)}
        return math.prod(factors.get(metric, (self.request_p50_s, self.energy_j_per_token)))

    def ruled_figure(self, name: str) -> float | None:
        """Return the figure that a rule of CI names: TTFT and TPOT of the slowest percent, the time of a request,
        joules per output token, tokens/s, watts; None for one that a load does not have."""
        own = {"ttft": self.ttft_p99_s, "tpot": self.tpot_p99_s, "power": self.power_w, "throughput": self.tokens_per_s}
        return self.figure(name) if name in ("latency", "energy") else own.get(name)

    @property
    def state(self) -> str:
        """Say whether it keeps up: `keeps up: 38% of capacity`, `falls behind by 3 requests/s`."""
        behind = f"falls behind by {plain_number(self.lag_per_s)} requests/s"
        return behind if self.lag_per_s > 0 else f"keeps up: {self.utilization:.0%} of capacity"

    def band(self, figure_s: float, is_first: bool = False) -> tuple[float, float]:
        """Return the band of a time that is as well known as TPOT, or as TTFT."""
        low, high = self.ttft_band_s if is_first else self.tpot_band_s
        middle_s = self.ttft_p50_s if is_first else self.tpot_p50_s
        return (figure_s * low / middle_s, figure_s * high / middle_s) if middle_s else (figure_s, figure_s)


class ServingReport(msgspec.Struct, frozen=True, kw_only=True):
    """A report holds the loads of all devices, what requests wait for, sentences that answer, and the schedulers."""

    model: str
    prompt_tokens: int
    output_tokens: int
    metric: str
    loads: tuple[ServedLoad, ...]
    waits: tuple[Wait, ...]
    answers: tuple[str, ...]
    not_fitting: tuple[str, ...]
    schedulers: tuple[str, ...]


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """A load that a server has served: the requests, when each got its tokens, and the figures."""

    row: ServedLoad
    load: Load
    run: Run
    server: Server

    @property
    def output_token(self) -> Estimate:
        """An output token as an estimate: its share of the time and of the energy of all devices, idle time included.
        The time is as sure as the rate: known where the server keeps up with arrivals."""
        row, step = self.row, self.server.first
        time_s = row.devices / step.workload.devices / row.tokens_per_s
        is_known = bool(row.arrivals_per_s) and not row.lag_per_s
        low, high = (1.0, 1.0) if is_known else load_band("throughput")
        least, most = row.energy_band_j_per_token
        return msgspec.structs.replace(
            step,
            latency_s=time_s,
            latency_band_s=(time_s / high, time_s / low),
            energy_j=row.energy_j_per_token,
            energy_factors=(least / row.energy_j_per_token, most / row.energy_j_per_token),
            throughput_per_s=row.tokens_per_s,
        )


def serve_load(
    server: Server, key: str, spec: LoadSpec, lengths: Lengths, trace: Load | None, limits: Limits
) -> Served:
    """Serve the load of a name on a server that is spelt `key`; `trace` are the requests of its file. Random arrivals
    are so many that the server is filled and drained for a small part of the run only."""
    load = load_of_spec(spec, lengths, trace)
    run, full = server.serve(load), None
    rate, capacity_per_s = spec.rate if trace is None else 0.0, server.capacity_per_s(load)
    if rate and (rate > NEAR * capacity_per_s or _lag(load, run, capacity_per_s)):
        full = _serve_full(server, load, run, lengths)
    inside = rate * float((run.end_s - run.arrival_s).mean())
    if ROUNDS * inside > load.requests and (full is None or rate <= full[0]):
        load = open_load(spec.rate, lengths, min(int(ROUNDS * inside), MOST_OPEN))
        run = server.serve(load)
    row = _row(server, key, spec, load, run, limits, full)
    return Served(row=row, load=load, run=run, server=server)


def _serve_full(server: Server, load: Load, run: Run, lengths: Lengths) -> tuple[float, Run]:
    """Serve more clients than a replica holds: its batches are full, and requests always wait. Return the requests a
    second of all replicas, at least those of `run`, and what they did."""
    copies = server.layout.dp
    one = msgspec.structs.replace(server, layout=msgspec.structs.replace(server.layout, dp=1))
    clients = closed_load(math.ceil(WAITING * server.sequences(load) * one.layout.workers), lengths)
    full = one.serve(clients)
    whole = {name: copies * getattr(full, name) for name in ("busy_s", "step_j", "idle_j", "sequence_seconds")}
    served = clients.requests - clients.concurrency  # the first and the last of each client are cut short
    rate = max(copies * served / full.end_of_run_s, load.requests / run.end_of_run_s)
    return rate, msgspec.structs.replace(full, **whole)


def lengths_of(request: Request) -> Lengths:
    """Return the lengths of the requests of a load."""
    load = request.load or LoadSpec()
    return Lengths(
        prompt=request.run.sequence,
        output=request.run.output,
        cached=load.cached,
        spread=load.spread,
        seed=load.seed,
    )


def longest_of(lengths: Lengths, trace: Load | None) -> int:
    """Return the most tokens that the cache of a request holds."""
    return max(trace.longest if trace is not None else 0, lengths.longest)


def parse_limits(text: str) -> Limits:
    """Return the limits of a load among those of a state (`ttft<1s tpot<30ms L<5ms`)."""
    found = {one.figure: one.amount for one in constraint.parse_limits(text)}
    return Limits(ttft_s=found.get("ttft", np.inf), tpot_s=found.get("tpot", np.inf))


def load_of_spec(spec: LoadSpec, lengths: Lengths, trace: Load | None = None) -> Load:
    """Return the requests of a load in a model's name; `trace` are those of its file."""
    if trace is not None:
        return trace
    return closed_load(spec.concurrency, lengths) if spec.concurrency else open_load(spec.rate, lengths)


def serving_report(
    model: str,
    metric: str,
    by_server: Sequence[Sequence[Served]],
    lengths: Lengths,
    limits: Limits,
    not_fitting: Sequence[str] = (),
) -> ServingReport:
    """Report the loads that each server has served; the best by `metric` first where each has served one, else
    what each gains with more load."""
    is_single = all(len(served) == 1 for served in by_server)
    ordered, answers = by_server, list[str]()
    if is_single and by_server:
        best_first = order_by_aim([served[0] for served in by_server], metric)
        ordered = [[served] for served in best_first]
        answers += [first_words(best_first, metric)] if len(ordered) > 1 else []
    rows, waits = list[ServedLoad](), list[Wait]()
    for served in ordered:
        server, own = served[0].server, [one.row for one in served]
        rows += own
        waits += list_waits(server.name, served[-1].run)
        answers += _answers(server, own, lengths, limits, says_lag=len(ordered) == 1 or not is_single)
    if count := max((one.load.requests for served in ordered for one in served if one.row.lag_per_s > 0), default=0):
        answers.append(f"TTFT of a load that falls behind is of {count:,} simulated requests: later ones wait longer")
    said = dict.fromkeys(
        f"{s[0].server.first.runtime.name}: {_scheduler_words(s[0].server.scheduler)}" for s in ordered
    )
    return ServingReport(
        model=model,
        prompt_tokens=lengths.prompt,
        output_tokens=lengths.output,
        metric=metric,
        loads=tuple(rows),
        waits=tuple(waits),
        answers=tuple(answers),
        not_fitting=tuple(not_fitting),
        schedulers=tuple(said),
    )


def order_by_aim(served: Sequence[Served], metric: str) -> list[Served]:
    """Return servers of one load, the best first: those that fall behind, and devices on paper, win nothing."""

    def place(one: Served) -> tuple[bool, bool, float]:
        """Return what one stands behind others for."""
        return one.row.lag_per_s > 0, not one.server.first.device.silicon, one.row.figure(metric)

    return sorted(served, key=place)


AIMS = {"latency": "time of a request", "energy": "joules per token", "edp": "joules per token x time of a request"}


def first_words(ordered: Sequence[Served], metric: str) -> str:
    """Say which server is first by an aim, how far, and how sure that is."""
    first, second = ordered[:2]
    if first.row.lag_per_s > 0:
        return "No device keeps up with the load: all fall behind"
    if second.row.lag_per_s > 0:
        return f"{first.row.key} is the only one that keeps up"
    ratio = second.row.figure(metric) / first.row.figure(metric)
    chance = min(odds_first(first, second, metric), verdict.MOST)
    if chance < verdict.LIKELY:
        return f"Too close to call: {first.row.key} leads by {AIMS[metric]}, {second.row.key} has {ratio:.2g}x as much"
    best = f"is {'' if chance >= verdict.SURE else 'probably '}best ({chance * 100:.0f} % sure)"
    return f"{first.row.key} {best}, with the least {AIMS[metric]}: {second.row.key} has {ratio:.2g}x as much"


def odds_first(first: Served, second: Served, metric: str) -> float:
    """Return the probability that a server would be measured below another by an aim."""

    def logarithm(one: Served) -> tuple[float, float]:
        """Return mean and standard deviation of the logarithm of the aim."""
        row = one.row
        time_s = middle_and_spread(row.request_p50_s, row.band(row.request_p50_s, not row.tpot_p50_s))
        energy = middle_and_spread(row.energy_j_per_token, row.energy_band_j_per_token)
        sides = {"latency": (time_s,), "energy": (energy,)}.get(metric, (time_s, energy))
        return sum(middle for middle, _ in sides), sum(spread for _, spread in sides)

    return odds_of_less(logarithm(first), logarithm(second), correlation(first.server.first, second.server.first))


def _scheduler_words(scheduler: Scheduler) -> str:
    mixes = "prompts and decoding in one step" if scheduler.mixes else "prompts in steps of their own"
    source = scheduler.version if scheduler.version.startswith("no ") else f"defaults of {scheduler.version}"
    return (
        f"at most {scheduler.max_sequences:,} sequences and {scheduler.max_tokens:,} tokens a step, {mixes} ({source})"
    )


def time_per_token_s(run: Run) -> Floats:
    """Return seconds per output token after the first, (n,), 0 for answers of one token."""
    return np.asarray((run.end_s - run.first_s) / np.maximum(run.output - 1, 1))


def _steady(run: Run, load: Load, is_random: bool) -> slice:
    """Return the requests that count: of a closed load those between the first and the last of each client, which are
    cut short; of random arrivals those that find a filled server."""
    clients, count = load.concurrency, len(run.end_s)
    if is_random:
        return slice(int(FILLING * count), None)
    return slice(min(clients, count - 1), max(count - clients, clients + 1))


def _row(
    server: Server, key: str, spec: LoadSpec, load: Load, run: Run, limits: Limits, full: tuple[float, Run] | None
) -> ServedLoad:
    """Return the figures of a load. Of random arrivals as many are served as arrive; a server that falls behind does
    what a full one does, however many arrive."""
    is_random = bool(spec.rate) and not spec.requests
    capacity_per_s, full_run = full or (server.capacity_per_s(load), run)
    kept = _steady(run, load, is_random)
    arrivals = load.arrivals_per_s
    if is_random:
        rate, lag_per_s = min(arrivals, capacity_per_s), max(arrivals - capacity_per_s, 0.0)
        tokens_per_s = rate * float(load.output.mean())
    else:
        tokens_per_s, lag_per_s = run.output_tokens / run.end_of_run_s, _lag(load, run, capacity_per_s)
        rate = tokens_per_s / float(run.output[kept].mean())
    did = full_run if is_random and lag_per_s else run
    power_w = did.energy_j / did.end_of_run_s
    if full is not None:  # a run drains at its end: no token takes fewer joules than that of a full server
        power_w = max(power_w, full_run.energy_j / full_run.end_of_run_s * rate / capacity_per_s)
    ttft_s, tpot_s = (run.first_s - run.arrival_s)[kept], time_per_token_s(run)[kept]
    costs, ttft_p50_s, tpot_p50_s = server.costs, float(np.median(ttft_s)), float(np.median(tpot_s))
    per_token_j = power_w / tokens_per_s
    is_good = (ttft_s <= limits.ttft_s) & (tpot_s <= limits.tpot_s)
    hire_usd = server.hire_usd
    return ServedLoad(
        key=key,
        device=server.name,
        layout=server.layout.words or "one device",
        runtime=server.first.runtime.name,
        load=spec.text,
        request_p50_s=float(np.median((run.end_s - run.arrival_s)[kept])),
        **{f"ttft_p{p}_s": float(np.percentile(ttft_s, p)) for p in (50, 90, 99)},
        **{f"tpot_p{p}_s": float(np.percentile(tpot_s, p)) for p in (50, 90, 99)},
        ttft_band_s=_band("TTFT", ttft_p50_s, costs.latency_factors),
        tpot_band_s=_band("TPOT", tpot_p50_s, costs.latency_factors),
        requests_per_s=rate,
        arrivals_per_s=arrivals,
        good_per_s=rate * float(is_good.mean()),
        lag_per_s=lag_per_s,
        tokens_per_s=tokens_per_s,
        power_w=power_w,
        energy_j_per_token=per_token_j,
        energy_band_j_per_token=_band("energy", per_token_j, costs.energy_factors),
        usd_per_million_tokens=hire_usd and hire_usd * 1e6 / (tokens_per_s * S_PER_HOUR),
        mean_batch=did.sequence_seconds / did.busy_s,
        busy_fraction=did.busy_s / did.end_of_run_s / min(server.layout.workers, load.requests),
        utilization=max(rate, arrivals) / capacity_per_s,
        devices=server.layout.devices,
    )


def _band(figure: str, value: float, of_a_step: tuple[float, float]) -> tuple[float, float]:
    """Return the band of a figure of a load: that of published runs, wider where a step itself is known no better."""
    low, high = load_band(figure)
    return value * min(low, of_a_step[0]), value * max(high, of_a_step[1])


def _lag(load: Load, run: Run, capacity_per_s: float) -> float:
    """Return how many more requests arrive in a second than end, 0 for a server that keeps up: one that ends its last
    request soon after it arrived."""
    last_s = float(load.arrival_s[-1])
    quickest_s = float((run.end_s - run.arrival_s).min())
    is_over = last_s > 0 and load.requests > capacity_per_s * last_s and load.requests >= REQUESTS
    if load.concurrency or (run.end_of_run_s <= BEHIND * last_s + 2 * quickest_s and not is_over):
        return 0.0
    return load.arrivals_per_s - load.requests / run.end_of_run_s if last_s else 0.0


def _answers(server: Server, rows: Sequence[ServedLoad], lengths: Lengths, limits: Limits, says_lag: bool) -> list[str]:
    name, behind = server.name, [row for row in rows if row.lag_per_s > 0 and says_lag]
    lines = [f"At {row.load} {name} {row.state}: its queue grows without end" for row in behind]
    if len(rows) > 1:
        rates = [row.tokens_per_s for row in rows]
        highest, knee = max(rates), rows[find_knee(rates)]
        if knee.lag_per_s > 0:
            lines.append(f"{name} serves {knee.requests_per_s:.3g} requests/s at most: {highest:,.0f} tokens/s")
        elif knee is rows[-1]:
            lines.append(f"{name} still gains at {knee.load}: {highest:,.0f} tokens/s")
        else:
            lines.append(f"{name}: {knee.load} reach {knee.tokens_per_s:,.0f} of {highest:,.0f} tokens/s (the knee)")
    if np.isfinite(min(limits.ttft_s, limits.tpot_s)):
        lines += _limit_answers(server, rows, lengths, limits)
    return lines


def find_knee(rates: Sequence[float]) -> int:
    """Return the place of the load, from light to heavy, beyond which more load buys little throughput."""
    return next(place for place, rate in enumerate(rates) if rate >= KNEE * max(rates))


def _limit_answers(server: Server, rows: Sequence[ServedLoad], lengths: Lengths, limits: Limits) -> list[str]:
    name, rate = server.name, highest_rate(server, lengths, limits)
    if not rate:
        return [f"{name} is within the limits at no load"]
    lines = [f"{name} holds {rate:.3g} requests/s within the limits (99 % of requests)"]
    if wanted := max((row.arrivals_per_s for row in rows), default=0.0):
        copies = math.ceil(wanted / rate)
        devices = f" of {server.layout.devices} devices" * (server.layout.devices > 1)
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
