"""Validation of predictions: every measured row is predicted, or counted by the reason why it cannot be.

A group is (source, device, mode, framework, precision, scenario). The summary is the median over larger groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import msgspec

from analysis.document import column, record
from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.trust import work_classes
from analysis.model import store
from analysis.model.ir.workload import INPUT, Workload
from analysis.model.model_errors import ModelError, ModelSpecError
from analysis.validation.language_rows import interpret_row as interpret_row
from analysis.validation.measured_rows import GROUP, MeasuredRow, Tick, Unpredictable, interpret_each
from analysis.validation.prediction_errors import PredictionErrors, PredictionPoint, SkippedRows, measure_errors
from hardware.architecture_facts import common
from hardware.device_catalog import load_device
from hardware.grouping import group_by

REPEATS_DIFFER = 2.0  # least ratio of repeats at which one of them must be another measurement
_MOST_MEMORY = 1.3  # of the device: what was measured may free tensors earlier
LARGE = 10  # least rows of a group from which a figure follows
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
    """Errors of one group and quantity."""

    source: Annotated[str, column("Source", keep=5)]
    device: Annotated[str, column("Device")]
    device_mode: Annotated[str, column("Mode", keep=3)]
    framework: Annotated[str, column("Framework", keep=2)]
    precision: Annotated[str, column("Precision", keep=3)]
    scenario: Annotated[str, column("Scenario", keep=4)]
    quantity: Annotated[str, column("Quantity")]


class ClassErrors(PredictionErrors, frozen=True, kw_only=True):
    """Errors of a class of work over all of its rows."""

    name: Annotated[str, column("Class of work")]
    quantity: str
    devices: Annotated[int, column("Devices", "count", keep=2)]


class Validation(msgspec.Struct, frozen=True):
    """Errors of classes of work and groups, skipped rows, rows that were predicted in another precision than measured
    (`replaced`), and the numbers of rows that are predicted and not (`summary`)."""

    classes: tuple[ClassErrors, ...]
    groups: tuple[ErrorGroup, ...]
    skipped: tuple[SkippedRows, ...]
    replaced: tuple[SkippedRows, ...]
    summary: dict[str, int]


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
    replaced = Counter(
        f"{p.row.asked_precision} runs as {p.row.scenario.precision}" for p in predictions if p.row.asked_precision
    )
    return Validation(
        classes=class_errors(predictions, kernels),
        groups=tuple(
            errors
            for group, members in group_by(predictions, lambda p: p.row.group).items()
            for errors in _group_errors(group, members)
        ),
        skipped=SkippedRows.count(skipped),
        replaced=SkippedRows.count(replaced),
        summary={
            "predicted": len(predictions) + (0 if unread is None else len(kernels)),
            "skipped": skipped.total(),
        },
    )


def predict_rows(
    rows: Sequence[dict[str, str]], folders: tuple[Path, ...] = (), tick: Tick | None = None
) -> tuple[list[RowPrediction], Counter[str]]:
    """Return predictions, and the number of rows without one by reason."""
    return interpret_each(rows, lambda row: predict_row(interpret_row(row, folders)), tick)


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
            members[quantity, name],
            name=name,
            quantity=quantity,
            devices=len({point.device for point in members[quantity, name]}),
        )
        for quantity, name in keys
    )


def _group_errors(key: tuple[str, ...], predictions: Sequence[RowPrediction]) -> list[ErrorGroup]:
    points = group_by(
        (*prediction_points(predictions), *_energy_points_given_latency(predictions)), lambda point: point.quantity
    )
    labels = dict(zip(GROUP, key, strict=True))
    return [measure_errors(ErrorGroup, members, quantity=name, **labels) for name, members in points.items()]


def _energy_points_given_latency(predictions: Sequence[RowPrediction]) -> Iterator[PredictionPoint]:
    """Yield the energy of rows as if they took the time that was measured."""
    for p in predictions:
        if p.row.latency_s and p.row.energy_j:
            shift_j = (p.row.latency_s - p.latency_s) * p.time_power_w / p.row.scenario.batch
            (*_, point), (low, high) = prediction_points([p]), p.energy_band_j
            yield msgspec.structs.replace(
                point,
                quantity="energy_given_latency",
                predicted=max(p.energy_j + shift_j, 0.0),
                band=(low + shift_j, high + shift_j),
            )
