"""What predictions are off by, over a group of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np

Column = np.ndarray[tuple[int], np.dtype[np.float64]]


class Errors(msgspec.Struct, frozen=True, kw_only=True):
    """Fractions: median and 90th percentile of the absolute error, `bias` the median of predicted / measured - 1,
    `spearman` the rank correlation, `band_coverage` the share of rows inside the stated band, `band_half_width` its
    median."""

    n: int
    median_ape: float
    p90_ape: float
    bias: float
    spearman: float | None
    band_coverage: float
    band_half_width: float


Group = TypeVar("Group")
Row = tuple[float, float, tuple[float, float]]  # measured, predicted, the ends of its band


def errors(kind: Callable[..., Group], rows: Sequence[Row], **of: str | int) -> Group:
    """The errors of a group of rows; `of` says which it is."""
    measured, predicted, bands = (np.array(values) for values in zip(*rows, strict=True))
    error = predicted / measured - 1.0
    inside = (measured >= bands[:, 0]) & (measured <= bands[:, 1])
    half = (bands[:, 1] - bands[:, 0]) / 2.0 / predicted
    figures: dict[str, Any] = {
        "n": len(rows),
        "median_ape": float(np.median(np.abs(error))),
        "p90_ape": float(np.quantile(np.abs(error), 0.9)),
        "bias": float(np.median(error)),
        "spearman": spearman(measured, predicted),
        "band_coverage": float(inside.mean()),
        "band_half_width": float(np.median(half)),
    }
    return kind(**figures, **of)


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
