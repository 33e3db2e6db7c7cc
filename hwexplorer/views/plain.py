"""The plain data of views: tables of typed cells, bars and points, without rendering.

Cells hold text or numbers in SI units. A column states the unit of its numbers; the renderer picks one prefix per
visible column. `None` renders as an empty cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from analysis.document import Cell, Column
from hardware.base.text import Unit, quantity


class Band(str):
    """A band in words, `-22/+48 %`, with its ends, which CSV has as two numbers."""

    __slots__ = ("high", "low")
    low: float
    high: float

    def __new__(cls, words: str, low: float, high: float) -> Band:
        band = super().__new__(cls, words)
        band.low, band.high = low, high
        return band


class Stack(float):
    """A number that is the sum of its `parts`, one for each cause (estimate/causes.py); bars show the parts."""

    __slots__ = ("parts",)
    parts: tuple[float, ...]

    def __new__(cls, parts: Sequence[float], value: float | None = None) -> Stack:
        number = super().__new__(cls, sum(parts) if value is None else value)
        number.parts = tuple(parts)
        return number

    @classmethod
    def sum(cls, stacks: Iterable[Stack]) -> Stack:
        """Return the stack whose parts are the sums of the parts of several."""
        return cls([sum(parts) for parts in zip(*(stack.parts for stack in stacks), strict=True)])


class Amount(float):
    """A number with another unit than its column, such as a power among energies."""

    __slots__ = ("unit",)
    unit: Unit

    def __new__(cls, value: float, unit: Unit) -> Amount:
        amount = super().__new__(cls, value)
        amount.unit = unit
        return amount


def write_amount(value: float | None, column: Column) -> str:
    """Write a number of a column of quantities, in its own unit or the column's. Leave out the symbol if the title of
    the column has it: `EDP J·s`, `J/inf`."""
    text = quantity(value, value.unit if isinstance(value, Amount) else column.unit)
    for word in column.title.replace("/", " ").split():
        if text.endswith(word):
            return text.removesuffix(word).rstrip()
    return text


class Row(msgspec.Struct, frozen=True):
    """A row of a table. `key` identifies it across recomputes (node id, device id); `depth` and `has_children` make a
    tree. `leads` is the configuration that choosing the row opens (state.open_configuration)."""

    key: str
    cells: tuple[Cell, ...]
    depth: int = 0
    has_children: bool = False
    kind: str = ""
    dim: bool = False
    leads: str = ""


class Table(msgspec.Struct, frozen=True, dict=True):
    """A table. `footer` lines state sums and totals; `notes` are remarks, such as changed precisions and what does not
    fit. Text shows the `first` rows (0: all) unless the user asks for all. If a table that `is_stacked` is too
    wide for the page, its other columns follow below."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    footer: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    first: int = 0
    is_stacked: bool = False


NUMBERS = (int, float)  # a tuple, because `int | float` would be evaluated for every cell


EMPTY_TABLE = Table(name="", title="", columns=(), rows=())


def scale_values(columns: Sequence[Column], index: int, rows: Iterable[Row]) -> list[float]:
    """Return the numbers that are written with one prefix: numbers of a column and of all columns with its scale."""
    scale_key = columns[index].scale or columns[index].key
    scaled_columns = [i for i, column in enumerate(columns) if scale_key in (column.key, column.scale)]
    cells = [row.cells for row in rows]
    return [value for i in scaled_columns for row_cells in cells if isinstance(value := row_cells[i], NUMBERS)]


class WaterfallStep(msgspec.Struct, frozen=True):
    """A step of a waterfall: its seconds, and the start and the parts of its bar as fractions of all steps."""

    name: str
    seconds: float
    start: float
    bar: Stack


Section = tuple[str, tuple[str, ...]]  # heading, lines
SUMMARY = "Summary"  # the heading of the section above the steps


class Text(msgspec.Struct, frozen=True):
    """Headed paragraphs, after the `steps` of a waterfall.

    On screen, the sections from index `folded` on are closed until the user opens them. The lines of a drawing keep
    their columns."""

    name: str
    title: str
    sections: tuple[Section, ...]
    steps: tuple[WaterfallStep, ...] = ()
    folded: int | None = None
    is_drawing: bool = False


class Series(msgspec.Struct, frozen=True):
    """Points (`x`, `y`, and per-point `keys` and `labels`) or, with `line`, a polyline.

    `mark`: emphasised points; `guide`: a reference line. `device` is the place of the device in the state, which
    decides its colour in every plot; -1 for none. `sizes` are the shares of points in the whole (0-1). `on_paper`: a
    design target, drawn hollow."""

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
    """Series over two axes with titles and units; `log_x` and `log_y` make an axis logarithmic."""

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
    """A figure as text, in a `unit` that all cards share. `is_best`: no existing device is better."""

    label: str
    text: str
    unit: str
    is_best: bool

    def __str__(self) -> str:
        return f"{self.label} {self.text} {self.unit}".strip()


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """A card of a device. `figures` are shown from left to right. `phrase` compares the device with the `reference`.
    `rank` is its place among existing devices, 0 if it cannot win. `over` are the exceeded limits of the state.
    `value` is the metric of the state, `band` its ends, and `bar` its fractions by cause. `is_unchanged`: it is not in
    the state, but stands below the same device with changed facts."""

    key: str
    name: str
    evidence: str
    runtime: str
    format: str
    rank: int
    on_paper: bool
    figures: tuple[CardFigure, ...]
    latency_s: float
    rate_per_s: float
    energy_j: float
    bar: Stack
    value: float
    band: tuple[float, float]
    fits: bool
    over: tuple[str, ...] = ()
    phrase: str
    reference: str = ""
    is_unchanged: bool = False


View = Table | Text | Plot


class Page(msgspec.Struct, frozen=True):
    """Several views under one title, read from top to bottom. `main` is the index of the view that CSV has, unless
    `csv` is a view. `is_long`: text leaves out plots, since their points would fill pages. HTML shows the `cards` on
    top; if `brief` names parts, these come first and the other parts are folded."""

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
    """Return the page for text and Markdown: without the plots of a long page, and with large plots only named."""
    kept_parts = [part for part in page.parts if not (page.is_long and isinstance(part, Plot))]
    return msgspec.structs.replace(page, parts=tuple(_named_if_large(part, page.is_long) for part in kept_parts))


def _named_if_large(part: View | Page, is_long: bool) -> View | Page:
    if isinstance(part, Page):
        return for_reading(msgspec.structs.replace(part, is_long=is_long))
    if not isinstance(part, Plot):
        return part
    points = sum(len(series.x) for series in part.series)
    if points <= MOST_POINTS:
        return part
    return Text(part.name, part.title, (("", (f"{points} points: --format json or html has them",)),))
