"""What would have to be true: the least change of a chip with which it matches another.

The change is least in the sum of the squared logarithms of what its knobs are multiplied with: twice one knob is as
much as half of it, and less than twice two. Metrics are taken as straight in the logarithms around a point, the least
change that meets all of them is found (a few constraints: every subset of them is tried), and that is done again
from there; in the end the way is walked back to the nearest point that still meets them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain, combinations

import msgspec
import numpy as np

from analysis.decide.knobs import Bench, Cost, cost
from analysis.decide.odds import METRICS as WITH_ODDS
from analysis.decide.odds import probability
from analysis.run.estimate import Estimate
from analysis.run.figures import Head, about
from analysis.workload.workload import Floats
from hardware.errors import RequestError

MOST = 64.0  # how far a knob is turned at most, either way
_ROUNDS, _STRIDE = 20, 0.5
WIDE = 1.3  # the step of slopes: tiles and waves make short ones uneven
_CLOSE = 1e-3  # of a metric, relative


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One knob: what it is multiplied with, and its value then (None for a price or a rate)."""

    knob: str
    factor: float
    value: float | None
    unit: str


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of both: `ratio` is A over B, at most 1 where A matches; `odds` that what would be measured of A is
    less, None for EDP. Of a changed A as of A as it is."""

    metric: str
    a: float
    b: float
    ratio: float
    odds: float | None


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """The least change by one set of knobs, and how its chip compares. `device` names the chip, '' where no change
    within 64 times does it; then it is the nearest point."""

    knobs: tuple[str, ...]
    device: str
    turns: tuple[Turn, ...]
    goals: tuple[Goal, ...]
    size: float


class Crossover(Head, frozen=True, kw_only=True):
    """What would make A match B, the smallest change first."""

    a: str
    b: str
    metrics: tuple[str, ...]
    matches: bool
    goals: tuple[Goal, ...]
    ways: tuple[Way, ...]


def crossover(a: Estimate, b: Estimate, sets: Sequence[tuple[str, ...]], metrics: tuple[str, ...]) -> Crossover:
    """The least change of A's device by each set of knobs with which it costs no more than B."""
    bench = Bench(a.workload, a.device, a.scenario)
    target = Cost(b.latency_s, b.energy_j_per_inference)
    ways = [_way(bench, b, target, knobs, metrics) for knobs in sets]
    return Crossover(
        **about(a),
        a=a.device.key,
        b=b.device.key,
        metrics=metrics,
        matches=bool((_gaps(cost(a), target, metrics) <= 0).all()),
        goals=_goals(a, b, metrics),
        ways=tuple(sorted(ways, key=lambda way: (not way.device, way.size))),
    )


def _gaps(one: Cost, target: Cost, metrics: tuple[str, ...]) -> Floats:
    """ln(A / B) by metric."""
    return np.array([math.log(one.of(metric) / target.of(metric)) for metric in metrics])


def _goals(a: Estimate, b: Estimate, metrics: tuple[str, ...]) -> tuple[Goal, ...]:
    one, other = cost(a), cost(b)
    return tuple(
        Goal(
            metric=metric,
            a=one.of(metric),
            b=other.of(metric),
            ratio=one.of(metric) / other.of(metric),
            odds=probability(a, b, metric) if metric in WITH_ODDS else None,
        )
        for metric in metrics
    )


def _factors(knobs: tuple[str, ...], turned: Floats) -> dict[str, float]:
    return {knob: float(np.exp(x)) for knob, x in zip(knobs, turned, strict=True)}


def _way(bench: Bench, other: Estimate, target: Cost, knobs: tuple[str, ...], metrics: tuple[str, ...]) -> Way:
    turned = _search(bench, target, knobs, metrics)
    there = bench.run(_factors(knobs, turned))
    reached = bool((_gaps(cost(there), target, metrics) <= _CLOSE).all())
    device = there.device
    return Way(
        knobs=knobs,
        device=device.key if reached else "",
        turns=tuple(
            Turn(
                knob=knob,
                factor=factor,
                value=device.facts[knob].value if knob in device.facts else None,
                unit=device.facts[knob].unit if knob in device.facts else "",
            )
            for knob, factor in _factors(knobs, turned).items()
        ),
        goals=_goals(there, other, metrics),
        size=float(np.sqrt((turned**2).sum())),
    )


def _search(bench: Bench, target: Cost, knobs: tuple[str, ...], metrics: tuple[str, ...]) -> Floats:
    """The logarithms of what the knobs are multiplied with: where A matches, or the nearest to it that was seen."""
    visited = _scan(bench, target, knobs, metrics) if len(knobs) == 1 else _descend(bench, target, knobs, metrics)
    if len(knobs) > 1 and min(gap for _, gap in visited) > _CLOSE:
        visited += _climb(bench, target, knobs, metrics, min(visited, key=lambda one: one[1]))
    matching = [point for point, gap in visited if gap <= _CLOSE]
    if not matching:
        return min(visited, key=lambda one: one[1])[0]
    nearest = min(matching, key=lambda point: float((point**2).sum()))
    return _walked_back(bench, target, knobs, metrics, nearest)


def _worst(bench: Bench, target: Cost, knobs: tuple[str, ...], metrics: tuple[str, ...], point: Floats) -> float:
    """The largest gap at a point; infinite where such a chip cannot be."""
    try:
        return float(_gaps(bench.cost(_factors(knobs, point)), target, metrics).max())
    except RequestError:
        return math.inf


Visited = list[tuple[Floats, float]]


def _scan(bench: Bench, target: Cost, knobs: tuple[str, ...], metrics: tuple[str, ...]) -> Visited:
    """One knob, over its whole way."""
    way = np.linspace(-math.log(MOST), math.log(MOST), 33)
    return [(point, _worst(bench, target, knobs, metrics, point)) for point in way[:, None]]


def _descend(bench: Bench, target: Cost, knobs: tuple[str, ...], metrics: tuple[str, ...]) -> Visited:
    """Several knobs: from where the chip is to where its slopes say that the least change lies, again and again."""
    limit, now = math.log(MOST), np.zeros(len(knobs))
    visited: Visited = []
    for _ in range(_ROUNDS):
        worst = _worst(bench, target, knobs, metrics, now)
        visited.append((now, worst))
        if math.isinf(worst):  # half of the way back
            now = (now + visited[-2][0]) / 2 if len(visited) > 1 else now
            continue
        if abs(worst) <= _CLOSE:
            break
        factors = _factors(knobs, now)
        gaps = _gaps(bench.cost(factors), target, metrics)
        slopes = [bench.slopes(factors, knob, WIDE) for knob in knobs]
        slope = np.array([[0.0 if s is None else s[metric] for s in slopes] for metric in metrics])
        step = _least(slope, gaps - slope @ now) - now
        now = np.clip(now + np.clip(step, -1.0, 1.0), -limit, limit)
    return visited


def _climb(
    bench: Bench, target: Cost, knobs: tuple[str, ...], metrics: tuple[str, ...], start: tuple[Floats, float]
) -> Visited:
    """Where slopes lead nowhere (a limit of power, a wave): a stride of whichever knob helps most, while one does."""
    visited, limit = [start], math.log(MOST)
    for _ in range(_ROUNDS):
        now, gap = visited[-1]
        strides = np.concatenate([np.eye(len(knobs)), -np.eye(len(knobs))]) * _STRIDE
        points = [np.clip(now + stride, -limit, limit) for stride in strides]
        found = min(((point, _worst(bench, target, knobs, metrics, point)) for point in points), key=lambda one: one[1])
        if found[1] >= gap:
            break
        visited.append(found)
        if found[1] <= _CLOSE:
            break
    return visited


def _least(slope: Floats, gaps: Floats) -> Floats:
    """The smallest x with gaps + slope x <= 0: for each subset of the metrics that could bind."""
    count = len(gaps)
    best: Floats | None = None
    for binding in chain.from_iterable(combinations(range(count), size) for size in range(count + 1)):
        rows = list(binding)
        x = -np.linalg.pinv(slope[rows]) @ gaps[rows] if rows else np.zeros(slope.shape[1])
        meets = bool((gaps + slope @ x <= 1e-9).all())
        if meets and (best is None or (x**2).sum() < (best**2).sum()):
            best = x
    return best if best is not None else -np.linalg.pinv(slope) @ gaps


def _walked_back(bench: Bench, target: Cost, knobs: tuple[str, ...], metrics: tuple[str, ...], found: Floats) -> Floats:
    """The nearest point on the way back to the chip as it is that still matches."""
    near, far = 0.0, 1.0
    for _ in range(12):
        middle = (near + far) / 2
        matches = _worst(bench, target, knobs, metrics, found * middle) <= _CLOSE
        near, far = (near, middle) if matches else (middle, far)
    return found * far
