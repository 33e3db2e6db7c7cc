"""Serve a load: percentiles of requests, throughput, watts, joules and dollars per token, and what a report says.

Bands are from published runs: `python -m lab.judge --write` writes load_trust.json.
`ServedOutcome` is the outcome of a load on devices that share it; the report names the best device, the load that fits
within limits, and the knee.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec
import numpy as np

from analysis.document import column
from analysis.estimate.estimate import Estimate
from analysis.estimate.trust import MOST, ClassEvidence
from analysis.explore import odds
from analysis.explore.cost import S_PER_HOUR
from analysis.explore.grid import Ranking
from analysis.explore.outcome import Outcome, RuledFigure
from analysis.model.ir.workload import Floats
from analysis.serving import request_load as loads
from analysis.serving.deployment import DoesNotFitError, Server
from analysis.serving.request_load import AskedLoad, Lengths, Limits, Load
from analysis.serving.simulation import Run, Wait, list_waits
from analysis.wording import describe_change, is_backed
from hardware.base import file_access
from hardware.base.text import count_noun, percent, plain_number, quantity
from hardware.device import ON_PAPER
from hardware.engines.runtime import Scheduler

FILLING = 0.2  # share of random arrivals that come while the server fills
NEAR = 0.75  # share of capacity above which a full server is simulated too
WAITING = 1.1  # clients of a full server, as a multiple of the sequences that it holds
BEHIND = 1.1  # times the time until the last arrival: a longer run has fallen behind
EVIDENCE = Path(__file__).with_name("load_trust.json")


@lru_cache(1)
def load_evidence() -> dict[str, ClassEvidence]:
    """Return the evidence for TTFT, TPOT, energy and throughput, by these names."""
    known = msgspec.json.decode(file_access.read(EVIDENCE, MOST), type=list[ClassEvidence])
    return {each.quantity: each for each in known}


class ServedLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a load that devices serve. `key` spells the devices (`l4*8`), `layout` says how they share the
    model. Seconds of requests are percentiles. `arrivals_per_s` is 0 for clients that wait for their answers;
    `lag_per_s` is how many more requests arrive per second than are served, 0 if the server keeps up; `good_per_s` are
    requests per second within the limits."""

    key: Annotated[str, column("Device", role="text")]
    device: Annotated[str, column("Name", role="text")]
    layout: Annotated[str, column("Layout", keep=2, help="tp shards, ep experts, pp stages, dp replicas")]
    runtime: Annotated[str, column("Software", keep=2)]
    load: Annotated[str, column("Load")]
    request_p50_s: Annotated[float, column("Request p50", "s", keep=4, help="time of a request, from arrival to end")]
    ttft_p50_s: Annotated[float, column("TTFT p50", "s", help="time to first token, median")]
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
        float, column("Energy/token", "J", help="joules per output token, idle time included")
    ]
    energy_band_j_per_token: tuple[float, float]
    usd_per_million_tokens: Annotated[
        float | None, column("USD/M tokens", help="hire of all devices per million output tokens")
    ]
    mean_batch: Annotated[float, column("Batch", keep=2, help="sequences in a step of a replica, averaged over time")]
    busy_fraction: float
    utilization: Annotated[
        float,
        column("Use", "%", keep=1, help="requests per second, as a share of what full batches of such requests reach"),
    ]
    devices: int
    odds: Annotated[
        float | msgspec.UnsetType, column("Odds", "%", keep=1, help="odds that a measurement keeps the limits")
    ] = msgspec.UNSET

    def figure(self, metric: str) -> float:
        """Return what an aim minimises: time of a request (latency), joules per token (energy), their product, USD per
        token (cost), or the tokens/s of a device, negative."""
        own = {
            "latency": self.request_p50_s,
            "energy": self.energy_j_per_token,
            "cost": self.usd_per_million_tokens or math.inf,
            "throughput": -self.tokens_per_s / self.devices,
        }
        return own.get(metric, self.request_p50_s * self.energy_j_per_token)

    @property
    def marked_key(self) -> str:
        """The devices, marked if they exist on paper only."""
        return self.key + ON_PAPER * self.device.endswith(ON_PAPER)

    @property
    def edp_js(self) -> float:
        """Joules per output token x time of a request."""
        return self.figure("edp")

    def ruled_figure(self, name: str) -> tuple[float, tuple[float, float] | None, str] | None:
        """Return the figure of a load that a rule names, its band, and the figure of `load_evidence` that backs it:
        99th percentiles of TTFT and TPOT, the median time of a request, joules per output token, tokens/s, watts.
        Return None for any other figure."""
        request_s = self.request_p50_s
        figures: dict[str, tuple[float, tuple[float, float] | None, str]] = {
            "ttft": (self.ttft_p99_s, self.band(self.ttft_p99_s, True), "TTFT"),
            "tpot": (self.tpot_p99_s, self.band(self.tpot_p99_s), "TPOT"),
            "latency": (request_s, self.band(request_s, not self.tpot_p50_s), "TPOT"),
            "energy": (self.energy_j_per_token, self.energy_band_j_per_token, "energy"),
            "throughput": (self.tokens_per_s, self.throughput_band, "throughput"),
            "power": (self.power_w, None, "energy"),
        }
        return figures.get(name)

    @property
    def throughput_band(self) -> tuple[float, float]:
        """The band of tokens/s. A server that keeps up with arrivals has their rate."""
        is_known = bool(self.arrivals_per_s) and not self.lag_per_s
        low, high = (1.0, 1.0) if is_known else load_evidence()["throughput"].band
        return self.tokens_per_s * low, self.tokens_per_s * high

    @property
    def state(self) -> str:
        """The sentence on whether it keeps up: `keeps up: 38 % of capacity`, `falls behind by 3 requests/s`."""
        if self.lag_per_s > 0:
            return f"falls behind by {plain_number(self.lag_per_s)} requests/s"
        if self.utilization >= 1.0 and not self.arrivals_per_s:
            return "full: more clients wait"
        # Requests of a file may come faster for a while.
        word = "keeps up" if self.utilization <= 1.0 else "serves a burst"
        return f"{word}: {percent(self.utilization)} of capacity"

    @property
    def odds_of_keeping_up(self) -> float:
        """The probability that measured devices would keep up with the arrivals, by the band of the time per token."""
        busy = self.utilization
        if self.lag_per_s > 0:
            busy = self.arrivals_per_s / max(self.arrivals_per_s - self.lag_per_s, 1e-9)
        return odds.odds_below(busy, self.band(busy), 1.0) if busy else 1.0

    def band(self, figure_s: float, is_first: bool = False) -> tuple[float, float]:
        """Return the band of a time with the relative band of TPOT, or of TTFT if `is_first`."""
        low, high = self.ttft_band_s if is_first else self.tpot_band_s
        middle_s = self.ttft_p50_s if is_first else self.tpot_p50_s
        return (figure_s * low / middle_s, figure_s * high / middle_s) if middle_s else (figure_s, figure_s)


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """A load that a server has served: what was asked, its requests, their simulated times, and the figures."""

    row: ServedLoad
    asked: AskedLoad
    load: Load
    run: Run
    server: Server

    @property
    def spoken_name(self) -> str:
        """The name of its devices, or the change that is served on them."""
        is_change = self.row.key == "now" or " " in self.row.key  # `l4*8` spells devices, `runtime sglang` a change
        return self.row.key if is_change else self.server.name

    @property
    def excess(self) -> float:
        """The factor by which 99th percentiles exceed the limits; at most 1 if they do not."""
        return self.asked.limits.excess(self.row.ttft_p99_s, self.row.tpot_p99_s)

    @property
    def keeps_up(self) -> bool:
        """True if no queue grows without end."""
        return not self.row.lag_per_s

    @property
    def silicon(self) -> bool:
        """False for devices on paper."""
        return self.server.first.device.silicon

    @property
    def is_within_limits(self) -> bool:
        """True if it keeps up with the load within its limits."""
        return self.keeps_up and self.excess <= 1

    @property
    def odds(self) -> float:
        """The probability that measured devices keep the limits."""
        row, limits = self.row, self.asked.limits
        figures = ((row.ttft_p99_s, limits.ttft_s, True), (row.tpot_p99_s, limits.tpot_s, False))
        bounded = (figure for figure in figures if figure[1] < math.inf)
        return min(
            [odds.MOST, *(odds.odds_below(value, row.band(value, first), limit) for value, limit, first in bounded)]
        )

    def sort_key(self, metric: str) -> float:
        """Return what an aim minimises, or the number of devices."""
        return self.row.devices if metric == "devices" else self.row.figure(metric)


def serve_load(server: Server, key: str, asked: AskedLoad) -> Served:
    """Serve a load on a server that is spelt `key`. Random arrivals are numerous enough that filling and draining the
    server takes only a small part of the run."""
    load, rate = loads.reuse_prefixes(asked.load, server.costs.cache_tokens * server.layout.dp), asked.spec.rate
    run, full = server.serve(load), None
    if rate and (rate > NEAR * server.capacity_per_s(load) or _lag(load, run)):
        full = _serve_full(server, load, run, asked)
    inside = rate * float((run.end_s - run.arrival_s).mean())
    if loads.ROUNDS * inside > load.requests and (full is None or rate <= full[0]):
        load = loads.open_load(rate, asked.lengths, min(int(loads.ROUNDS * inside), loads.MOST_OPEN))
        run = server.serve(load)
    return Served(row=_row(server, key, asked, load, run, full), asked=asked, load=load, run=run, server=server)


def _serve_full(server: Server, load: Load, run: Run, asked: AskedLoad) -> tuple[float, Run]:
    """Serve more clients than a replica holds, so that its batches are full and requests always wait. Return the
    requests per second of all replicas, at least the rate of `run`, and the run of all replicas."""
    copies = server.layout.dp
    one = msgspec.structs.replace(server, layout=msgspec.structs.replace(server.layout, dp=1))
    clients = loads.closed_load(math.ceil(WAITING * server.sequences(load) * one.layout.workers), asked.lengths)
    full = one.serve(clients)
    whole = {name: copies * getattr(full, name) for name in ("busy_s", "step_j", "idle_j", "sequence_seconds")}
    served = clients.requests - clients.concurrency  # the first and the last request of each client are cut short
    rate = max(copies * served / full.end_of_run_s, load.requests / run.end_of_run_s)
    return rate, msgspec.structs.replace(full, **whole)


def time_per_token_s(run: Run) -> Floats:
    """Return seconds per output token after the first, (n,), 0 for answers of one token."""
    return np.asarray((run.end_s - run.first_s) / np.maximum(run.output - 1, 1))


def _steady(run: Run, load: Load, is_random: bool) -> slice:
    """Return the requests that count. In a closed load, leave out the first and last requests of each client, which are
    cut short. Of random arrivals, leave out those that come while the server fills."""
    clients, count = load.concurrency, len(run.end_s)
    if is_random:
        return slice(int(FILLING * count), None)
    return slice(min(clients, count - 1), max(count - clients, clients + 1))


def _row(
    server: Server, key: str, asked: AskedLoad, load: Load, run: Run, full: tuple[float, Run] | None
) -> ServedLoad:
    """Return the figures of a load. Random arrivals are served as fast as they arrive. A server that falls behind has
    the rate and power of a full one, at any arrival rate."""
    is_random = bool(asked.spec.rate)
    capacity_per_s, full_run = full or (server.capacity_per_s(load), run)
    kept = _steady(run, load, is_random)
    arrivals = load.arrivals_per_s
    if is_random:
        rate, lag_per_s = min(arrivals, capacity_per_s), max(arrivals - capacity_per_s, 0.0)
        tokens_per_s = rate * float(load.output.mean())
    else:
        tokens_per_s, lag_per_s = run.output_tokens / run.end_of_run_s, _lag(load, run)
        rate = tokens_per_s / float(run.output[kept].mean())
        if load.concurrency >= WAITING * server.sequences(load) * server.layout.workers:
            capacity_per_s = rate
    steady_run = full_run if is_random and lag_per_s else run
    power_w = steady_run.energy_j / steady_run.end_of_run_s
    if full is not None:  # a run drains at its end: no token takes fewer joules than in a full server
        power_w = max(power_w, full_run.energy_j / full_run.end_of_run_s * rate / capacity_per_s)
    ttft_s, tpot_s = (run.first_s - run.arrival_s)[kept], time_per_token_s(run)[kept]
    costs, ttft_p50_s, tpot_p50_s = server.costs, float(statistics.median(ttft_s)), float(statistics.median(tpot_s))
    per_token_j = power_w / tokens_per_s
    is_good = (ttft_s <= asked.limits.ttft_s) & (tpot_s <= asked.limits.tpot_s)
    if steady_run is not run:  # the simulated requests of an endless queue begin in batches that are not yet full
        cut = len(steady_run.end_s) // loads.ROUNDS
        tpot_s = time_per_token_s(steady_run)[cut:-cut]
        tpot_p50_s = float(statistics.median(tpot_s))
    hire_usd = server.hire_usd
    return ServedLoad(
        key=key,
        device=server.name,
        layout=server.layout.words or "one device",
        runtime=server.first.runtime.name,
        load=asked.spec.text,
        request_p50_s=float(statistics.median((run.end_s - run.arrival_s)[kept])),
        **{f"ttft_p{p}_s": float(np.percentile(ttft_s, p)) for p in (50, 90, 99)},
        **{f"tpot_p{p}_s": float(np.percentile(tpot_s, p)) for p in (50, 90, 99)},
        ttft_band_s=_band("TTFT", ttft_p50_s, costs.latency_factors, costs.prompt_factors),
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
        mean_batch=steady_run.sequence_seconds / steady_run.busy_s,
        busy_fraction=steady_run.busy_s / steady_run.end_of_run_s / min(server.layout.workers, load.requests),
        utilization=max(rate, arrivals) / capacity_per_s,
        devices=server.layout.devices,
    )


def _band(figure: str, value: float, *of_steps: tuple[float, float]) -> tuple[float, float]:
    """Return the band of a figure of a load: the band of published runs, wider if the bands of its steps are."""
    lows, highs = zip(load_evidence()[figure].band, *of_steps, strict=True)
    return value * min(lows), value * max(highs)


def _lag(load: Load, run: Run) -> float:
    """Return how many more requests arrive per second than end. Return 0 for a server that keeps up, which ends its
    last request soon after that has arrived."""
    last_s, slowest_s = float(load.arrival_s[-1]), float((run.end_s - run.start_s).max())
    if load.concurrency or not last_s or run.end_of_run_s <= BEHIND * last_s + 2 * slowest_s:
        return 0.0
    return load.arrivals_per_s - load.requests / run.end_of_run_s


KNEE = 0.8  # of the highest rate, above which more load gains little
AIMS = {"latency": "time of a request", "energy": "joules per token", "edp": "EDP per token"}


class ServingReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The loads of all devices, the waits of requests, sentences with the answers, and the schedulers."""

    model: str
    prompt_tokens: int
    output_tokens: int
    prices: str = "own"
    metric: str
    loads: tuple[ServedLoad, ...]
    waits: tuple[Wait, ...]
    answers: tuple[str, ...]
    not_fitting: tuple[str, ...]
    schedulers: tuple[str, ...]


def serving_report(
    model: str,
    metric: str,
    asked: AskedLoad,
    by_server: Sequence[Sequence[Served]],
    not_fitting: Sequence[str] = (),
) -> ServingReport:
    """Report the loads that each server has served. If each has served one, the best by `metric` is first; else the
    answers say what each server gains with more load."""
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
        answers += _answers(server, own, asked, says_lag=len(ordered) == 1 or not is_single)
        if server.first.has_open_links:
            answers.append(f"{server.name}: the band of TTFT holds one PCIe switch and two sockets")
    for served in ordered if asked.trace is not None and asked.trace.blocks else ():
        load, name = served[0].load, served[0].server.name
        share = float(load.cached.sum() / (load.cached + load.prompt).sum())
        answers.append(f"{name}: the prefix cache holds {percent(share)} of the prompt tokens")
    if count := max((one.load.requests for served in ordered for one in served if one.row.lag_per_s > 0), default=0):
        answers.append(f"TTFT of a load that falls behind covers {count:,} simulated requests: later ones wait longer")
    said = dict.fromkeys(
        f"{s[0].server.first.runtime.name}: {_scheduler_words(s[0].server.scheduler)}" for s in ordered
    )
    return ServingReport(
        model=model,
        prompt_tokens=asked.lengths.prompt,
        output_tokens=asked.lengths.output,
        prices=next((served[0].server.first.scenario.prices for served in ordered), "own"),
        metric=metric,
        loads=tuple(rows),
        waits=tuple(waits),
        answers=tuple(answers),
        not_fitting=tuple(not_fitting),
        schedulers=tuple(said),
    )


def order_by_aim(served: Iterable[Served], metric: str) -> Ranking[Served]:
    """Return servers of one load, the best first, but those that fall behind and devices on paper last."""
    return Ranking(served).order(metric).first(lambda one: one.silicon).first(lambda one: one.keeps_up)


def first_words(ordered: Sequence[Served], metric: str) -> str:
    """Say which server is best by an aim, by how much, and how sure that is."""
    first, second = ordered[:2]
    if first.row.lag_per_s > 0:
        return "No device keeps up with the load: all fall behind"
    unknown = odds.describe_unmeasured([s.server.first for s in ordered[:2]], [s.spoken_name for s in ordered[:2]])
    if second.row.lag_per_s > 0:
        sure = percent(first.row.odds_of_keeping_up * (1.0 - second.row.odds_of_keeping_up))
        leads = f"{first.spoken_name} is the only one that keeps up{'' if unknown else f' ({sure} sure)'}"
        return f"{unknown} {leads}: {second.spoken_name} {second.row.state}".lstrip()
    change = second.row.figure(metric) / first.row.figure(metric)
    behind = f"{second.spoken_name} has {describe_change(change, 'less', 'more', 'as much') or 'as much'}"
    if unknown:
        least = f"data sheets give {first.spoken_name} the least {AIMS[metric]}"
        return f"{unknown} Measure this load there and `hwexplorer calibrate` with its result; {least}: {behind}"
    chance = odds_first(first, second, metric)
    if chance < odds.LIKELY:
        return f"Too close to call: {first.spoken_name} leads by {AIMS[metric]}, {behind}"
    best = f"is {'' if chance >= odds.SURE else 'probably '}best ({percent(chance)} sure)"
    return f"{first.spoken_name} {best}, with the least {AIMS[metric]}: {behind}"


def odds_first(first: Served, second: Served, metric: str) -> float:
    """Return the probability that a server would be measured below another by an aim."""

    def logarithm(one: Served) -> tuple[float, float]:
        """Return mean and standard deviation of the logarithm of the aim."""
        row = one.row
        time_s = odds.middle_and_spread(row.request_p50_s, row.band(row.request_p50_s, not row.tpot_p50_s))
        energy = odds.middle_and_spread(row.energy_j_per_token, row.energy_band_j_per_token)
        sides = {"latency": (time_s,), "energy": (energy,)}.get(metric, (time_s, energy))
        return sum(middle for middle, _ in sides), sum(spread for _, spread in sides)

    return odds.odds_of_less(
        logarithm(first), logarithm(second), odds.correlation(first.server.first, second.server.first)
    )


def _scheduler_words(scheduler: Scheduler) -> str:
    mixes = "prompts and decoding in one step" if scheduler.mixes else "prompts in steps of their own"
    source = scheduler.version if scheduler.version.startswith("no ") else f"defaults of {scheduler.version}"
    return (
        f"at most {scheduler.max_sequences:,} sequences and {scheduler.max_tokens:,} tokens a step, {mixes} ({source})"
    )


def _answers(server: Server, rows: Sequence[ServedLoad], asked: AskedLoad, says_lag: bool) -> list[str]:
    name, behind = server.name, [row for row in rows if row.lag_per_s > 0 and says_lag]
    more = " and more" * (len(rows) > 1)
    lines = [
        f"At {row.load}{more} {name} {'falls behind' if more else row.state}: its queue grows without end"
        for row in behind[:1]
    ]
    if len(rows) > 1:
        rates = [row.tokens_per_s for row in rows]
        highest, knee = max(rates), rows[find_knee(rates)]
        if knee.lag_per_s > 0:
            lines.append(f"{name} serves {knee.requests_per_s:.3g} requests/s at most: {highest:,.0f} tokens/s")
        elif knee is rows[-1]:
            lines.append(f"{name} still gains at {knee.load}: {highest:,.0f} tokens/s")
        else:
            lines.append(f"{name}: {knee.load} reach {knee.tokens_per_s:,.0f} of {highest:,.0f} tokens/s (the knee)")
    if not asked.limits.is_set:
        return lines
    rate = highest_rate(server, asked.lengths, asked.limits)
    if not rate:
        return [*lines, f"{name} is within the limits at no load"]
    lines.append(f"{name} holds {rate:.3g} requests/s within the limits (99 % of requests)")
    if wanted := max((row.arrivals_per_s for row in rows), default=0.0):
        copies = math.ceil(wanted / rate)
        devices = f" of {server.layout.devices} devices" * (server.layout.devices > 1)
        lines.append(f"{wanted:.3g} requests/s take {count_noun(copies, 'such server')}{devices}")
    return lines


def find_knee(rates: Sequence[float]) -> int:
    """Return the index of the load, from light to heavy, beyond which more load gains little throughput."""
    return next(place for place, rate in enumerate(rates) if rate >= KNEE * max(rates))


def highest_rate(server: Server, lengths: Lengths, limits: Limits) -> float:
    """Return the highest rate of requests, 1/s, at which 99 % are within the limits; 0 if there is none."""

    def holds(rate: float) -> bool:
        """Return True if 99 % of the requests stay within the limits at a rate."""
        run = server.serve(loads.open_load(rate, lengths))
        ttft_s, tpot_s = run.first_s - run.arrival_s, time_per_token_s(run)
        return limits.excess(float(np.percentile(ttft_s, 99)), float(np.percentile(tpot_s, 99))) <= 1

    alone = server.serve(loads.closed_load(1, lengths))
    low = 0.01 * alone.output_tokens / lengths.output / alone.end_of_run_s
    if not holds(low):
        return 0.0
    while holds(low * 4) and low < 1e6:
        low *= 4
    high = low * 4
    for _ in range(6):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


class ServedOutcome(Outcome, frozen=True):
    """The outcome of a load. `estimate` is an average step of it, or one request if the model does not fit; `served` is
    then the error that says so."""

    served: Served | DoesNotFitError
    is_simulated: ClassVar[bool] = True
    work: ClassVar[str] = "output token"

    @property
    def row(self) -> ServedLoad | None:
        """The figures of the load; None if the model does not fit."""
        return self.served.row if isinstance(self.served, Served) else None

    @property
    def devices(self) -> int:
        return super().devices if self.row is None else self.row.devices

    @property
    def fits(self) -> bool:
        return self.row is not None and self.estimate.fits

    @property
    def competes(self) -> bool:
        return super().competes and not self.figure("lag_per_s")

    @property
    def sources(self) -> tuple[object, ...]:
        return self.row, *super().sources

    @property
    def answer(self) -> tuple[str, ...]:
        if not isinstance(self.served, Served):
            return ()
        row = self.served.row
        simulated = f" (of {self.served.load.requests:,} simulated requests)" * (row.lag_per_s > 0)
        first_s, slowest_s, token_s, slow_token_s = (
            quantity(seconds, "s") for seconds in (row.ttft_p50_s, row.ttft_p99_s, row.tpot_p50_s, row.tpot_p99_s)
        )
        return (
            f"{row.state}; a request takes {quantity(row.request_p50_s, 's')}",
            f"first token after {first_s}, of the slowest 1 % after {slowest_s}{simulated}",
            f"then a token each {token_s}, of the slowest 1 % each {slow_token_s}",
        )

    @property
    def sections(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        if not isinstance(self.served, Served):
            return ()
        waits = sorted(list_waits(self.served.row.key, self.served.run), key=lambda wait: -wait.slowest_s)
        lines = tuple(
            f"{wait.slowest_fraction * 100:3.0f} % {wait.part}: {quantity(wait.slowest_s, 's')}, at the median "
            f"{quantity(wait.typical_s, 's')}"
            for wait in waits
        )
        return (("What the slowest 1 % of requests wait for", lines),)

    @property
    def notes(self) -> tuple[str, ...]:
        many = count_noun(self.estimate.scenario.batch, "request")
        return (f"the tree is of {many} at once; the devices above are under the load",)

    def aim(self, metric: str) -> float:
        return super().aim(metric) if self.row is None else self.row.figure(metric)

    def describe_lack(self) -> str:
        return super().describe_lack() if isinstance(self.served, Served) else str(self.served)

    def measurement(self, figure: str) -> str:
        spec = self.served.asked.spec if isinstance(self.served, Served) else None
        return odds.describe_measurement(self.estimate, figure, spec)

    def ruled_figure(self, name: str) -> RuledFigure:
        if isinstance(self.served, DoesNotFitError):
            raise self.served
        row = self.served.row
        if (figure := row.ruled_figure(name)) is None:
            return super().ruled_figure(name)
        value, band, backing = figure
        runs = load_evidence()[backing]
        alone = " of one device" * (runs.devices == 1)
        evidence = f"services: {runs.rows:,} published runs{alone}, typically {percent(runs.median_error)} off"
        return RuledFigure(value, f"{name} of {row.load} on {row.key}", evidence, band)

    def verdict(self, headline: str) -> str:
        return "does not fit" if self.row is None else self.row.state

    def describe_model(self, model: str) -> str:
        many = count_noun(self.estimate.scenario.batch, "request")
        return model if self.row is None else f"{model}, {many} at once (mean of the load)"

    @staticmethod
    def best(
        outcomes: Sequence[Outcome], metric: str, on_paper: bool = False, unchanged: Sequence[Estimate] = ()
    ) -> tuple[str, ...]:
        found = [one.served for one in outcomes if isinstance(one, ServedOutcome)]
        served = [one for one in found if isinstance(one, Served)]
        if len(served) < 2:
            return ()
        ordered = order_by_aim(served, metric)
        unsure = next((one for one in ordered[:2] if not is_backed(one.server.first.trust)), ordered[1])
        run = next(outcome for outcome in outcomes if getattr(outcome, "served", None) is unsure).measurement(metric)
        return f"{first_words(ordered, metric)}.", f"To be sure: {run}."
