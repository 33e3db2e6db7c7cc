"""The columns of a table: their widths, which of them are left out for lack of room, and their heads."""

import re
from collections.abc import Collection, Sequence

from msgspec.structs import replace
from rich.segment import Segment

from analysis.document import Cell, Column
from hwexplorer.text.number_format import header
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.widgets.cell_drawing import plain
from hwexplorer.tui.widgets.framed_pane import Content
from hwexplorer.views.layout import Measure, fit, measure, pad, width_of
from hwexplorer.views.plain import EMPTY_TABLE, NUMBERS, Amount, Stack, Table

GAP = 1
BAR_MIN, BAR_MAX = 6, 24
STACK_MIN = 14  # a bar of several causes needs these cells; other columns are dropped first
QUANTITY = 6  # "1.23 G"
PERCENT = 5  # "100.0", "12.3"
TEXT_MAX = 32
NAME_GOOD = 24  # cells; most names fit


def measure_table(table: Table, names: int, total: int) -> list[Measure]:
    """Measure the columns for `total` cells; `names` is the width that the first needs, tree guides included. If the
    column of a device that wins a row has no room, the column that names the winners stays before other devices."""
    good = min(names, max(NAME_GOOD, total // 3))
    measures = [_measure(table, index, names, good) for index in range(len(table.columns))]
    for place, column in enumerate(table.columns):
        if column.key == "wins":
            widths, _ = fit_widths(measures, total)
            hidden = {measure.column.key for measure, width in zip(measures, widths, strict=True) if not width}
            if any(f"on:{row.cells[place]}" in hidden for row in table.rows):
                measures[place] = replace(measures[place], column=replace(column, keep=1))
    return measures


def _measure(table: Table, index: int, names: int, good: int) -> Measure:
    column = table.columns[index]
    if index == 0:
        least, most = (max(need, width_of(column.title)) for need in (good, names))
        return Measure(replace(column, keep=0), header=column.title, least=least, most=most)
    as_written, values = measure(table.columns, index, table.rows), {row.cells[index] for row in table.rows}
    if column.role == "bar":
        title = header(column.title, "%")
        first = table.rows[0].cells[index] if table.rows else None
        is_stack = isinstance(first, Stack) and sum(part > 0 for part in first.parts) > 1
        least = max(PERCENT + 1 + (STACK_MIN if is_stack else BAR_MIN), width_of(title))
        narrow = (PERCENT + 1 + BAR_MIN, PERCENT)
        return replace(as_written, header=title, least=least, most=PERCENT + 1 + BAR_MAX, narrow=narrow)
    if column.role == "text":
        needs = sorted(width_of(str(v)) for v in values if v is not None) or [0]
        most_texts, least, most = (max(cells, width_of(column.title)) for cells in
                                   (needs[len(needs) * 9 // 10], min(needs[-1], TEXT_MAX), needs[-1]))  # fmt: skip
        # A column that always stays is cut before the names are.
        return replace(as_written, least=least, most=most, narrow=(min(most_texts, least),) * (not column.keep))
    if column.role == "delta":
        need = max(*(len(as_written.write(v)) for v in values if isinstance(v, NUMBERS)), 5, width_of(column.title))
        return replace(as_written, least=need, most=need)
    short = column.short or re.sub(r"^Energy(/\w{3})\w* (\w+)$", r"\2\1", as_written.header)
    forms = as_written, replace(as_written, short=short).at_width(0)
    need = as_written.scale.width if column.role == "number" else _amount_width(as_written, values)
    with_unit = len(forms[1].write(1e-6)) - len(forms[0].write(1e-6))  # cells have the unit that the short head lacks
    most, least = (max(need + unit, width_of(form.header)) for form, unit in zip(forms, (0, with_unit), strict=True))
    return replace(as_written, least=min(least, most), most=most, short=short if least < most else "")


def _amount_width(form: Measure, values: Collection[Cell]) -> int:
    """Return the cells that the amounts of a column need; of a device, one more for the sign of the one that wins."""
    if is_of_device(form.column):
        return len("1.58 µJ·s") - 2 * (form.column.unit != "Js") + 1
    numbers = [value for value in values if isinstance(value, NUMBERS)]
    # Amounts of one power of ten are equally long. `97.8 m` is longer than its extremes.
    by_power = {
        (f"{number:.2e}"[-3:], number < 0, not number, isinstance(number, Amount) and number.unit): number
        for number in numbers
    }
    return max([QUANTITY * bool(numbers), *(len(form.write(number)) for number in by_power.values())])


def is_of_device(column: Column) -> bool:
    """Return True for a column that `heat` has for a device (hwexplorer/views/heat.py), in silicon or on paper."""
    return column.key.startswith(("on:", "paper:"))


def fit_widths(measures: Sequence[Measure], total: int, empty: Collection[int] = ()) -> tuple[list[int], int]:
    """Return the width of each column, 0 if it is dropped or empty, and the gap between columns, which is wide if
    nothing drops for it."""
    if not measures:
        return [], GAP
    widths = fit(measures, total, GAP + 1, empty)
    wide = sum(map(bool, widths)) + len(empty) == len(widths) and widths[0] >= measures[0].most
    return (widths, GAP + 1) if wide else (fit(measures, total, GAP, empty), GAP)


class TableHeads(Content):
    """The columns of a table as they are drawn. `column` is the one under the cursor, -1 before a move to one."""

    def __init__(self, tree: bool) -> None:
        self.tree = tree
        self.table = EMPTY_TABLE
        self.column = -1
        self._measures: list[Measure] = []
        self._drawn: list[Measure] = []  # with the heads that fit
        self._widths: list[int] = []
        self._gap = GAP

    def heads(self, palette: Palette) -> list[Segment]:
        """Return the line of column heads."""
        segments: list[Segment] = []
        for index, width in enumerate(self._widths):
            if not width:
                continue
            measure = self._drawn[index]
            right = measure.column.role in ("number", "quantity", "delta")
            title = "  " * (self.tree and index == 0) + self.head(measure, width)
            space = [Segment(" " * self._gap, palette.get("header"))] if segments else []
            role = "find" if index == self.column else "header"
            segments += [*space, Segment(pad(plain(title, palette), width, right), palette.get(role))]
        return segments

    def head(self, measure: Measure, width: int) -> str:
        """Return the head of a column."""
        return measure.header if width_of(measure.header) <= width else measure.column.title

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
        columns = self.table.columns
        return _describe(columns[self.column]) if 0 <= self.column < len(columns) else ""

    def help_at(self, x: int, y: int) -> str:
        key = self.head_at(x, y)
        return next((_describe(column) for column in self.table.columns if column.key == key), "")


def _describe(column: Column) -> str:
    from hwexplorer.text.terms import describe_column  # not needed to start the screen

    return describe_column(column)
