"""Validation of predictions: every measured row is predicted, or counted by the reason why it cannot be.

A group is (source, device, mode, framework, precision, scenario). The summary is the median over larger groups.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from analysis.document import column, record
from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.trust import work_classes
from analysis.model import store
from analysis.model.ir.workload import INPUT, Workload
from analysis.model.model_errors import ModelError, ModelSpecError
from analysis.validation.language_rows import interpret_row as interpret_row
from analysis.validation.measured_rows import (
    GROUP,
    SHIPPED,
    MeasuredRow,
    Tick,
    Unpredictable,
    find_device,
    interpret_each,
)
from analysis.validation.prediction_errors import ErrorRow, PredictionErrors, measure_errors
from hardware import file_access, known_architectures
from hardware.architecture_data import common
from hardware.device_catalog import load_device
from hardware.grouping import group_by

REPEATS_DIFFER = 2.0  # least ratio of repeats at which one of them must be another measurement
_MOST_MEMORY = 1.3  # of the device: what was measured may free tensors earlier
LARGE = 10  # least rows of a group that counts in the summary
Ends = tuple[float, float, float]  # nominal, low, high
QUANTITIES = ("latency", "energy")


class RowPrediction(msgspec.Struct, frozen=True, kw_only=True):
    """A measured row with the estimate's figures and bands: latency of the batch, and energy per inference.
    `time_power_w` is the power by which the batch's energy grows with its latency."""

    row: MeasuredRow
    latency_s: float
    latency_band_s: tuple[float, float]
    energy_j: float
    energy_band_j: tuple[float, float]
    time_power_w: float
    work_class: str
    kind: str
    runtime: str
    mode: str


class ErrorGroup(PredictionErrors, frozen=True, kw_only=True):
    """Errors of one group and quantity. `reason` explains why a large group is off by more than twice its target, '' if
    it is not."""

    source: Annotated[str, column("Source", keep=5)]
    device: Annotated[str, column("Device")]
    device_mode: Annotated[str, column("Mode", keep=3)]
    framework: Annotated[str, column("Framework", keep=2)]
    precision: Annotated[str, column("Precision", keep=3)]
    scenario: Annotated[str, column("Scenario", keep=4)]
    quantity: Annotated[str, column("Quantity")]
    reason: str = ""


class ClassErrors(PredictionErrors, frozen=True, kw_only=True):
    """Errors of a class of work over all of its rows."""

    name: Annotated[str, column("Class of work")]
    quantity: str
    devices: Annotated[int, column("Devices", "count", keep=2)]


class SkippedRows(msgspec.Struct, frozen=True):
    """A number of rows and the reason why they are counted separately."""

    reason: str
    rows: int


class Validation(msgspec.Struct, frozen=True):
    """Errors of classes of work and groups, skipped rows, rows that were predicted in another precision than measured
    (`replaced`), and medians over groups of vision models with ten rows or more (`summary`)."""

    classes: tuple[ClassErrors, ...]
    groups: tuple[ErrorGroup, ...]
    skipped: tuple[SkippedRows, ...]
    replaced: tuple[SkippedRows, ...]
    summary: dict[str, float | int | None]


class PredictionPoint(msgspec.Struct, frozen=True):
    """One measured quantity with its prediction and band."""

    name: str
    quantity: str
    device: str
    family: str
    runtime: str
    mode: str
    work_class: str
    measured: float
    predicted: float
    band: tuple[float, float]

    @property
    def error_row(self) -> ErrorRow:
        """The measurement, its prediction and the band."""
        return self.measured, self.predicted, self.band


@lru_cache(maxsize=256)
def _workload(model: str, image_size: int | None) -> Workload | None:
    """Return the shipped workload of a model. The image size may be the size of its example input."""
    try:
        return store.ready(model, image_size)
    except ModelSpecError:
        fixed = store.ready(model)
        if fixed is None or image_size not in fixed.inputs[0].shape:
            raise
        return fixed


def estimate_row(row: MeasuredRow) -> Estimate:
    """Return the estimate of a measured row. Raises Unpredictable if the model is unknown, is not captured yet or needs
    far more memory than the device has."""
    try:
        workload = _workload(row.model, row.image_size)
    except ModelError as error:
        reason = str(error.args[0]).partition(";")[0]  # without the nearest names
        if reason.startswith(("unknown model", "no module")):
            reason = "model is not known"  # names and suggestions would give hundreds of reasons
        raise Unpredictable(reason.replace(repr(row.model), "").strip()) from None
    if workload is None:
        raise Unpredictable("model at this image size is not shipped")
    workload = workload.bound(**row.lengths)
    result = estimate(workload, row.device, row.scenario)
    if result.memory.peak_bytes > _MOST_MEMORY * row.device.memory_bytes:
        raise Unpredictable("the model does not fit into the memory of the device")
    if not row.light or result.latency_s > row.light["below_s"]:
        return result
    clocks = ",".join(f"{name}={value}" for name, value in row.light.items() if name != "below_s")
    slow = load_device(f"{row.device.key}{{{clocks}}}")
    return estimate(workload, slow, row.scenario)


def predict_row(row: MeasuredRow) -> RowPrediction:
    """Predict a measured row. Raises Unpredictable as `estimate_row` does."""
    result = estimate_row(row)
    batch = row.scenario.batch
    adds, floor = input_s(row, result)
    follows = batch / result.throughput_per_s / result.latency_s if row.is_rate else 1.0  # batches may overlap
    model_s = (result.latency_s * follows, *(end * follows for end in result.latency_band_s))
    latency_s = [max(t + extra, least) for t, extra, least in zip(model_s, adds, floor, strict=True)]
    waits_s = [t - kernel for t, kernel in zip(latency_s, model_s, strict=True)]
    waiting_w = _time_power_w(result)
    energy_j = [
        (j + wait * waiting_w) / batch
        for j, wait in zip((result.energy_j, *result.energy_band_j), waits_s, strict=True)
    ]
    return record(
        RowPrediction,
        result,
        row=row,
        latency_s=latency_s[0],
        latency_band_s=(latency_s[1], latency_s[2]),
        energy_j=energy_j[0],
        energy_band_j=(energy_j[1], energy_j[2]),
        time_power_w=waiting_w,
        kind=result.workload.kind,
        runtime=result.runtime.id,
        mode=result.execution,
    )


def input_s(row: MeasuredRow, result: Estimate) -> tuple[Ends, Ends]:
    """Return the seconds that the input adds to a measurement, and its least seconds. The copy to the device adds time,
    as does an input pipeline on the CPU that computes. The host of an accelerator decodes the next batch in parallel,
    so its pipeline is a least time."""
    copy_s = _input_copy_s(result) if row.copies_input else 0.0
    adds: Ends = (copy_s, copy_s * 0.7, copy_s * 1.4)
    if not row.decodes_input:
        return adds, (0.0, 0.0, 0.0)
    is_host = result.device.arch.is_host
    cores = result.device.units if is_host else common("image_decode_host_cores").value
    decode = common("image_decode_core_s")
    nominal, low, high = (each * row.scenario.batch / cores for each in (decode.value, decode.low, decode.high))
    pipeline: Ends = (nominal, low, high)
    return (pipeline, (0.0, 0.0, 0.0)) if is_host else (adds, pipeline)


def _time_power_w(result: Estimate) -> float:
    """Return the power that each second beyond the prediction takes: static power, and on a CPU also what its busy
    cores take by time. (An accelerator idles while it waits for its host; a CPU is the host.)"""
    if not result.device.arch.is_host or not result.latency_s:
        return result.static_w
    return result.static_w + float(result.event_j[result.device.arch.timed_rows].sum()) / result.latency_s


def _input_copy_s(result: Estimate) -> float:
    tensors = result.workload.tensors
    numel = (tensors.numel @ result.workload.value_at(batch=result.scenario.batch))[tensors.role == INPUT].sum()
    link = "" if result.device.software.shares_host_memory else "_pcie"
    return float(numel) * 4.0 / common(f"pageable_copy_bandwidth{link}").value


def validate(
    rows: Sequence[dict[str, str]],
    folders: tuple[Path, ...] = (),
    tick: Tick | None = None,
    kernels: Sequence[PredictionPoint] = (),
    unread: Mapping[str, int] | None = None,
) -> Validation:
    """Predict every row and summarise errors by class of work and by group. `kernels` are predicted single kernels,
    `unread` the number of others of their table, by reason."""
    predictions, skipped = predict_rows(rows, folders, tick)
    skipped.update(unread or {})
    agree = repeats_agree([p.row for p in predictions])
    if differing := len(agree) - sum(agree):
        skipped[f"repeats of one configuration differ by more than {REPEATS_DIFFER:g}x"] += differing
    predictions = [p for p, agrees in zip(predictions, agree, strict=True) if agrees]
    members = group_by(predictions, lambda p: p.row.group)
    groups = {key: _group_errors(key, rows_of_group) for key, rows_of_group in members.items()}
    vision = {p.row.group for p in predictions if p.kind == "vision"}
    replaced = Counter(
        f"{p.row.asked_precision} runs as {p.row.scenario.precision}" for p in predictions if p.row.asked_precision
    )
    return Validation(
        classes=class_errors(predictions, kernels),
        groups=tuple(group for each in groups.values() for group in each),
        skipped=tuple(SkippedRows(reason, n) for reason, n in skipped.most_common()),
        replaced=tuple(SkippedRows(reason, n) for reason, n in replaced.most_common()),
        summary=_summarise(
            [group for key in groups if key in vision for group in groups[key]],
            len(predictions) + (0 if unread is None else len(kernels)),
            sum(skipped.values()),
        ),
    )


def predict_rows(
    rows: Sequence[dict[str, str]], folders: tuple[Path, ...] = (), tick: Tick | None = None
) -> tuple[list[RowPrediction], Counter[str]]:
    """Return predictions, and the number of rows without one by reason."""
    skipped: Counter[str] = Counter()
    return interpret_each(rows, lambda row: predict_row(interpret_row(row, folders)), skipped, tick), skipped


def repeats_agree(rows: Sequence[MeasuredRow]) -> list[bool]:
    """Return False for each row of a configuration whose repeats differ by more than REPEATS_DIFFER: one of them must
    be another measurement."""
    agree = {}
    for configuration, repeats in group_by(rows, _configuration).items():
        values = [row.latency_s or row.energy_j or 0.0 for row in repeats]
        agree[configuration] = max(values) <= REPEATS_DIFFER * min(values)
    return [agree[_configuration(row)] for row in rows]


def _configuration(row: MeasuredRow) -> tuple[object, ...]:
    lengths = tuple(row.lengths.items())
    return (*row.group, row.device.key, row.model, lengths, row.image_size, row.scenario.batch, row.latency_s is None)


def prediction_points(predictions: Iterable[RowPrediction]) -> Iterator[PredictionPoint]:
    """Yield the latency of each row in its class of work, and its energy in its energy class."""
    for p in predictions:
        row = p.row
        key = (row.device.id, row.family, p.runtime, p.mode, p.work_class)
        if row.latency_s:
            yield PredictionPoint(p.work_class, "latency", *key, row.latency_s, p.latency_s, p.latency_band_s)
        if row.energy_j:
            yield PredictionPoint(row.energy_class, "energy", *key, row.energy_j, p.energy_j, p.energy_band_j)


def class_errors(
    predictions: Iterable[RowPrediction], kernels: Sequence[PredictionPoint] = ()
) -> tuple[ClassErrors, ...]:
    """Return the errors of each class of work in the declared order: first latency, then energy."""
    members = group_by((*prediction_points(predictions), *kernels), lambda point: (point.quantity, point.name))
    order = [kind.name for kind in work_classes()]
    keys = sorted(members, key=lambda key: (QUANTITIES.index(key[0]), order.index(key[1]) if key[1] in order else 0))
    return tuple(
        measure_errors(
            ClassErrors,
            [point.error_row for point in members[quantity, name]],
            name=name,
            quantity=quantity,
            devices=len({point.device for point in members[quantity, name]}),
        )
        for quantity, name in keys
    )


def _group_errors(key: tuple[str, ...], predictions: Sequence[RowPrediction]) -> list[ErrorGroup]:
    rows: dict[str, list[ErrorRow]] = {"latency": [], "energy": [], "energy_given_latency": []}
    for p in predictions:
        latency_s, energy_j, (low, high) = p.row.latency_s, p.row.energy_j, p.energy_band_j
        if latency_s:
            rows["latency"].append((latency_s, p.latency_s, p.latency_band_s))
        if energy_j:
            rows["energy"].append((energy_j, p.energy_j, p.energy_band_j))
        if energy_j and latency_s:
            shift_j = (latency_s - p.latency_s) * p.time_power_w / p.row.scenario.batch
            ends = (low + shift_j, high + shift_j)
            rows["energy_given_latency"].append((energy_j, max(p.energy_j + shift_j, 0.0), ends))
    labels = dict(zip(GROUP, key, strict=True))
    return [
        _explain_group(measure_errors(ErrorGroup, of_quantity, quantity=quantity, **labels))
        for quantity, of_quantity in rows.items()
        if of_quantity
    ]


def _summarise(groups: Sequence[ErrorGroup], predicted: int, skipped: int) -> dict[str, float | int | None]:
    summary: dict[str, float | int | None] = {"predicted": predicted, "skipped": skipped}
    large = [group for group in groups if group.n >= LARGE]
    for quantity in ("latency", "energy", "energy_given_latency"):
        for kind in _device_kinds():
            matches = [g for g in large if g.quantity == quantity and _kind_name(g) == kind]
            if not matches:
                continue
            ranks = [g.spearman for g in matches if g.spearman is not None]
            summary[f"{kind}_{quantity}_median_ape"] = float(np.median([g.median_ape for g in matches]))
            summary[f"{kind}_{quantity}_spearman"] = float(np.median(ranks)) if ranks else None
            summary[f"{kind}_{quantity}_groups"] = len(matches)
    if large:
        summary["band_coverage"] = float(np.average([g.band_coverage for g in large], weights=[g.n for g in large]))
        summary["band_half_width"] = float(np.median([g.band_half_width for g in large]))
    return summary


def _device_kinds() -> dict[str, dict[str, Any]]:
    """Return the kinds of devices by name: `id`, a part of their devices' ids, and target errors of quantities."""
    return {kind["name"]: kind for kind in file_access.shipped(SHIPPED / "kinds.toml")["kind"]}


def _kind_name(group: ErrorGroup) -> str:
    try:
        device = find_device(re.sub(r" x\d+$", "", group.device), group.device_mode, group.source, ())
    except Unpredictable:
        return known_architectures.BASELINE
    kinds = _device_kinds().items()
    return next((name for name, kind in kinds if "id" in kind and kind["id"] in device.id), device.architecture)


def _explain_group(group: ErrorGroup) -> ErrorGroup:
    target = _device_kinds().get(_kind_name(group), {}).get(group.quantity)
    if target is None or group.n < LARGE or group.median_ape <= 2.0 * target:
        return group
    known = (
        row["reason"]
        for row in file_access.shipped(SHIPPED / "reasons.toml")["group"]
        if all(str(getattr(group, name)).startswith(begins) for name, begins in row.items() if name != "reason")
    )
    return msgspec.structs.replace(group, reason=next(known, "not explained"))
