"""What every view is made of: tables of typed cells, bars and points, with no rendering in them.

Cells hold numbers in SI units or text; a column says what its numbers are, the renderer picks one prefix
per visible column. `None` renders as an empty cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from analysis.document import Cell, Column
from hardware.quantity import Unit, quantity


class Band(str):
    """A band in words, `-22/+48 %`, that keeps its ends: CSV has them as two numbers."""

    __slots__ = ("high", "low")
    low: float
    high: float

    def __new__(cls, words: str, low: float, high: float) -> Band:
        band = super().__new__(cls, words)
        band.low, band.high = low, high
        return band


class Stack(float):
    """A number that is the sum of its `parts`, one for each cause (estimate/causes.py): bars are drawn of them."""

    __slots__ = ("parts",)
    parts: tuple[float, ...]

    def __new__(cls, parts: Sequence[float], value: float | None = None) -> Stack:
        number = super().__new__(cls, sum(parts) if value is None else value)
        number.parts = tuple(parts)
        return number

    @classmethod
    def sum(cls, stacks: Iterable[Stack]) -> Stack:
        return cls([sum(parts) for parts in zip(*(stack.parts for stack in stacks), strict=True)])


class Amount(float):
    """A number in a unit of its own, in a column of another: a power among energies."""

    __slots__ = ("unit",)
    unit: Unit

    def __new__(cls, value: float, unit: Unit) -> Amount:
        amount = super().__new__(cls, value)
        amount.unit = unit
        return amount


def write_amount(value: float | None, column: Column) -> str:
    """Write a number of a column of quantities, in its own unit or the column's. A title that ends with the
    symbol says it for all: `EDP J·s`."""
    text = quantity(value, value.unit if isinstance(value, Amount) else column.unit)
    return text.removesuffix(column.title.rpartition(" ")[2]).rstrip() if " " in column.title else text


class Row(msgspec.Struct, frozen=True):
    """`key` identifies the row across recomputes (node id, device id); `depth` and `has_children` make a tree. `leads`
    is the configuration that the row is about (state.open_configuration), shown where one chooses the row."""

    key: str
    cells: tuple[Cell, ...]
    depth: int = 0
    has_children: bool = False
    kind: str = ""
    dim: bool = False
    leads: str = ""


class Table(msgspec.Struct, frozen=True, dict=True):
    """`footer` lines prove the sums or state totals; `notes` are remarks (marked precisions, what does not fit). Text
    shows the `first` rows unless all are asked for, 0 for all. Columns of a table that `is_stacked` stand below each
    other where they have no room beside each other."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    footer: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    first: int = 0
    is_stacked: bool = False


NUMBERS = (int, float)  # a tuple: `int | float` would be put together for every cell


EMPTY_TABLE = Table(name="", title="", columns=(), rows=())


def scale_values(columns: Sequence[Column], index: int, rows: Iterable[Row]) -> list[float]:
    """Return the numbers that are written with one prefix: those of a column and of the columns that share its
    scale."""
    named = columns[index].scale or columns[index].key
    shared = [i for i, column in enumerate(columns) if named in (column.key, column.scale)]
    cells = [row.cells for row in rows]
    return [value for i in shared for each in cells if isinstance(value := each[i], NUMBERS)]


class WaterfallStep(msgspec.Struct, frozen=True):
    """A step of a waterfall: seconds, where its bar begins and what it is made of, as fractions of all steps."""

    name: str
    seconds: float
    start: float
    bar: Stack


Section = tuple[str, tuple[str, ...]]  # heading, lines
SUMMARY = "Summary"  # the heading of the section that stands above the steps


class Text(msgspec.Struct, frozen=True):
    """Headed paragraphs, after the `steps` of a waterfall.

    On screen sections from `folded` on open on demand."""

    name: str
    title: str
    sections: tuple[Section, ...]
    steps: tuple[WaterfallStep, ...] = ()
    folded: int | None = None


class Series(msgspec.Struct, frozen=True):
    """Points (`x`, `y`, and per-point `keys` and `labels`) or, with `line`, a polyline.

    `mark`: points that stand out; `guide`: a line that others are read by.
    `device` is the place of the device among those of the state: its colour, the same in every plot. `sizes` are what
    each point makes of the whole (0-1). `on_paper`: a design target, drawn hollow."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    device: int = -1
    sizes: tuple[float, ...] = ()
    on_paper: bool = False
    keys: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    line: bool = False
    mark: bool = False
    guide: bool = False


class Plot(msgspec.Struct, frozen=True, kw_only=True):
    """Series over two axes with titles and units, in decades where an axis is `log`."""

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


class CardFigure(msgspec.Struct, frozen=True):
    """A figure as text, in a `unit` that all cards share. `is_best`: no device that exists does better."""

    label: str
    text: str
    unit: str
    is_best: bool

    def __str__(self) -> str:
        return f"{self.label} {self.text} {self.unit}".strip()


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """`figures` are shown from left to right, `phrase` says what the device is among the others. `rank` is its place
    among the devices that exist, 0 of one that cannot win. `bar` is the metric of the state by cause, `most` the end of
    its band and `ghost` the metric of a what-if device unchanged (0 for others), as fractions of the scale that all
    cards have. `over` are the limits of the state that it is not within. `phrase` is against the `reference`."""

    key: str
    name: str
    evidence: str
    runtime: str
    rank: int
    on_paper: bool
    figures: tuple[CardFigure, ...]
    latency_s: float
    rate_per_s: float
    energy_j: float
    bar: Stack
    most: float
    fits: bool
    over: tuple[str, ...] = ()
    phrase: str
    reference: str = ""
    ghost: float = 0.0


View = Table | Text | Plot


class Page(msgspec.Struct, frozen=True):
    """Several views under one title, read from top to bottom. `main` is the one that a format of a single table
    (CSV) carries, the detailed rows; `csv` stands in its place. `is_long`: plots are left out of text, where their
    points would be pages of numbers. In HTML `cards` stand on top, and where some parts are `brief` by their names
    these come first and the others are folded."""

    name: str
    title: str
    parts: tuple[View | Page, ...]
    main: int = -1
    csv: View | None = None
    is_long: bool = False
    brief: tuple[str, ...] = ()
    cards: tuple[Card, ...] = ()


MOST_POINTS = 100


def for_reading(page: Page) -> Page:
    """The page as text and Markdown give it: a plot of thousands of points is named, not listed."""
    kept = [part for part in page.parts if not (page.is_long and isinstance(part, Plot))]
    return msgspec.structs.replace(page, parts=tuple(_named_if_large(part, page.is_long) for part in kept))


def _named_if_large(part: View | Page, is_long: bool) -> View | Page:
    if isinstance(part, Page):
        return for_reading(msgspec.structs.replace(part, is_long=is_long))
    if not isinstance(part, Plot):
        return part
    points = sum(len(series.x) for series in part.series)
    if points <= MOST_POINTS:
        return part
    return Text(part.name, part.title, (("", (f"{points} points: --format json or html has them",)),))
