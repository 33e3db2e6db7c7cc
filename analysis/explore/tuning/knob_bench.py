"""The knobs of a chip: what a model, or a node of it, costs with facts and prices of the device changed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.estimate.tree import operators_of
from analysis.model.ir.workload import Workload
from hardware.device import Device
from hardware.errors import RequestError, unknown
from hardware.what_if import Change, changed

STEP, SIDE_STEP = 1.05, 2.0  # of a knob, to either side, between which a slope is taken; sides of arrays are doubled
# Facts that say no more than others do, or what the chip may be asked to hold.
_NO_KNOBS = frozenset({"memory_bytes", "memory_bus_bits", "memory_transfer_rate", "nominal_clock_hz", "sustained_w"})
METRICS = ("latency", "energy", "edp")


class Cost(msgspec.Struct, frozen=True):
    """Latency of the batch, energy per inference and their product, SI units."""

    latency_s: float
    energy_j: float

    @property
    def edp_js(self) -> float:
        return self.latency_s * self.energy_j

    def of(self, metric: str) -> float:
        return {"latency": self.latency_s, "energy": self.energy_j, "edp": self.edp_js}[metric]


class Bench(msgspec.Struct, frozen=True, dict=True):
    """A model on a device whose knobs are turned: `path` is the node that is looked at ('' the model)."""

    workload: Workload
    device: Device
    scenario: Scenario
    path: str = ""

    def run(self, factors: Mapping[str, float]) -> Estimate:
        """With each knob at a factor of what it is. Raises RequestError for a chip that cannot be."""
        changes = tuple(self._change(name, factor) for name, factor in factors.items() if factor != 1.0)
        return estimate(self.workload, changed(self.device, changes), self.scenario)

    def _counted(self, knob: str) -> float:
        """How many there are, of a knob that comes whole; 0 for others."""
        field = self.device.arch.data.facts.get(knob)
        return self.device.values[knob] if field is not None and field.is_whole else 0.0

    def _change(self, knob: str, factor: float) -> Change:
        if count := self._counted(knob):
            return Change(knob, "=", f"{max(round(count * factor), 1)}")
        return Change(knob, "*", f"{factor:.5g}")

    def possible(self, knob: str, factor: float) -> float:
        """The nearest factor that a knob can have: counts come whole, others with five digits."""
        if count := self._counted(knob):
            return max(round(count * factor), 1) / count
        return float(f"{factor:.5g}")

    def _beside(self, knob: str, factor: float, turn: float) -> float:
        """The factor a turn further; of a count at least one further, where there is one."""
        if count := self._counted(knob):
            there = count * factor * turn
            return max(math.ceil(there - 1e-9) if turn > 1 else math.floor(there + 1e-9), 1) / count
        return factor * turn

    def cost(self, factors: Mapping[str, float]) -> Cost:
        return cost(self.run(factors), self.path)

    def slopes(self, factors: Mapping[str, float], knob: str, step: float = STEP) -> dict[str, float] | None:
        """d ln(metric) / d ln(knob) around a point, by metric; None for a knob that cannot be turned there."""
        ends = []
        widest = SIDE_STEP if knob in self.device.arch.data.matrix_follows else step
        here = factors.get(knob, 1.0)
        for turn in (1 / widest, widest):
            there = self._beside(knob, here, turn)
            try:
                ends.append((there, self.cost({**factors, knob: there})))
            except RequestError:  # the chip cannot be: the other side tells
                ends.append((here, self.cost(factors)))
        (low, before), (high, after) = ends
        if low == high:
            return None
        width = math.log(high / low)
        return {metric: _log_ratio(after.of(metric), before.of(metric)) / width for metric in METRICS}


def cost(result: Estimate, path: str = "") -> Cost:
    """Of a node of a run."""
    if not path:
        return Cost(result.latency_s, result.energy_j_per_inference)
    operators = operators_of(result, path)
    energy_j = float(result.run.energy_j[operators].sum())
    return Cost(float(result.run.latency_s[operators].sum()), energy_j / result.scenario.batch)


def _log_ratio(after: float, before: float) -> float:
    return math.log(after / before) if after > 0 and before > 0 else 0.0


class Amount(msgspec.Struct, frozen=True):
    """What a knob is set to, in SI units, and how that is known. A rate of several formats is that of the fastest."""

    value: float
    unit: str
    quality: str
    source: str
    is_price: bool = False


def amount(result: Estimate, name: str) -> Amount:
    """Of one of the `facts` of a run's device, or the `prices` of the run."""
    device = result.device
    if name in device.facts or name in device.file.fma_per_clock:
        formats = device.file.fma_per_clock.get(name, {})
        fact = device.facts[name] if name in device.facts else max(formats.values(), key=lambda fact: fact.value)
        return Amount(fact.value, fact.unit, fact.quality, fact.source)
    price = result.run.prices.rows[device.arch.row[name]]
    return Amount(price.value_j, f"J/{price.unit}", price.quality, price.source, True)


def facts(device: Device, *, every: bool = False) -> list[str]:
    """The facts of a device that can be turned, and the rates of its units; `every`: those that say nothing new too."""
    turned = [name for name, fact in device.facts.items() if fact.value > 0 and (every or name not in _NO_KNOBS)]
    return [*turned, *device.file.fma_per_clock]


def prices(result: Estimate, least: float = 0.001) -> list[str]:
    """The events of a run that take more than a share of its energy."""
    whole = result.energy_j or 1.0
    events = result.device.arch.events
    spent = result.event_energy_j.reshape(len(events), -1).sum(axis=1)
    return [event.label for event, joules in zip(events, spent, strict=True) if joules / whole >= least]


def checked(device: Device, names: Iterable[str]) -> tuple[str, ...]:
    """Knobs by name. Raises RequestError for one that the device has not."""
    labels = {event.label for event in device.arch.events}
    known = facts(device)
    for name in names:
        if name.partition(":")[0].partition(".")[0] not in known and name.partition(":")[0] not in labels:
            raise unknown(f"knob of {device.id}", name, [*known, *sorted(labels)])
    return tuple(names)
