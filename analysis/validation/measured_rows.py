"""Measured tables: their rows, the cells of a row, and the rules that say what these mean."""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from analysis.validation.tool_results import tool_names, tool_rows
from hardware import precision
from hardware.base import file_access
from hardware.base.errors import RequestError
from hardware.base.records import group_by
from hardware.device import Device
from hardware.device_catalog import load_device
from hardware.engines import runtime as runtimes

SHIPPED = Path(__file__).parent / "measured"
NOT_INSTALLED = (
    "measured tables are in the repository alone: `pip install -e .` in a clone of it, or name one (--data FILE)"
)
LEAST, MOST = 1e-9, 1e12  # range of latencies in ms, energies in mJ, rates and batches; other values are invalid
DATA_MAX, CELLS_MAX = 1 << 26, 4_000_000  # most bytes of an unpacked table; most cells, 50 times those of a shipped one
FITTED_ON = ("latency.csv.gz", "energy.csv.gz")  # tables that the efficiencies are fitted to
MODELS = (*FITTED_ON, "llm.csv.gz", "cpu.csv.gz", "accelerators.csv.gz")
ANSWERS = ("reason", "is", "why")  # fields of a rule that name no cell
Row = TypeVar("Row")
Meaning = TypeVar("Meaning")
Result = TypeVar("Result")
Tick = Callable[[int, int], None]  # shows how many rows are done, of how many


def family_of(model: str) -> str:
    """Return the family of a model: `resnet` of wide_resnet50_2."""
    return re.sub(r"[\d_:].*", "", re.sub("^(wide_|timm:)", "", model))


class Unpredictable(Exception):
    """Raised for a row that cannot be predicted. Such rows are counted by the message, which is the reason."""


class Cells(dict[str, str]):
    """The cells of a row by column; '' in columns that its table lacks."""

    def __missing__(self, name: str) -> str:
        return ""

    def number(self, name: str, scale: float = 1.0) -> float | None:
        """Return a cell as a positive number times `scale`, None for anything else."""
        text = self[name] or ""
        try:
            value = float(text) if text.isascii() and "_" not in text else 0.0
        except ValueError:
            return None
        return value * scale if LEAST < value < MOST else None

    def whole(self, name: str, unstated: int = 0) -> int:
        """Return a cell as a whole number, `unstated` for anything else."""
        return int(self.number(name) or unstated)

    def count(self, name: str) -> int:
        """Return a cell as a whole number, 0 if it is empty. Raises Unpredictable for anything else."""
        value = self.number(name)
        if value is None and (self[name] or "").strip():
            raise Unpredictable(f"{name} is not a number above 0")
        return round(value or 0)

    def unstated_prompt(self) -> tuple[int, bool]:
        """Return the prompt tokens of a row that states none, and whether its benchmark is known for long prompts."""
        tokens = next((tokens for name, tokens in row_rules()["prompt_of"].items() if name in self["note"]), 0)
        return tokens or int(row_rules()["prompt_unstated"]), tokens > 0


def row_rules() -> dict[str, Any]:
    """Return the rules by which rows become requests."""
    return file_access.shipped(SHIPPED / "rows.toml")


def interpret_each(
    rows: Sequence[Row], interpret: Callable[[Row], Meaning], tick: Tick | None = None
) -> tuple[list[Meaning], Counter[str]]:
    """Return what rows mean, and the number of other rows by reason."""
    meanings, skipped = list[Meaning](), Counter[str]()
    for done, row in enumerate(rows, 1):
        try:
            meanings.append(interpret(row))
        except Unpredictable as reason:
            skipped[str(reason)] += 1
        if tick is not None:
            tick(done, len(rows))
    return meanings, skipped


def map_groups(
    rows: Sequence[Row],
    interpret: Callable[[Row], Meaning],
    key: Callable[[Meaning], object],
    make: Callable[[Sequence[Meaning]], Sequence[Result]],
    tick: Tick | None = None,
) -> tuple[list[Result], Counter[str]]:
    """Return what `make` makes of the meanings of rows, of those with an equal key together, and the number of rows
    without a result by reason."""
    meanings, skipped = interpret_each(rows, interpret)
    results = list[Result]()
    for members in group_by(meanings, key).values():
        try:
            results += make(members)
        except (Unpredictable, RequestError) as reason:
            skipped[str(reason)] += len(members)
        if tick is not None:
            tick(len(results) + skipped.total(), len(rows))
    return results, skipped


def read_rows(paths: Sequence[Path], needed: Sequence[str] = ("device", "model")) -> list[dict[str, str]]:
    """Read the rows of CSV files or results of tools, gzipped or not. Raises RequestError if one is unreadable or lacks
    a needed column."""
    rows: list[dict[str, str]] = []
    for path in paths:
        try:
            data = file_access.read(path, DATA_MAX)
            plain = file_access.text(file_access.unzip(data, DATA_MAX) if path.suffix == ".gz" else data)
            if results := tool_rows(plain, path, as_loads="load_kind" in needed):
                rows.extend(results)
                continue
            if plain.lstrip().startswith(("{", "[")) or "=== " in plain[:4000] or ":::MLLOG" in plain[:4000]:
                raise RequestError(f"{path.name}: not a result of a known tool ({tool_names()}), nor a CSV")
            reader = csv.DictReader(io.StringIO(plain, newline=""), restval="")
            present = reader.fieldnames or ()
            if missing := [name for name in needed if name not in present]:
                raise RequestError(f"{path.name}: column {missing[0]!r} is missing (it has {', '.join(present)[:80]})")
            if twice := [name for name, number in Counter(present).items() if name and number > 1]:
                raise RequestError(f"{path.name}: column {twice[0]!r} is there twice")
            rows.extend(islice(reader, CELLS_MAX // max(len(present), 1)))
            if next(reader, None) is not None:  # short rows are filled to all columns
                raise RequestError(f"{path.name}: has more than {CELLS_MAX:,} cells")
        except (OSError, csv.Error) as error:
            if isinstance(error, FileNotFoundError) and path.parent == SHIPPED:
                raise RequestError(NOT_INSTALLED) from None
            reason = getattr(error, "strerror", None) or error
            raise RequestError(f"{path.name or path}: cannot be read ({reason})") from None
    return rows


def shipped_rows(tables: Sequence[str] = MODELS) -> list[dict[str, str]]:
    """Return the rows of the shipped tables, by default those of whole models."""
    return read_rows([SHIPPED / name for name in tables])


@lru_cache(maxsize=512)
def catalogue_device(name: str, folders: tuple[Path, ...]) -> Device | None:
    """Return the device of a name, None if the catalogue and the folders do not have it. Cached."""
    try:
        return load_device(name, folders)
    except RequestError:
        return None


def find_device(name: str, mode: str, source: str, folders: tuple[Path, ...]) -> Device:
    """Return the device of a row in its power mode. Raises Unpredictable if the catalogue does not have it."""
    device = catalogue_device(name, folders)
    if device is None:
        raise Unpredictable("device is not in the catalogue")
    modes = file_access.shipped(SHIPPED / "modes.toml").get(device.id, {})
    unstated = modes.get("unstated", {})
    number = re.fullmatch(r"nvpmodel PM(\d+)", mode)
    numbers = {n for power_mode in device.file.power_modes.values() for n in power_mode.nvpmodel}
    if number and numbers and int(number[1]) not in numbers:
        raise Unpredictable("the board has no power mode of this number")
    mapped = f"pm{number[1]}" if number and numbers else modes.get(mode, "")
    mapped = mapped or next((to for begin, to in unstated.items() if not mode and source.startswith(begin)), "")
    if mapped.startswith("!"):
        raise Unpredictable(mapped[1:])
    return load_device(f"{device.id}:{mapped}", folders) if mapped else device


def first_rule(rules: Sequence[dict[str, Any]], cells: Mapping[str, str]) -> dict[str, Any]:
    """Return the first rule that holds, {} if none does: each cell that it names contains its word, or one of several
    words. A rule names cells in `of`, or beside its answers."""
    for rule in rules:
        parts = ((cells.get(name) or "", words) for name, words in rule.get("of", rule).items() if name not in ANSWERS)
        if all(any(word in cell for word in ([words] if isinstance(words, str) else words)) for cell, words in parts):
            return rule
    return {}


def find_runtime_name(software: str, vendor: str, work: str = "vision") -> str:
    """Return the runtime that a text about software on devices of a vendor names, '' if none. Raises Unpredictable
    with the reason if it names software that is not predicted."""
    cells = {"contains": software.lower(), "work": work, "vendors": vendor}
    rule = first_rule(row_rules()["runtime"], cells)
    if "reason" in rule:
        raise Unpredictable(rule["reason"])
    return str(rule.get("is", ""))


def find_precision(weights: str, activations: str, runtime: str) -> str:
    """Return the precision of a format of weights. Raises Unpredictable."""
    # llama.cpp's name, from `Q4_K - Small`, `IQ2_XXS - 2.0625 bpw`, `Q4_K_M (4.9 bit)` or the repacked `IQ4_KS_R4`
    name = weights.partition("(")[0].replace(" - small", "_s").replace(" - medium", "_m")
    stated = precision.find(re.sub(r" - .*|_[rx][48]$", "", name).strip())
    if stated is not None and not stated.is_uniform:
        return stated.name
    cells = {"contains": weights, "activations": activations, "runtime": runtime}
    if not (rule := first_rule(row_rules()["weights"], cells)):
        raise Unpredictable(f"weights of {weights or 'a format that is not stated'}")
    return precision.canonical(rule["is"])


def check_runtime(runtime: str, device: Device, work: str) -> str:
    """Return the runtime or mode if it runs on the device, else `fused`. On GPUs and CPUs, raise Unpredictable."""
    if runtime not in runtimes.runtimes() or runtimes.runtimes()[runtime].fits(device, work):
        return runtime
    if device.arch.has_layouts or device.arch.is_host:
        raise Unpredictable(f"{runtimes.runtimes()[runtime].name} does not run on this device here")
    return "fused"
