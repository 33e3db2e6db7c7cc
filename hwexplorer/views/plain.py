"""What every view is made of: tables of typed cells, bars and points, with no rendering in them.

Cells hold numbers in SI units or text; a column says what its numbers are, the renderer picks one prefix
per visible column. `None` renders as an empty cell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from hardware.quantity import Unit

Cell = str | float | int | bool | None


# What a number's unit adds to the name of its column in CSV, which says it as JSON does: `latency_s`.
_SUFFIX = {"s": "_s", "J": "_j", "Js": "_js", "byte": "_bytes", "W": "_w", "1/s": "_per_s", "FLOP/s": "_flop_per_s"}


class _Titled(msgspec.Struct, frozen=True):
    key: str
    title: str
    unit: Unit = ""


class Column(_Titled, frozen=True, kw_only=True):
    """`keep` orders what is dropped when the screen is narrow: 0 never drops, higher drops first.

    `role`: 'text' left aligned; 'number' right aligned, one prefix for the column; 'quantity' right aligned, each
    cell with its own prefix and unit (for columns that span many magnitudes); 'bar' a fraction (0-1) drawn as a
    bar; 'delta' a signed fraction drawn with its sign; 'flag' one letter.

    `of` is what the column shows of a row of a document: a field (`edp_js`, `point.edp_js`; by default the one named
    as the column is in CSV), or a function of the row. `shown` maps the values of a few to words."""

    role: Literal["text", "number", "quantity", "bar", "delta", "flag"] = "number"
    keep: int = 1
    help: str = ""
    of: str | Callable[[Any], Cell] = ""
    shown: Mapping[Any, str] | None = None

    @property
    def si_name(self) -> str:
        """The column in CSV: its key with the SI unit of its numbers."""
        return self.key + _SUFFIX.get(self.unit, "")


class _Keyed(msgspec.Struct, frozen=True):
    key: str
    cells: tuple[Cell, ...]


class Row(_Keyed, frozen=True, kw_only=True):
    """`key` identifies the row across recomputes (node id, device id); `depth` and `has_children` make a tree."""

    depth: int = 0
    has_children: bool = False
    kind: str = ""
    dim: bool = False


class _Tabled(msgspec.Struct, frozen=True):
    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


class Table(_Tabled, frozen=True, kw_only=True):
    """`footer` lines prove the sums or state totals; `notes` are remarks (marked precisions, what does not fit)."""

    footer: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Text(msgspec.Struct, frozen=True):
    """Headed paragraphs: (heading, lines)."""

    name: str
    title: str
    sections: tuple[tuple[str, tuple[str, ...]], ...]


class _Curve(msgspec.Struct, frozen=True):
    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]


class Series(_Curve, frozen=True, kw_only=True):
    """Points (`x`, `y`, and per-point `keys` and `labels`) or, with `line`, a polyline.

    `mark`: points that stand out; `guide`: a line that others are read by."""

    keys: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    line: bool = False
    mark: bool = False
    guide: bool = False


class Plot(msgspec.Struct, frozen=True, kw_only=True):
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


class _Parts(msgspec.Struct, frozen=True):
    name: str
    title: str
    parts: tuple[View, ...]


class Page(_Parts, frozen=True, kw_only=True):
    """Several views under one title, read from top to bottom. `main` is the one that a format of a single table
    (CSV) carries, the detailed rows; `csv` stands in its place. `is_long`: plots are left out of text, where their
    points would be pages of numbers."""

    main: int = -1
    csv: View | None = None
    is_long: bool = False


MOST_POINTS = 100


def for_reading(page: Page) -> Page:
    """The page as text and Markdown give it: a plot of thousands of points is named, not listed."""
    kept = [part for part in page.parts if not (page.is_long and isinstance(part, Plot))]
    return msgspec.structs.replace(page, parts=tuple(map(_named_if_large, kept)))


def _named_if_large(part: View) -> View:
    if not isinstance(part, Plot):
        return part
    points = sum(len(series.x) for series in part.series)
    if points <= MOST_POINTS:
        return part
    return Text(part.name, part.title, (("", (f"{points} points: --format json or html has them",)),))
