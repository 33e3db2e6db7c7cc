"""The least change of a device with which it costs no more than another: of one knob, and of the best two together.

The size of a change is the root of the sum of the squared logarithms of its factors. Costs have steps (tiles, waves,
power limits), so each knob is tried over its whole range, and two along rays between their directions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, product
from typing import Annotated

import msgspec
import numpy as np

from analysis.document import column
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.metrics import METRICS
from analysis.explore.odds import BEATS, probability
from analysis.explore.tuning.knob_bench import KnobBench, NodeCost, node_cost
from hardware.errors import RequestError

FACTOR_MAX = 64.0  # of a knob, either way
_LIMIT = math.log(FACTOR_MAX)
_PLACES, _RAY_PLACES, _HALVINGS = 33, 12, 12  # tried on the range of one knob, on a ray, and between two places
_RAYS = 9  # between two knobs, before the best is refined
_PAIRED = 3  # knobs that come nearest alone: each two of them are tried together
_WORTH = 0.01  # relative gain of a second knob, or gain in ln of the metric, that is worth the change


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One knob: the factor of its value (1: unchanged) and the value then, None for a price or a rate."""

    knob: str
    factor: float
    value: float | None
    unit: str


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of both devices: `ratio` is A over B; `odds` that A would be measured to be less, None for EDP."""

    metric: str
    a: float
    b: float
    ratio: float
    odds: float | None


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """The least change of `knobs` and how the changed device compares. `device` is its name, '' where none matches;
    the turns are then those of the nearest point."""

    knobs: tuple[str, ...]
    device: Annotated[str, column("The device", keep=3)]
    turns: tuple[Turn, ...]
    goals: tuple[Goal, ...]
    size: Annotated[
        float, column("Size", keep=1, help="of the change: root of the sum of squared logarithms of the factors")
    ]


class Crossover(Head, frozen=True, kw_only=True):
    """The document of `hwexplorer crossover`: changes of A that match B, the smallest first."""

    a: str
    b: str
    metrics: tuple[str, ...]
    matches: bool
    goals: tuple[Goal, ...]
    ways: tuple[Way, ...]


def crossover(a: Estimate, b: Estimate, knobs: Sequence[str], metrics: tuple[str, ...]) -> Crossover:
    """Find the least change of A's device by each knob alone, and by the best two where they do better."""
    search = _Search(a, b, metrics)
    points: dict[tuple[str, ...], _Point] = {(knob,): search.match_alone(knob) for knob in dict.fromkeys(knobs)}
    if points and not search.unchanged.matches:
        nearest = sorted(points, key=lambda key: points[key].order)[:_PAIRED]
        pairs = {(*one, *other): search.match_pair(points[one], points[other], (*one, *other))
                 for one, other in combinations(nearest, 2)}  # fmt: skip
        best = min(pairs, key=lambda key: pairs[key].order, default=None)
        if best is not None and pairs[best].is_worth_more_than(points[nearest[0]]):
            points[best] = pairs[best]
    ways = [_way(search, b, names, point) for names, point in points.items()]
    return Crossover(
        **head_fields(a),
        a=a.device.key,
        b=b.device.key,
        metrics=metrics,
        matches=search.unchanged.matches,
        goals=_goals(a, b, metrics),
        ways=tuple(sorted(ways, key=lambda way: (not way.device, way.size))),
    )


def _goals(a: Estimate, b: Estimate, metrics: tuple[str, ...]) -> tuple[Goal, ...]:
    goals = []
    for metric in metrics:
        one, other = (METRICS[metric].figure(node_cost(side)) for side in (a, b))
        chance = probability(a, b, metric) if metric in BEATS else None
        goals.append(Goal(metric=metric, a=one, b=other, ratio=one / other, odds=chance))
    return tuple(goals)


class _Point(msgspec.Struct, frozen=True):
    """The factors of the knobs that are changed, and the largest ln(A / B) there, infinite for no valid device."""

    factors: tuple[tuple[str, float], ...]
    gap: float

    @property
    def matches(self) -> bool:
        """Return whether the changed device costs no more than the other."""
        return self.gap <= 0.0

    @property
    def size(self) -> float:
        """Return the root of the sum of squared logarithms of the factors."""
        return math.hypot(*(math.log(factor) for _, factor in self.factors))

    @property
    def order(self) -> tuple[bool, float]:
        """Sort key, the best first: the smallest change that matches, else the smallest gap."""
        return not self.matches, self.size if self.matches else self.gap

    def is_worth_more_than(self, other: _Point) -> bool:
        """Return True if this point is better by more than it takes to be worth another change."""
        if self.matches and other.matches:
            return self.size < other.size * (1.0 - _WORTH)
        return self.matches or (not other.matches and self.gap < other.gap - _WORTH)


class _Search:
    """Changes of one device against the cost of another. Evaluated points are cached."""

    def __init__(self, a: Estimate, b: Estimate, metrics: tuple[str, ...]) -> None:
        self.bench = KnobBench(a.workload, a.device, a.scenario)
        self.target = NodeCost(b.latency_s, b.energy_j_per_inference)
        self.metrics = metrics
        self._gaps: dict[tuple[tuple[str, float], ...], float] = {}
        self.unchanged = self._point({})

    def match_alone(self, knob: str) -> _Point:
        """Return the least change of one knob that matches, else its nearest point if that is a gain."""
        if self.unchanged.matches:
            return self.unchanged
        places = (self._point({knob: x}) for x in np.linspace(-_LIMIT, _LIMIT, _PLACES).tolist())
        best = min(places, key=lambda point: point.order)
        if not best.is_worth_more_than(self.unchanged):
            return self.unchanged
        return self._shorten(best) if best.matches else best

    def match_pair(self, one: _Point, other: _Point, knobs: tuple[str, ...]) -> _Point:
        """Return the best point on rays between the directions in which two knobs help alone."""
        best, step = min((one, other), key=lambda point: point.order), math.pi / 2 / (_RAYS + 1)
        # The directions in which each knob helps alone, both where it does not.
        signs = [[math.copysign(1.0, math.log(x)) for _, x in point.factors] or [1.0, -1.0] for point in (one, other)]
        angles = [(i + 1) * step for i in range(_RAYS)]
        while step > 0.01:
            tried = [
                (self._nearest_on_ray({knobs[0]: a * math.cos(angle), knobs[1]: b * math.sin(angle)}, best), angle)
                for angle in angles
                for a, b in product(*signs)
            ]
            point, angle = min(tried, key=lambda pair: pair[0].order)
            best = min((best, point), key=lambda point: point.order)
            step /= 2
            angles = [angle - step, angle + step]
        return best

    def _nearest_on_ray(self, direction: dict[str, float], best: _Point) -> _Point:
        """Return the first point on a ray that matches and is smaller than `best`, else the one of the least gap."""
        longest = _LIMIT / max(map(abs, direction.values()))
        lengths = np.linspace(0.0, min(longest, best.size) if best.matches else longest, _RAY_PLACES + 1)[1:].tolist()
        points = []
        for length in lengths:
            points.append(self._point({knob: x * length for knob, x in direction.items()}))
            if points[-1].matches:
                return self._shorten(points[-1])
        return min(points, key=lambda point: point.order)

    def _shorten(self, far: _Point) -> _Point:
        """Return a smaller change in the same direction that still matches, by bisection."""
        turned = {knob: math.log(factor) for knob, factor in far.factors}
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            point = self._point({knob: x * middle for knob, x in turned.items()})
            if point.matches and point.size <= far.size:
                far, high = point, middle
            else:
                low = middle
        return far

    def _point(self, logs: dict[str, float]) -> _Point:
        """Evaluate the valid device nearest to the logarithms of the factors."""
        nearest = (
            (knob, self.bench.nearest_factor(knob, math.exp(min(max(x, -_LIMIT), _LIMIT)))) for knob, x in logs.items()
        )
        factors = tuple((knob, factor) for knob, factor in sorted(nearest) if factor != 1.0)
        if factors not in self._gaps:
            try:
                here = self.bench.cost(dict(factors))
            except RequestError:
                self._gaps[factors] = math.inf
            else:
                ratios = (METRICS[metric].figure(here) / METRICS[metric].figure(self.target) for metric in self.metrics)
                self._gaps[factors] = max(map(math.log, ratios))
        return _Point(factors, self._gaps[factors])


def _way(search: _Search, other: Estimate, knobs: tuple[str, ...], point: _Point) -> Way:
    factors = dict(point.factors)
    changed = search.bench.run(factors)
    facts = changed.device.facts
    return Way(
        knobs=knobs,
        device=changed.device.key if point.matches else "",
        turns=tuple(
            Turn(
                knob=knob,
                factor=factors.get(knob, 1.0),
                value=facts[knob].value if knob in facts else None,
                unit=facts[knob].unit if knob in facts else "",
            )
            for knob in knobs
        ),
        goals=_goals(changed, other, search.metrics),
        size=point.size,
    )
