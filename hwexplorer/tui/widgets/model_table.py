"""The models as a table, and below it a picture of the one under the cursor."""

from __future__ import annotations

from rich.segment import Segment

from analysis.document import Cell, Column
from analysis.model.names.model_ref import phases
from hwexplorer.text.number_format import quantity, safe
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.widgets.cell_drawing import bar, plain
from hwexplorer.tui.widgets.cell_text import pad, wrap
from hwexplorer.tui.widgets.tree_table import TreeTable
from hwexplorer.views.plain import EMPTY_TABLE, NUMBERS, Table

LEAST = 12  # lines, of which the picture takes a part
PART = 0.45
NAME = 16  # cells
FACTS = 2  # lines


class ModelTable(TreeTable):
    """A table of models over a picture of one of them."""

    def __init__(self) -> None:
        super().__init__(tree=False)
        self.picture: Table = EMPTY_TABLE
        self._below = 0

    def resize(self, width: int, height: int) -> None:
        """Take the size to draw in."""
        self._below = int(height * PART) if height >= LEAST else 0
        super().resize(width, height - self._below)

    def key_at(self, y: int) -> str | None:
        """Return the key of the row on line `y`."""
        return super().key_at(y) if y < self.height else None

    def line(self, y: int, palette: Palette, focused: bool) -> list[Segment]:
        """Return line `y` of the drawing."""
        if y < self.height or self.row is None:
            return super().line(y, palette, focused) if y < self.height else []
        lines = self._picture(palette)
        return lines[y - self.height] if y - self.height < len(lines) else []

    def _picture(self, palette: Palette) -> list[list[Segment]]:
        """Return what is published of a model, then its parts, the heaviest where not all fit."""
        assert self.row is not None
        known = sorted(zip(self.table.columns, self.row.cells, strict=True), key=lambda cell: cell[0].key == "family")
        facts = [text for column, value in known if (text := _fact_text(column, value))]
        facts += [f"phases {', '.join(phases(self.key))}: r"] if self.row.kind == "language" else []
        told = " · ".join(facts)
        lines = [[Segment(("-" if palette.ascii else "─") * self.width, palette.get("guide"))]]
        lines += [
            [Segment(plain(line.strip(" ·"), palette), palette.get("strong"))]
            for line in wrap(told, self.width)[:FACTS]
        ]
        if self.picture.name != self.key:
            return lines
        parts = [(row.cells[0], float(row.cells[1] or 0.0)) for row in self.picture.rows]
        shares = sorted((share for _, share in parts), reverse=True)[: self._below - len(lines)]
        for told_name, share in [part for part in parts if part[1] >= shares[-1]]:
            name = Segment(pad(plain(told_name, palette), NAME), palette.get("text"))
            drawn = bar(share / shares[0], self.width - NAME - 5, palette.ascii)
            lines.append(
                [name, Segment(drawn, palette.get("bar")), Segment(self._percent(share).rjust(5), palette.get("dim"))]
            )
        return lines


def _fact_text(column: Column, value: Cell) -> str:
    if column.key == "name" or value in (None, ""):
        return ""
    if isinstance(value, NUMBERS):
        return f"{quantity(float(value), column.unit).rstrip()} {column.title.removesuffix('s')}"
    return safe(value)
