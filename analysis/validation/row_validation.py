"""Validation of predictions: every measured row is predicted, or counted by the reason why it cannot be.

Each measured quantity is a point, with its prediction and band. Errors are those of points of a class of work, or of a
group: (source, device, mode, framework, precision, scenario)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import numpy as np

from analysis.document import column
from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.trust import work_classes
from analysis.model import store
from analysis.model.ir.workload import INPUT, Floats, Workload
from analysis.model.model_errors import ModelError, ModelSpecError
from analysis.validation.measured_rows import Tick, Unpredictable, interpret_each
from analysis.validation.model_rows import GROUP
from analysis.validation.model_rows import MeasuredRow as MeasuredRow
from analysis.validation.model_rows import interpret_row as interpret_row
from hardware.architecture_facts import common
from hardware.base.records import group_by
from hardware.device_catalog import load_device

REPEATS_DIFFER = 2.0  # least ratio of repeats at which one of them must be another measurement
_MOST_MEMORY = 1.3  # of the device: what was measured may free tensors earlier
LARGE = 10  # least rows of a group from which a figure follows
Ends = tuple[float, float, float]  # nominal, low, high
QUANTITIES = ("latency", "energy")
Group = TypeVar("Group")


class PredictionErrors(msgspec.Struct, frozen=True, kw_only=True):
    """Errors as fractions: median and 90th percentile of the absolute error; `bias`, the median of predicted / measured
    - 1; `spearman`, the rank correlation; `band_coverage`, the share of rows inside the stated band; and
    `band_half_width`, the median half-width of that band over the prediction."""

    n: Annotated[int, column("Rows", "count")]
    median_ape: Annotated[float, column("Median err", "%", help="median absolute error")]
    p90_ape: Annotated[float, column("90th", "%", keep=1)]
    bias: Annotated[float, column("Bias", "%", role="delta", keep=1, help="median of predicted / measured - 1")]
    spearman: Annotated[float | None, column("Rank corr", keep=2, help="1: the order is right")]
    band_coverage: Annotated[float, column("Held", "%", help="share of rows inside the stated band")]
    band_half_width: Annotated[float, column("Band", "%", keep=1, help="median half-width of the stated band")]


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


class SkippedRows(msgspec.Struct, frozen=True):
    """A number of rows and the reason why they are counted separately."""

    reason: str
    rows: int

    @classmethod
    def count(cls, numbers: Counter[str]) -> tuple[SkippedRows, ...]:
        """Return the numbers of rows by reason, the largest first."""
        return tuple(cls(reason, n) for reason, n in numbers.most_common())


class RowPoint(PredictionPoint, frozen=True):
    """One measured quantity of a row of a whole model."""

    row: MeasuredRow


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
    """Errors of classes of work and groups, skipped rows, and the numbers of rows that are predicted and not
    (`summary`)."""

    classes: tuple[ClassErrors, ...]
    groups: tuple[ErrorGroup, ...]
    skipped: tuple[SkippedRows, ...]
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


def predict_row(row: MeasuredRow) -> list[RowPoint]:
    """Return the measured figures of a row with their predictions and bands: latency of the batch in its class of work,
    energy of an inference in its energy class, and this energy as if the row took the time that was measured. Raises
    Unpredictable as `estimate_row` does."""
    result, batch = estimate_row(row), row.scenario.batch
    adds, floor = input_s(row, result)
    follows = batch / result.throughput_per_s / result.latency_s if row.is_rate else 1.0  # batches may overlap
    model_s = (result.latency_s * follows, *(end * follows for end in result.latency_band_s))
    latency_s = [max(t + extra, least) for t, extra, least in zip(model_s, adds, floor, strict=True)]
    waits_s = [t - kernel for t, kernel in zip(latency_s, model_s, strict=True)]
    waiting_w, prompt_j = _time_power_w(result), _prompt_j(row)
    energy_j = [
        (j + wait * waiting_w) / batch + prompt_j
        for j, wait in zip((result.energy_j, *result.energy_band_j), waits_s, strict=True)
    ]
    figures = [
        ("latency", result.work_class, row.latency_s, latency_s),
        ("energy", row.energy_class, row.energy_j, energy_j),
    ]
    if row.latency_s:
        shift_j = (row.latency_s - latency_s[0]) * waiting_w / batch
        shifted_j = [max(energy_j[0] + shift_j, 0.0), *(end + shift_j for end in energy_j[1:])]
        figures.append(("energy_given_latency", row.energy_class, row.energy_j, shifted_j))
    labels = row.device.id, row.family, result.runtime.id, result.execution, result.work_class
    return [
        RowPoint(name, quantity, *labels, measured, predicted, (low, high), row)
        for quantity, name, measured, (predicted, low, high) in figures
        if measured
    ]


def _prompt_j(row: MeasuredRow) -> float:
    """Return the energy of a prompt for each token of its answer, if the row's energy has it."""
    if not row.answer:
        return 0.0
    model, prompt = row.model.replace(":decode", ":prefill"), row.lengths["kv"] - row.answer // 2
    result = estimate_row(msgspec.structs.replace(row, model=model, lengths={"sequence": prompt}))
    return result.energy_j / row.scenario.batch / row.answer


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
    points, skipped = predict_rows(rows, folders, tick)
    skipped.update(unread or {})
    predicted = len({id(point.row) for point in points}) + len(kernels)
    return Validation(
        classes=class_errors((*points, *kernels)),
        groups=tuple(
            measure_errors(ErrorGroup, members, quantity=quantity, **dict(zip(GROUP, group, strict=True)))
            for group, of_group in group_by(points, lambda point: point.row.group).items()
            for quantity, members in group_by(of_group, lambda point: point.quantity).items()
        ),
        skipped=SkippedRows.count(skipped),
        summary={"predicted": predicted, "kernels": len(kernels), "skipped": skipped.total()},
    )


def predict_rows(
    rows: Sequence[dict[str, str]], folders: tuple[Path, ...] = (), tick: Tick | None = None
) -> tuple[list[RowPoint], Counter[str]]:
    """Return the points of rows, and the number of rows without one by reason."""
    predicted, skipped = interpret_each(rows, lambda row: predict_row(interpret_row(row, folders)), tick)
    agree = repeats_agree([points[0].row for points in predicted])
    if differing := len(agree) - sum(agree):
        skipped[f"repeats of one configuration differ by more than {REPEATS_DIFFER:g}x"] += differing
    return [point for points, agrees in zip(predicted, agree, strict=True) if agrees for point in points], skipped


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


def class_errors(points: Iterable[PredictionPoint]) -> tuple[ClassErrors, ...]:
    """Return the errors of each class of work in the declared order: first latency, then energy."""
    members = group_by(
        (point for point in points if point.quantity in QUANTITIES), lambda point: (point.quantity, point.name)
    )
    order = [kind.name for kind in work_classes()]
    keys = sorted(members, key=lambda key: (QUANTITIES.index(key[0]), order.index(key[1]) if key[1] in order else 0))
    devices = {key: len({point.device for point in members[key]}) for key in keys}
    return tuple(
        measure_errors(ClassErrors, members[key], name=key[1], quantity=key[0], devices=devices[key]) for key in keys
    )


def measure_errors(kind: Callable[..., Group], points: Sequence[PredictionPoint], **fields: str | int) -> Group:
    """Return the errors of a group of points as a struct of type `kind`; `fields` are its other fields."""
    measured, predicted, bands = (
        np.array([getattr(point, name) for point in points]) for name in ("measured", "predicted", "band")
    )
    error = predicted / measured - 1.0
    inside = (measured >= bands[:, 0]) & (measured <= bands[:, 1])
    half = (bands[:, 1] - bands[:, 0]) / 2.0 / predicted
    return kind(
        **fields,
        n=len(points),
        median_ape=float(np.median(np.abs(error))),
        p90_ape=float(np.quantile(np.abs(error), 0.9)),
        bias=float(np.median(error)),
        spearman=spearman(measured, predicted),
        band_coverage=float(inside.mean()),
        band_half_width=float(np.median(half)),
    )


def spearman(a: Floats, b: Floats) -> float | None:
    """Return the rank correlation. Return None for fewer than three rows or for constant values."""
    if len(a) < 3:
        return None
    x, y = _ranks(a), _ranks(b)
    if x.std() == 0 or y.std() == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def _ranks(values: Floats) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Floats = ((ends - counts + ends - 1) / 2.0)[inverse]
    return ranks
