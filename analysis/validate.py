"""Predictions against measurements: every row is predicted, or counted by the reason why it cannot be.

A row's framework decides execution (eager, compiled; TensorRT, TFLite and ONNX runtimes fuse), memory layout and,
with its precision column, the number format. Groups are (source, device, mode, framework, precision, scenario).
"""

from __future__ import annotations

import csv
import gzip
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from analysis.estimate import Estimate, estimate
from analysis.scenario import Scenario
from analysis.workload import store
from analysis.workload.errors import ModelError
from analysis.workload.workload import INPUT, Workload
from hardware.device import Device, load
from hardware.errors import RequestError
from hardware.mapping.common import assumed, assumptions

SHIPPED = Path(__file__).parent / "measured"
GROUP = ("source", "device", "device_mode", "framework", "precision", "scenario")
OFFLINE_BATCH = 64  # MLPerf Offline states no batch; throughput is flat from here on
REPEATS_DIFFER = 2.0


class Measurement(msgspec.Struct, frozen=True):
    """One row as a request and what was measured. `latency_s` for the batch; energy per inference, J."""

    group: tuple[str, ...]
    model: str
    image_size: int | None
    device: Device
    scenario: Scenario
    latency_s: float | None
    energy_j: float | None
    copies_input: bool
    decodes_input: bool


class Prediction(msgspec.Struct, frozen=True):
    """A measurement with the estimate's figures: latency of the batch, energy and what it
    grows by with time (`time_power_w`), per inference, and bands."""

    row: Measurement
    latency_s: float
    latency_band_s: tuple[float, float]
    energy_j: float
    energy_band_j: tuple[float, float]
    time_power_w: float


class Group(msgspec.Struct, frozen=True):
    """Errors of one group and quantity. Errors are fractions; `bias` the median of predicted / measured - 1."""

    source: str
    device: str
    device_mode: str
    framework: str
    precision: str
    scenario: str
    quantity: str
    n: int
    median_ape: float
    p90_ape: float
    bias: float
    spearman: float | None
    band_coverage: float
    band_half_width: float


class Skipped(msgspec.Struct, frozen=True):
    reason: str
    rows: int


class Validation(msgspec.Struct, frozen=True):
    """All groups, what was skipped and why, and the medians over groups of ten rows or more."""

    groups: tuple[Group, ...]
    skipped: tuple[Skipped, ...]
    summary: dict[str, float | int | None]


class Unpredictable(Exception):
    """A row that cannot be predicted; the message is the reason it is counted under."""


def read(paths: Sequence[Path]) -> list[dict[str, str]]:
    """Rows of CSV files, gzipped or not. Raises RequestError for a file that is not such a table."""
    rows: list[dict[str, str]] = []
    for path in paths:
        try:
            opener = gzip.open if path.suffix == ".gz" else open
            with opener(path, "rt", encoding="utf-8", newline="") as file:
                reader = csv.DictReader(file)
                missing = [name for name in ("device", "model") if name not in (reader.fieldnames or ())]
                if missing:
                    raise RequestError(f"{path.name}: column {missing[0]!r} is missing")
                rows.extend(reader)
        except (OSError, UnicodeDecodeError, csv.Error, EOFError) as error:
            reason = getattr(error, "strerror", None) or error
            raise RequestError(f"{path.name}: cannot be read ({reason})") from None
    return rows


def shipped() -> list[dict[str, str]]:
    """The project's own measured data."""
    return read([SHIPPED / "latency.csv.gz", SHIPPED / "energy.csv.gz"])


@lru_cache(maxsize=1)
def _modes() -> dict[str, Any]:
    with (SHIPPED / "modes.toml").open("rb") as file:
        return tomllib.load(file)


@lru_cache(maxsize=512)
def _device(name: str, mode: str, source: str, folders: tuple[Path, ...]) -> Device | str:
    try:
        found = load(name, folders)
    except RequestError:
        return "device is not in the catalogue"
    known = _modes().get(found.id, {})
    unstated = known.get("unstated", {})
    mapped = known.get(mode) or next(
        (to for begin, to in unstated.items() if not mode and source.startswith(begin)), ""
    )
    return load(f"{found.id}:{mapped}", folders) if mapped else found


def interpret(row: dict[str, str], folders: tuple[Path, ...] = ()) -> Measurement:
    """A row as a request. Raises Unpredictable with the reason."""
    device = _device(row["device"], row.get("device_mode", ""), row.get("source", ""), folders)
    if isinstance(device, str):
        raise Unpredictable(device)
    latency, energy = _number(row, "latency_ms", 1e-3), _number(row, "energy_mJ_per_inference", 1e-3)
    batch = int(_number(row, "batch", 1) or 0)
    if not batch:
        batch = OFFLINE_BATCH if row.get("scenario") == "Offline" else 1
    throughput = _number(row, "throughput_per_s", 1)
    if latency is None and throughput:
        latency = batch / throughput
    if latency is None and energy is None:
        raise Unpredictable("row states neither latency nor energy")
    precision = _precision(row)
    framework = row.get("framework", "").lower()
    layout = "nchw" if "nchw" in framework or "eager" in framework else "channels_last"
    layout = "channels_last" if "channels_last" in framework else layout
    try:
        scenario = Scenario(batch, precision, _execution(framework), layout)
    except RequestError as error:
        raise Unpredictable(str(error)) from None
    size = int(_number(row, "image_size", 1) or 0) or None
    group = tuple(row.get(name) or "" for name in GROUP)
    # Such rows time the copy of the images to the device as well, on cards only those of the "dynamic" series.
    integrated = device.software_class == "gpu_integrated"
    copies = "incl. transfers" in (row.get("note") or "") and (integrated or row.get("scenario") == "dynamic")
    decodes = "incl. input pipeline" in (row.get("note") or "")
    return Measurement(group, row["model"], size, device, scenario, latency, energy, copies, decodes)


def _number(row: dict[str, str], name: str, scale: float) -> float | None:
    try:
        value = float(row.get(name) or "")
    except ValueError:
        return None
    return value * scale if value > 0 else None


def _precision(row: dict[str, str]) -> str:
    # MLPerf's TensorRT submissions state no precision; they run ResNet-50 in int8.
    unstated = "int8" if "tensorrt" in (row.get("framework") or "").lower() else "fp32"
    text = (row.get("precision") or unstated).lower()
    if "tf32" in text:
        return "tf32"
    return text.split()[0].strip("(),")


def _execution(framework: str) -> str:
    if "compiled" in framework:
        return "compiled"
    if framework.startswith("tensorflow 2"):
        # Since 2.9 oneDNN is on by default: its graph optimiser joins what follows a contraction to it.
        minor = framework.removeprefix("tensorflow 2.").partition(".")[0]
        return "compiled" if minor.isdigit() and int(minor) >= 9 else "eager"
    return "eager" if "eager" in framework else "fused"


@lru_cache(maxsize=64)
def _workload(model: str, image_size: int | None) -> Workload | None:
    return store.ready(model, image_size)


def predict(row: Measurement) -> Prediction:
    """The estimate beside the measurement. Raises Unpredictable where the model must be captured first."""
    try:
        workload = _workload(row.model, row.image_size)
    except ModelError as error:
        raise Unpredictable(_general(str(error), row.model)) from None
    if workload is None:
        raise Unpredictable("model at this image size is not shipped")
    return _predicted(row, estimate(workload, row.device, row.scenario))


def _general(message: str, model: str) -> str:
    return message.partition(";")[0].replace(repr(model), "").strip() or message


def _predicted(row: Measurement, result: Estimate) -> Prediction:
    batch = row.scenario.batch
    low, high = result.energy_band_j
    waits = _input_s(row, result)
    waiting_w = _time_power_w(result)
    return Prediction(
        row,
        result.latency_s + waits[0],
        (result.latency_band_s[0] + waits[1], result.latency_band_s[1] + waits[2]),
        (result.energy_j + waits[0] * waiting_w) / batch,
        ((low + waits[1] * waiting_w) / batch, (high + waits[2] * waiting_w) / batch),
        waiting_w,
    )


def _input_s(row: Measurement, result: Estimate) -> tuple[float, float, float]:
    """Seconds that a measurement adds for its input, nominal, low and high: the copy to the device, or the input
    pipeline. A host beside an accelerator decodes the next batch while it computes; a CPU does one or the other."""
    nominal = low = high = _copy_s(result) if row.copies_input else 0.0
    low, high = low * 0.7, high * 1.4
    if row.decodes_input:
        decode = assumptions()["common"]["image_decode_core_s"]
        on_cpu = result.device.architecture == "cpu"
        cores = result.device.units if on_cpu else assumed("common", "image_decode_host_cores")
        nominal, low, high = (decode[name] * row.scenario.batch / cores for name in ("value", "low", "high"))
        if not on_cpu:
            fast, slow = result.latency_band_s
            nominal, low, high = (max(t - s, 0.0) for t, s in ((nominal, result.latency_s), (low, fast), (high, slow)))
    return nominal, low, high


def _time_power_w(result: Estimate) -> float:
    """What energy grows by with each second more than predicted: static power, and on a CPU the clocks of its busy
    cores (an accelerator waits for its host, a CPU is its own host)."""
    static = float(result.run.prices.value[-2:].sum())
    if result.device.architecture != "cpu" or not result.latency_s:
        return static
    clock = [i for i, event in enumerate(result.events) if event.family == "clock"]
    return static + float(result.event_energy_j[clock].sum()) / result.latency_s


def _copy_s(result: Estimate) -> float:
    """Seconds to copy the fp32 inputs of a batch from pageable host memory."""
    tensors = result.workload.tensors
    numel = (tensors.numel @ result.workload.at(batch=result.scenario.batch))[tensors.role == INPUT].sum()
    link = "" if result.device.software_class == "gpu_integrated" else "_pcie"
    return float(numel) * 4.0 / assumed("common", f"pageable_copy_bandwidth{link}")


def validate(
    rows: Iterable[dict[str, str]],
    folders: tuple[Path, ...] = (),
    progress: Callable[[int], None] | None = None,
) -> Validation:
    """Predict every row and summarise by group."""
    predictions, skipped = predict_all(rows, folders, progress)
    predictions, differing = _agreeing(predictions)
    if differing:
        skipped[f"repeats of one configuration differ by more than {REPEATS_DIFFER:g}x"] += differing
    groups = [group for key in dict.fromkeys(p.row.group for p in predictions) for group in _groups(key, predictions)]
    counted = tuple(Skipped(reason, n) for reason, n in skipped.most_common())
    return Validation(tuple(groups), counted, summarise(groups, len(predictions), sum(skipped.values())))


def predict_all(
    rows: Iterable[dict[str, str]], folders: tuple[Path, ...] = (), progress: Callable[[int], None] | None = None
) -> tuple[list[Prediction], Counter[str]]:
    """Predictions, and the rows that have none by reason."""
    predictions: list[Prediction] = []
    skipped: Counter[str] = Counter()
    for i, row in enumerate(rows):
        try:
            predictions.append(predict(interpret(row, folders)))
        except Unpredictable as reason:
            skipped[str(reason)] += 1
        if progress is not None:
            progress(i + 1)
    return predictions, skipped


def _agreeing(predictions: list[Prediction]) -> tuple[list[Prediction], int]:
    """Without repeats of one configuration that differ by more than a factor: one of them is something else."""
    seen: dict[tuple[object, ...], list[float]] = {}
    for p in predictions:
        seen.setdefault(_configuration(p.row), []).append(p.row.latency_s or p.row.energy_j or 0.0)
    bad = {key for key, values in seen.items() if max(values) > REPEATS_DIFFER * min(values)}
    kept = [p for p in predictions if _configuration(p.row) not in bad]
    return kept, len(predictions) - len(kept)


def _configuration(row: Measurement) -> tuple[object, ...]:
    return (*row.group, row.device.key, row.model, row.image_size, row.scenario.batch, row.latency_s is None)


def _groups(key: tuple[str, ...], predictions: list[Prediction]) -> list[Group]:
    mine = [p for p in predictions if p.row.group == key]
    found = []
    timed = [p for p in mine if p.row.latency_s]
    if timed:
        measured = np.array([p.row.latency_s for p in timed])
        bands = np.array([p.latency_band_s for p in timed])
        found.append(_group(key, "latency", measured, np.array([p.latency_s for p in timed]), bands))
    powered = [p for p in mine if p.row.energy_j]
    if powered:
        measured = np.array([p.row.energy_j for p in powered])
        bands = np.array([p.energy_band_j for p in powered])
        found.append(_group(key, "energy", measured, np.array([p.energy_j for p in powered]), bands))
    both = [p for p in powered if p.row.latency_s]
    if both:
        measured = np.array([p.row.energy_j for p in both])
        shift = [((p.row.latency_s or 0.0) - p.latency_s) * p.time_power_w / p.row.scenario.batch for p in both]
        moved = np.array([max(p.energy_j + s, 0.0) for p, s in zip(both, shift, strict=True)])
        bands = np.array([[p.energy_band_j[0] + s, p.energy_band_j[1] + s] for p, s in zip(both, shift, strict=True)])
        found.append(_group(key, "energy_given_latency", measured, moved, bands))
    return found


Column = np.ndarray[tuple[int], np.dtype[np.float64]]


def _group(key: tuple[str, ...], quantity: str, measured: Column, predicted: Column, bands: Column) -> Group:
    error = predicted / measured - 1.0
    inside = (measured >= bands[:, 0]) & (measured <= bands[:, 1])
    half = (bands[:, 1] - bands[:, 0]) / 2.0 / predicted
    source, device, mode, framework, precision, scenario = key
    return Group(
        source,
        device,
        mode,
        framework,
        precision,
        scenario,
        quantity,
        len(measured),
        float(np.median(np.abs(error))),
        float(np.quantile(np.abs(error), 0.9)),
        float(np.median(error)),
        spearman(measured, predicted),
        float(inside.mean()),
        float(np.median(half)),
    )


def spearman(a: Column, b: Column) -> float | None:
    """Rank correlation; None for fewer than three rows or constant values."""
    if len(a) < 3:
        return None
    x, y = _ranks(a), _ranks(b)
    if x.std() == 0 or y.std() == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def _ranks(values: Column) -> Column:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((ends - counts + ends - 1) / 2.0)[inverse]


def summarise(groups: Sequence[Group], predicted: int, skipped: int) -> dict[str, float | int | None]:
    """Medians over groups of ten rows or more, by quantity and kind of device."""
    summary: dict[str, float | int | None] = {"predicted": predicted, "skipped": skipped}
    for quantity in ("latency", "energy", "energy_given_latency"):
        for kind in ("gpu", "jetson", "cpu", "tpu"):
            large = [g for g in groups if g.n >= 10 and g.quantity == quantity and _kind(g) == kind]
            if not large:
                continue
            ranks = [g.spearman for g in large if g.spearman is not None]
            summary[f"{kind}_{quantity}_median_ape"] = float(np.median([g.median_ape for g in large]))
            summary[f"{kind}_{quantity}_spearman"] = float(np.median(ranks)) if ranks else None
            summary[f"{kind}_{quantity}_groups"] = len(large)
    rows = [g for g in groups if g.n >= 10]
    if rows:
        summary["band_coverage"] = float(np.average([g.band_coverage for g in rows], weights=[g.n for g in rows]))
        summary["band_half_width"] = float(np.median([g.band_half_width for g in rows]))
    return summary


def _kind(group: Group) -> str:
    found = _device(group.device, group.device_mode, group.source, ())
    if isinstance(found, str):
        return "gpu"
    return "jetson" if "jetson" in found.id else found.architecture
