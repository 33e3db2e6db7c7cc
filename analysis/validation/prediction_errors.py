"""Errors of predictions over a group of measured rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import msgspec
import numpy as np

from analysis.document import column
from analysis.model.ir.workload import Floats

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
