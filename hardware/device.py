"""Devices of the catalogue and of the user's folders, each in one power mode."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import msgspec

from hardware import known_architectures
from hardware.architecture import Architecture
from hardware.architecture_data import Software
from hardware.area import silicon_watts
from hardware.device_file import CATALOG, DESIGNER, DeviceFile, Fact, complete_facts, fail, read_device_file
from hardware.errors import RequestError, unknown
from hardware.names import fold_name, match_name, nearest, product_words
from hardware.precision import BASE
from hardware.what_if import apply_changes, parse_changes, split_changes

_CLOCK_STEP_NS = 100_000_000  # a file made this soon after another may not change the time of its folder
_ALIKE = 0.6  # least similarity of the words of a product that is suggested for an unknown device
ON_PAPER = " (paper)"  # follows the name of a design target, wherever it is shown


class Device(msgspec.Struct, frozen=True, dict=True):
    """A device in one power mode. `facts` has every field of its architecture; derived facts are marked.

    `file.fma_per_clock['matrix' | 'vector'][precision]` counts fused multiply-adds per unit and clock, two FLOPs each;
    `file.runs[precision][kind of work]` names unit and format where customary software deviates."""

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
        """The id as a user writes it: with the power mode where it is not the default, and what was changed."""
        return (f"{self.id}:{self.power_mode}" if self.power_mode else self.id) + self.changes

    @property
    def changes(self) -> str:
        """The changes of a what-if device, in braces; '' for others."""
        return f"{{{','.join(self.file.changes)}}}" if self.file.changes else ""

    @property
    def _mark(self) -> str:
        return "" if self.silicon or self.changes else ON_PAPER

    @property
    def silicon(self) -> bool:
        """False for a design target, which exists on paper only: nothing on it was measured."""
        return self.file.is_silicon

    @property
    def marked_key(self) -> str:
        """The key, with the mark of a design target."""
        return self.key + self._mark

    @property
    def label(self) -> str:
        """The name with the power mode, and with the changes or the mark of a design target."""
        return f"{self.file.name} {self.power_mode}".rstrip() + (f" {self.changes}" if self.changes else self._mark)

    @property
    def as_designed(self) -> Device | None:
        """A design target at its designer's prices; None for other devices, and for those in a mode or with changes."""
        if DESIGNER not in self.file.power_modes or self.power_mode or self.file.changes:
            return None
        return device_in_mode(self.file, DESIGNER)

    @cached_property
    def arch(self) -> Architecture:
        """The architecture itself; `architecture` is its id."""
        return known_architectures.find_architecture(self.architecture, self.file.hierarchy)

    @property
    def unit_name(self) -> str:
        """The name that its maker gives one of its units."""
        return self.file.unit_name or self.arch.unit

    @cached_property
    def software_class(self) -> str:
        """The class of software whose fitted efficiencies apply: stated in its file, else given by its memory."""
        return self.file.software or self.arch.data.software_for(self.memory_technology)

    @property
    def software(self) -> Software:
        """The rates that its customary software reaches: measured on it, else those of its class."""
        return self.file.rates or self.arch.data.software[self.software_class]

    def ends(self, name: str) -> tuple[float, float, float]:
        """Return a fact with its low and high: the file's, else by the relative spread of its field."""
        fact, relative = self.facts[name], self.arch.data.facts[name].ends
        low = fact.low if fact.low is not None else fact.value * (relative.low if relative else 1.0)
        high = fact.high if fact.high is not None else fact.value * (relative.high if relative else 1.0)
        return fact.value, low, high

    @cached_property
    def kernel_start_s(self) -> float:
        """Seconds to start and end a kernel: a fixed time, plus cycles of the device's clock."""
        return self.launch_s + self.launch_cycles / self.clock_hz

    @cached_property
    def light_start_s(self) -> float:
        """Seconds to start and end a kernel without a product: it does not fill a pipeline of tiles or, if the host is
        the device, prepare a library's primitive."""
        share = self.arch.data.assumed("light_launch")
        fixed_s = share * self.launch_s if self.arch.is_host else self.launch_s
        return fixed_s + share * self.launch_cycles / self.clock_hz

    @cached_property
    def peaks(self) -> dict[tuple[str, str], float]:
        """Dense peak FLOP/s by (unit, precision): units x FMA per clock x clock x 2."""
        clocks = {"matrix": self.matrix_clock_hz, "vector": self.vector_clock_hz}
        return {
            (unit, precision): self.units * fact.value * clocks[unit] * 2.0
            for unit, table in self.file.fma_per_clock.items()
            for precision, fact in table.items()
        }

    def mac_rate(self, unit: str, format_: str) -> float:
        """Return the MAC/s of one unit (core, SM, tile) at full rate; the vector unit's if it has no such format."""
        peak = self.peaks.get((unit, format_)) or self.peaks.get(("vector", format_))
        return (peak or self.peaks["vector", BASE]) / 2.0 / self.units

    @property
    def last_level_bytes(self) -> float:
        """Capacity of the last on-chip level that tensors can stay in between kernels."""
        return self.arch.levels(self)[-1][1]


@lru_cache(maxsize=4096)
def _read_cached(path: Path, _stamp: tuple[int, int]) -> DeviceFile:
    return read_device_file(path)


def _read(path: Path) -> DeviceFile:
    try:
        stat = path.stat()
    except OSError as error:
        raise fail(path.name, f"cannot be read ({error.strerror})") from None
    return _read_cached(path, (stat.st_mtime_ns, stat.st_size))


@cache
def _shipped() -> dict[str, Path]:
    return {
        name.removesuffix(".toml"): CATALOG / name for name in sorted(os.listdir(CATALOG)) if name.endswith(".toml")
    }


def device_files(folders: Iterable[Path] = ()) -> dict[str, Path]:
    """Return files by device id: the catalogue, then the user's folders, which may not redefine an id
    (`find_duplicates`).

    Raises RequestError if a folder is missing or is not a folder."""
    return _list_files(folders)[0]


def find_duplicates(folders: Iterable[Path] = ()) -> dict[str, RequestError]:
    """Return the error of each file that redefines an id, by id: the user must say which of the two is meant."""
    return _list_files(folders)[1]


def _list_files(folders: Iterable[Path]) -> tuple[dict[str, Path], dict[str, RequestError]]:
    stamps = []
    for folder in folders:
        if not folder.is_dir():
            raise RequestError(f"devices folder {folder} is not a folder")
        stamps.append((folder, folder.stat().st_mtime_ns))
    is_settled = all(time.time_ns() - changed_ns > _CLOCK_STEP_NS for _, changed_ns in stamps)
    return (_list_cached if is_settled else _list_cached.__wrapped__)(tuple(stamps))


@lru_cache(maxsize=8)
def _list_cached(stamps: tuple[tuple[Path, int], ...]) -> tuple[dict[str, Path], dict[str, RequestError]]:
    by_id, twice = dict(_shipped()), {}
    for folder, _ in stamps:
        for path in sorted(folder.glob("*.toml")):
            kept = by_id.setdefault(path.stem, path)
            if kept != path:
                twice[path.stem] = fail(path.name, f"id: {path.stem!r} is already defined by {kept.parent.name}/")
    return by_id, twice


def load_device(name: str, folders: tuple[Path, ...] = ()) -> Device:
    """Return the device of an `id`, `id:power_mode`, alias or class, with `{changes}`. Raises RequestError."""
    available, classes = device_files(folders), known_architectures.classes()
    name, changes = split_changes(name)
    mode = ""
    path = _by_alias(name, available)  # an alias may contain a colon
    if path is None:
        base, _, mode = name.partition(":")
        path = available.get(classes.get(fold_name(base), base)) or _by_alias(base, available)
    if path is None:
        raise _unknown_device(base, available)
    if folders and path.stem in (twice := find_duplicates(folders)):
        raise twice[path.stem]
    return apply_changes(device_in_mode(_read(path), mode), parse_changes(changes or ""))


def _by_alias(name: str, available: dict[str, Path]) -> Path | None:
    device_id = match_name(name, available)
    if device_id is not None:
        return available[device_id]
    if fold_name(name) in known_architectures.classes() or (
        ":" in name and match_name(name.partition(":")[0], available)
    ):
        return None
    files = {path: spec for path in available.values() if (spec := _read_or_none(path)) is not None}
    exact = (path for path, spec in files.items() if match_name(name, (spec.name, *spec.aliases)))
    return next(exact, None) or next((path for path, spec in files.items() if _is_product(name, spec)), None)


def _read_or_none(path: Path) -> DeviceFile | None:
    try:
        return _read(path)
    except RequestError:  # another file's fault must not hide this device
        return None


def _is_product(name: str, spec: DeviceFile) -> bool:
    """Return True if a name has the device's own words; the words of vendor and memory are optional."""
    memory = spec.facts.get("memory_bytes")
    size = f"{memory.value / 1e9:.0f}" if memory is not None else ""
    ignored = (spec.vendor.casefold(), f"{size}gb", f"{size}g")
    words = frozenset(product_words(name, ignored))
    return bool(words) and any(words == {*product_words(own, ignored)} for own in (spec.id, spec.name, *spec.aliases))


def _unknown_device(name: str, available: dict[str, Path]) -> RequestError:
    """Return the error of an unknown device. It names the products with the most similar words, of the same vendor if
    the name states one, and says how a device is stated by its data sheet."""
    if Path(name).suffix in (".toml", ".yaml", ".yml", ".json"):
        return RequestError(
            f"{name[-80:]!r}: a device file is TOML, named by folder and id: --devices-dir FOLDER --on ID"
        )
    specs = [spec for path in available.values() if (spec := _read_or_none(path)) is not None]
    vendors = {spec.vendor.casefold() for spec in specs}
    stated = vendors & set(re.findall(r"[a-z]+", name.casefold()))
    by_words = {name: name for name in known_architectures.names()}
    for spec in specs:
        if not stated or spec.vendor.casefold() in stated:
            for own in (spec.id, spec.name, *spec.aliases):
                by_words.setdefault("".join(product_words(own, vendors)), spec.id)
    typed = "".join(product_words(name[:80], vendors)) or name
    near = [*dict.fromkeys(by_words[words] for words in nearest(typed, by_words, most=6, cutoff=_ALIKE))][:3]
    about = f"did you mean {' or '.join(near)}?" if near else "no shipped device is like it"
    example = near[0] if near else known_architectures.classes()[known_architectures.BASELINE]
    sheet = f"{example}{{units=80,memory_bandwidth=1e12}} states one by its data sheet"
    listing = f"`hwexplorer devices` lists all; {sheet}"
    return RequestError(f"unknown device {name[:80]!r}: {about} ({listing})")


def device_in_mode(spec: DeviceFile, mode: str = "") -> Device:
    """Return the device in a power mode ('' is the default one); `pm1` is mode 1 of NVIDIA's `nvpmodel`."""
    mode = mode or spec.mode
    numbered = {f"pm{number}": name for name, each in spec.power_modes.items() for number in each.nvpmodel}
    mode = numbered.get(mode, mode)
    if mode and mode not in spec.power_modes:
        if not spec.power_modes:
            raise RequestError(f"device {spec.id} has no power modes, asked for {mode!r}")
        raise unknown(f"power mode of {spec.id}", mode, spec.power_modes)
    stated = {**spec.facts, **spec.power_modes[mode].facts} if mode else spec.facts
    try:
        facts = complete_facts(spec, stated)
    except ValueError as error:
        raise fail(f"{spec.id}.toml", error) from None
    name = spec.name if spec.is_silicon else spec.name + ON_PAPER
    device = Device(spec.id, name, spec.vendor, spec.architecture, spec.memory_technology, mode, spec, facts)
    if spec.hierarchy:
        device = msgspec.structs.replace(device, facts=facts | _silicon_power(device))
    return device


def _silicon_power(device: Device) -> dict[str, Fact]:
    """Return leakage and clock power from the area of the silicon, where the default share of the TDP is higher."""
    return {
        name: Fact(watts, "W", f"rule: area of arithmetic and memories, {device.process_nm:g} nm", "derived")
        for name, watts in silicon_watts(device).items()
        if device.facts[name].quality == "derived" and watts < device.facts[name].value
    }


def catalogue_devices(folders: tuple[Path, ...] = (), on_paper: bool = True) -> list[Device]:
    """Return the devices for a verb about all devices: every readable one, except those whose mappings take seconds to
    search, and those on paper unless asked for."""
    return [d for d in load_devices(folders)[0] if not d.arch.is_searched and (on_paper or d.silicon)]


def load_devices(folders: tuple[Path, ...] = ()) -> tuple[list[Device], list[str]]:
    """Return every readable device, and one line for each other file: a bad file never hides the others."""
    devices = []
    errors = [str(error) for error in find_duplicates(folders).values()]
    for path in device_files(folders).values():
        try:
            devices.append(device_in_mode(_read(path), ""))
        except RequestError as error:
            errors.append(str(error))
    return devices, errors


def describe_device(device: Device) -> dict[str, Any]:
    """Return the device as plain data: identity, every fact with source and quality, peaks."""
    return {
        **{name: getattr(device, name) for name in ("id", "name", "vendor", "architecture")},
        "year": device.file.year,
        "is_silicon": device.silicon,
        "silicon": device.silicon,
        "aliases": list(device.file.aliases),
        "memory_technology": device.memory_technology,
        "power_mode": device.power_mode or "default",
        "power_modes": list(device.file.power_modes),
        "changes": list(device.file.changes),
        "unit_name": device.unit_name,
        "facts": device.facts,
        "fma_per_clock": device.file.fma_per_clock,
        "peak_flops": {f"{unit}.{precision}": peak for (unit, precision), peak in device.peaks.items()},
        "published_peak_flops": device.file.peak_flops,
        **{name: getattr(device.file, name) for name in ("runs", "exceptions", "sources")},
        "notes": list(device.file.notes),
    }
