"""Distributions over fixed ranges, as counts and fractions that sum to 1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
import numpy as np

from analysis.document import column, records
from analysis.model.ir.workload import Floats


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """Members with `low` <= value < `high` (None: no upper limit). `fraction` is of the count, `weight` of the
    total time or FLOPs, whichever the report sums."""

    label: str
    low: float
    high: float | None
    count: int
    fraction: float
    weight: float


class KindCount(msgspec.Struct, frozen=True):
    """Members of one type; fractions of the count and of the FLOPs."""

    type: Annotated[str, column("Type")]
    count: Annotated[int, column("Count", "count")]
    fraction: Annotated[float, column("%", "%")]
    flops: Annotated[float, column("FLOP", "FLOP", keep=1)]
    flops_fraction: Annotated[float, column("of FLOPs", "%", keep=1)]


def buckets(values: Floats, edges: Sequence[float], labels: Sequence[str], weights: Floats) -> tuple[Bucket, ...]:
    """Count `values` (n,) and sum `weights` (n,) in len(edges) + 1 ranges from 0 upwards, divided at `edges`."""
    place = np.searchsorted(np.asarray(edges), values, side="right")
    counts = np.bincount(place, minlength=len(labels))
    return records(
        Bucket,
        label=labels,
        low=[0.0, *edges],
        high=[*edges, None],
        count=counts,
        fraction=counts / (len(values) or 1),
        weight=np.bincount(place, weights, minlength=len(labels)) / (float(weights.sum()) or 1.0),
    )


def kinds(types: Iterable[str], flops: Floats) -> tuple[KindCount, ...]:
    """Return the number and FLOPs of members by type, the most frequent first."""
    names, place = np.unique(list(types), return_inverse=True)
    counts, work = np.bincount(place, minlength=len(names)), np.bincount(place, flops, minlength=len(names))
    total, order = float(flops.sum()) or 1.0, np.argsort(-counts, kind="stable")
    return records(
        KindCount,
        type=names[order],
        count=counts[order],
        fraction=counts[order] / (len(flops) or 1),
        flops=work[order],
        flops_fraction=work[order] / total,
    )
