"""Tables that several reports share."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.reports.buckets import Bucket, Kind
from analysis.reports.checks import Check
from hwexplorer.views.plain import Cell, Column, Row, Table, Text


def distribution(name: str, title: str, what: str, weighed: str, columns: dict[str, tuple[Bucket, ...]]) -> Table:
    """Buckets as rows; for each of `columns` (title -> buckets of the same ranges) count, %, and weight."""
    head = [Column("range", what, role="text", keep=0)]
    for label in columns:
        key = label.lower()
        head += [
            Column(f"{key}_count", label, "count", keep=0),
            Column(f"{key}_fraction", "%", "%", keep=0),
            Column(f"{key}_weight", f"of {weighed}", "%", keep=1),
        ]
    rows = []
    for same in zip(*columns.values(), strict=True):
        cells: list[Cell] = [same[0].label]
        for bucket in same:
            cells += [bucket.count, bucket.fraction, bucket.weight]
        rows.append(Row(same[0].label, tuple(cells)))
    return Table(name, title, tuple(head), tuple(rows))


def kinds(name: str, title: str, rows: Sequence[Kind]) -> Table:
    """Types with counts and percentages of count and FLOPs."""
    columns = (
        Column("type", "Type", role="text", keep=0),
        Column("count", "Count", "count", keep=0),
        Column("fraction", "%", "%", keep=0),
        Column("flops", "FLOP", "FLOP", keep=1),
        Column("flops_fraction", "of FLOPs", "%", keep=1),
    )
    cells = [Row(k.type, (k.type, k.count, k.fraction, k.flops, k.flops_fraction)) for k in rows]
    return Table(name, title, columns, tuple(cells))


def facts(name: str, title: str, lines: Sequence[str]) -> Text:
    """Short statements under one title."""
    return Text(name, title, (("", tuple(lines)),))


def chain(names: Sequence[str], most: int = 12) -> str:
    """A path in words; its middle is left out where it is long."""
    if len(names) <= most:
        return " > ".join(names)
    half = most // 2
    return f"{' > '.join(names[:half])} > ({len(names) - 2 * half} more) > {' > '.join(names[-half:])}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """Names in a row; the rest as a number."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def checks(found: Sequence[Check]) -> Table:
    """Consistency checks: passed or not, and the numbers in words."""
    columns = (
        Column("name", "Check", role="text", keep=0),
        Column("passed", "Passed", role="text", keep=0),
        Column("sentence", "What was found", role="text", keep=0),
    )
    rows = tuple(Row(check.name, (check.name, "yes" if check.passed else "NO", check.sentence)) for check in found)
    return Table("checks", "Consistency checks", columns, rows)
