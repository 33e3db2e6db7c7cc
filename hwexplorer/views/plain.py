"""What every view is made of: tables of typed cells, bars and points, with no rendering in them.

Cells hold numbers in SI units or text; a column says what its numbers are, the renderer picks one prefix
per visible column. `None` renders as an empty cell.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from hardware.quantity import Unit

Cell = str | float | int | bool | None


class Column(msgspec.Struct, frozen=True):
    """`keep` orders what is dropped when the screen is narrow: 0 never drops, higher drops first.

    `role`: 'text' left aligned; 'number' right aligned, one prefix for the column; 'quantity' right aligned, each
    cell with its own prefix and unit (for columns that span many magnitudes); 'bar' a fraction (0-1) drawn as a
    bar; 'delta' a signed fraction drawn with its sign; 'flag' one letter.
    """

    key: str
    title: str
    unit: Unit = ""
    role: Literal["text", "number", "quantity", "bar", "delta", "flag"] = "number"
    keep: int = 1
    help: str = ""


class Row(msgspec.Struct, frozen=True):
    """`key` identifies the row across recomputes (node id, device id); `depth` and `has_children` make a tree."""

    key: str
    cells: tuple[Cell, ...]
    depth: int = 0
    has_children: bool = False
    kind: str = ""
    dim: bool = False


class Table(msgspec.Struct, frozen=True):
    """`footer` lines prove the sums or state totals; `notes` are remarks (marked precisions, what does not fit)."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    footer: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Text(msgspec.Struct, frozen=True):
    """Headed paragraphs: (heading, lines)."""

    name: str
    title: str
    sections: tuple[tuple[str, tuple[str, ...]], ...]


class Series(msgspec.Struct, frozen=True):
    """Points (`x`, `y`, and per-point `keys` and `labels`) or, with `line`, a polyline.

    `mark`: points that stand out; `guide`: a line that others are read by."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    keys: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    line: bool = False
    mark: bool = False
    guide: bool = False


class Plot(msgspec.Struct, frozen=True):
    name: str
    title: str
    x_title: str
    y_title: str
    x_unit: Unit
    y_unit: Unit
    series: tuple[Series, ...]
    log_x: bool = True
    log_y: bool = True
    notes: tuple[str, ...] = ()


View = Table | Text | Plot


class Report(msgspec.Struct, frozen=True):
    """Several views under one title, read from top to bottom. `main` is the one that a format of a single table
    (CSV) carries: the detailed rows."""

    name: str
    title: str
    parts: tuple[View, ...]
    main: int = -1


MOST_POINTS = 100


def for_reading(report: Report) -> Report:
    """The report as text and Markdown give it: a plot of thousands of points is named, not listed."""
    return msgspec.structs.replace(report, parts=tuple(map(_named_if_large, report.parts)))


def _named_if_large(part: View) -> View:
    if not isinstance(part, Plot):
        return part
    points = sum(len(series.x) for series in part.series)
    if points <= MOST_POINTS:
        return part
    return Text(part.name, part.title, (("", (f"{points} points: --format json or html has them",)),))
