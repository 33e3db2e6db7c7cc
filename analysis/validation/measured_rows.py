"""Interpretation of rows of measured tables as requests to the estimate.

A row's framework determines the runtime, memory layout and, with its precision column, the number format. Rows of
language models (rows with a phase) are interpreted in analysis/validation/language_rows.py.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from analysis.estimate.scenario import Scenario
from analysis.validation.tool_results import tool_names, tool_rows
from hardware import file_access, precision
from hardware.device import Device
from hardware.device_catalog import load_device
from hardware.engines import runtime as runtimes
from hardware.errors import RequestError
from hardware.grouping import group_by

SHIPPED = Path(__file__).parent / "measured"
ROWS = SHIPPED / "rows.toml"
NOT_INSTALLED = (
    "measured tables are in the repository alone: `pip install -e .` in a clone of it, or name one (--data FILE)"
)
LEAST, MOST = 1e-9, 1e12  # range of latencies in ms, energies in mJ, rates and batches; other values are invalid
DATA_MAX, CELLS_MAX = 1 << 26, 4_000_000  # most bytes of an unpacked table; most cells, 50 times those of a shipped one
GROUP = ("source", "device", "device_mode", "framework", "precision", "scenario")
OFFLINE_BATCH = 64  # MLPerf Offline does not state its batch; larger batches have the same throughput
MANY_STREAMS = ("offline", "throughput")  # scenarios that reach this throughput with any number of streams
PIPELINES = ("text-to-", "image-to-")  # scenarios that run the model many times, together with other models
FITTED_ON = ("latency.csv.gz", "energy.csv.gz")  # tables that the efficiencies are fitted to
MODELS = (*FITTED_ON, "llm.csv.gz", "cpu.csv.gz", "accelerators.csv.gz")
ANSWERS = ("reason", "is", "why")  # fields of a rule that name no cell
Row = TypeVar("Row")
Meaning = TypeVar("Meaning")
Result = TypeVar("Result")
Tick = Callable[[int, int], None]  # shows how many rows are done, of how many


class MeasuredRow(msgspec.Struct, frozen=True):
    """One row as a request and its measured figures: `latency_s` of the batch, `energy_j` of an inference.
    `asked_precision` is the measured precision if hwexplorer does not have it; the scenario then has the nearest one.
    `lengths` are lengths of a language model by symbolic dimension. `is_rate` is True if the latency follows from a
    stated throughput. `light` has the facts of the device while it ran calls shorter than `below_s`."""

    group: tuple[str, ...]
    model: str
    image_size: int | None
    device: Device
    scenario: Scenario
    latency_s: float | None
    energy_j: float | None
    copies_input: bool = False
    decodes_input: bool = False
    asked_precision: str = ""
    lengths: dict[str, int] = {}
    is_rate: bool = False
    light: dict[str, float] = {}

    @property
    def energy_class(self) -> str:
        """The class of work that its energy belongs to."""
        return "energy, language models" if self.lengths else "energy, vision"

    @property
    def family(self) -> str:
        """The family of its model: `resnet` of resnet50, `llama` of llama3_8b."""
        return family_of(self.model)

    @property
    def identity(self) -> tuple[object, ...]:
        """Fields that are equal in all rows of the same measurement."""
        return self.device.key, self.model, self.scenario, self.latency_s


def family_of(model: str) -> str:
    """Return the family of a model: `resnet` of wide_resnet50_2."""
    return re.sub(r"[\d_:].*", "", model.removeprefix("wide_"))


class Unpredictable(Exception):
    """Raised for a row that cannot be predicted. Such rows are counted by the message, which is the reason."""


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
            most = CELLS_MAX // max(len(reader.fieldnames or ()), 1)
            rows.extend(islice(reader, most))
            if next(reader, None) is not None:
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
    known = file_access.shipped(SHIPPED / "modes.toml").get(device.id, {})
    unstated = known.get("unstated", {})
    number = re.fullmatch(r"nvpmodel PM(\d+)", mode)
    numbers = {n for each in device.file.power_modes.values() for n in each.nvpmodel}
    if number and numbers and int(number[1]) not in numbers:
        raise Unpredictable("the board has no power mode of this number")
    mapped = f"pm{number[1]}" if number and numbers else known.get(mode, "")
    mapped = mapped or next((to for begin, to in unstated.items() if not mode and source.startswith(begin)), "")
    if mapped.startswith("!"):
        raise Unpredictable(mapped[1:])
    return load_device(f"{device.id}:{mapped}", folders) if mapped else device


def interpret_vision_row(row: dict[str, str], folders: tuple[Path, ...] = ()) -> MeasuredRow:
    """Return the request of a row of a vision model or an encoder. Raises Unpredictable with the reason."""
    device, count = _devices(row, folders)
    is_mlperf = row.get("source", "").startswith("MLPerf")
    is_submission = is_mlperf and "n_devices" in row
    latency, energy = parse_cell(row, "latency_ms", 1e-3), parse_cell(row, "energy_mJ_per_inference", 1e-3)
    batch, framework, kind = parse_count(row, "batch"), row.get("framework", "").lower(), row.get("scenario") or ""
    many = kind.lower() in MANY_STREAMS
    if is_submission and kind.lower() == "server":
        raise Unpredictable("a server under a bound of latency: the batch is not stated")
    if kind.startswith(PIPELINES):
        raise Unpredictable("a pipeline of many steps")
    if many and "openvino" in framework and not is_submission:
        batch = max(round(device.units), 1)  # one stream of one image per core
    elif not batch:
        batch = OFFLINE_BATCH if many else 1
    is_module = device.software.shares_host_memory
    if is_mlperf and not is_module:
        energy = None  # the row states the energy of the whole system: hosts, fans, supply
    throughput = parse_cell(row, "throughput_per_s", 1)
    is_rate = latency is None and throughput is not None
    if latency is None and throughput:
        latency = batch * count / throughput
    if latency is None and energy is None:
        raise Unpredictable(_invalid_figures(row) or "row states neither latency nor energy")
    if energy and latency and is_mlperf and is_module:
        wall = file_access.shipped(ROWS)["wall"]  # MLPerf meters the whole system, but the estimate covers the module
        energy = energy * wall["supply"] - wall["board_w"] * latency / batch
    device = use_threads(device, row, folders, least=0.5)  # a core of few reaches more in vision than the fitted rates
    named = find_runtime_name(framework, device.vendor) or "fused"
    execution = check_runtime(named, device, "encoder" if row.get("sequence") else "vision")
    # MLPerf records engines as graphs, with plugins for BERT; others enqueue.
    if execution == "tensorrt" and "graphs" not in framework:
        execution = "tensorrt_enqueue" if not is_mlperf else "tensorrt_plugins" if row.get("sequence") else execution
    if row.get("precision") == "fp32" and is_submission and execution.startswith(("tensorrt", "openvino")):
        raise Unpredictable("the precision stated is that of MLPerf's reference, not of what ran")
    is_nchw = ("nchw" in framework or "eager" in framework) and "channels_last" not in framework
    asked_precision, runs = _precision(row)
    try:
        scenario = Scenario(batch, runs, execution, "nchw" if is_nchw else "channels_last")
    except RequestError as error:
        raise Unpredictable(str(error)) from None
    sequence = parse_count(row, "sequence") or file_access.shipped(ROWS)["sequence_unstated"].get(row["model"])
    # Rows "incl. transfers" time the copy of images to the device; on cards only "dynamic" rows do.
    copies = "incl. transfers" in (row.get("note") or "") and (is_module or kind == "dynamic")
    # Fischer's rows time whole passes over ImageNet, but only some notes say so.
    decodes = "incl. input pipeline" in (row.get("note") or "") or row.get("source", "").startswith("Fischer")
    return MeasuredRow(
        group=tuple(row.get(name) or "" for name in GROUP),
        model=f"{row['model']}:sequence={int(sequence)}" if sequence else row["model"],
        image_size=int(parse_cell(row, "image_size", 1) or 0) or None,
        device=device,
        scenario=scenario,
        latency_s=latency,
        energy_j=energy,
        copies_input=copies,
        decodes_input=decodes,
        asked_precision=asked_precision,
        is_rate=is_rate,
        light=_light_clock(device, row.get("source", "")) if (batch, execution) == (1, "tensorrt_enqueue") else {},
    )


def _light_clock(device: Device, source: str) -> dict[str, float]:
    """Return the device's facts in short calls of a source, and `below_s`, their longest time, else {}."""
    clocks = file_access.shipped(SHIPPED / "modes.toml").get(device.id, {}).get("light", {})
    return next((light for begin, light in clocks.items() if source.startswith(begin)), {})


def _devices(row: dict[str, str], folders: tuple[Path, ...]) -> tuple[Device, int]:
    """Return the device, and the number of devices that share the throughput. Each query runs on one device."""
    name, about = row["device"], (row.get("device_mode", ""), row.get("source", ""), folders)
    several = re.fullmatch(r"(.+) x([1-9][0-9]?)", name)
    try:
        return find_device(name, *about), parse_count(row, "n_devices") or 1
    except Unpredictable:
        if several is None:
            raise
        return find_device(several[1], *about), int(several[2])


def use_threads(device: Device, row: dict[str, str], folders: tuple[Path, ...], least: float = 0.0) -> Device:
    """Return a CPU with as many cores as threads ran. Raises Unpredictable below a share `least` of its cores."""
    threads = re.search(r"\b(\d+) threads?", f"{row.get('device_mode')} {row.get('runtime')}")
    if threads is None or not device.arch.is_host or int(threads[1]) >= device.units:
        return device
    if not 0 < int(threads[1]) >= least * device.units:
        raise Unpredictable("fewer threads than cores")
    alike = ",equal_share=1" if device.equal_share < 1.0 else ""  # fewer threads run on the fastest cores
    return load_device(f"{device.key}{{units={int(threads[1])}{alike}}}", folders)


def parse_cell(row: dict[str, str], name: str, scale: float = 1.0) -> float | None:
    """Return a cell as a positive number times `scale`, None for anything else."""
    text = row.get(name) or ""
    try:
        value = float(text) if text.isascii() and "_" not in text else 0.0
    except ValueError:
        return None
    return value * scale if LEAST < value < MOST else None


def unstated_prompt(row: dict[str, str]) -> tuple[int, bool]:
    """Return the prompt tokens of a row that states none, and whether its benchmark is known for long prompts."""
    rows, note = file_access.shipped(ROWS), row.get("note") or ""
    tokens = next((tokens for name, tokens in rows["prompt_of"].items() if name in note), 0)
    return tokens or int(rows["prompt_unstated"]), tokens > 0


def _invalid_figures(row: dict[str, str]) -> str:
    """Return the figures of a row that are not positive numbers, in words."""
    names = ("latency_ms", "throughput_per_s", "energy_mJ_per_inference")
    stated = [f"{name} {cell.strip()[:20]}" for name in names if (cell := row.get(name) or "").strip()]
    return f"{', '.join(stated)}: not a positive number; the row is left out" if stated else ""


def parse_count(row: dict[str, str], name: str) -> int:
    """Return a cell as a whole number, 0 if it is empty. Raises Unpredictable for anything else."""
    value = parse_cell(row, name)
    if value is None and (row.get(name) or "").strip():
        raise Unpredictable(f"{name} is not a number above 0")
    return round(value or 0)


def _precision(row: dict[str, str]) -> tuple[str, str]:
    """Return the measured precision if hwexplorer does not have it, else '', and the precision of the estimate."""
    # MLPerf's TensorRT submissions state no precision; they run ResNet-50 in int8.
    unstated = "int8" if "tensorrt" in (row.get("framework") or "").lower() else "fp32"
    text = (row.get("precision") or unstated).lower()
    if "tf32" in text and "in convolutions" not in text:  # that is fp32: convolutions take TF32 unless forbidden
        return "", "tf32"
    if rule := first_rule(file_access.shipped(ROWS)["ran"], row | {"precision": text}):
        return "", str(rule["is"])
    for rule in file_access.shipped(ROWS)["format"]:
        if text.startswith(tuple(rule["begins"])):
            return ("", rule["is"]) if precision.find(rule["is"]) else (rule["is"], "int8")
    return "", text.split()[0].strip("(),")


def first_rule(rules: Sequence[dict[str, Any]], cells: Mapping[str, str]) -> dict[str, Any]:
    """Return the first rule that holds, {} if none does: each cell that it names contains its word, or one of several
    words. A rule names cells in `of`, or beside its answers."""
    for rule in rules:
        named = ((cells.get(name) or "", words) for name, words in rule.get("of", rule).items() if name not in ANSWERS)
        if all(any(word in cell for word in ([words] if isinstance(words, str) else words)) for cell, words in named):
            return rule
    return {}


def find_runtime_name(software: str, vendor: str, work: str = "vision") -> str:
    """Return the runtime that a text about software on devices of a vendor names, '' if none. Raises Unpredictable
    with the reason if it names software that is not predicted."""
    cells = {"contains": software.lower(), "work": work, "vendors": vendor}
    rule = first_rule(file_access.shipped(ROWS)["runtime"], cells)
    if "reason" in rule:
        raise Unpredictable(rule["reason"])
    return str(rule.get("is", ""))


def find_precision(weights: str, activations: str, runtime: str) -> tuple[str, str]:
    """Return the precision of a format of weights if hwexplorer does not have it, else '', and the nearest precision
    that it has. Raises Unpredictable."""
    cells = {"contains": weights, "activations": activations, "runtime": runtime}
    if not (rule := first_rule(file_access.shipped(ROWS)["weights"], cells)):
        raise Unpredictable(f"weights of {weights or 'a format that is not stated'}")
    nearest = next(name for name in rule["is"] if precision.find(name))
    return "" if nearest == rule["is"][0] else rule["is"][0], precision.canonical(nearest)


def check_runtime(runtime: str, device: Device, work: str) -> str:
    """Return the runtime or mode if it runs on the device, else `fused`. On GPUs and CPUs, raise Unpredictable."""
    if runtime not in runtimes.runtimes() or runtimes.runtimes()[runtime].fits(device, work):
        return runtime
    if device.arch.has_layouts or device.arch.is_host:
        raise Unpredictable(f"{runtimes.runtimes()[runtime].name} does not run on this device here")
    return "fused"
