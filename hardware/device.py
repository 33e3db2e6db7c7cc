"""Devices: loaded from TOML, validated, every fact with its unit, source and quality."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import msgspec

from hardware import files as storage
from hardware.architectures import registry
from hardware.architectures.architecture import Architecture
from hardware.architectures.data import Field, Software
from hardware.errors import RequestError, unknown
from hardware.precision import PRECISIONS

CATALOG = Path(__file__).parent / "catalog"
# What a figure of a device file is within, whatever its SI unit, unless it is 0: a chip's rates end at 1e19 and the
# energy of one event at 1e-16 J. Products of several figures stay far from what a float holds.
LEAST, MOST = 1e-24, 1e24
QUALITIES = ("data sheet", "published", "fitted", "assumed", "derived", "design target")


class Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One sourced figure. `low` and `high` bound it where sources disagree."""

    value: float
    unit: str
    source: str
    quality: str
    low: float | None = None
    high: float | None = None
    note: str = ""


class PowerMode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A thermal operating point: facts that replace the device's own while it runs in this mode."""

    facts: dict[str, Fact]
    note: str = ""


class DeviceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A catalogue file as written; `load` turns it into a `Device`."""

    id: str
    name: str
    vendor: str
    architecture: str
    memory_technology: str
    facts: dict[str, Fact]
    fma_per_clock: dict[str, dict[str, Fact]]
    year: int = 0
    unit_name: str = ""
    aliases: tuple[str, ...] = ()
    is_silicon: bool = True
    notes: tuple[str, ...] = ()
    sources: dict[str, str] = {}
    peak_flops: dict[str, Fact] = {}
    power_modes: dict[str, PowerMode] = {}
    runs: dict[str, dict[str, str]] = {}
    coefficients: dict[str, Fact] = {}
    exceptions: dict[str, str] = {}


class Device(msgspec.Struct, frozen=True, dict=True):
    """A device in one power mode. `facts` holds every field of its architecture, derived ones marked.

    `fma_per_clock['matrix' | 'vector'][precision]` counts fused multiply-adds per unit and clock; an FMA is
    two FLOPs. `runs[precision][operator class]` names unit and format where the customary software
    deviates from "as asked" (convolutions of an fp32 model run in tf32 on NVIDIA since Ampere).
    """

    id: str
    name: str
    vendor: str
    architecture: str
    memory_technology: str
    power_mode: str
    file: DeviceFile
    facts: dict[str, Fact]

    def __getattr__(self, name: str) -> float:
        """The value of a fact by its name, in its SI unit: `device.tdp_w`."""
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None

    @cached_property
    def values(self) -> dict[str, float]:
        """The value of each fact, in its SI unit."""
        return {name: fact.value for name, fact in self.facts.items()}

    @property
    def key(self) -> str:
        """The id as a user writes it: with the power mode where it is not the default."""
        return f"{self.id}:{self.power_mode}" if self.power_mode else self.id

    @cached_property
    def arch(self) -> Architecture:
        """The architecture itself; `architecture` is its id."""
        return registry.get(self.architecture)

    @property
    def unit_name(self) -> str:
        """What its maker calls one of its units."""
        return self.file.unit_name or self.arch.unit

    @cached_property
    def software_class(self) -> str:
        """Whose fitted efficiencies apply: the architecture's, or those of GPUs that share the host's LPDDR."""
        return self.arch.data.software_for(self.memory_technology)

    @property
    def software(self) -> Software:
        """The rates that its customary software reaches."""
        return self.arch.data.software[self.software_class]

    def ends(self, name: str) -> tuple[float, float, float]:
        """A fact with its low and high: the file's, else those that facts of this name have."""
        fact, relative = self.facts[name], self.arch.data.facts[name].ends
        low = fact.low if fact.low is not None else fact.value * (relative.low if relative else 1.0)
        high = fact.high if fact.high is not None else fact.value * (relative.high if relative else 1.0)
        return fact.value, low, high

    @cached_property
    def peaks(self) -> dict[tuple[str, str], float]:
        """Dense peak FLOP/s by (unit, precision): units x FMA per clock x clock x 2."""
        clocks = {"matrix": self.clock_hz, "vector": self.vector_clock_hz}
        return {
            (unit, precision): self.units * fact.value * clocks[unit] * 2.0
            for unit, table in self.file.fma_per_clock.items()
            for precision, fact in table.items()
        }

    @property
    def last_level_bytes(self) -> float:
        """Capacity of the last on-chip level that tensors can stay in between kernels."""
        return self.facts[self.arch.last_level].value


def _fail(path: Path, message: str) -> RequestError:
    return RequestError(f"device file {path.name}: {message}")


def _check_fact(path: Path, where: str, fact: Fact, unit: str) -> None:
    if fact.unit != unit:
        raise _fail(path, f"{where}: unit is {fact.unit!r}, expected {unit!r}")
    for name, number in (("value", fact.value), ("low", fact.low), ("high", fact.high)):
        if number is not None and not (number == 0.0 or LEAST <= number <= MOST):
            raise _fail(path, f"{where}: {name} {number} is out of range (allowed: 0, or {LEAST:g} to {MOST:g})")
    if fact.quality not in QUALITIES:
        raise _fail(path, f"{where}: quality is {fact.quality!r} (allowed: {', '.join(QUALITIES)})")
    low, high = (fact.value if end is None else end for end in (fact.low, fact.high))
    if not low <= fact.value <= high:
        raise _fail(path, f"{where}: value {fact.value} is outside low-high {low}-{high}")


def _check_facts(path: Path, where: str, known: dict[str, Field], facts: dict[str, Fact]) -> None:
    for name, fact in facts.items():
        if name not in known:
            raise _fail(path, f"{where}: {unknown('field', name, known)}")
        _check_fact(path, f"{where}.{name}", fact, known[name].unit)
        if fact.value <= 0.0 and known[name].is_required and not known[name].of:
            raise _fail(path, f"{where}.{name}: must be greater than 0, is {fact.value}")


def _check_tables(path: Path, spec: DeviceFile) -> None:
    for unit, table in spec.fma_per_clock.items():
        if unit not in ("matrix", "vector"):
            raise _fail(path, f"fma_per_clock: {unknown('unit', unit, ('matrix', 'vector'))}")
        for precision, fact in table.items():
            _check_precision(path, f"fma_per_clock.{unit}", precision)
            _check_fact(path, f"fma_per_clock.{unit}.{precision}", fact, "FMA/clock")
    if "fp32" not in spec.fma_per_clock.get("vector", {}):
        raise _fail(path, "fma_per_clock.vector.fp32 is missing: element-wise work needs a vector unit")
    for precision, fact in spec.peak_flops.items():
        _check_precision(path, "peak_flops", precision)
        _check_fact(path, f"peak_flops.{precision}", fact, "FLOP/s")

    for precision in spec.exceptions:
        _check_precision(path, "exceptions", precision)


def _check_precision(path: Path, where: str, precision: str) -> None:
    if precision not in PRECISIONS:
        raise _fail(path, f"{where}: {unknown('precision', precision, PRECISIONS)}")


def _check_runs(path: Path, spec: DeviceFile) -> None:
    """`convolution = "matrix:tf32"` names a unit and a format that it has."""
    for precision, table in spec.runs.items():
        _check_precision(path, "runs", precision)
        for work, runs_as in table.items():
            where = f"runs.{precision}.{work}"
            if work in ("convolution", "contraction"):
                units = [f"{unit}:{name}" for unit, formats in spec.fma_per_clock.items() for name in formats]
                if runs_as not in units:
                    raise _fail(path, f"{where}: {unknown('unit and format', runs_as, units)}")
            elif work == "stored":
                _check_precision(path, where, runs_as)
            elif work != "why":
                allowed = ("convolution", "contraction", "stored", "why")
                raise _fail(path, f"runs.{precision}: {unknown('name', work, allowed)}")


def _check_coefficients(path: Path, spec: DeviceFile) -> None:
    """`"tile.mac"`, or for one format `"tile.mac:bf16"`: an event of the architecture."""
    events = {event.label: event for event in registry.get(spec.architecture).events}
    for name, fact in spec.coefficients.items():
        event, colon, precision = name.partition(":")
        if event not in events:
            raise _fail(path, f"coefficients: {unknown('event', event, events)}")
        if colon:
            _check_precision(path, f"coefficients.{event}", precision)
        _check_fact(path, f"coefficients.{name}", fact, f"J/{events[event].count}")


def read(path: Path) -> DeviceFile:
    """A catalogue file, validated. Raises RequestError naming file, field and allowed values."""
    try:
        data = storage.table(path)
    except OSError as error:
        raise _fail(path, f"cannot be read ({error.strerror})") from None
    try:
        spec = msgspec.convert(data, DeviceFile)
    except msgspec.ValidationError as error:
        raise _fail(path, _located(data, error)) from None
    if spec.architecture not in registry.names():
        raise _fail(path, f"architecture: {unknown('architecture', spec.architecture, registry.names())}")
    known = registry.get(spec.architecture).data.facts
    _check_facts(path, "facts", known, spec.facts)
    _check_tables(path, spec)
    _check_runs(path, spec)
    _check_coefficients(path, spec)
    for mode, point in spec.power_modes.items():
        _check_facts(path, f"power_modes.{mode}.facts", known, point.facts)
    complete = _complete(path, spec, spec.facts)
    _check_physics(path, complete)
    return spec


def _located(data: dict[str, Any], error: msgspec.ValidationError) -> str:
    """The validation message with the name of the fact it is about, which the library leaves out."""
    message = str(error).replace("`$.", "`").replace("$.", "")
    if "[...]" not in message:
        return message
    tables = {
        "facts": data.get("facts"),
        "peak_flops": data.get("peak_flops"),
        "coefficients": data.get("coefficients"),
    }
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
    """The fact that a rule gives: a factor times another, or a value."""
    if not field.of:
        return Fact(factor, field.unit, f"rule: {field.why}", "assumed")
    if field.of == "sustained_w":  # or the limit of a mode below it
        base = min((facts[name] for name in ("sustained_w", "power_limit_w")), key=lambda fact: fact.value)
    else:
        base = facts[field.of]
    note = "" if factor == 1.0 else f"{factor:g} x "
    return Fact(base.value * factor, field.unit, f"rule: {note}{field.of}: {field.why}", "derived")


def _complete(path: Path, spec: DeviceFile, stated: dict[str, Fact]) -> dict[str, Fact]:
    """Stated facts plus those derived by rule, in the order of the architecture's fields."""
    data = registry.get(spec.architecture).data
    software = data.software_for(spec.memory_technology)
    facts: dict[str, Fact] = {}
    for name, field in data.facts.items():
        if name in stated:
            facts[name] = stated[name]
        elif field.value is not None:
            facts[name] = _derived(field, field.software.get(software, field.value), facts)
        elif field.must:
            raise _fail(path, f"facts.{name} is missing ({field.unit})")
    return facts


def _check_physics(path: Path, facts: dict[str, Fact]) -> None:
    value = {name: fact.value for name, fact in facts.items()}
    if value["idle_w"] >= value["power_limit_w"]:
        raise _fail(
            path,
            f"facts.idle_w: {value['idle_w']:g} W is not below the limit of {value['power_limit_w']:g} W",
        )
    if value["clocked_idle_w"] >= value["power_limit_w"]:
        raise _fail(path, f"facts.clocked_idle_w: {value['clocked_idle_w']:g} W is not below the power limit")
    if value["power_limit_w"] <= 0 or value["tdp_w"] <= 0:
        raise _fail(path, "facts.tdp_w: must be greater than 0")
    bus, rate = value.get("memory_bus_bits"), value.get("memory_transfer_rate")
    if bus and rate and abs(bus / 8 * rate / value["memory_bandwidth"] - 1) > 0.03:
        raise _fail(path, f"facts.memory_bandwidth: bus x rate gives {bus / 8 * rate:g} byte/s, over 3 % off")


@lru_cache(maxsize=512)
def _read_cached(path: Path, _stamp: tuple[int, int]) -> DeviceFile:
    return read(path)


def _read(path: Path) -> DeviceFile:
    try:
        stat = path.stat()
    except OSError as error:
        raise _fail(path, f"cannot be read ({error.strerror})") from None
    return _read_cached(path, (stat.st_mtime_ns, stat.st_size))


def files(folders: Iterable[Path] = ()) -> dict[str, Path]:
    """Device ids (= file names) to files: the catalogue, then the user's folders, which may not redefine one.

    Raises RequestError for a folder that is none; a file that redefines an id is left out (`duplicates`)."""
    found = {path.stem: path for path in sorted(CATALOG.glob("*.toml"))}
    for folder in folders:
        if not folder.is_dir():
            raise RequestError(f"devices folder {folder} is not a folder")
        for path in sorted(folder.glob("*.toml")):
            found.setdefault(path.stem, path)
    return found


def duplicates(folders: Iterable[Path] = ()) -> dict[str, RequestError]:
    """Files that redefine an id, by that id: which of the two is meant is for the user to say."""
    first = files()
    errors: dict[str, RequestError] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.toml")):
            kept = first.setdefault(path.stem, path)
            if kept != path:
                errors[path.stem] = _fail(path, f"id: {path.stem!r} is already defined by {kept.parent.name}/")
    return errors


def load(name: str, folders: tuple[Path, ...] = ()) -> Device:
    """The device a user means by `id`, `id:power_mode`, an alias or a class. Raises RequestError."""
    available, classes = files(folders), registry.classes()
    mode = ""
    path = _by_alias(name.strip(), available)  # an alias may contain a colon
    if path is None:
        base, _, mode = name.strip().partition(":")
        path = available.get(classes.get(base.lower(), base)) or _by_alias(base, available)
    if path is None:
        raise unknown("device", base, [*available, *classes], listing="`hwexplorer devices` lists them")
    if folders and path.stem in (twice := duplicates(folders)):
        raise twice[path.stem]
    return in_mode(path, _read(path), mode)


def _by_alias(name: str, available: dict[str, Path]) -> Path | None:
    folded = name.casefold()
    for device_id, path in available.items():
        if folded == device_id.casefold():
            return path
    if folded in registry.classes() or (":" in folded and folded.partition(":")[0] in available):
        return None
    for path in available.values():
        try:
            spec = _read(path)
        except RequestError:  # another file's fault must not hide this device
            continue
        if folded in (alias.casefold() for alias in (spec.name, *spec.aliases)):
            return path
    return None


def in_mode(path: Path, spec: DeviceFile, mode: str) -> Device:
    """The device at one operating point ('' is its default)."""
    if spec.id != path.stem:
        raise _fail(path, f"id: is {spec.id!r}, must equal the file name {path.stem!r}")
    if mode and mode not in spec.power_modes:
        if not spec.power_modes:
            raise RequestError(f"device {spec.id} has no power modes, asked for {mode!r}")
        raise unknown(f"power mode of {spec.id}", mode, spec.power_modes)
    stated = {**spec.facts, **spec.power_modes[mode].facts} if mode else spec.facts
    facts = _complete(path, spec, stated)
    _check_physics(path, facts)
    return Device(spec.id, spec.name, spec.vendor, spec.architecture, spec.memory_technology, mode, spec, facts)


def load_all(folders: tuple[Path, ...] = ()) -> tuple[list[Device], list[str]]:
    """Every readable device, and one line for each file that is not: one bad file never hides the others."""
    devices = []
    errors = [str(error) for error in duplicates(folders).values()]
    for path in files(folders).values():
        try:
            devices.append(in_mode(path, _read(path), ""))
        except RequestError as error:
            errors.append(str(error))
    return devices, errors


def sheet(device: Device) -> dict[str, Any]:
    """The device as plain data: identity, every fact with source and quality, peaks."""
    return {
        "id": device.id,
        "name": device.name,
        "vendor": device.vendor,
        "architecture": device.architecture,
        "year": device.file.year,
        "is_silicon": device.file.is_silicon,
        "aliases": list(device.file.aliases),
        "memory_technology": device.memory_technology,
        "power_mode": device.power_mode or "default",
        "power_modes": list(device.file.power_modes),
        "unit_name": device.unit_name,
        "facts": device.facts,
        "fma_per_clock": device.file.fma_per_clock,
        "peak_flops": {f"{unit}.{precision}": peak for (unit, precision), peak in device.peaks.items()},
        "published_peak_flops": device.file.peak_flops,
        "runs": device.file.runs,
        "exceptions": device.file.exceptions,
        "sources": device.file.sources,
        "notes": list(device.file.notes),
    }
