"""The price of one event on one device: value, spread and source, from hardware/coefficients.toml.

Prices of arithmetic and SRAM are interpolated between published nodes and capacities. Static prices and those of
events by time follow from idle and active power."""

import math
import re
from functools import cached_property, lru_cache
from typing import cast

import msgspec
import numpy as np

from hardware.architecture_facts import (
    COEFFICIENTS,
    Event,
    GpuConstants,
    Triple,
    log_interpolate,
    logic_scale,
    price_at_node,
    price_table,
)
from hardware.area import level_mm2
from hardware.base.errors import unknown
from hardware.base.file_access import read_records
from hardware.base.records import SourcedValue, memoize
from hardware.base.text import percent
from hardware.demand import NDArray
from hardware.device import DESIGN_TARGET, DESIGNER, Device, Fact
from hardware.plan import Plan
from hardware.precision import BASE, FORMATS


class Coefficient(msgspec.Struct, frozen=True):
    """The price of one event, J per `unit`. Constants of one `group` move together within their spread."""

    category: str
    event: str
    unit: str
    value_j: float
    low_j: float
    high_j: float
    source: str
    quality: str
    group: str


class Coefficients(msgspec.Struct, frozen=True, dict=True):
    """The prices of all events of a device, in the order of its taxonomy. Arrays are J per count, shape (e,).
    `follows_voltage` marks events on chip, whose prices fall with the voltage, `by_time` those by time among them."""

    rows: tuple[Coefficient, ...]
    value: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    follows_voltage: NDArray[np.bool_]
    by_time: NDArray[np.bool_]
    is_static: NDArray[np.bool_]

    @cached_property
    def kinds(self) -> tuple[tuple[NDArray[np.int64], NDArray[np.float64]], ...]:
        """Rows and prices of events on chip, of those by time, and of those in memory."""
        chip, memory = self.follows_voltage & ~self.by_time, ~self.follows_voltage & ~self.is_static
        rows = (np.flatnonzero(kind & (self.value != 0.0)) for kind in (chip, self.by_time, memory))
        return tuple((each, self.value[each]) for each in rows)

    def spreads_j(self, energy_j: NDArray[np.float64]) -> list[tuple[float, float]]:
        """Return by how much the energy of events (e,) may be lower and higher, for each group of prices, which vary
        together."""
        each, groups = np.where(self.value > 0.0, self.value, 1.0), [row.group for row in self.rows]
        sides = energy_j * (1.0 - self.low / each), energy_j * (self.high / each - 1.0)
        place = [groups.index(group) for group in groups]
        down, up = (np.bincount(place, side)[sorted(set(place))].tolist() for side in sides)
        return list(zip(down, up, strict=True))


def _scale(value: Triple, factor: float) -> Triple:
    return value[0] * factor, value[1] * factor, value[2] * factor


def _add(value: Triple, other: Triple) -> Triple:
    return value[0] + other[0], value[1] + other[1], value[2] + other[2]


def _at_node(process_nm: float, anchors: list[tuple[float, Triple]]) -> Triple:
    nodes = [node for node, _ in anchors]
    value = log_interpolate(process_nm, anchors)
    nearest = min(max(process_nm, min(nodes)), max(nodes))
    return value if nearest == process_nm else _scale(value, logic_scale(process_nm) / logic_scale(nearest))


@lru_cache(maxsize=1024)
def _anchored(section: str, name: str, process_nm: float) -> tuple[Triple, str, str]:
    entry = price_table()[section][name]
    anchors = [(node, (v, lo, hi)) for node, v, lo, hi in entry["anchors"]]
    return _at_node(process_nm, anchors), entry["source"], entry["quality"]


@lru_cache(maxsize=1024)
def sram_read(process_nm: float, capacity_bytes: float) -> Triple:
    """Return the J per byte read from an SRAM macro of a capacity: value, low, high."""
    nodes = []
    for node in (45, 7):
        points = [(c, (v, lo, hi)) for c, v, lo, hi in price_table()["sram"][str(node)]["points"]]
        nodes.append((float(node), log_interpolate(capacity_bytes, points)))
    return _at_node(process_nm, nodes)


def _sram(device: Device, event: Event) -> tuple[Triple, str, str]:
    data, capacity = price_table(), device.macro_bytes(event.argument)
    banks, width = (device.values.get(f"{event.argument}_{fact}", 1.0) for fact in ("banks", "width"))
    own, wide = data["sram_width"]["value"], max(width / data["sram_width"]["bytes"], 1.0)
    value = _scale(sram_read(device.process_nm, capacity / banks), 1.0 - own + own / wide)
    if banks > 1.0:
        half_side_mm = math.sqrt(level_mm2(device, event.argument, capacity)) / 2
        value = _add(value, _scale(_anchored("wire", "banks", device.process_nm)[0], half_side_mm))
    macro = f"{capacity / 1024:.0f} KiB" if capacity >= 1024 else f"{capacity:.0f} byte"
    source = f"{macro} macro: {data['sram']['7']['source']}"
    if event.family.endswith("write"):
        value = _scale(value, data["sram_write"]["factor"])
    if event.family.startswith("far"):
        wire = data["far_wire"]
        far = _scale((wire["value"], wire["low"], wire["high"]), logic_scale(device.process_nm))
        value, source = _add(value, far), f"{source}; wire: {wire['source']}"
    return value, source, "published"


def _dram(device: Device, _event: Event) -> tuple[Triple, str, str]:
    dram = price_table()["dram"]
    low_mid_high = dram.get(device.memory_technology)
    if low_mid_high is None:
        known = [name for name in dram if name not in ("source", "quality")]
        raise unknown(f"memory_technology of {device.id}", device.memory_technology, known)
    return (_scale(tuple(low_mid_high), 8e-12), f"{device.memory_technology}: {dram['source']}", dram["quality"])


def _arithmetic(device: Device, event: Event, plan: Plan) -> tuple[Triple, str, str]:
    node = device.process_nm
    if event.family == "special":
        return _anchored("special", BASE, node)
    if event.family == "flop":
        name = {"vector": plan.vector, "integer": "integer"}[event.argument]
        name = name if name in price_table()["flop"] else FORMATS[name].priced_as or BASE
        return _anchored("flop", name, node)
    format_ = plan.vector_mac if event.argument == "vector" else plan.matrix
    value, source, quality = _anchored("mac", format_, node)
    if event.family == "mac" and "compute.tensor_core_mac" in device.arch.row and FORMATS[format_].bits == 16:
        value, source, quality = _anchored("tensor_core", format_, node)
        source += "; a lane, which adds up no sums for others, takes no less"
    if event.family == "tensor_mac":
        measured = format_ if format_ in price_table()["tensor_core"] else "fp16"
        core, source, quality = _anchored("tensor_core", measured, node)
        if measured != format_:
            core = _scale(core, value[0] / _anchored("mac", measured, node)[0][0])
            source += f"; {format_} by its ratio to {measured}"
        padding = cast(GpuConstants, device.arch.constants).padding_price if event.argument == "padding" else 1.0
        value = _scale(core, padding * device.tensor_core_energy)
    return value, source, quality


def _logic(device: Device, event: Event) -> tuple[Triple, str, str]:
    own = device.arch.data.logic.get(event.argument)
    entry = own or read_records(COEFFICIENTS, "logic", SourcedValue)[event.argument]
    scale, assumed = logic_scale(device.process_nm), device.arch.constants
    if own is not None:
        scale = (scale / logic_scale(assumed.price_node)) ** assumed.price_node_gain
    # Windows, registers and caches of a core with two 256-bit vector units are larger than those of a narrower one.
    core = min(device.file.fma_per_clock["vector"][BASE].value / 16.0, 1.0) if device.arch.is_host else 1.0
    return _scale((entry.value, entry.low, entry.high), scale * core), entry.source, entry.quality


def _path(device: Device, event: Event) -> tuple[Triple, str, str]:
    """Return the price of a byte on a path across the die, whose length follows its side, or through the controller of
    its kind of memory."""
    prices, assumed, node = device.arch.data.logic, cast(GpuConstants, device.arch.constants), device.process_nm
    if event.argument == "controller":
        kind = re.match("[A-Z]*", device.memory_technology)
        entry, scale = prices.get(f"controller_{kind[0]}" if kind else "", prices["controller_LPDDR"]), 1.0
    else:
        units = device.file.facts["units"].value / assumed.path_units
        side = math.sqrt(units * math.sqrt(node / assumed.price_node))
        entry, scale = prices[event.argument], side * logic_scale(node) / logic_scale(assumed.price_node)
    return _scale((entry.value, entry.low, entry.high), scale), entry.source, entry.quality


def _by_time(device: Device, event: Event) -> tuple[Triple, str, str]:
    fact, (active, low, high) = device.facts["active_w"], device.ends("active_w")
    # Energy per cycle is a property of the device, whatever the clock and the units of the power mode.
    stated = device.file.facts
    per_cycle = active / (stated["units"].value * stated["clock_hz"].value)
    source, quality = f"active_w {active:g} W over units x clock; {fact.source}", fact.quality
    if part := device.arch.data.by_time.get(event.name):
        # Each part has the relative spread of the whole: shares add up to one, so the parts move together.
        per_cycle *= part.value
        shares = f"{percent(part.value)} ({part.low * 100:.0f} to {percent(part.high)})"
        source = f"{shares} of it: {part.source}; {source}"
        quality = part.quality
    return (per_cycle, per_cycle * (low / active), per_cycle * (high / active)), source, quality


def _static(device: Device, event: Event) -> tuple[Triple, str, str]:
    # A device draws at least the larger idle power while it runs a program.
    name = max(("idle_w", "clocked_idle_w"), key=lambda name: device.facts[name].value)
    fact, memory = device.facts[name], price_table()["static_memory_share"]["value"]
    share = memory if event.argument == "memory" else 1 - memory
    return _scale(device.ends(name), share), f"clocked idle {fact.value:g} W; {fact.source}", fact.quality


def _at_voltage(device: Device, event: Event, value: Triple, source: str) -> tuple[Triple, str]:
    """Return the price at the device's clock, from the price at nominal voltage: lower clocks need a lower voltage."""
    clock_hz, stated = device.vector_clock_hz, device.file.facts
    before = 1.0
    if event.is_by_time:  # a device file states active power at the clock of the file
        usual = device.without_added or device  # a higher clock of the lanes alone raises the voltage of all
        per_clock = min(clock_hz / device.clock_hz, usual.vector_clock_hz / usual.clock_hz)
        before = device.voltage_at(stated["clock_hz"].value * per_clock)
    scale = (device.voltage_at(clock_hz) / before) ** 2
    if scale == 1.0:
        return value, source
    return _scale(value, scale), f"{source}; x {scale:.2f} at the voltage of {clock_hz / 1e9:.3g} GHz"


def _with_activity(
    device: Device, plan: Plan, event: Event, zeros: Triple, value: Triple, source: str
) -> tuple[Triple, str]:
    """Return the price at the activity of the data, from the price with random data. `zeros` are the shares of it that
    zeros cost."""
    ends = device.ends("data_activity")
    is_integer = event.family == "tensor_mac" and FORMATS[plan.matrix].kind == "integer"
    own = cast(GpuConstants, device.arch.constants).integer_activity if is_integer else 1.0
    scales = [zero + (1.0 - zero) * min(own * end, 1.0) for zero, end in zip(zeros, ends, strict=True)]
    source = f"{source}; x {scales[0]:.2f} at a data activity of {percent(ends[0])}"
    return (value[0] * scales[0], value[1] * scales[1], value[2] * scales[2]), source


def _stated_price(device: Device, plan: Plan, event: Event) -> Fact | None:
    """Return the device file's own price of an event, `"tile.mac"` or `"tile.mac:bf16"`, or None. A design target
    counts in the mode DESIGNER alone."""
    if not (stated := device.file.coefficients):
        return None
    format_ = plan.matrix if event.argument == "matrix" else plan.vector
    found = stated.get(f"{event.label}:{format_}") or stated.get(event.label)
    is_hope = found is not None and found.quality == DESIGN_TARGET and device.power_mode != DESIGNER
    return None if is_hope else found


def _wait_loop(device: Device, plan: Plan, event: Event) -> Coefficient:
    """Return the price of a cycle in which a core executes loops that wait."""
    events, total = zip(device.arch.events, device.arch.scalar_instruction.tolist(), strict=True), (0.0, 0.0, 0.0)
    rate = device.arch.data.assumptions["instructions_per_cycle"]
    for each, count in events:
        if count:
            part = price(device, plan, each)
            total = _add(total, _scale((part.value_j, part.low_j, part.high_j), count * rate.value))
    total = _scale(total, device.file.price_factors.get(event.label, 1.0))
    source = f"{rate.value:g} scalar instructions a cycle: {rate.source}"
    return Coefficient(event.category, event.name, event.count, *total, source, rate.quality, "waiting")


def evidence_factor(device: Device, event: Event) -> float:
    """Return measured energy of an event over its bottom-up price: by kind, and for a device whose prices are
    bottom-up no more than its power at load allows."""
    if event.is_by_time or event.is_static:
        return 1.0
    if event.family in ("mac", "tensor_mac", "flop", "special"):
        kind = "multiply" if event.argument in ("matrix", "padding") else "lane"
    elif event.family == "dram" or event.argument == "controller":
        kind = "dram"
    elif event.component == "memory" and event.argument != "tlb":
        is_last = any(word in event.label for word in ("l2", "l3", "scratchpad", "shared_memory"))
        kind = "last_level" if is_last else "first_level"
    else:
        kind = "control"
    factor, assumed = float(price_table()["evidence"][kind]), device.arch.constants
    return factor if device.arch.data.story.prices == "measured" else min(factor, assumed.price_allowance)


def price(device: Device, plan: Plan, event: Event) -> Coefficient:
    """Return the price of one event on a device running a plan."""
    stated = _stated_price(device, plan, event)
    if event.family == "wait" and stated is None:
        return _wait_loop(device, plan, event)
    if stated is not None:
        low, high = stated.low or stated.value, stated.high or stated.value
        triple, source, quality = (stated.value, low, high), stated.source, stated.quality
        if stated.by_node:
            triple = price_at_node(triple, device.process_nm, stated.by_node)
            source = f"{source}; at {device.process_nm:g} nm, from values at {', '.join(stated.by_node)} nm"
    elif event.family in ("mac", "tensor_mac", "flop", "special"):
        triple, source, quality = _arithmetic(device, event, plan)
    elif "sram" in event.family:
        triple, source, quality = _sram(device, event)
    else:
        triple, source, quality = _RESOLVE[event.family](device, event)
    label = event.label
    if zeros_cost := device.arch.data.zeros.get(label):
        triple, source = _with_activity(device, plan, event, zeros_cost, triple, source)
    if event.is_on_chip and not (event.argument == "controller" and device.memory_technology.startswith("GDDR")):
        triple, source = _at_voltage(device, event, triple, source)
    if device.file.price_factors:
        factors, format_ = device.file.price_factors, plan.matrix if event.argument == "matrix" else plan.vector
        triple = _scale(triple, factors.get(label, 1.0) * factors.get(f"{label}:{format_}", 1.0))
    if device.priced:
        triple = _scale(triple, evidence_factor(device, event) ** (1.0 if device.priced == "measured" else -1.0))
    group = event.family if event.family != "logic" else f"logic.{event.category}"
    paper, allowance = price_table()["paper"], device.arch.data.assumptions["price_allowance"]
    most, why = (allowance.value, allowance.source) if device.silicon else (paper["high"], paper["source"])
    is_known = device.priced == "measured" or event.is_by_time or event.is_static
    if most > 1.0 and not is_known:  # prices that were never measured err together
        triple, group = (*triple[:2], max(triple[2], triple[0] * most)), "paper"
        source = f"{device.file.sources.get(source, source)}; high: {why}"
    return Coefficient(
        event.category, event.name, event.count, *triple, device.file.sources.get(source, source), quality, group
    )


_RESOLVE = {"dram": _dram, "logic": _logic, "path": _path, "by_time": _by_time, "static": _static}


@memoize()
def coefficients(device: Device, plan: Plan) -> Coefficients:
    """Return the prices of all events of the device under this plan, computed once per device and plan."""
    rows = tuple(price(device, plan, event) for event in device.arch.events)
    return Coefficients(
        rows,
        np.array([row.value_j for row in rows]),
        np.array([row.low_j for row in rows]),
        np.array([row.high_j for row in rows]),
        *device.arch.event_marks,
    )
