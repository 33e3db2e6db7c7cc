"""Distributions over fixed ranges, as counts and fractions that sum to 1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
import numpy as np

from analysis.document import column
from analysis.model.ir.workload import Floats


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """Members with `low` <= value < `high` (None: no end). `fraction` of the count, `weight` of what they weigh
    (time, FLOPs: the report says) as a fraction of the whole."""

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
    """`values` and `weights` (n,) in len(edges) + 1 ranges that begin at 0 and share the `edges`."""
    where = np.searchsorted(np.asarray(edges), values, side="right")
    counts = np.bincount(where, minlength=len(labels)).tolist()
    weighed = np.bincount(where, weights, minlength=len(labels)).tolist()
    count, weight = len(values) or 1, float(weights.sum()) or 1.0
    ends = [0.0, *edges, None]
    return tuple(
        Bucket(
            label=label,
            low=float(ends[place] or 0.0),
            high=ends[place + 1],
            count=counts[place],
            fraction=counts[place] / count,
            weight=weighed[place] / weight,
        )
        for place, label in enumerate(labels)
    )


def kinds(types: Iterable[str], flops: Floats) -> tuple[KindCount, ...]:
    """Members by type, the most frequent first."""
    by_type: dict[str, list[float]] = {}
    for name, work in zip(types, flops.tolist(), strict=True):
        entry = by_type.setdefault(name, [0, 0.0])
        entry[0] += 1
        entry[1] += work
    count, total = len(flops) or 1, float(flops.sum()) or 1.0
    rows = [
        KindCount(name, int(members), members / count, work, work / total) for name, (members, work) in by_type.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.count, row.type)))
