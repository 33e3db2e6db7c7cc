"""The plain data of views, without rendering: tables of typed cells, trees given as flat tables, bars by cause with the
look of each cause, and points.

Cells hold text or numbers in SI units. A column states the unit of its numbers; the renderer picks one prefix per
visible column. `None` renders as an empty cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

import msgspec

from analysis.document import Cell, Column
from analysis.estimate.causes import CAUSES
from hardware.base.records import memoize
from hardware.base.text import Unit


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


class Span(float):
    """A place on an axis, a fraction of it, between the fractions `low` and `high`; bars show all three."""

    __slots__ = ("high", "low")
    low: float
    high: float

    def __new__(cls, low: float, place: float, high: float) -> Span:
        span = super().__new__(cls, place)
        span.low, span.high = low, high
        return span


class Worded(float):
    """A number that reads as a `word`: a time of 0 that reads `fused`."""

    __slots__ = ("word",)
    word: str

    def __new__(cls, value: float, word: str) -> Worded:
        worded = super().__new__(cls, value)
        worded.word = word
        return worded


class Amount(float):
    """A number with another unit than its column, such as a power among energies."""

    __slots__ = ("unit",)
    unit: Unit

    def __new__(cls, value: float, unit: Unit) -> Amount:
        amount = super().__new__(cls, value)
        amount.unit = unit
        return amount


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


class Text(msgspec.Struct, frozen=True):
    """Headed paragraphs, after the `steps` of a waterfall.

    On screen, the sections from index `folded` on are closed until the user opens them, and in a narrow pane also those
    without a heading after the first. The lines of a drawing keep their columns."""

    name: str
    title: str
    sections: tuple[Section, ...]
    steps: tuple[WaterfallStep, ...] = ()
    folded: int | None = None
    is_drawing: bool = False


class Series(msgspec.Struct, frozen=True):
    """Points (`x`, `y`, and per-point `keys` and `labels`) or, with `line`, a polyline.

    `mark`: emphasised points. `device` is the place of the device in the state, which decides its colour in every plot;
    -1 for none. `sizes` are the shares of points in the whole (0-1)."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    device: int = -1
    sizes: tuple[float, ...] = ()
    keys: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    line: bool = False
    mark: bool = False


class Plot(msgspec.Struct, frozen=True, kw_only=True):
    """Series over two axes with titles and units, both logarithmic."""

    name: str
    title: str
    x_title: str
    y_title: str
    x_unit: Unit
    y_unit: Unit
    series: tuple[Series, ...]
    notes: tuple[str, ...] = ()


class CardFigure(msgspec.Struct, frozen=True):
    """A figure as text, in a `unit` that all cards share. `key` is its column's."""

    key: str
    label: str
    text: str
    unit: str

    def __str__(self) -> str:
        return f"{self.label} {self.text} {self.unit}".strip()


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """A card of a device; `short` is a name that no other card has. `runs` is its software, with the format unless all
    devices run the one asked for. `figures` are shown from left to right. `phrase`
    compares the device with the baseline. `rank` is its place among existing devices, 0 if it cannot win. `over` are
    the exceeded limits of the state, `note` is all that disqualifies the device. `value` is the metric of the state,
    `band` its ends, and `bar` its fractions by cause. `is_unchanged`: it is not in the state, but stands below the same
    device with changed facts."""

    key: str
    name: str
    short: str
    evidence: str
    runs: str
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
    note: str = ""
    phrase: str
    is_unchanged: bool = False


View = Table | Text | Plot


class Page(msgspec.Struct, frozen=True):
    """Several views under one title, read from top to bottom. Text leaves out plots, since their points would fill
    pages. `main` is the index of the view that CSV has, unless `csv` is a view. HTML shows the `cards` on top; if
    `brief` names parts, these come first and the other parts are folded."""

    name: str
    title: str
    parts: tuple[View | Page, ...]
    main: int = -1
    csv: View | None = None
    brief: tuple[str, ...] = ()
    cards: tuple[Card, ...] = ()


class Look(msgspec.Struct, frozen=True):
    """The look of a cause. `short` is the name for narrow places; `dark`, `light` and `ansi` are colours for dark and
    light themes and 16-colour terminals; `texture` is for fewer colours, `letter` for ASCII only."""

    name: str
    short: str
    dark: str
    light: str
    ansi: str
    texture: str
    letter: str


LOOKS = (
    Look("compute", "comp", "#5aa2f5", "#2f7bd8", "blue", "█", "c"),
    Look("on-chip", "chip", "#45c2a5", "#1c9a7d", "cyan", "▓", "o"),
    Look("DRAM", "DRAM", "#e3a83f", "#c98512", "yellow", "▒", "d"),
    Look("launch", "launch", "#b58cf2", "#8a5bd1", "magenta", "/", "l"),
    Look("power limit", "limit", "#ef7fc0", "#c8488f", "bright_magenta", "%", "p"),
    Look("static", "static", "#77828f", "#98a1aa", "bright_black", ":", "s"),
)
CAUSE_NAMES = {cause: look.name for cause, look in zip(CAUSES, LOOKS, strict=True)}
_LEAST = 1e-9  # fraction of the width; a shorter bar is one cell of its largest part
HELP = ", ".join(f"{look.texture} {look.name}" for look in LOOKS)


def cells(parts: Sequence[float], width: int) -> list[int]:
    """Return the whole cells of each part of a bar of `width` cells. The parts are fractions of the width. The cells
    add up to the rounded length of the bar, at most `width` and at least 1 if any part is above zero."""
    whole = sum(parts)
    total = max(round(min(whole, 1.0) * width), 1 if whole > 0 else 0)
    if whole < _LEAST:
        return [total * (part == max(parts) and part not in parts[:place]) for place, part in enumerate(parts)]
    counts, position, drawn_cells = [], 0.0, 0
    for part in parts:
        position += part / whole * total
        counts.append(round(position) - drawn_cells)
        drawn_cells = round(position)
    return counts


def cause_bar(parts: Sequence[float], width: int) -> str:
    """Return a bar of characters, with the texture of each cause."""
    return "".join(look.texture * count for look, count in zip(LOOKS, cells(parts, width), strict=True))


class TreeIndex:
    """The place and the parent of every key of a table, and the places of the children of every place."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.place: dict[str, int] = {}
        self.parent: dict[str, str | None] = {}
        self.below: list[list[int]] = [[] for _ in table.rows]
        path: list[int] = []
        for place, row in enumerate(table.rows):
            del path[row.depth :]
            self.place[row.key] = place
            self.parent[row.key] = table.rows[path[-1]].key if path else None
            if path:
                self.below[path[-1]].append(place)
            path += [place] * (row.depth + 1 - len(path))
        self._share = next((i for i, c in enumerate(table.columns) if c.role == "bar"), None)

    def ancestors(self, key: str) -> set[str]:
        """Return the keys of all branches above a key."""
        keys: set[str] = set()
        above = self.parent.get(key)
        while above is not None:
            keys.add(above)
            above = self.parent.get(above)
        return keys

    def children(self, key: str) -> list[str]:
        """Return the keys of the children of a key."""
        return [self.table.rows[place].key for place in self.below[self.place[key]]] if key in self.place else []

    def descendants(self, key: str) -> list[str]:
        """Return the keys of the subtree, without its root."""
        descendant_rows = rows_below(self.table.rows, self.place[key]) if key in self.place else ()
        return [row.key for row in descendant_rows]

    def branches(self, keys: Iterable[str]) -> set[str]:
        """Return the keys that have children."""
        return {k for k in keys if k in self.place and self.table.rows[self.place[k]].has_children}

    def share(self, key: str) -> float:
        """Return the share of the row in its first bar, 0 without bars."""
        return self.share_at(self.place[key])

    def share_at(self, place: int) -> float:
        """Return the share of the row at a place."""
        value = None if self._share is None else self.table.rows[place].cells[self._share]
        return float(value) if isinstance(value, NUMBERS) else 0.0

    def heaviest(self, key: str) -> str:
        """Return the leaf at the end of the heaviest path down from a key, or from the root if the key is a leaf."""
        path_end = key if key in self.place and self.children(key) else next(iter(self.place), "")
        while child_keys := [key for key in self.children(path_end) if self.table.rows[self.place[key]].kind != "part"]:
            path_end = max(child_keys, key=self.share)
        return path_end


@memoize()
def index_tree(table: Table) -> TreeIndex:
    """Return the index of a table."""
    return TreeIndex(table)


def rows_below(rows: Sequence[Row], place: int) -> tuple[Row, ...]:
    """Return the rows below the row at a place."""
    depth = rows[place].depth
    return tuple(takewhile(lambda row: row.depth > depth, rows[place + 1 :]))


_ADD_UP = ("s", "J", "Js", "byte", "MAC", "FLOP", "count")
_SHARES = ("share", "bar", "fraction")
MORE = "~more"  # suffix of the key of a row that sums several small rows
ALONE = 0.95  # share of a row from which its heaviest child says nothing new


def fold_rows(table: Table, percent: float) -> Table:
    """Return the table with siblings below `percent` merged into one row after the others.

    The heaviest sibling is never folded, nor is a single small row.
    """
    if all(column.role != "bar" for column in table.columns):
        return table
    index, least = TreeIndex(table), percent / 100
    adds = [c.role in ("number", "quantity", "bar") and (c.unit in _ADD_UP or c.key in _SHARES) for c in table.columns]

    def fold(place: int) -> Iterator[Row]:
        """Yield the row at a place and all below it."""
        row, child_places = table.rows[place], index.below[place]
        yield row
        top = max(child_places, key=index.share_at, default=place)
        small = [child for child in child_places if child != top and index.share_at(child) < least]
        hidden = small if len(small) > 1 else []
        for child in child_places:
            if child not in hidden:
                yield from fold(child)
        if hidden:
            yield _row(table, row.key, [table.rows[child] for child in hidden], adds)

    rows = tuple(folded for place, row in enumerate(table.rows) if not row.depth for folded in fold(place))
    return msgspec.structs.replace(table, rows=rows) if len(rows) < len(table.rows) else table


def _row(table: Table, parent: str, members: list[Row], adds: list[bool]) -> Row:
    cells: list[Cell] = [f"{len(members)} more"]
    for index, column in enumerate(table.columns[1:], 1):
        values = [row.cells[index] for row in members]
        numbers = [v for v in values if isinstance(v, NUMBERS) and not isinstance(v, Amount)]
        stacks = [v for v in numbers if isinstance(v, Stack)]
        if adds[index] and numbers:
            cells.append(Stack.sum(stacks) if len(stacks) == len(numbers) else sum(numbers))
        else:
            cells.append("" if column.role == "text" else None)
    key = f"{parent}/{MORE}" if parent else MORE
    return Row(key, tuple(cells), depth=members[0].depth, has_children=True, kind="more", dim=True)


def open_heaviest_rows(table: Table, most: int) -> Table:
    """Return at most `most` rows of a tree by opening its heaviest branches first."""
    if len(table.rows) <= most:
        return table
    index = TreeIndex(table)
    root = table.rows[0].key
    shown_keys, closed = {root}, [root]
    while closed:
        key = max(closed, key=index.share)
        closed.remove(key)
        child_keys = index.children(key)
        is_divided = table.rows[index.place[key]].kind in ("model", "group") or max(map(index.share, child_keys)) < (
            ALONE * index.share(key)
        )
        if is_divided and len(shown_keys) + len(child_keys) <= most:
            shown_keys.update(child_keys)
            closed += [child for child in child_keys if index.children(child)]
    return msgspec.structs.replace(table, rows=tuple(row for row in table.rows if row.key in shown_keys))
