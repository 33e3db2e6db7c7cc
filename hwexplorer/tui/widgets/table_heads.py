"""The heads of a table's columns: where each is, and the one under the column cursor, which is explained and sorts."""

from __future__ import annotations

from rich.segment import Segment

from hwexplorer.tui.palette import Palette
from hwexplorer.tui.widgets.cell_drawing import plain
from hwexplorer.tui.widgets.cell_text import pad, width_of
from hwexplorer.tui.widgets.column_widths import GAP, Measure
from hwexplorer.tui.widgets.framed_pane import Content
from hwexplorer.views.plain import EMPTY_TABLE


class TableHeads(Content):
    """The columns of a table as they are drawn. `column` is the one under the cursor, -1 while nobody asked for one."""

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
        """Return what stands over a column."""
        return measure.header if width_of(measure.header) <= width else measure.short or measure.column.title

    def head_at(self, x: int, y: int) -> str | None:
        """Return the key of the column whose head is there."""
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
        """Return the titles of the columns that have no room, once it is known."""
        columns = zip(self.table.columns, self._widths, strict=False)
        return [column.title for column, width in columns if not width]

    def column_help(self) -> str:
        """Return what the column under the cursor is, in a line."""
        from hwexplorer.text.terms import describe_column  # not needed to start the screen

        columns = self.table.columns
        return describe_column(columns[self.column]) if 0 <= self.column < len(columns) else ""
