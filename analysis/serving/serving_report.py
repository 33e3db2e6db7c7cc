"""A report on loads that devices have served: the best device, the load that fits within limits, and the knee."""

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from analysis.explore.odds import LIKELY, SURE, correlation, middle_and_spread, odds_of_less
from analysis.serving.deployment import Server
from analysis.serving.request_load import AskedLoad, Lengths, Limits, closed_load, open_load
from analysis.serving.served_load import Served, ServedLoad, time_per_token_s
from analysis.serving.waits import Wait, list_waits
from analysis.text.headline import describe_change
from hardware.base.text import count_noun, percent
from hardware.engines.runtime import Scheduler

KNEE = 0.8  # of the highest rate, above which more load gains little
AIMS = {"latency": "time of a request", "energy": "joules per token", "edp": "EDP per token"}


class ServingReport(msgspec.Struct, frozen=True, kw_only=True):
    """The loads of all devices, the waits of requests, sentences with the answers, and the schedulers."""

    model: str
    prompt_tokens: int
    output_tokens: int
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
        metric=metric,
        loads=tuple(rows),
        waits=tuple(waits),
        answers=tuple(answers),
        not_fitting=tuple(not_fitting),
        schedulers=tuple(said),
    )


def order_by_aim(served: Sequence[Served], metric: str) -> list[Served]:
    """Return servers of one load, the best first, but those that fall behind and devices on paper last."""

    def place(one: Served) -> tuple[bool, bool, float]:
        """Return the sort key of a server, the least first."""
        return one.row.lag_per_s > 0, not one.server.first.device.silicon, one.row.figure(metric)

    return sorted(served, key=place)


def first_words(ordered: Sequence[Served], metric: str) -> str:
    """Say which server is best by an aim, by how much, and how sure that is."""
    first, second = ordered[:2]
    if first.row.lag_per_s > 0:
        return "No device keeps up with the load: all fall behind"
    if second.row.lag_per_s > 0:
        return f"{first.spoken_name} is the only one that keeps up"
    change = second.row.figure(metric) / first.row.figure(metric)
    behind = f"{second.spoken_name} has {describe_change(change, 'less', 'more', 'as much') or 'as much'}"
    chance = odds_first(first, second, metric)
    if chance < LIKELY:
        return f"Too close to call: {first.spoken_name} leads by {AIMS[metric]}, {behind}"
    best = f"is {'' if chance >= SURE else 'probably '}best ({percent(chance)} sure)"
    return f"{first.spoken_name} {best}, with the least {AIMS[metric]}: {behind}"


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
        run = server.serve(open_load(rate, lengths))
        ttft_s, tpot_s = run.first_s - run.arrival_s, time_per_token_s(run)
        return limits.excess(float(np.percentile(ttft_s, 99)), float(np.percentile(tpot_s, 99))) <= 1

    alone = server.serve(closed_load(1, lengths))
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
