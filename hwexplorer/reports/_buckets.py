"""Tables of distributions: buckets, and members by type."""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np

from analysis.document import Cell, Column, column, columns, records
from analysis.model.ir.workload import Floats
from hwexplorer.declare import Rows


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


# --- the table -------------------------------------------------------------------------------------------------------

KINDS = columns(KindCount)


def distribution(name: str, title: str, what: str, weighed: str, of: dict[str, str]) -> Rows:
    """Return a table with a row per bucket, from the field `name` of a document. Each item of `of` (title -> attribute
    of that field, '' for the field itself) adds columns of count, fraction and weight."""
    columns = [Column("range", what, role="text", keep=0, of=lambda row: row[0].label)]
    for place, label in enumerate(of):
        key = label.lower()
        columns += [
            Column(f"{key}_count", label, "count", keep=0, of=_bucket_field(place, "count")),
            Column(f"{key}_fraction", "%", "%", keep=0, of=_bucket_field(place, "fraction")),
            Column(f"{key}_weight", f"of {weighed}", "%", keep=1, of=_bucket_field(place, "weight")),
        ]

    def ranges(document: Any) -> Iterable[tuple[Bucket, ...]]:
        """Return the buckets of all distributions, one tuple per range."""
        buckets = getattr(document, name)
        return zip(*(getattr(buckets, field) if field else buckets for field in of.values()), strict=True)

    return Rows(name, title, tuple(columns), of=ranges)


def _bucket_field(place: int, field: str) -> Callable[[tuple[Bucket, ...]], Cell]:
    return lambda row: getattr(row[place], field)
