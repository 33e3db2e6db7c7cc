"""The knobs of a device, which are its facts and event prices: the cost of a model with some of them changed, the curve
over one, and the knee after which more gains less.

A `KnobTable` caches evaluated costs, so that a screen shows them at once and evaluates the rest piece by piece: it asks
for one estimate at a time, where a grid walks over all.
"""

import math
from bisect import insort
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Annotated

import msgspec
import numpy as np

from analysis.document import column, record
from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.metrics import ADDITIVE, METRICS
from hardware.base.errors import RequestError
from hardware.base.records import Slices, memoize
from hardware.device import Device
from hardware.execute import BOUNDS
from hardware.what_if import ARRAY, Change, apply_changes, parse_changes, value_limits

STEP, SIDE_STEP = 1.01, 2.0  # factor for a slope; sides of arrays are doubled
KNOB_METRICS = ADDITIVE[::-1]  # in the order of the documents: latency, energy, edp
# Facts that follow from others, limit what the chip can hold, or name a generation of instructions or a schedule.
_NO_KNOBS = {"memory_bytes", "memory_bus_bits", "memory_transfer_rate", "nominal_clock_hz", "sustained_w"}
_NO_KNOBS |= {"synchronous_matrix_rate", "layers_at_once"}


class ModelCost(msgspec.Struct, frozen=True):
    """Latency of the batch (s) and energy per inference (J) of a model."""

    latency_s: float
    energy_j_per_inference: float = msgspec.field(name="energy_j")

    @property
    def edp_js(self) -> float:
        """Return energy times latency."""
        return self.latency_s * self.energy_j_per_inference


def change_knobs(unchanged: Estimate, factors: Mapping[str, float]) -> Estimate:
    """Estimate with each knob of the device multiplied by its factor. Raises RequestError for an invalid device."""
    device = unchanged.device
    values = {knob: (factor, _count(device, knob)) for knob, factor in factors.items() if factor != 1.0}
    changes = (
        Change(knob, "=", f"{max(round(count * factor), 1)}") if count else Change(knob, "*", f"{factor:.5g}")
        for knob, (factor, count) in values.items()
    )
    return estimate(unchanged.workload, apply_changes(device, tuple(changes)), unchanged.scenario)


def _count(device: Device, knob: str) -> float:
    """Return the value of a knob that counts whole things, 0 for others."""
    field = device.arch.data.facts.get(knob)
    return device.values[knob] if field is not None and field.is_whole else 0.0


def _step(device: Device, knob: str, factor: float) -> float:
    """Return the factor. For a count, return the next factor that changes it by at least one, if possible."""
    if count := _count(device, knob):
        value = count * factor
        return max(math.ceil(value - 1e-9) if factor > 1 else math.floor(value + 1e-9), 1) / count
    return factor


def slopes(unchanged: Estimate, knob: str) -> dict[str, float] | None:
    """Compute d ln(metric) / d ln(knob) by metric for 1 % more, or the next count; 1 % less where more is invalid.
    Return None if the knob cannot be changed."""
    device = unchanged.device
    step = SIDE_STEP if knob in device.arch.data.matrix_follows else STEP
    for factor in (_step(device, knob, step), _step(device, knob, 1 / step)):
        with suppress(RequestError):
            both = (unchanged, change_knobs(unchanged, {knob: factor}))
            before, after = (record(ModelCost, one) for one in both)
            figures = {name: (METRICS[name].figure(before), METRICS[name].figure(after)) for name in KNOB_METRICS}
            if factor != 1.0:
                return {name: _log_ratio(pair) / math.log(factor) for name, pair in figures.items()}
    return None


def _log_ratio(pair: tuple[float, float]) -> float:
    return math.log(pair[1] / pair[0]) if min(pair) > 0.0 else 0.0


class KnobValue(msgspec.Struct, frozen=True):
    """The value of a knob in SI units and its evidence. A rate of several formats is that of the fastest."""

    value: float
    unit: str
    quality: str
    source: str
    is_price: bool = False


def knob_value(result: Estimate, name: str) -> KnobValue:
    """Return the value of one of the `facts` of an estimate's device, or of one of its `prices`."""
    device = result.device
    if name in device.facts or name in device.file.fma_per_clock:
        formats = device.file.fma_per_clock.get(name, {})
        fact = device.facts[name] if name in device.facts else max(formats.values(), key=lambda fact: fact.value)
        return KnobValue(fact.value, fact.unit, fact.quality, device.file.sources.get(fact.source, fact.source))
    price = result.run.prices.rows[device.arch.row[name]]
    return KnobValue(price.value_j, f"J/{price.unit}", price.quality, price.source, True)


def facts(device: Device) -> list[str]:
    """List the facts of a device that can be changed, and the rates of its units."""
    names = [name for name, fact in device.facts.items() if fact.value > 0 and name not in _NO_KNOBS]
    return [*names, *device.file.fma_per_clock]


def prices(result: Estimate, least: float = 0.001) -> list[str]:
    """List the events of an estimate that take at least a share of its energy."""
    energy_j = result.energy_j or 1.0
    events = result.device.arch.events
    spent_j = result.event_energy_j.reshape(len(events), -1).sum(axis=1)
    return [event.label for event, joules in zip(events, spent_j, strict=True) if joules / energy_j >= least]


# --- the curve of one knob -------------------------------------------------------------------------------------

# The preferred numbers of ISO 3 (R10), rounded as knobs are labelled: three steps double.
_STEPS = (
    *(0.1, 0.125, 0.16, 0.2, 0.25, 0.32, 0.4, 0.5, 0.63, 0.8, 1.0),
    *(1.25, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.3, 8.0, 10.0),
)
_DOUBLED = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # sides of arrays
_STEP_WIDTH, _STEP_SHARE, _STEP_MIN = 1.002, 0.5, 0.005  # of a step: factor of the knob, part and size of the change
_KNEE_MIN = 0.1  # distance of a knee from the chord of its curve, as a fraction of the curve's extent
_COSTS_MAX = 4000  # cached costs of one device
Changes = tuple[str, ...]


class KnobPosition(msgspec.Struct, frozen=True):
    """A factor of the unchanged value, and the change that sets it ('' for none)."""

    factor: float
    change: str


class CurvePoint(ModelCost, frozen=True, kw_only=True):
    """The cost of the model at one position of the knob; `value` in the unit of the knob."""

    factor: float
    value: float


class KnobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A fact or event price now and unchanged, its range, and its elasticities on the unchanged device."""

    name: Annotated[str, column("Key", keep=2, help="how --knob and `DEVICE{KEY*2}` spell it")]
    value: float
    was: float
    unit: str
    least: float
    most: float
    quality: Annotated[str, column("Known as", keep=5)]
    source: Annotated[str, column("Source", keep=8)]
    is_price: bool
    latency: Annotated[
        float | None,
        column("Latency %", keep=3, help="% change of the latency per % change of the fact, of the unchanged device"),
    ] = None
    energy: Annotated[
        float | None, column("Energy %", keep=3, help="% change of the energy per inference per % change of the fact")
    ] = None
    edp: Annotated[float | None, column("EDP %", help="% change of energy times latency: the sum of both")] = None


class MetricChange(msgspec.Struct, frozen=True):
    """A metric now and on the unchanged device, in SI units."""

    metric: str
    now: float
    was: float


class KnobReport(Head, frozen=True, kw_only=True):
    """The document of `hwexplorer tune`: knobs sorted by their effect on `metric`, and the `curve` of `knob`. The power
    limit binds for a share of the time, `limited_share`, and from `free_limit_w` on for none of it."""

    unchanged: str
    metric: str
    before: tuple[MetricChange, ...]
    knob: str
    unit: str
    value: float
    knee: float | None
    curve: tuple[CurvePoint, ...]
    knobs: tuple[KnobRow, ...]
    power_limit_w: float
    limited_share: float
    free_limit_w: float | None


def changes_since(now: Device, unchanged: Device) -> Changes:
    """Return the changes of a device, with full names."""
    return now.file.changes[len(unchanged.file.changes) :]


@memoize()
def knob_positions(result: Estimate, name: str) -> tuple[KnobPosition, ...]:
    """List the positions of a knob of an unchanged device, within the limits of a what-if device."""
    device, now = result.device, knob_value(result, name)
    least, most = value_limits(now.unit)
    is_whole = name in device.facts and device.arch.data.facts[name].is_whole
    positions = {now.value: KnobPosition(1.0, "")}
    for step in _DOUBLED if name in device.arch.data.matrix_follows else _STEPS:
        value = now.value * step
        change = f"{name}*{step:g}"
        if is_whole and not value.is_integer():
            value = float(round(value))
            change = f"{name}={value:g}"
        if now.is_price or least <= value <= most:
            positions.setdefault(value, KnobPosition(value / now.value, change))
    return tuple(positions[value] for value in sorted(positions))


def _drop_change(changes: Changes, name: str) -> Changes:
    return tuple(change for change in changes if parse_changes(change)[0].name != name)


def _factor(now: Estimate, unchanged: Estimate, changes: Changes, name: str) -> float:
    """Return the factor that a knob is set to; 1 if the knob only follows others."""
    names = {parse_changes(change)[0].name for change in changes}
    is_set = name in names or (ARRAY in names and name in unchanged.device.arch.data.matrix_follows)
    return knob_value(now, name).value / knob_value(unchanged, name).value if is_set else 1.0


def step_knob(now: Estimate, unchanged: Estimate, name: str, by: int) -> Changes:
    """Return the changes after one step of a knob up (1) or down (-1), or reset (0). Raises RequestError at an end."""
    changes = changes_since(now.device, unchanged.device)
    rest = _drop_change(changes, name)
    if not by:
        return rest
    edge = _factor(now, unchanged, changes, name) * (1 + by * 1e-3)  # factors are written with a few digits
    following = [position for position in knob_positions(unchanged, name)[::by] if (position.factor - edge) * by > 0]
    if not following:
        raise RequestError(f"{name} is at the {'upper' if by > 0 else 'lower'} end of its range here")
    return (*rest, following[0].change) if following[0].change else rest


class KnobTable:
    """Elasticities of an unchanged device and costs of changed ones, for one model and scenario."""

    def __init__(self, unchanged: Estimate) -> None:
        self.unchanged = unchanged
        self.names = (*facts(unchanged.device), *prices(unchanged))
        self.slopes: dict[str, dict[str, float] | None] = {}
        self.costs: dict[Changes, ModelCost | None] = {}

    def sorted_names(self, metric: str) -> tuple[str, ...]:
        """Return the knobs by their effect on a metric, the largest first. Evaluate the effects that are missing."""
        for name in self.names:
            if name not in self.slopes:
                Slices.pause()
                self.slopes[name] = slopes(self.unchanged, name)
        return tuple(sorted(self.names, key=lambda name: -abs((self.slopes[name] or {}).get(metric, 0.0))))

    def cost(self, changes: Changes) -> ModelCost | None:
        """Return the cost of the device with changes, None for an invalid one."""
        if changes not in self.costs:
            Slices.pause()
            if len(self.costs) >= _COSTS_MAX:
                self.costs.clear()
            try:
                device = apply_changes(self.unchanged.device, parse_changes(",".join(changes)))
                changed = estimate(self.unchanged.workload, device, self.unchanged.scenario)
                self.costs[changes] = record(ModelCost, changed)
            except RequestError:
                self.costs[changes] = None
        return self.costs[changes]

    def curve(self, changes: Changes, name: str) -> list[CurvePoint]:
        """Return the valid points of a knob's curve."""
        value, rest = knob_value(self.unchanged, name).value, _drop_change(changes, name)
        return [
            record(CurvePoint, cost, factor=position.factor, value=value * position.factor)
            for position in knob_positions(self.unchanged, name)
            if (cost := self.cost((*rest, position.change) if position.change else rest)) is not None
        ]

    def find_step(
        self, changes: Changes, name: str, metric: str, ends: tuple[CurvePoint, CurvePoint]
    ) -> CurvePoint | None:
        """Return the point just beyond the step between two points of a curve, found by bisection; None if the metric
        changes gradually there."""
        figure, count = METRICS[metric].figure, _count(self.unchanged.device, name)
        low, high = ends
        whole = abs(_log_ratio((figure(low), figure(high))))
        while high.factor > low.factor * _STEP_WIDTH:
            factor = math.sqrt(low.factor * high.factor)
            if count:
                factor = round(count * factor) / count
                if not low.factor < factor < high.factor:
                    break
            change = f"{name}={count * factor:g}" if count else f"{name}*{factor:.5g}"
            if (cost := self.cost((*_drop_change(changes, name), change))) is None:
                return None
            middle = record(CurvePoint, cost, factor=factor, value=knob_value(self.unchanged, name).value * factor)
            sides = (abs(_log_ratio((figure(a), figure(b)))) for a, b in ((low, middle), (middle, high)))
            low, high = (low, middle) if next(sides) > next(sides) else (middle, high)
        last = abs(_log_ratio((figure(low), figure(high))))
        return high if last > _STEP_MIN and last > _STEP_SHARE * whole else None


@memoize()
def find_free_limit_w(result: Estimate) -> float | None:
    """Return the least power limit, W, that slows no kernel of an estimate down; None if its own does not."""
    power = BOUNDS.index("power")
    if not result.bound_s[power]:
        return None
    low, high = 1.0, 2.0
    while change_knobs(result, {"power_limit_w": high}).bound_s[power] and high < 2.0**10:
        low, high = high, high * 2.0
    while high > low * STEP:
        middle = math.sqrt(low * high)
        is_slowed = change_knobs(result, {"power_limit_w": middle}).bound_s[power] > 0.0
        low, high = (middle, high) if is_slowed else (low, middle)
    return result.device.power_limit_w * high


@memoize()
def knob_table(unchanged: Estimate) -> KnobTable:
    """Return the one table of an unchanged device."""
    return KnobTable(unchanged)


def select_knob(unchanged: Estimate, name: str, metric: str) -> str:
    """Return the knob of a name, else the one with the largest effect."""
    table = knob_table(unchanged)
    return name if name in table.names else table.sorted_names(metric)[0]


def knobs(now: Estimate, unchanged: Estimate, name: str, metric: str) -> KnobReport:
    """Report the knobs of a device and the curve of one."""
    table, name = knob_table(unchanged), select_knob(unchanged, name, metric)
    changes = changes_since(now.device, unchanged.device)
    curve = table.curve(changes, name)
    knee = find_knee([(point.value, METRICS[metric].figure(point)) for point in curve])
    for before, after in pairwise(curve[:]):
        if after.value == knee and (step := table.find_step(changes, name, metric, (before, after))):
            knee = step.value
            if step.value != after.value:
                insort(curve, step, key=lambda point: point.value)
    return record(
        KnobReport,
        knob_value(now, name),
        **head_fields(now, on_device=True),
        unchanged=unchanged.device.key,
        metric=metric,
        before=tuple(MetricChange(metric, *map(METRICS[metric].figure, (now, unchanged))) for metric in KNOB_METRICS),
        knob=name,
        knee=knee,
        curve=tuple(curve),
        power_limit_w=now.device.power_limit_w,
        limited_share=now.bound_s[BOUNDS.index("power")] / (now.latency_s or 1.0),
        free_limit_w=find_free_limit_w(now),
        knobs=tuple(_row(table, now, name) for name in table.sorted_names(metric)),
    )


def _row(table: KnobTable, now: Estimate, name: str) -> KnobRow:
    was, positions = knob_value(table.unchanged, name).value, knob_positions(table.unchanged, name)
    least, most = (was * position.factor for position in (positions[0], positions[-1]))
    slopes = table.slopes.get(name) or {}
    return record(KnobRow, knob_value(now, name), name=name, was=was, least=least, most=most, **slopes)


def find_knee(points: Sequence[tuple[float, float]]) -> float | None:
    """Return the x of the point furthest from the chord of a curve, in normalised logarithms; None without a knee."""
    logs = np.log([point for point in points if min(point) > 0])
    if len(logs) < 3:
        return None
    size = np.ptp(logs, axis=0)
    if not size.all():
        return None
    x, y = ((logs - logs.min(axis=0)) / size).T
    chord = y[0] + (y[-1] - y[0]) * (x - x[0]) / (x[-1] - x[0])
    distance = np.abs(y - chord)
    return points[int(distance.argmax())][0] if distance.max() >= _KNEE_MIN else None
