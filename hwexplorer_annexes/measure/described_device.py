"""Description of a machine as a device: the most similar device of the catalogue, with facts replaced that were
measured or read on the machine."""

import re
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np

from hwexplorer.extend import Device, RequestError, device_catalog, device_file, file_access
from hwexplorer_annexes.measure.device_parts import Fact, device_in_mode, percent
from hwexplorer_annexes.measure.measurement_log import MeasuredMachine, MeasurementLog, TimedCase

SETS = Path(__file__).with_name("instruction_sets.toml")
HOST_LAUNCH_S = 1e-7  # least time that an operator takes to start on a CPU
PROBE_OPERATORS = 32  # operators of the probe `dispatch`
_CACHE_PART = 0.5  # of a cache: so many bytes stay in it when they are read repeatedly
_BEYOND_CACHE = 4.0  # times the last level: so many bytes do not stay in it
_UNITS = {"units": "count", "clock_hz": "Hz", "idle_w": "W", "tdp_w": "W", "power_limit_w": "W"}
_PER_CHIP = ("tdp_w", "idle_w", "clocked_idle_w", "active_w", "power_limit_w", "sustained_w")
_NOT_SHARED = ("memory_bus_bits", "memory_transfer_rate", "vector_clock_hz", "matrix_clock_hz")


def nearest_device(machine: MeasuredMachine, facts: dict[str, Fact]) -> Device:
    """Return the most similar device of the catalogue: by name if the catalogue has it, else by facts."""
    devices = [d for d in device_catalog.load_devices()[0] if d.architecture == machine.architecture and d.silicon]
    with suppress(RequestError):  # no device of the catalogue has this name
        if (named := device_catalog.load_device(machine.name)) in devices:
            return named
    known = {name: facts[name].value for name in ("units", "clock_hz", "memory_bandwidth", "l2_bytes") if name in facts}

    def distance(device: Device) -> float:
        """Return the sum of abs(log(machine / device)) over the known facts."""
        compared = [(value, device.values.get(name)) for name, value in known.items() if value]
        return float(sum(abs(np.log(value / other)) for value, other in compared if other))

    same_vendor = [d for d in devices if d.vendor == machine.vendor]
    return min(same_vendor or devices, key=distance)


def measured_facts(log: MeasurementLog) -> dict[str, Fact]:
    """Return facts of the machine by name: facts that the system states, and facts that follow from timings."""
    machine, date = log.machine, log.machine.date
    facts = {
        name: Fact(
            value, _UNITS.get(name, "bit" if name.endswith("bits") else "byte"), f"read here, {date}", "measured"
        )
        for name, value in machine.facts.items()
    }
    lanes = _fma_per_clock(machine, "vector").get("fp32")
    peak = _peak_flop_per_s(log)
    if peak and lanes and lanes.value and machine.is_host:
        needed_hz = peak / (2.0 * machine.facts.get("units", 1.0) * lanes.value)
        if needed_hz > machine.facts.get("clock_hz", 0.0):
            why = f"measured here, {date}: the clock that its fastest product needs"
            facts["clock_hz"] = Fact(needed_hz, "Hz", why, "measured", low=needed_hz)
    for timed in log.timed:
        if timed.case.op == "dispatch":
            seconds = timed.seconds / PROBE_OPERATORS
            one = msgspec.structs.replace(timed, seconds=seconds)
            facts["dispatch_s"] = _measured_fact(seconds, "s", one, machine, "an operator on a tiny tensor")
            if machine.is_host:
                why = "the start of operators is stated by class (rates.overhead)"
                facts |= {name: Fact(HOST_LAUNCH_S, "s", why, "measured") for name in ("launch_s", "thread_join_s")}
    return facts | _bandwidths(log)


def _bandwidths(log: MeasurementLog) -> dict[str, Fact]:
    machine, facts = log.machine, {}
    last = machine.facts.get("l3_bytes") or machine.facts.get("l2_bytes") or 0.0
    before = machine.facts.get("l2_bytes", 0.0) if machine.facts.get("l3_bytes") else 0.0
    footprints = {
        "memory_bandwidth": (last * _BEYOND_CACHE, float("inf")),
        "last_level_bandwidth": (before * 1.5, last * _CACHE_PART),
    }
    for name, (least, most) in footprints.items():
        rates = [(t.case.moved / t.seconds, t) for t in log.timed if least <= t.case.footprint <= most]
        if rates:
            best, timed = max(rates, key=lambda pair: pair[0])
            what = f"{timed.case.op} of {timed.case.footprint / 1e6:.3g} MB"
            facts[name] = _measured_fact(best, "byte/s", timed, machine, what)
    return facts


def _measured_fact(value: float, unit: str, timed: TimedCase, machine: MeasuredMachine, what: str) -> Fact:
    why = f"measured here, {machine.date}: {what}, spread {percent(timed.spread)} over {timed.rounds} rounds"
    return Fact(value, unit, why, "measured", low=value * (1 - min(timed.spread, 0.9)), high=value * (1 + timed.spread))


def _peak_flop_per_s(log: MeasurementLog) -> float:
    """Return the highest rate of fp32 matrix products on all cores, FLOP/s; 0 if none was timed."""
    peak = 0.0
    for timed in log.timed:
        case = timed.case
        sizes = re.search(r"width=(\d+) batch=(\d+)", case.key)
        if case.op == "linear" and case.precision == "fp32" and sizes and case.threads >= log.machine.threads:
            peak = max(peak, 2.0 * 4.0 * int(sizes[1]) ** 2 * int(sizes[2]) / timed.seconds)  # four products a probe
    return peak


def _fma_per_clock(machine: MeasuredMachine, unit: str) -> dict[str, Fact]:
    for row in file_access.table(SETS)[unit]:
        if set(row["flags"]) <= set(machine.flags):
            why = f"its instruction set: {row['source']}"
            rates = {name: value for name, value in row.items() if name not in ("flags", "source")}
            return {name: Fact(float(value), "FMA/clock", why, "derived") for name, value in rates.items()}
    return {}


def describe_device(machine: MeasuredMachine, base: Device, name: str, facts: dict[str, Fact]) -> Device:
    """Return the base device with its facts replaced by those of the machine. Facts of the whole chip, such as TDP, are
    scaled by the number of units."""
    file = base.file
    scale = facts["units"].value / base.units if "units" in facts else 1.0
    merged: dict[str, Fact] = {}
    for key, fact in file.facts.items():
        if key in _NOT_SHARED:
            continue
        by = scale if key in _PER_CHIP else 1.0
        ends = {end: None if value is None else value * by for end, value in (("low", fact.low), ("high", fact.high))}
        what = f"as {file.name}" + (", by number of cores" if by != 1.0 else "")
        source = f"{what}: {fact.source}"[:400]
        merged[key] = msgspec.structs.replace(fact, value=fact.value * by, source=source, quality="assumed", **ends)
    tables = file.fma_per_clock
    if machine.is_host:
        rates = {unit: _fma_per_clock(machine, unit) for unit in ("vector", "matrix")}
        tables = {unit: table for unit, table in rates.items() if table or unit == "vector"}
    title = machine.name if machine.name.lower() not in ("", "unknown") else name
    if "units" in facts:
        title += f", {facts['units'].value:.0f} {file.unit_name or base.arch.unit}s (here)"
    note = f"Measured by hwexplorer measure on {machine.date} with {machine.software}; all else is as in {file.name}"
    spec = device_file.DeviceFile(
        id=name,
        name=title,
        vendor=machine.vendor,
        architecture=machine.architecture,
        memory_technology=file.memory_technology,
        facts=merged | facts,
        fma_per_clock=tables,
        year=int(machine.date[:4]),
        unit_name=file.unit_name,
        software=base.software_class,
        notes=(note, machine.energy),
        runs=file.runs if not machine.is_host else {},
    )
    return device_in_mode(spec)
