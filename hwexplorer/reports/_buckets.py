"""Tables of distributions: buckets, and members by type."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from analysis.document import Cell, Column, columns
from analysis.reports.distributions import Bucket, KindCount
from hwexplorer.declare import Rows

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
