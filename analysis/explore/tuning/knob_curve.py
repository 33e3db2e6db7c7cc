"""One knob of a chip turned in steps: what each place of it costs, and where turning further stops paying.

A `Desk` remembers what was evaluated of an unchanged chip, so that a screen can show what is known at once and have
the rest a piece at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np

from analysis.document import column
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, about
from analysis.explore.tuning.knob_bench import METRICS, Bench, Cost, amount, cost, facts, prices
from hardware.device import Device
from hardware.errors import RequestError
from hardware.remember import remembered
from hardware.what_if import ARRAY, changed, limits, parse

# The preferred numbers of ISO 3 (R10), rounded as knobs are labelled: three steps double.
_STEPS = (
    *(0.1, 0.125, 0.16, 0.2, 0.25, 0.32, 0.4, 0.5, 0.63, 0.8, 1.0),
    *(1.25, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.3, 8.0, 10.0),
)
_DOUBLED = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # sides of arrays
_BENDS = 0.1  # of the whole way, from which a curve that leaves its chord by that has a knee
_REMEMBERED = 4000  # costs of one chip
Changes = tuple[str, ...]


class Place(msgspec.Struct, frozen=True):
    """One place of a knob: what the unchanged value is multiplied with, and the change that says so ('' for none)."""

    factor: float
    change: str


class Point(Cost, frozen=True, kw_only=True):
    """What the model costs with the knob at a place; `value` in the unit of the knob."""

    factor: float
    value: float


class Knob(msgspec.Struct, frozen=True, kw_only=True):
    """A fact, or the price of an event, as it is and was, and how far a turn goes. `latency`, `energy` and `edp` are
    elasticities of the unchanged chip, None where they are not known yet."""

    name: Annotated[str, column("Fact or price", help="of the device; `tile.mac`: what one event costs")]
    value: float
    was: float
    unit: str
    least: float
    most: float
    quality: Annotated[str, column("Known as", keep=5)]
    source: Annotated[str, column("Source", keep=8)]
    is_price: bool
    latency: Annotated[
        float | None, column("Lat %/%", keep=3, help="per cent of the latency per per cent of it, unchanged")
    ] = None
    energy: Annotated[
        float | None, column("Energy %/%", keep=3, help="per cent of the energy per inference per per cent of it")
    ] = None
    edp: Annotated[float | None, column("EDP %/%", help="per cent of energy times latency: the sum of both")] = None


class Before(msgspec.Struct, frozen=True):
    """A metric now and on the unchanged chip, in SI units."""

    metric: str
    now: float
    was: float


class Knobs(Head, frozen=True, kw_only=True):
    """The knobs, those first that matter most to `metric`; the `curve` of the one that is looked at with everything
    else as it is now, and the value at its `knee` (None for a curve without one)."""

    unchanged: str
    metric: str
    before: tuple[Before, ...]
    knob: str
    unit: str
    value: float
    knee: float | None
    curve: tuple[Point, ...]
    knobs: tuple[Knob, ...]


def own(now: Device, unchanged: Device) -> Changes:
    """What of a device is changed, names spelt in full."""
    return now.file.changes[len(unchanged.file.changes) :]


@remembered()
def places(result: Estimate, name: str) -> tuple[Place, ...]:
    """Where a knob of an unchanged chip can be turned to, within what a what-if device may state."""
    device = result.device
    fact = amount(result, name)
    least, most = limits(fact.unit)
    is_whole = name in device.facts and device.arch.data.facts[name].is_whole
    found = {fact.value: Place(1.0, "")}
    for step in _DOUBLED if name in device.arch.data.matrix_follows else _STEPS:
        there = fact.value * step
        change = f"{name}*{step:g}"
        if is_whole and not there.is_integer():
            there = float(round(there))
            change = f"{name}={there:g}"
        if fact.is_price or least <= there <= most:
            found.setdefault(there, Place(there / fact.value, change))
    return tuple(found[value] for value in sorted(found))


def without(changes: Changes, name: str) -> Changes:
    return tuple(change for change in changes if parse(change)[0].name != name)


def factor(now: Estimate, unchanged: Estimate, changes: Changes, name: str) -> float:
    """What a knob is turned to: 1 for one that only follows others."""
    turned = {parse(change)[0].name for change in changes}
    is_side = name in unchanged.device.arch.data.matrix_follows
    if name in turned or (is_side and ARRAY in turned):
        return amount(now, name).value / amount(unchanged, name).value
    return 1.0


def turned(now: Estimate, unchanged: Estimate, name: str, by: int) -> Changes:
    """The changes after a step of a knob up or down; 0 puts it back. Raises RequestError at the end of its way."""
    changes = own(now.device, unchanged.device)
    rest = without(changes, name)
    if not by:
        return rest
    here, way = factor(now, unchanged, changes, name), places(unchanged, name)
    close = 1e-3  # factors are written with a few digits
    beyond = [p for p in way if (p.factor > here * (1 + close) if by > 0 else p.factor < here * (1 - close))]
    if not beyond:
        raise RequestError(f"{name} is at the {'upper' if by > 0 else 'lower'} end of its range here")
    place = beyond[0] if by > 0 else beyond[-1]
    return (*rest, place.change) if place.change else rest


class Desk:
    """What is known of an unchanged chip and of it with changes, all of one run."""

    def __init__(self, unchanged: Estimate) -> None:
        self.unchanged = unchanged
        self.bench = Bench(unchanged.workload, unchanged.device, unchanged.scenario)
        self.names = (*facts(unchanged.device), *prices(unchanged))
        self.slopes: dict[str, dict[str, float] | None] = {}
        self.costs: dict[Changes, Cost | None] = {}

    def way(self, changes: Changes, name: str) -> list[tuple[Place, Changes]]:
        """The places of a knob, and all that is changed there."""
        rest = without(changes, name)
        return [(place, (*rest, place.change) if place.change else rest) for place in places(self.unchanged, name)]

    def curve_left(self, changes: Changes, name: str) -> list[Changes]:
        """What of a curve is not evaluated yet."""
        return [there for _, there in self.way(changes, name) if there not in self.costs]

    def slopes_left(self) -> list[str]:
        return [name for name in self.names if name not in self.slopes]

    def ranked(self, metric: str) -> tuple[str, ...]:
        """The knobs, those first that do most to a metric; as the device has them while that is not known."""
        if self.slopes_left():
            return self.names
        return tuple(sorted(self.names, key=lambda name: -abs((self.slopes[name] or {}).get(metric, 0.0))))

    def evaluate(self, changes: Changes) -> None:
        """None for a chip that cannot be."""
        if len(self.costs) >= _REMEMBERED:
            self.costs.clear()
        try:
            text = ",".join(changes)
            device = changed(self.bench.device, parse(text) if text else ())
            self.costs[changes] = cost(Bench(self.bench.workload, device, self.bench.scenario).run({}))
        except RequestError:
            self.costs[changes] = None

    def differentiate(self, name: str) -> None:
        self.slopes[name] = self.bench.slopes({}, name)

    def curve(self, changes: Changes, name: str) -> tuple[Point, ...]:
        """Empty as long as some of it is not evaluated."""
        way = self.way(changes, name)
        value = amount(self.unchanged, name).value
        known = [(place, self.costs.get(there)) for place, there in way if there in self.costs]
        if len(known) < len(way):
            return ()
        return tuple(
            Point(one.latency_s, one.energy_j, factor=place.factor, value=value * place.factor)
            for place, one in known
            if one is not None
        )


@remembered()
def desk(unchanged: Estimate) -> Desk:
    return Desk(unchanged)


def more(now: Estimate, unchanged: Estimate, name: str, metric: str) -> bool | None:
    """Evaluate one thing more of what `knobs` would show: True when something is complete by it, None when nothing
    was left."""
    table, changes = desk(unchanged), own(now.device, unchanged.device)
    names = table.slopes_left()
    is_known = not names or name in table.names  # which knob is looked at
    if is_known and (left := table.curve_left(changes, looked_at(unchanged, name, metric))):
        table.evaluate(left[0])
        return len(left) == 1
    if not names:
        return None
    table.differentiate(names[0])
    return len(names) == 1


def looked_at(unchanged: Estimate, name: str, metric: str) -> str:
    """The knob of a name, the first one where the chip has none of it."""
    table = desk(unchanged)
    return name if name in table.names else table.ranked(metric)[0]


def knobs(now: Estimate, unchanged: Estimate, name: str, metric: str, *, at_once: bool = False) -> Knobs:
    """The knobs of a chip, and the curve of one of them. `at_once` leaves out what takes further evaluations."""
    table = desk(unchanged)
    while not at_once and more(now, unchanged, name, metric) is not None:
        pass
    name = looked_at(unchanged, name, metric)
    curve = table.curve(own(now.device, unchanged.device), name)
    here, was, turned_to = cost(now), cost(unchanged), amount(now, name)
    return Knobs(
        **about(now, on_device=True),
        unchanged=unchanged.device.key,
        metric=metric,
        before=tuple(Before(each, here.of(each), was.of(each)) for each in METRICS),
        knob=name,
        unit=turned_to.unit,
        value=turned_to.value,
        knee=knee([(point.value, point.of(metric)) for point in curve]),
        curve=curve,
        knobs=tuple(_knob(table, now, each) for each in table.ranked(metric)),
    )


def _knob(table: Desk, now: Estimate, name: str) -> Knob:
    here, was, way = amount(now, name), amount(table.unchanged, name).value, places(table.unchanged, name)
    return Knob(
        name=name,
        value=here.value,
        was=was,
        unit=here.unit,
        least=was * way[0].factor,
        most=was * way[-1].factor,
        quality=here.quality,
        source=here.source,
        is_price=here.is_price,
        **(table.slopes.get(name) or {}),
    )


def knee(points: Sequence[tuple[float, float]]) -> float | None:
    """Where a curve turns: the point furthest from its chord, both axes logarithmic and as long as the curve."""
    logs = np.log([point for point in points if min(point) > 0])
    if len(logs) < 3:
        return None
    size = np.ptp(logs, axis=0)
    if not size.all():
        return None
    x, y = ((logs - logs.min(axis=0)) / size).T
    chord = y[0] + (y[-1] - y[0]) * (x - x[0]) / (x[-1] - x[0])
    far = np.abs(y - chord)
    return points[int(far.argmax())][0] if far.max() >= _BENDS else None
