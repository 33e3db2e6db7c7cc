"""Devices by name: which file of the catalogue or of the user's folders is meant, and its device in a power mode. Data
sheets, drivers and clouds write names of products in other ways: the words that distinguish them count."""

import fnmatch
import os
import re
import time
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from hardware import known_architectures
from hardware.architectures.kpu_products import SUFFIXES, read_product
from hardware.base import file_access
from hardware.base.errors import RequestError, fold_name, match_name, nearest, unknown
from hardware.base.records import Slices
from hardware.device import (
    CATALOG,
    DESIGNER,
    ON_PAPER,
    Device,
    DeviceFile,
    complete_facts,
    fail,
    read_device_file,
    set_operating_point,
    split_operating_point,
)
from hardware.what_if import apply_changes, follow_base, parse_changes, split_changes

_WORDS = file_access.table(Path(__file__).with_name("product_names.toml"))
_OF_ANY_PRODUCT = "|".join(_WORDS["of_any_product"])
_CAPACITY = re.compile(r"\b([0-9]+) ?(?:gb|gib|g)\b")
FORMS = frozenset(_WORDS["forms"])
_OFTEN_OMITTED = FORMS | frozenset(_WORDS["often_omitted"])
_CLOCK_STEP_NS = 100_000_000  # a file made this soon after another may not change the time of its folder
_KEPT_MEMORY = 0.08  # most of its memory that the name of a device may leave out, or count in powers of two
_ALIKE = 0.65  # least similarity of the words of a product that is suggested for an unknown device


class ProductName(NamedTuple):
    """The words that distinguish a product, letters apart from digits; the words that have both (`rtx3090`); the memory
    in GB that its name states."""

    text: str
    words: frozenset[str]
    models: tuple[str, ...]
    capacities: frozenset[int]

    def plain(self, ignored: Iterable[str] = ()) -> str:
        """Return the words in their order, without blanks and `ignored` words."""
        return "".join(word for word in self.text.split() if word not in ignored)

    def is_like(self, own: "ProductName") -> bool:
        """Return True if both names share a line or the first digits of a number, or if this one has no long number."""
        pairs = ((a, b) for a in self.words for b in own.words if len(a) > 1 and len(b) > 1)
        return not re.search("[0-9]{2}", self.text) or any(a.startswith(b) or b.startswith(a) for a, b in pairs)

    def omitted(self, own: "ProductName", kind: "ProductName", facts: "ProductName") -> int | None:
        """Return how many parts of a product's `own` name this one leaves out. None if it is another product's: it
        has a word that is neither there nor in `kind` (vendor, architecture) or `facts`, or lacks a distinctive one."""
        rest, common = own.words - self.words, self.words & own.words - kind.words
        is_clear = len(self.text) > 2 and ((common and rest <= kind.words) or any(map(str.isdigit, common)))
        has_all = rest <= _OFTEN_OMITTED | kind.words and self.words <= own.words | kind.words | facts.words
        if not (is_clear and has_all):
            return None
        is_same = all(word in f"{own.plain()} {kind.plain()} {facts.plain()}" for word in self.models)
        return len(rest) + bool(own.capacities - self.capacities) if is_same else None


@lru_cache(maxsize=4096)
def product_name(name: str) -> ProductName:
    """Parse the name of a product. A name in brackets, as lspci prints it, replaces the name of the chip before it."""
    name = name.casefold().replace("_", " ")
    bracketed = re.findall(r"\[([^\]]+)\]", name)
    name = re.sub(_OF_ANY_PRODUCT, " ", bracketed[-1] if bracketed else name)
    for word, synonym in _WORDS["synonyms"].items():
        name = re.sub(synonym, word, name)
    capacities = frozenset(int(size) for size in _CAPACITY.findall(name))
    name = _CAPACITY.sub(" ", name)
    words = re.findall(r"[a-z]+|[0-9]+|\+", name)
    models = tuple(re.findall(r"\b(?:[a-z]+[0-9]|[0-9]+[a-z])[a-z0-9]*", name))
    return ProductName(" ".join(words), frozenset(words), models, capacities)


@lru_cache(maxsize=4096)
def _read_cached(path: Path, _stamp: tuple[int, int]) -> DeviceFile:
    Slices.pause()
    return read_device_file(path)


def _read(id: str, folder: Path) -> DeviceFile:
    path = folder / f"{id}.toml"
    try:
        stat = path.stat()
    except OSError as error:
        raise fail(path.name, f"cannot be read ({error.strerror})") from None
    return _read_cached(path, (stat.st_mtime_ns, stat.st_size))


@cache
def _shipped() -> list[str]:
    return [name.removesuffix(".toml") for name in sorted(os.listdir(CATALOG)) if name.endswith(".toml")]


def find_folders(folders: Iterable[Path] = ()) -> dict[str, Path]:
    """Return the folder of each device's file by id: the catalogue, then the user's folders, which may not redefine an
    id (`find_duplicates`).

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
    by_id, twice = dict.fromkeys(_shipped(), CATALOG), {}
    for folder, _ in stamps:
        for path in sorted(folder.glob("*.toml")):
            if (first := by_id.setdefault(path.stem, folder)) != folder:
                twice[path.stem] = fail(path.name, f"id: {path.stem!r} is already defined by {first.name}/")
    return by_id, twice


def load_device(name: str, folders: tuple[Path, ...] = ()) -> Device:
    """Return the device of an `id`, `id:power_mode`, alias or class, with a power cap and a clock lock
    (`h100_sxm@400W@1400MHz`) and `{changes}`. Raises RequestError."""
    name, changes = split_changes(name)
    name, settings = split_operating_point(name)
    base, _, mode = name.rpartition(":") if _is_product(name.rpartition(":")[0]) else (name, "", "")
    if _is_product(base) or base in _PRODUCTS:
        return apply_changes(_product(base, mode, settings), parse_changes(changes or ""))
    if name.startswith((".", "/", "~")) or Path(name).suffix in (".toml", ".json"):
        raise RequestError(
            f"{name[-80:]!r}: a device file is TOML, named by folder and id: --devices-dir FOLDER --on ID"
        )
    id, mode = _find(name, find_folders(folders), known_architectures.classes(built_in=True))
    if id is None:
        folders = (*folders, *known_architectures.device_folders())
        id, mode = _find(name, find_folders(folders), known_architectures.classes())
    if id is None:
        raise _unknown_device(name.partition(":")[0], find_folders(folders))
    if folders and id in (twice := find_duplicates(folders)):
        raise twice[id]
    device = device_in_mode(_read(id, find_folders(folders)[id]), mode)
    if base := device.file.based_on:
        base_key = base if ":" in base or not mode else f"{base}:{mode}"
        device = follow_base(device, load_device(base_key, folders))
    if settings:
        device = set_operating_point(device, settings)
    return apply_changes(device, parse_changes(changes or ""))


_PRODUCTS: dict[str, Path] = {}  # files of compute products that were opened, by their ids


def _is_product(name: str) -> bool:
    return name in _PRODUCTS or Path(name).suffix in SUFFIXES


def _product(base: str, mode: str, settings: list[str]) -> Device:
    """Return the device of a compute product, named by its file or, once opened, by its id."""
    spec = read_product(_PRODUCTS.get(base, Path(base)))
    _PRODUCTS[spec.id] = _PRODUCTS.get(base, Path(base))
    device = device_in_mode(spec, mode.casefold())
    return set_operating_point(device, settings) if settings else device


def _find(name: str, available: dict[str, Path], classes: dict[str, str]) -> tuple[str | None, str]:
    """Return the id of a device and the power mode that a name means; None for an unknown name."""
    if id := _by_alias(name, available, classes):  # an alias may contain a colon
        return id, ""
    base, _, mode = name.partition(":")
    return _by_alias(classes.get(fold_name(base), base), available, classes), mode


def _by_alias(name: str, available: dict[str, Path], classes: dict[str, str]) -> str | None:
    if (id := match_name(name, available)) is not None:
        return id
    if fold_name(name) in classes or (":" in name and match_name(name.partition(":")[0], available)):
        return None
    files = {id: spec for id, folder in available.items() if (spec := _read_or_none(id, folder)) is not None}
    exact = (id for id, spec in files.items() if match_name(name, (spec.name, *spec.aliases)))
    return next(exact, None) or _by_words(name, files)


def _by_words(name: str, files: dict[str, DeviceFile]) -> str | None:
    """Return the device that a name means by its words, else None. A name without a form means the SXM board.
    Raises RequestError if the named memory is not the device's own, or if several devices remain."""
    typed, omitted = product_name(name), {}
    for id, spec in files.items():
        owns = [product_name(own) for own in (spec.id, spec.name, *spec.aliases)]
        kind = product_name(f"{spec.vendor} {spec.architecture}")
        units = f"{spec.facts['units'].value:g} core cores" if "units" in spec.facts else ""
        forms = "" if any(own.words & FORMS for own in owns) else " ".join(FORMS)
        facts = product_name(f"{spec.memory_technology} {units} {forms}")
        counts = [count for own in owns if (count := typed.omitted(own, kind, facts)) is not None]
        if counts:
            omitted[id] = (min(counts), not any("sxm" in own.words for own in owns))
    fitting = {id: count for id, count in omitted.items() if _has_memory(files[id], typed.capacities)}
    best = [id for id, count in fitting.items() if count == min(fitting.values())]
    if omitted and not fitting:
        id, sizes = min(omitted, key=omitted.__getitem__), sorted(typed.capacities)
        own_gb = files[id].facts["memory_bytes"].value / 1e9
        device_name = f"{id}{{memory_bytes={sizes[0]}e9}}"
        raise RequestError(f"{id} has {own_gb:.0f} GB, not {sizes[0]} GB: {device_name} changes only the capacity")
    if len(best) > 1:
        raise RequestError(f"{name[:80]!r} may be {' or '.join(best)}: name one of them")
    return best[0] if best else None


def _has_memory(spec: DeviceFile, stated_gb: Iterable[int]) -> bool:
    """Return True if a device has the stated memory, of which systems and makers keep some parts for themselves."""
    memory = spec.facts.get("memory_bytes")
    own = {size for name in (spec.name, *spec.aliases) for size in product_name(name).capacities}
    return all(size in own or (memory and abs(size * 1e9 / memory.value - 1) < _KEPT_MEMORY) for size in stated_gb)


def _read_or_none(id: str, folder: Path) -> DeviceFile | None:
    try:
        return _read(id, folder)
    except RequestError:  # another file's fault must not hide this device
        return None


def _unknown_device(name: str, available: dict[str, Path]) -> RequestError:
    """Return the error of an unknown device. It names the products with the most similar words, of the same vendor if
    the name states one, and says how a device is stated by its data sheet."""
    specs = [spec for id, folder in available.items() if (spec := _read_or_none(id, folder)) is not None]
    typed, vendors = product_name(name[:80]), {spec.vendor.casefold() for spec in specs}
    stated = vendors & typed.words
    by_words = {name: name for name in known_architectures.ALL}
    for spec in specs:
        if not stated or spec.vendor.casefold() in stated:
            for own in map(product_name, (spec.id, spec.name, *spec.aliases)):
                if typed.is_like(own):
                    by_words.setdefault(own.plain(vendors), spec.id)
    alike = nearest(typed.plain(vendors), by_words, most=6, cutoff=_ALIKE)
    near = fnmatch.filter(available, name)[:3] or [*dict.fromkeys(by_words[own] for own in alike)][:3]
    advice = f"did you mean {' or '.join(near)}?" if near else "no shipped device is like it"
    if near and (several := re.match(r"(\d+) ?x ", name.lower())):
        advice = f"did you mean {near[0]}*{several[1]}?"
    if "+" in name:
        advice = "`hwexplorer show offload MODEL --on DEV --host DEV` divides a model between unlike devices"
    example = near[0] if near else known_architectures.classes()[known_architectures.BASELINE]
    sheet = f"{example}{{units=80,memory_bandwidth=1e12}} states one by its data sheet"
    listing = f"`hwexplorer devices` lists all; {sheet}"
    return RequestError(f"unknown device {name[:80]!r}: {advice} ({listing})")


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
    return Device(spec.id, name, spec.vendor, spec.architecture, spec.memory_technology, mode, spec, facts)


def device_as_designed(device: Device) -> Device | None:
    """Return a design target at its designer's prices; None for other devices, and for those in a mode, at another
    operating point or with changes."""
    if DESIGNER not in device.file.power_modes or device.key != device.id:
        return None
    return device_in_mode(device.file, DESIGNER)


def catalogue_devices(folders: tuple[Path, ...] = (), on_paper: bool = True) -> list[Device]:
    """Return the devices for a verb about all devices: every readable one, those on paper only if asked for."""
    return [device for device in load_devices(folders)[0] if on_paper or device.silicon]


def load_devices(folders: tuple[Path, ...] = ()) -> tuple[list[Device], list[str]]:
    """Return every readable device, and one line for each other file: a bad file never hides the others."""
    folders = (*folders, *known_architectures.device_folders())
    devices = []
    errors = [str(error) for error in find_duplicates(folders).values()]
    for id, folder in find_folders(folders).items():
        try:
            devices.append(device_in_mode(_read(id, folder), ""))
        except RequestError as error:
            errors.append(str(error))
    return devices, errors


def describe_device(device: Device) -> dict[str, Any]:
    """Return the device as plain data: identity, every fact with source and quality, peaks."""
    own = ("id", "name", "vendor", "architecture", "memory_technology", "unit_name", "facts")
    of_file = ("year", "aliases", "changes", "fma_per_clock", "runs", "exceptions", "sources", "notes")
    return {
        **{name: getattr(device, name) for name in own},
        **{name: getattr(device.file, name) for name in of_file},
        **dict.fromkeys(("is_silicon", "silicon"), device.silicon),
        "power_mode": device.power_mode or "default",
        "power_modes": list(device.file.power_modes),
        "peak_flops": {f"{unit}.{precision}": peak for (unit, precision), peak in device.peaks.items()},
        "published_peak_flops": device.file.peak_flops,
    }
