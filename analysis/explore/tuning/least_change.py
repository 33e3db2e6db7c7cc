"""What would have to be true: the least change of a chip with which it matches another.

The change is least in the sum of the squared logarithms of what its knobs are multiplied with: twice one knob is as
much as half of it, and less than twice two. Every subset of the knobs is searched, the small ones first, and the best
of them all is the answer: more knobs are never worse than fewer, and what does not help stays as it is.

One knob is tried over its whole way. Several start where the best subset ended, and on the way on which each turns as
it helps by itself; from there the change is turned aside, one knob or two against each other, as long as a shorter one
matches. Nothing is taken as smooth: tiles, waves and limits of power make steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Annotated

import msgspec
import numpy as np

from analysis.document import column
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, about
from analysis.explore.odds import METRICS as WITH_ODDS
from analysis.explore.odds import probability
from analysis.explore.tuning.knob_bench import Bench, Cost, cost
from analysis.model.ir.workload import Floats
from hardware.errors import RequestError

MOST = 64.0  # how far a knob is turned at most, either way
_LIMIT = math.log(MOST)
KNOBS_MOST = 6  # turned together: every subset of them is searched
# Of a search: places tried on a way, rounds of turning aside, halvings of a way back, ln of a stride.
_PLACES, _ROUNDS, _HALVINGS, _STRIDE = 33, 32, 12, 0.5
_NEARER, _FINEST = 2e-3, 0.02  # what a turn aside must gain, relative; the least angle that is tried
_LONG = 4.0  # a turn that shows whether a knob does anything
_WORTH = 0.01  # what one knob more must save: of the change, or where nothing matches of the metric, relative


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One knob: what it is multiplied with, 1 where it stays, and its value then (None for a price or a rate)."""

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
    device: Annotated[str, column("The device", keep=3)]
    turns: tuple[Turn, ...]
    goals: tuple[Goal, ...]
    size: Annotated[
        float, column("Size", keep=1, help="of the change: root of the sum of squared logarithms of the factors")
    ]


class Crossover(Head, frozen=True, kw_only=True):
    """What would make A match B, the smallest change first."""

    a: str
    b: str
    metrics: tuple[str, ...]
    matches: bool
    goals: tuple[Goal, ...]
    ways: tuple[Way, ...]


def crossover(a: Estimate, b: Estimate, sets: Sequence[tuple[str, ...]], metrics: tuple[str, ...]) -> Crossover:
    """The least change of A's device by each set of knobs with which it costs no more than B. Raises RequestError for
    too many knobs."""
    search = _Search(a, b, metrics)
    ways = [_way(search, b, tuple(dict.fromkeys(knobs))) for knobs in sets]
    return Crossover(
        **about(a),
        a=a.device.key,
        b=b.device.key,
        metrics=metrics,
        matches=search.best(()).matches,
        goals=_goals(a, b, metrics),
        ways=tuple(sorted(ways, key=lambda way: (not way.device, way.size))),
    )


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


def _way(search: _Search, other: Estimate, knobs: tuple[str, ...]) -> Way:
    if len(knobs) > KNOBS_MOST:
        raise RequestError(f"{len(knobs)} knobs are turned together (allowed: {KNOBS_MOST})")
    found = search.best(tuple(sorted(knobs)))
    factors = dict(found.factors)
    there = search.bench.run(factors)
    device = there.device
    return Way(
        knobs=knobs,
        device=device.key if found.matches else "",
        turns=tuple(
            Turn(
                knob=knob,
                factor=factors.get(knob, 1.0),
                value=device.facts[knob].value if knob in device.facts else None,
                unit=device.facts[knob].unit if knob in device.facts else "",
            )
            for knob in knobs
        ),
        goals=_goals(there, other, search.metrics),
        size=found.size,
    )


class _Found(msgspec.Struct, frozen=True):
    """A point: the factors of the knobs that are turned, and the largest gap there (infinite: no such chip)."""

    factors: tuple[tuple[str, float], ...]
    gap: float

    @property
    def matches(self) -> bool:
        return self.gap <= 0.0

    @property
    def size(self) -> float:
        return math.hypot(*(math.log(factor) for _, factor in self.factors))

    @property
    def order(self) -> tuple[bool, float, int]:
        """The least is the best."""
        return not self.matches, self.size if self.matches else self.gap, len(self.factors)

    def beats(self, fewer: _Found) -> bool:
        """Whether more knobs are worth their turning, against the best with fewer."""
        if self.matches and fewer.matches:
            return self.size < fewer.size * (1.0 - _WORTH)
        return self.matches or (not fewer.matches and self.gap < fewer.gap - _WORTH)


class _Search:
    """Of one device for one target, by sets of knobs: what was evaluated and found is remembered."""

    def __init__(self, a: Estimate, b: Estimate, metrics: tuple[str, ...]) -> None:
        self.bench = Bench(a.workload, a.device, a.scenario)
        self.target = Cost(b.latency_s, b.energy_j_per_inference)
        self.metrics = metrics
        self._gaps: dict[tuple[tuple[str, float], ...], float] = {}
        self._best: dict[tuple[str, ...], _Found] = {}

    def best(self, knobs: tuple[str, ...]) -> _Found:
        """With these knobs, sorted by name, or some of them."""
        if knobs not in self._best:
            fewer = [self.best(tuple(other for other in knobs if other != knob)) for knob in knobs]
            start = min(fewer, key=lambda one: one.order) if fewer else self._at((), np.zeros(0))
            own = () if self._is_done(knobs, start) else self._own(knobs, start)
            self._best[knobs] = min((start, *(one for one in own if one.beats(start))), key=lambda one: one.order)
        return self._best[knobs]

    def _gap(self, factors: tuple[tuple[str, float], ...]) -> float:
        """The largest ln(A / B) of the metrics; infinite where such a chip cannot be."""
        if factors not in self._gaps:
            try:
                one = self.bench.cost(dict(factors))
            except RequestError:
                self._gaps[factors] = math.inf
            else:
                self._gaps[factors] = max(math.log(one.of(each) / self.target.of(each)) for each in self.metrics)
        return self._gaps[factors]

    def _at(self, knobs: tuple[str, ...], turned: Floats) -> _Found:
        """The chip that can be nearest to a point, given by logarithms."""
        points = zip(knobs, turned.tolist(), strict=True)
        nearest = ((knob, self.bench.possible(knob, math.exp(min(max(x, -_LIMIT), _LIMIT)))) for knob, x in points)
        factors = tuple((knob, factor) for knob, factor in nearest if factor != 1.0)
        return _Found(factors, self._gap(factors))

    def _is_done(self, knobs: tuple[str, ...], start: _Found) -> bool:
        """Whether the subsets say all: nothing needs to change, or one of several knobs does nothing."""
        is_one_idle = len(knobs) > 1 and any(self._is_idle(knob, start) for knob in knobs)
        return not knobs or is_one_idle or (start.matches and not start.factors)

    def _is_idle(self, knob: str, found: _Found) -> bool:
        """Whether a long turn of a knob either way changes nothing, of the chip as it is and at a point."""
        for factors in ({}, dict(found.factors)):
            here, now = self._at(tuple(factors), np.log(list(factors.values()))), factors.get(knob, 1.0)
            for turn in (1 / _LONG, _LONG):
                there = {**factors, knob: now * turn}
                if self._at(tuple(sorted(there)), np.log([there[name] for name in sorted(there)])).gap != here.gap:
                    return False
        return True

    def _own(self, knobs: tuple[str, ...], start: _Found) -> Iterator[_Found]:
        """What these knobs do together."""
        for seed in dict.fromkeys(self._seeds(knobs, start)):
            found = seed if seed.matches else self._climbed(knobs, seed)
            if found.matches:
                found = self._pruned(knobs, self._shorter(knobs, self._less(knobs, found, np.zeros(len(knobs)))))
            yield found

    def _seeds(self, knobs: tuple[str, ...], start: _Found) -> tuple[_Found, ...]:
        """Of one knob the best place of its whole way; of several where the best subset ended, and the nearest chip
        that matches on the way on which each is turned as it helps by itself."""
        if len(knobs) < 2:
            places = (self._at(knobs, np.full(len(knobs), x)) for x in np.linspace(-_LIMIT, _LIMIT, _PLACES))
            return (min(places, key=lambda one: one.order),)
        way = np.sign(np.concatenate([_turned((knob,), self.best((knob,))) for knob in knobs])) * _LIMIT
        places = (self._at(knobs, way * share) for share in np.linspace(0.0, 1.0, _PLACES // 2)[1:])
        return start, next((place for place in places if place.matches), start)

    def _climbed(self, knobs: tuple[str, ...], found: _Found) -> _Found:
        """From a point that does not match a stride that helps most, shorter ones where none does, until it does."""
        length = _STRIDE
        for _ in range(_ROUNDS // 2):
            here = _turned(knobs, found)
            nearest = min(
                (self._at(knobs, here + turn * length) for turn in _turns(len(knobs))), key=lambda one: one.order
            )
            if nearest.matches:
                return nearest
            if nearest.order < found.order:
                found = nearest
            else:
                length /= 2.0
        return found

    def _shorter(self, knobs: tuple[str, ...], found: _Found) -> _Found:
        """From a point that matches to a nearer one in another direction, while there is one."""
        angle = 1.0
        for _ in range(_ROUNDS):
            here, most = _turned(knobs, found), found.size * (1.0 - _NEARER)
            for turn in _turns(len(knobs)):
                there = here + turn * angle * found.size
                one = self._at(knobs, there * most / (np.sqrt((there**2).sum()) or 1.0))
                if one.matches and one.size < found.size:
                    found = self._less(knobs, one, np.zeros(len(knobs)))
                    break
            else:
                angle /= 2.0
                if angle < _FINEST:
                    break
        return found

    def _pruned(self, knobs: tuple[str, ...], found: _Found) -> _Found:
        """With no more of each knob than it takes, the least turned first."""
        for i in np.argsort(np.abs(_turned(knobs, found)), kind="stable").tolist():
            without = _turned(knobs, found)
            without[i] = 0.0
            found = self._less(knobs, found, without)
        return found

    def _less(self, knobs: tuple[str, ...], far: _Found, near: Floats) -> _Found:
        """The point next to `near`, on the straight way from a point that matches, that still does."""
        end = self._at(knobs, near)
        if end.matches:
            return end
        turned, low, high = _turned(knobs, far), 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            there = self._at(knobs, near + (turned - near) * middle)
            if there.matches and there.size <= far.size:
                far, high = there, middle
            else:
                low = middle
        return far


def _turned(knobs: tuple[str, ...], found: _Found) -> Floats:
    """The logarithms of the factors of a point."""
    factors = dict(found.factors)
    return np.array([math.log(factors.get(knob, 1.0)) for knob in knobs])


@lru_cache(maxsize=KNOBS_MOST)
def _turns(count: int) -> Floats:
    """Directions of knobs: each alone, and each with each other, either way."""
    one = np.eye(count)
    both = [one[i] + sign * one[j] for i, j in combinations(range(count), 2) for sign in (-1.0, 1.0)]
    ways = np.array([*one, *both])
    return np.concatenate([ways, -ways])
