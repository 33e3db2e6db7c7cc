"""Predictions against measurements: every row is predicted, or counted by the reason why it cannot be.

Groups are (source, device, mode, framework, precision, scenario); the summary is the median over the larger ones.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np

from analysis.annexes.machine.errors import Errors, Row, errors
from analysis.annexes.machine.measurement import SHIPPED, Measurement, Unpredictable, device_of
from analysis.annexes.machine.rows import interpret
from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.trust import classes
from analysis.model import store
from analysis.model.ir.workload import INPUT, Workload
from analysis.model.model_errors import ModelError
from hardware import files
from hardware.architectures import registry
from hardware.architectures.data import common

REPEATS_DIFFER = 2.0
LARGE = 10  # rows from which a group counts in the summary
Ends = tuple[float, float, float]  # nominal, low, high
QUANTITIES = ("latency", "energy")


class Prediction(msgspec.Struct, frozen=True):
    """A measurement with the estimate's figures: latency of the batch, energy and what it
    grows by with time (`time_power_w`), per inference, and bands; and what is not the model's: the seconds that the
    measured input adds (`adds_s`) and those below which it holds the latency (`floor_s`)."""

    row: Measurement
    latency_s: float
    latency_band_s: tuple[float, float]
    energy_j: float
    energy_band_j: tuple[float, float]
    time_power_w: float
    adds_s: Ends
    floor_s: Ends
    work_class: str
    kind: str
    runtime: str
    mode: str


class Group(Errors, frozen=True, kw_only=True):
    """Errors of one group and quantity; `reason` why a large group is more than twice its target off, in words, ''
    where it is not."""

    source: str
    device: str
    device_mode: str
    framework: str
    precision: str
    scenario: str
    quantity: str
    reason: str = ""


class OfClass(Errors, frozen=True, kw_only=True):
    """Errors of a class of work over all its rows."""

    name: str
    quantity: str
    devices: int


class Skipped(msgspec.Struct, frozen=True):
    reason: str
    rows: int


class Validation(msgspec.Struct, frozen=True):
    """All classes of work and groups, what was skipped and why, what ran in another precision than was measured, and
    the medians over groups of ten rows or more of vision models."""

    classes: tuple[OfClass, ...]
    groups: tuple[Group, ...]
    skipped: tuple[Skipped, ...]
    replaced: tuple[Skipped, ...]
    summary: dict[str, float | int | None]


@lru_cache(maxsize=256)
def _workload(model: str, image_size: int | None) -> Workload | None:
    return store.ready(model, image_size)


def estimated(row: Measurement) -> Estimate:
    """The estimate of what was measured. Raises Unpredictable where the model must be captured first."""
    try:
        workload = _workload(row.model, row.image_size)
    except ModelError as error:
        raise Unpredictable(_general(str(error), row.model)) from None
    if workload is None:
        raise Unpredictable("model at this image size is not shipped")
    return estimate(workload.bound(**row.lengths), row.device, row.scenario)


def predict(row: Measurement) -> Prediction:
    """The estimate beside the measurement. Raises Unpredictable as `estimated` does."""
    return _predicted(row, estimated(row))


def _general(message: str, model: str) -> str:
    return message.partition(";")[0].replace(repr(model), "").strip() or message


def _predicted(row: Measurement, result: Estimate) -> Prediction:
    batch = row.scenario.batch
    low, high = result.energy_band_j
    adds, floor = input_s(row, result)
    follows = batch / result.throughput_per_s / result.latency_s if row.is_rate else 1.0  # the next may have begun
    ends = (result.latency_s * follows, *(end * follows for end in result.latency_band_s))
    nominal, fast, slow = (max(t + more, least) for t, more, least in zip(ends, adds, floor, strict=True))
    waiting_w = _time_power_w(result)
    waits = [t - own for t, own in zip((nominal, fast, slow), ends, strict=True)]
    return Prediction(
        row,
        nominal,
        (fast, slow),
        (result.energy_j + waits[0] * waiting_w) / batch,
        ((low + waits[1] * waiting_w) / batch, (high + waits[2] * waiting_w) / batch),
        waiting_w,
        adds,
        floor,
        result.work_class,
        result.workload.kind,
        result.runtime.id,
        result.execution,
    )


def input_s(row: Measurement, result: Estimate) -> tuple[Ends, Ends]:
    """What a measurement includes besides the model, nominal, low and high: seconds it adds, and seconds below which
    it cannot be. The copy to the device adds; so does an input pipeline on the cores that compute, while a host
    beside an accelerator decodes the next batch meanwhile."""
    copy = _copy_s(result) if row.copies_input else 0.0
    adds: Ends = (copy, copy * 0.7, copy * 1.4)
    if not row.decodes_input:
        return adds, (0.0, 0.0, 0.0)
    is_host = result.device.arch.is_host
    cores = result.device.units if is_host else common("image_decode_host_cores").value
    decode = common("image_decode_core_s")
    nominal, low, high = (each * row.scenario.batch / cores for each in (decode.value, decode.low, decode.high))
    pipeline: Ends = (nominal, low, high)
    return (pipeline, (0.0, 0.0, 0.0)) if is_host else (adds, pipeline)


def _time_power_w(result: Estimate) -> float:
    """What energy grows by with each second more than predicted: static power, and on a CPU the clocks of its busy
    cores (an accelerator waits for its host, a CPU is its own host)."""
    static = float(result.run.prices.value[-2:].sum())
    if not result.device.arch.is_host or not result.latency_s:
        return static
    clock = [i for i, event in enumerate(result.events) if event.family == "clock"]
    return static + float(result.event_energy_j[clock].sum()) / result.latency_s


def _copy_s(result: Estimate) -> float:
    """Seconds to copy the fp32 inputs of a batch from pageable host memory."""
    tensors = result.workload.tensors
    numel = (tensors.numel @ result.workload.value_at(batch=result.scenario.batch))[tensors.role == INPUT].sum()
    link = "" if result.device.software.shares_host_memory else "_pcie"
    return float(numel) * 4.0 / common(f"pageable_copy_bandwidth{link}").value


def validate(
    rows: Iterable[dict[str, str]],
    folders: tuple[Path, ...] = (),
    progress: Callable[[int], None] | None = None,
    kernels: Sequence[Point] = (),
) -> Validation:
    """Predict every row and summarise by class of work and by group. `kernels` are predictions of single kernels."""
    predictions, skipped = predict_all(rows, folders, progress)
    kept = agreeing([p.row for p in predictions])
    differing = len(kept) - sum(kept)
    predictions = [p for p, keep in zip(predictions, kept, strict=True) if keep]
    if differing:
        skipped[f"repeats of one configuration differ by more than {REPEATS_DIFFER:g}x"] += differing
    groups = [group for key in dict.fromkeys(p.row.group for p in predictions) for group in _groups(key, predictions)]
    groups = [_explained(group) for group in groups]
    counted = tuple(Skipped(reason, n) for reason, n in skipped.most_common())
    vision = {p.row.group for p in predictions if p.kind == "vision"}
    summary = summarise([g for g in groups if key_of(g) in vision], len(predictions), sum(skipped.values()))
    ran = Counter(
        f"{p.row.asked_precision} runs as {p.row.scenario.precision}" for p in predictions if p.row.asked_precision
    )
    replaced = tuple(Skipped(*each) for each in ran.most_common())
    return Validation(by_class(predictions, kernels), tuple(groups), counted, replaced, summary)


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


def agreeing(rows: Sequence[Measurement]) -> list[bool]:
    """False for repeats of one configuration that differ by more than a factor: one of them is something else."""
    seen: dict[tuple[object, ...], list[float]] = {}
    for row in rows:
        seen.setdefault(_configuration(row), []).append(row.latency_s or row.energy_j or 0.0)
    bad = {key for key, values in seen.items() if max(values) > REPEATS_DIFFER * min(values)}
    return [_configuration(row) not in bad for row in rows]


def _configuration(row: Measurement) -> tuple[object, ...]:
    lengths = tuple(row.lengths.items())
    return (*row.group, row.device.key, row.model, lengths, row.image_size, row.scenario.batch, row.latency_s is None)


class Point(msgspec.Struct, frozen=True):
    """One measured quantity beside its prediction and band."""

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


def points(predictions: Iterable[Prediction]) -> Iterator[Point]:
    """What was predicted of each row: its latency in its class of work, its energy in that of its kind."""
    for p in predictions:
        row = p.row
        about = (row.device.id, row.family, p.runtime, p.mode, p.work_class)
        if row.latency_s:
            yield Point(p.work_class, "latency", *about, row.latency_s, p.latency_s, p.latency_band_s)
        if row.energy_j:
            yield Point(row.kind_of_energy, "energy", *about, row.energy_j, p.energy_j, p.energy_band_j)


def by_class(predictions: Iterable[Prediction], kernels: Sequence[Point] = ()) -> tuple[OfClass, ...]:
    """The errors of each class of work, in the order in which classes are declared, then energy."""
    members: dict[tuple[str, str], list[Point]] = {}
    for point in (*points(predictions), *kernels):
        members.setdefault((point.quantity, point.name), []).append(point)
    order = [each.name for each in classes()]
    keys = sorted(members, key=lambda key: (QUANTITIES.index(key[0]), order.index(key[1]) if key[1] in order else 0))
    return tuple(
        errors(
            OfClass,
            [(point.measured, point.predicted, point.band) for point in members[quantity, name]],
            name=name,
            quantity=quantity,
            devices=len({point.device for point in members[quantity, name]}),
        )
        for quantity, name in keys
    )


def key_of(group: Group) -> tuple[str, ...]:
    return tuple(getattr(group, name) for name in _KEY)


_KEY = ("source", "device", "device_mode", "framework", "precision", "scenario")  # as in Measurement.group


def _groups(key: tuple[str, ...], predictions: list[Prediction]) -> list[Group]:
    """Latency, energy, and energy at the latency that was measured."""
    rows: dict[str, list[Row]] = {"latency": [], "energy": [], "energy_given_latency": []}
    for p in predictions:
        latency_s, energy_j, (low, high) = p.row.latency_s, p.row.energy_j, p.energy_band_j
        if p.row.group != key:
            continue
        if latency_s:
            rows["latency"].append((latency_s, p.latency_s, p.latency_band_s))
        if energy_j:
            rows["energy"].append((energy_j, p.energy_j, p.energy_band_j))
        if energy_j and latency_s:
            shift = (latency_s - p.latency_s) * p.time_power_w / p.row.scenario.batch
            rows["energy_given_latency"].append((energy_j, max(p.energy_j + shift, 0.0), (low + shift, high + shift)))
    about = dict(zip(_KEY, key, strict=True))
    return [errors(Group, those, quantity=quantity, **about) for quantity, those in rows.items() if those]


def summarise(groups: Sequence[Group], predicted: int, skipped: int) -> dict[str, float | int | None]:
    """Medians over groups of ten rows or more, by quantity and kind of device."""
    summary: dict[str, float | int | None] = {"predicted": predicted, "skipped": skipped}
    for quantity in ("latency", "energy", "energy_given_latency"):
        for kind in _kinds():
            large = [g for g in groups if g.n >= LARGE and g.quantity == quantity and _kind(g) == kind]
            if not large:
                continue
            ranks = [g.spearman for g in large if g.spearman is not None]
            summary[f"{kind}_{quantity}_median_ape"] = float(np.median([g.median_ape for g in large]))
            summary[f"{kind}_{quantity}_spearman"] = float(np.median(ranks)) if ranks else None
            summary[f"{kind}_{quantity}_groups"] = len(large)
    rows = [g for g in groups if g.n >= LARGE]
    if rows:
        summary["band_coverage"] = float(np.average([g.band_coverage for g in rows], weights=[g.n for g in rows]))
        summary["band_half_width"] = float(np.median([g.band_half_width for g in rows]))
    return summary


def _kind(group: Group) -> str:
    device = device_of(re.sub(r" x\d+$", "", group.device), group.device_mode, group.source, ())
    if isinstance(device, str):
        return registry.BASELINE.id
    return next((name for name, kind in _kinds().items() if kind.id and kind.id in device.id), device.architecture)


class DeviceKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of device: how its ids are told, and the errors meant to be reached, None where none is set."""

    name: str
    id: str = ""
    latency: float | None = None
    energy: float | None = None
    energy_given_latency: float | None = None


@lru_cache(maxsize=1)
def _kinds() -> dict[str, DeviceKind]:
    rows = msgspec.convert(files.table(SHIPPED / "kinds.toml")["kind"], list[DeviceKind])
    return {kind.name: kind for kind in rows}


@lru_cache(maxsize=1)
def _reasons() -> list[dict[str, str]]:
    rows: list[dict[str, str]] = files.table(SHIPPED / "reasons.toml")["group"]
    return rows


def _explained(group: Group) -> Group:
    """The group with the known reason for an error above twice its target."""
    kind = _kinds().get(_kind(group))
    target: float | None = getattr(kind, group.quantity, None)
    if target is None or group.n < LARGE or group.median_ape <= 2.0 * target:
        return group
    for row in _reasons():
        if all(str(getattr(group, name)).startswith(begins) for name, begins in row.items() if name != "reason"):
            return msgspec.structs.replace(group, reason=row["reason"])
    return msgspec.structs.replace(group, reason="not explained")
