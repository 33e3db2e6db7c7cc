"""The columns of a table: their widths, which of them are left out for lack of room, and their heads."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
from rich.segment import Segment

from analysis.document import Column
from hwexplorer.text.number_format import Scale, delta, header, scale_for
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.widgets.cell_drawing import plain
from hwexplorer.tui.widgets.cell_text import pad, width_of
from hwexplorer.tui.widgets.framed_pane import Content
from hwexplorer.views.plain import EMPTY_TABLE, NUMBERS, Stack, Table, scale_values, write_amount

GAP = 1
BAR_MIN, BAR_MAX = 6, 24
STACK_MIN = 14  # a bar of several causes needs these cells; other columns are dropped first
QUANTITY = 6  # "1.23 G"
PERCENT = 5  # "100.0", "12.3"
_NARROW_BAR = PERCENT + 1 + BAR_MIN
TEXT_MAX = 32
NAME_GOOD = 24  # cells; most names fit
_SHORT_HEADS = {"Latency s": "time s", "Energy/inf J": "J/inf"}


class Measure(msgspec.Struct, frozen=True):
    """The scale and header of a column, and the least and the most cells that it can use. `short` is a header for the
    least width."""

    column: Column
    scale: Scale
    header: str
    least: int
    most: int
    short: str = ""


def measure(table: Table, names: int, total: int) -> list[Measure]:
    """Measure the columns for `total` cells; `names` is the width that the first needs, tree guides included."""
    good = min(names, max(NAME_GOOD, total * 35 // 100))
    return [_measure(table, index, names, good) for index in range(len(table.columns))]


def _measure(table: Table, index: int, names: int, good: int) -> Measure:
    column = table.columns[index]
    if index == 0:
        least, most = (max(need, width_of(column.title)) for need in (good, names))
        return Measure(column, Scale(), column.title, least, most)
    if column.role == "bar":
        title = header(column.title, "%")
        first = table.rows[0].cells[index] if table.rows else None
        is_stack = isinstance(first, Stack) and sum(part > 0 for part in first.parts) > 1
        least = max(PERCENT + 1 + (STACK_MIN if is_stack else BAR_MIN), width_of(title))
        return Measure(column, Scale(0.01, 1, "%"), title, least, PERCENT + 1 + BAR_MAX)
    if column.role == "number":
        scale = scale_for(scale_values(table.columns, index, table.rows), column.unit)
        title = header(column.title, scale.label)
        short = f"{scale.label}/inf" if column.title == "Energy/inf" else title
        least, most = (max(scale.width, width_of(head)) for head in (short, title))
        return Measure(column, scale, title, least, most, short)
    values = {row.cells[index] for row in table.rows}
    if column.role == "text":
        most = max((width_of(str(v)) for v in values if v is not None), default=0)
        need = max(min(most, TEXT_MAX), width_of(column.title))
        return Measure(column, Scale(), column.title, need, max(need, most))
    numbers = [v for v in values if isinstance(v, NUMBERS)]
    if column.role == "quantity":
        need = max((len(write_amount(v, column)) for v in _ends(numbers)), default=0)
        need = max(need, QUANTITY if numbers else 0)
        if is_of_device(column):
            widest = len("1.58 µ") + (3 if column.unit == "Js" else 1)
            need = max(need, widest + 1)  # one cell more for the sign of the device that wins
        short = _SHORT_HEADS.get(column.title, column.title)
        least, most = (max(need, width_of(head)) for head in (short, column.title))
        return Measure(column, Scale(), column.title, least, most, short)
    need = max(map(len, map(delta, numbers)), default=0)  # the longest is neither extreme: `+985 %` and `x12`
    need = max(need, 5, width_of(column.title))
    return Measure(column, Scale(), column.title, need, need)


def is_of_device(column: Column) -> bool:
    """Return True for a column that `heat` has for a device (hwexplorer/views/heat.py), in silicon or on paper."""
    return column.key.startswith(("on:", "paper:"))


def _ends(numbers: Sequence[float]) -> tuple[float, ...]:
    return (max(numbers), min(numbers)) if numbers else ()


def fit(measures: Sequence[Measure], total: int, empty: Collection[int] = ()) -> tuple[list[int], int]:
    """Return the width of each column, 0 if it is dropped or empty, and the gap between columns, which is wide if
    nothing drops for it."""
    widths = _fit(measures, total, GAP + 1, empty)
    wide = sum(map(bool, widths)) + len(empty) == len(widths) and widths[0] >= measures[0].most
    return (widths, GAP + 1) if wide else (_fit(measures, total, GAP, empty), GAP)


def _fit(measures: Sequence[Measure], total: int, gap: int, empty: Collection[int]) -> list[int]:
    """Return the widths. Short of room, columns with the highest `keep` are dropped first, columns with 0 never."""
    kept = [place for place in range(len(measures)) if place not in empty]

    def least() -> int:
        """Return the least cells that the kept columns need."""
        return sum(measures[i].least for i in kept) + gap * (len(kept) - 1)

    while least() > total:
        droppable = [i for i in kept if i and measures[i].column.keep > 0]
        if not droppable:
            break
        worst = max(measures[i].column.keep for i in droppable)
        slack = sum(max(0, measures[i].least - _NARROW_BAR) for i in kept if measures[i].column.role == "bar")
        if worst == 1 and least() - slack <= total:
            break  # a shorter bar says more than a missing figure
        kept.remove(max(i for i in droppable if measures[i].column.keep == worst))
    widths = [measures[i].least if i in kept else 0 for i in range(len(measures))]
    spare = total - least()
    bars = [i for i in kept if measures[i].column.role == "bar"]
    if spare < 0:  # the kept columns still have no room: bars become numbers, then the name is cut
        for narrow in (_NARROW_BAR, PERCENT):
            for index in bars:
                given = max(0, min(-spare, widths[index] - narrow))
                widths[index] -= given
                spare += given
        widths[0] = max(4, widths[0] + min(0, spare))
        spare = max(0, spare)
    # Spare cells go to the name first, then to long heads, then to long texts, then to bars.
    numbers = [i for i in kept if measures[i].short]
    texts = [i for i in kept if i and measures[i].column.role == "text"]
    for index in (0, *numbers, *texts, *bars):
        more = max(0, min(spare, measures[index].most - widths[index]))
        widths[index] += more
        spare -= more
    return widths


class TableHeads(Content):
    """The columns of a table as they are drawn. `column` is the one under the cursor, -1 before a move to one."""

    def __init__(self, tree: bool) -> None:
        self.tree = tree
        self.table = EMPTY_TABLE
        self.column = -1
        self._measures: list[Measure] = []
        self._widths: list[int] = []
        self._gap = GAP

    def heads(self, palette: Palette) -> list[Segment]:
        """Return the line of column heads."""
        segments: list[Segment] = []
        for index, width in enumerate(self._widths):
            if not width:
                continue
            measure = self._measures[index]
            right = measure.column.role in ("number", "quantity", "delta")
            title = "  " * (self.tree and index == 0) + self.head(measure, width)
            space = [Segment(" " * self._gap, palette.get("header"))] if segments else []
            role = "find" if index == self.column else "header"
            segments += [*space, Segment(pad(plain(title, palette), width, right), palette.get(role))]
        return segments

    def head(self, measure: Measure, width: int) -> str:
        """Return the head of a column, or its short form if the head does not fit."""
        return measure.header if width_of(measure.header) <= width else measure.short or measure.column.title

    def head_at(self, x: int, y: int) -> str | None:
        """Return the key of the column whose head is at a place, or None."""
        end = 0
        for index, width in enumerate(self._widths if y == 0 and self.height > 1 else ()):
            end += width + self._gap if width else 0
            if x < end:
                return self.table.columns[index].key
        return None

    def move_column(self, by: int) -> None:
        """Move the column cursor to the next visible column."""
        shown = [index for index, width in enumerate(self._widths) if width]
        if shown:
            place = shown.index(self.column) + by if self.column in shown else 0
            self.column = shown[max(0, min(len(shown) - 1, place))]

    def hidden_columns(self) -> list[str]:
        """Return the titles of the columns that have no room; none before the first drawing."""
        columns = zip(self.table.columns, self._widths, strict=False)
        return [column.title for column, width in columns if not width]

    def column_help(self) -> str:
        """Return one line that explains the column under the cursor, '' without one."""
        from hwexplorer.text.terms import describe_column  # not needed to start the screen

        columns = self.table.columns
        return describe_column(columns[self.column]) if 0 <= self.column < len(columns) else ""
