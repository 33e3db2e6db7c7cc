"""Errors of predictions, by class of work and by group: (source, device, mode, framework, precision, scenario)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import numpy as np

from analysis.document import column
from analysis.estimate.trust import work_classes
from analysis.measured import predictions
from analysis.measured.predictions import PredictionPoint
from analysis.measured.tables import Tick
from analysis.model.ir.workload import Floats
from hardware.base.records import group_by

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


class SkippedRows(msgspec.Struct, frozen=True):
    """A number of rows and the reason why they are counted separately."""

    reason: str
    rows: int

    @classmethod
    def count(cls, numbers: Counter[str]) -> tuple[SkippedRows, ...]:
        """Return the numbers of rows by reason, the largest first."""
        return tuple(cls(reason, n) for reason, n in numbers.most_common())


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


def validate(
    rows: Sequence[dict[str, str]],
    folders: tuple[Path, ...] = (),
    tick: Tick | None = None,
    kernels: Sequence[PredictionPoint] = (),
    unread: Mapping[str, int] | None = None,
) -> Validation:
    """Predict every row and summarise errors by class of work and by group. `kernels` are predicted single kernels,
    `unread` the number of others of their table, by reason."""
    points, skipped = predictions.predict_rows(rows, folders, tick)
    skipped.update(unread or {})
    predicted = len({id(point.row) for point in points}) + len(kernels)
    return Validation(
        classes=class_errors((*points, *kernels)),
        groups=tuple(
            measure_errors(ErrorGroup, members, quantity=quantity, **dict(zip(predictions.GROUP, group, strict=True)))
            for group, of_group in group_by(points, lambda point: point.row.group).items()
            for quantity, members in group_by(of_group, lambda point: point.quantity).items()
        ),
        skipped=SkippedRows.count(skipped),
        summary={"predicted": predicted, "kernels": len(kernels), "skipped": skipped.total()},
    )


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
