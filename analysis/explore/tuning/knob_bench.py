"""The knobs of a device, which are its facts and event prices, and the cost of a model with some of them changed."""

import math
from collections.abc import Iterable, Mapping

import msgspec

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.metrics import ADDITIVE, METRICS
from hardware.device import Device
from hardware.errors import RequestError, unknown
from hardware.what_if import Change, apply_changes

STEP, SIDE_STEP = 1.05, 2.0  # factor to either side for a slope; sides of arrays are doubled and halved
KNOB_METRICS = ADDITIVE[::-1]  # in the order of the documents: latency, energy, edp
# Facts that follow from others, limit what the chip can hold, or name a generation of instructions.
_NO_KNOBS = {"memory_bytes", "memory_bus_bits", "memory_transfer_rate", "nominal_clock_hz", "sustained_w"} | {
    "synchronous_matrix_rate"
}


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


def nearest_factor(device: Device, knob: str, factor: float) -> float:
    """Return the nearest factor that a knob can have: counts are whole, others have five digits."""
    if count := _count(device, knob):
        return max(round(count * factor), 1) / count
    return float(f"{factor:.5g}")


def _step(device: Device, knob: str, factor: float) -> float:
    """Return the factor. For a count, return the next factor that changes it by at least one, if possible."""
    if count := _count(device, knob):
        value = count * factor
        return max(math.ceil(value - 1e-9) if factor > 1 else math.floor(value + 1e-9), 1) / count
    return factor


def slopes(unchanged: Estimate, knob: str) -> dict[str, float] | None:
    """Compute d ln(metric) / d ln(knob) by metric. Return None if the knob cannot be changed."""
    ends, device = [], unchanged.device
    step = SIDE_STEP if knob in device.arch.data.matrix_follows else STEP
    for factor in (_step(device, knob, 1 / step), _step(device, knob, step)):
        try:
            ends.append((factor, model_cost(change_knobs(unchanged, {knob: factor}))))
        except RequestError:  # invalid on this side: take the slope over the other side alone
            ends.append((1.0, model_cost(unchanged)))
    (low, before), (high, after) = ends
    if low == high:
        return None
    width = math.log(high / low)
    figures = {name: (METRICS[name].figure(before), METRICS[name].figure(after)) for name in KNOB_METRICS}
    return {name: math.log(b / a) / width if a > 0 and b > 0 else 0.0 for name, (a, b) in figures.items()}


def model_cost(result: Estimate) -> ModelCost:
    """Return the cost of the model of an estimate."""
    return ModelCost(result.latency_s, result.energy_j_per_inference)


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
        return KnobValue(fact.value, fact.unit, fact.quality, fact.source)
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


def check_knobs(device: Device, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of knobs. Raises RequestError for one that the device does not have."""
    labels = {event.label for event in device.arch.events}
    known_facts = facts(device)
    for name in names:
        if name.partition(":")[0].partition(".")[0] not in known_facts and name.partition(":")[0] not in labels:
            raise unknown(f"knob of {device.id}", name, [*known_facts, *sorted(labels)])
    return tuple(names)
