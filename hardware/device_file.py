"""Device files, read and checked: every fact has a unit, a source and a quality."""

import math
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, get_args

import msgspec

from hardware import known_architectures
from hardware.architecture_facts import Event, Field, Software
from hardware.base import file_access as storage
from hardware.base.errors import RequestError, hint, unknown
from hardware.demand import OpClass
from hardware.engines.runtime import MODES, Runtime, runtimes
from hardware.hierarchy import Hierarchy, Kind, Level, Stationary
from hardware.precision import BASE, FORMATS, UNITS
from hardware.published_prices import price_table

# The range of every figure of a device file except 0, whatever its SI unit: rates of a chip stay below 1e19, the
# energy of an event above 1e-16 J. Products of several figures stay well within the range of a float.
LEAST, MOST = 1e-24, 1e24
CATALOG = Path(__file__).parent / "catalog"
DESIGN_TARGET = "design target"
DESIGNER = "designer"  # the mode in which a design target has its designer's own prices
_PEAK_OFF = 0.05  # largest difference of a stated peak from that of the units
QUALITIES = ("data sheet", "measured", "published", "fitted", "assumed", "derived", DESIGN_TARGET)


class Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One sourced figure. `low` and `high` bound it where sources disagree. `by_node` are its values at other nodes in
    nm, from which prices of events are interpolated."""

    value: float
    unit: str
    source: str
    quality: str
    low: float | None = None
    high: float | None = None
    note: str = ""
    by_node: dict[str, float] | msgspec.UnsetType = msgspec.UNSET


class PowerMode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A thermal operating point: `facts` replace the device's own in this mode; `nvpmodel` are the numbers that
    NVIDIA's tool of that name gives the mode."""

    facts: dict[str, Fact]
    note: str = ""
    nvpmodel: tuple[int, ...] = ()


class OwnEvidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The evidence for estimates with a runtime on this device (for one `work_class` if named): `rows` measured, the
    median error of rows left out of the fit (a fraction), and the factors of the estimate that include them."""

    runtime: str
    mode: str
    rows: int
    median_error: float
    low: float
    high: float
    work_class: str = ""


class DeviceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A catalogue file as written. `compiler` names what divides models between an accelerator and the rest of its
    module (a record of analysis/explore/operator_support.toml). A measured device has its own `rates` instead of its
    software class's, its own `runtimes`, of which 'auto' takes the first that fits, and `trust`."""

    id: str
    name: str
    vendor: str
    architecture: str
    memory_technology: str
    facts: dict[str, Fact]
    fma_per_clock: dict[str, dict[str, Fact]]
    year: int = 0
    unit_name: str = ""
    software: str = ""
    compiler: str = ""
    aliases: tuple[str, ...] = ()
    is_silicon: bool = True
    notes: tuple[str, ...] = ()
    sources: dict[str, str] = {}
    peak_flops: dict[str, Fact] = {}
    power_modes: dict[str, PowerMode] = {}
    runs: dict[str, dict[str, str]] = {}
    coefficients: dict[str, Fact] = {}
    exceptions: dict[str, str] = {}
    # A measured device is in the power mode `mode` of the device that it is made from. A what-if device has the
    # changes made, which a file does not state, and the factors of its event prices.
    mode: str = ""
    changes: tuple[str, ...] = ()
    price_factors: dict[str, float] = {}
    rates: Software | None = None
    rates_in: tuple[str, ...] = ()  # formats of the products whose `rates` are known; none: all
    runtimes: dict[str, Runtime] = {}
    trust: tuple[OwnEvidence, ...] = ()
    hierarchy: Hierarchy | None = None
    format_units: dict[str, Fact] = {}  # units that multiply a format, if not all do: a checkerboard


def fail(file: str, message: object) -> RequestError:
    """Return the RequestError for a message about a device file."""
    return RequestError(f"device file {file}: {message}")


def _check_name(where: str, kind: str, name: str, allowed: Collection[str]) -> None:
    """Raise ValueError if a name is not allowed. As in all checks, it has the place and what is allowed there."""
    if name not in allowed:
        raise ValueError(f"{where}: {unknown(kind, name, allowed)}")


def _check_fact(where: str, fact: Fact, unit: str, is_positive: bool = False) -> None:
    if fact.unit != unit:
        raise ValueError(f"{where}: unit is {fact.unit!r}, expected {unit!r}")
    for name, number in (("value", fact.value), ("low", fact.low), ("high", fact.high)):
        most = 1.0 if unit == "share" else MOST
        if number is not None and not (number == 0.0 or LEAST <= number <= most):
            raise ValueError(f"{where}: {name} {number} is out of range (allowed: 0, or {LEAST:g} to {most:g})")
    if fact.quality not in QUALITIES:
        raise ValueError(f"{where}: quality is {fact.quality!r} (allowed: {', '.join(QUALITIES)})")
    low, high = (fact.value if end is None else end for end in (fact.low, fact.high))
    if not low <= fact.value <= high:
        raise ValueError(f"{where}: value {fact.value} is outside low-high {low}-{high}")
    if is_positive and fact.value <= 0.0:
        raise ValueError(f"{where}: must be greater than 0, is {fact.value}")


def fraction_error(value: float) -> str:
    """Return an error message for a count that is not whole, else ''."""
    if value.is_integer():
        return ""
    near = sorted({max(math.floor(value), 1), math.ceil(value)})
    return f"{value:g} is not a whole number (nearest: {' or '.join(map(str, near))})"


def _check_facts(where: str, known: dict[str, Field], facts: dict[str, Fact]) -> None:
    for name, fact in facts.items():
        _check_name(where, "field", name, known)
        field = known[name]
        divides = field.unit in ("Hz", "byte/s") or name.endswith(("_banks", "_width"))
        _check_fact(f"{where}.{name}", fact, field.unit, is_positive=divides or (field.is_required and not field.of))
        if field.is_whole and (wrong := fraction_error(fact.value)):
            raise ValueError(f"{where}.{name}: {wrong}")


def _check_tables(spec: DeviceFile) -> None:
    for unit, table in spec.fma_per_clock.items():
        _check_name("fma_per_clock", "unit", unit, ("matrix", "vector"))
        for precision, fact in table.items():
            _check_name(f"fma_per_clock.{unit}", "precision", precision, UNITS)
            _check_fact(f"fma_per_clock.{unit}.{precision}", fact, "FMA/clock", is_positive=True)
    if BASE not in spec.fma_per_clock.get("vector", {}):
        raise ValueError(f"fma_per_clock.vector.{BASE} is missing: element-wise work needs a vector unit")
    for precision, fact in spec.peak_flops.items():
        _check_name("peak_flops", "precision", precision, UNITS)
        _check_fact(f"peak_flops.{precision}", fact, "FLOP/s", is_positive=True)
    for precision, fact in spec.format_units.items():
        _check_name("format_units", "precision", precision, spec.fma_per_clock.get("matrix", {}))
        _check_fact(f"format_units.{precision}", fact, "count", is_positive=True)
        if fact.value > spec.facts["units"].value or fraction_error(fact.value):
            raise ValueError(f"format_units.{precision}: must be a whole number of at most all units")
    for precision in spec.exceptions:
        _check_name("exceptions", "precision", precision, UNITS)


def _check_runs(spec: DeviceFile) -> None:
    """Check that each row, as `convolution = "matrix:tf32"`, names a unit and a format that the unit has."""
    for precision, table in spec.runs.items():
        _check_name("runs", "precision", precision, UNITS)
        for work, runs_as in table.items():
            where = f"runs.{precision}.{work}"
            if work in ("convolution", "contraction"):
                units = [f"{unit}:{name}" for unit, formats in spec.fma_per_clock.items() for name in formats]
                _check_name(where, "unit and format", runs_as, units)
            elif work == "stored":
                _check_name(where, "precision", runs_as, UNITS)
            else:
                _check_name(f"runs.{precision}", "name", work, ("convolution", "contraction", "stored", "why"))


def check_coefficients(coefficients: dict[str, Fact], events: dict[str, Event]) -> None:
    """Check that each price, `"tile.mac"` or for one format `"tile.mac:bf16"`, is of an event of the architecture."""
    for name, fact in coefficients.items():
        event, colon, precision = name.partition(":")
        _check_name("coefficients", "event", event, events)
        if colon:
            _check_name(f"coefficients.{event}", "precision", precision, UNITS)
        _check_fact(f"coefficients.{name}", fact, f"J/{events[event].count}", is_positive=bool(fact.by_node))
        for node, value in (fact.by_node or {}).items():
            if not (
                re.fullmatch(r"[0-9]+(\.[0-9]+)?", node) and 1.0 <= float(node) <= 1000.0 and LEAST <= value <= MOST
            ):
                raise ValueError(
                    f"coefficients.{name}.by_node: {node!r} = {value} is no price at a node, as '7' = 3e-13"
                )


_RATES = {
    "compute": (1e-6, 10.0, "1e-6 to 10"),
    "bandwidth": (1e-6, 10.0, "1e-6 to 10"),
    "overhead": (0.0, 1.0, "0 to 1 s"),
}


def _check_measured(spec: DeviceFile) -> None:
    for part, (least, most, allowed) in _RATES.items() if spec.rates is not None else ():
        table: dict[str, tuple[float, float, float]] = getattr(spec.rates, part)
        if "other" not in table and part != "overhead":
            raise ValueError(f"rates.{part}.other is missing")
        for name, (value, low, high) in table.items():
            if name != "other":
                _check_name(f"rates.{part}", "class of operators", name, OpClass.__members__)
            if not least <= low <= value <= high <= most:
                raise ValueError(f"rates.{part}.{name}: [value, low, high] must rise from low to high ({allowed})")
    for name in spec.rates_in:
        _check_name("rates_in", "format", name, FORMATS)
    if spec.rates is not None and not 0.1 <= spec.rates.overlap.value <= 100.0:
        raise ValueError("rates.overlap.value: is out of range (allowed: 0.1 to 100)")
    for name, record in spec.runtimes.items():
        _check_name("runtimes", "runtime", name, runtimes())
        _check_name(f"runtimes.{name}.mode", "mode", record.mode, MODES)
        for ends in (record.dispatch, record.launch, record.call_s, *record.streaming.values()):
            if not 0.0 <= ends.low <= ends.value <= ends.high <= MOST:
                raise ValueError(f"runtimes.{name}: value {ends.value} is outside low-high {ends.low}-{ends.high}")
    for held in spec.trust:
        if not (0.0 < held.low <= 1.0 <= held.high <= 1e6 and held.rows >= 0 and 0.0 <= held.median_error <= 1e6):
            raise ValueError(f"trust of {held.runtime}: low must be above 0 and hold 1 with high")


def read_device_file(path: Path) -> DeviceFile:
    """Read and check a device file. Raises RequestError naming file, field and allowed values."""
    try:
        data = storage.table(path)
    except OSError as error:
        raise fail(path.name, f"cannot be read ({error.strerror})") from None
    try:
        spec = msgspec.convert(data, DeviceFile)
        _check(spec)
        if spec.id != path.stem:
            raise ValueError(f"id: is {spec.id!r}, must equal the file name {path.stem!r}")
    except msgspec.ValidationError as error:
        raise fail(path.name, _suggest_name(_located(data, error))) from None
    except ValueError as error:
        raise fail(path.name, error) from None
    return spec


def _check_peaks(spec: DeviceFile, facts: dict[str, Fact]) -> None:
    """Raise ValueError if a stated peak is not that of the units, their rates and clock, and no exception says why."""
    for form, peak in spec.peak_flops.items():
        rates = {unit: table[form].value for unit, table in spec.fma_per_clock.items() if form in table}
        per_unit = {unit: 2.0 * rate * facts[f"{unit}_clock_hz"].value for unit, rate in rates.items()}
        made = [facts["units"].value * each for each in per_unit.values()]
        if made and form not in spec.exceptions and all(abs(each / peak.value - 1.0) > _PEAK_OFF for each in made):
            unit, rate = next(iter(rates.items()))
            raise ValueError(
                f"peak_flops.{form}: {peak.value:.4g} FLOP/s, but {facts['units'].value:g} units x {rate:g} FMA x "
                f"{facts[f'{unit}_clock_hz'].value:.4g} Hz make {made[0]:.4g}; [exceptions] may say why"
            )


def _check(spec: DeviceFile) -> None:
    if spec.changes:
        raise ValueError("changes: name a changed device by an expression, e.g. h100_sxm{units*2}")
    _check_name("architecture", "architecture", spec.architecture, known_architectures.ALL)
    try:
        described = known_architectures.find_architecture(spec.architecture, spec.hierarchy)
    except ValueError as error:
        raise ValueError(f"hierarchy: {error}") from None
    known, classes = described.data.facts, described.data.software
    if spec.software:
        _check_name("software", "class of software", spec.software, classes)
    _check_facts("facts", known, spec.facts)
    _check_tables(spec)
    _check_runs(spec)
    check_coefficients(spec.coefficients, {event.label: event for event in described.events})
    _check_measured(spec)
    for mode, point in spec.power_modes.items():
        _check_facts(f"power_modes.{mode}.facts", known, point.facts)
    _check_peaks(spec, complete_facts(spec, spec.facts))


def _suggest_name(message: str) -> str:
    """Return the message of an unknown field or value with the nearest right one."""
    structs = (DeviceFile, Fact, PowerMode, OwnEvidence, Hierarchy, Level)
    fields = {name for kind in structs for name in kind.__struct_fields__}
    words = {word for kind in (Stationary, Kind) for word in get_args(kind)}
    wrong = re.search(r"(unknown field `|Invalid enum value ')(\w+)", message)
    near = hint(wrong[2], sorted(fields if wrong[1][0] == "u" else words)) if wrong else ""
    return f"{message} ({near})" if near else message


def _located(data: dict[str, Any], error: msgspec.ValidationError) -> str:
    """Return the validation message with the name of the fact it is about, which msgspec leaves out."""
    message = str(error).replace("`$.", "`").replace("$.", "")
    if "[...]" not in message:
        return message
    tables = {name: data.get(name) for name in ("facts", "peak_flops", "coefficients")}
    groups = data.get("fma_per_clock")
    if isinstance(groups, dict):
        tables |= {f"fma_per_clock.{unit}": table for unit, table in groups.items()}
    for where, table in tables.items():
        for name, fact in table.items() if isinstance(table, dict) else ():
            try:
                msgspec.convert(fact, Fact)
            except msgspec.ValidationError as inner:
                return f"{where}.{name}: {str(inner).replace('`$.', '`')}"
    return message


def _derived(field: Field, factor: float, facts: dict[str, Fact]) -> Fact:
    if not field.of:
        return Fact(factor, field.unit, f"rule: {field.why}", "assumed")
    if field.of == "sustained_w":  # or the limit of a mode below it
        base = min((facts[name] for name in ("sustained_w", "power_limit_w")), key=lambda fact: fact.value)
    else:
        base = facts[field.of]
    note = "" if factor == 1.0 else f"{factor:g} x "
    return Fact(base.value * factor, field.unit, f"rule: {note}{field.of}: {field.why}", "derived")


def complete_facts(spec: DeviceFile, stated: dict[str, Fact]) -> dict[str, Fact]:
    """Return stated facts and facts derived by rule, in the order of the architecture's fields. Raises ValueError if
    one is missing or they contradict each other."""
    data = known_architectures.find_architecture(spec.architecture, spec.hierarchy).data
    software = spec.software or data.software_for(spec.memory_technology)
    facts: dict[str, Fact] = {}
    for name, field in data.facts.items():
        if name in stated:
            facts[name] = stated[name]
        elif field.value is not None:
            facts[name] = _derived(field, field.software.get(software, field.value), facts)
        elif field.must:
            raise ValueError(f"facts.{name} is missing ({field.unit})")
    try:
        check_physics(facts)
    except ValueError as error:
        raise ValueError(f"facts.{error}") from None
    share, active = price_table()["by_time_share"], facts["active_w"]
    rest_w = max(facts["idle_w"].value, facts["clocked_idle_w"].value)
    if active.value > (most_w := share["value"] * (facts["power_limit_w"].value - rest_w)):
        facts["active_w"] = Fact(most_w, "W", f"{active.value:g} W, but {share['source']}", "assumed")
    return facts


def check_physics(facts: dict[str, Fact]) -> None:
    """Raise ValueError, beginning with the name of a fact, if facts contradict each other."""
    value = {name: fact.value for name, fact in facts.items()}
    limit = value["power_limit_w"]
    if limit <= 0 or value["tdp_w"] <= 0:
        raise ValueError("tdp_w: must be greater than 0")
    for name in ("idle_w", "clocked_idle_w"):
        if value[name] >= limit:
            raise ValueError(f"{name}: {value[name]:g} W is not below the power limit of {limit:g} W")
    bus, rate = value.get("memory_bus_bits"), value.get("memory_transfer_rate")
    if bus and rate and abs(bus / 8 * rate / value["memory_bandwidth"] - 1) > 0.03:
        raise ValueError(f"memory_bandwidth: bus x rate gives {bus / 8 * rate:g} byte/s, over 3 % off")
