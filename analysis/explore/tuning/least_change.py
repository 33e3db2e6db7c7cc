"""The least change of one fact of a device with which it costs no more than another device.

The size of a change is the logarithm of its factor. Costs have steps (tiles, waves, power limits), so each knob is
tried over its whole range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

import msgspec
import numpy as np

from analysis.document import column
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.metrics import METRICS
from analysis.explore.odds import BEATS, probability
from analysis.explore.tuning.knob_bench import change_knobs, nearest_factor
from hardware.errors import RequestError

FACTOR_MAX = 64.0  # of a knob, either way
_LIMIT = math.log(FACTOR_MAX)
_PLACES, _HALVINGS = 33, 12  # tried on the range of a knob, and between two of these
_WORTH = 0.01  # gain in ln of the metric that is worth a change which does not match


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One knob: the factor of its value (1: unchanged) and the changed value, None for a price or a rate."""

    knob: str
    factor: float
    value: float | None
    unit: str


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of both devices: `ratio` is A over B; `odds` of A being measured below B, None for EDP."""

    metric: str
    a: float
    b: float
    ratio: float
    odds: float | None


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """The least change of `knobs` and how the changed device compares. `device` is its name, '' if no change matches
    the other device; the turns are then those of the nearest change."""

    knobs: tuple[str, ...]
    device: Annotated[str, column("The device", keep=3)]
    turns: tuple[Turn, ...]
    goals: tuple[Goal, ...]
    size: Annotated[float, column("ln(factor)", keep=4, help="size of the change: the logarithm of the factor")]


class Crossover(Head, frozen=True, kw_only=True):
    """The document of `hwexplorer crossover`: changes of A that match B, the smallest first."""

    a: str
    b: str
    metrics: tuple[str, ...]
    matches: bool
    goals: tuple[Goal, ...]
    ways: tuple[Way, ...]


def crossover(a: Estimate, b: Estimate, knobs: Sequence[str], metrics: tuple[str, ...]) -> Crossover:
    """Find the least change of A's device by each knob alone."""

    def gap(knob: str, change: float) -> float:
        """Return the largest ln(A / B) at a change, the logarithm of the factor; infinity for an invalid device."""
        try:
            changed = change_knobs(a, {knob: nearest_factor(a.device, knob, math.exp(change))})
        except RequestError:
            return math.inf
        return max(math.log(METRICS[name].figure(changed) / METRICS[name].figure(b)) for name in metrics)

    ways = [_way(a, b, metrics, knob, *_least_change(partial(gap, knob))) for knob in dict.fromkeys(knobs)]
    goals = _goals(a, b, metrics)
    return Crossover(
        **head_fields(a),
        a=a.device.key,
        b=b.device.key,
        metrics=metrics,
        matches=all(goal.ratio <= 1.0 for goal in goals),
        goals=goals,
        ways=tuple(sorted(ways, key=lambda way: (not way.device, way.size))),
    )


def _goals(a: Estimate, b: Estimate, metrics: tuple[str, ...]) -> tuple[Goal, ...]:
    goals = []
    for metric in metrics:
        one, other = (METRICS[metric].figure(side) for side in (a, b))
        chance = probability(a, b, metric) if metric in BEATS else None
        goals.append(Goal(metric=metric, a=one, b=other, ratio=one / other, odds=chance))
    return tuple(goals)


def _least_change(gap: Callable[[float], float]) -> tuple[float, bool]:
    """Return the smallest change that closes the gap, and True; else the change with the least gap, and False."""
    gaps = {change: gap(change) for change in (0.0, *np.linspace(-_LIMIT, _LIMIT, _PLACES).tolist())}
    matching = [change for change, left in gaps.items() if left <= 0.0]
    if not matching:
        nearest = min(gaps, key=lambda change: gaps[change])
        return (nearest if gaps[nearest] < gaps[0.0] - _WORTH else 0.0), False
    far = min(matching, key=abs)
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS if far else 0):
        middle = (low + high) / 2
        low, high = (low, middle) if gap(far * middle) <= 0.0 else (middle, high)
    return far * high, True


def _way(a: Estimate, b: Estimate, metrics: tuple[str, ...], knob: str, change: float, matches: bool) -> Way:
    factor = nearest_factor(a.device, knob, math.exp(change))
    changed = change_knobs(a, {knob: factor})
    fact = changed.device.facts.get(knob)
    value, unit = (fact.value, fact.unit) if fact is not None else (None, "")
    return Way(
        knobs=(knob,),
        device=changed.device.key if matches else "",
        turns=(Turn(knob=knob, factor=factor, value=value, unit=unit),),
        goals=_goals(changed, b, metrics),
        size=abs(math.log(factor)),
    )
