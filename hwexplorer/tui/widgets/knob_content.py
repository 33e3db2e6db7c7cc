"""The knobs of a chip: the curve of one knob, and the table of all. Cards compare the chip with the unchanged one."""

from math import log

import msgspec
from rich.segment import Segment

from analysis.estimate.metrics import METRICS
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.widgets.cell_drawing import plain
from hwexplorer.tui.widgets.tree_table import TreeTable
from hwexplorer.views.layout import shorten, whole, width_of
from hwexplorer.views.plain import EMPTY_TABLE, Page, Row, Table

SPARKS, SPARKS_ASCII = "▁▂▃▄▅▆▇█", ".:-=+*#@"
ABOVE = 3  # lines over the table: the range, the curve, the marks
LEAST = 5  # lines of the table; if it has fewer, nothing is drawn above it
WIDEST = 3  # cells at most for each value of the curve
SIGNS = {"now": "▲^", "knee": "△v"}  # below the curve, in Unicode and in ASCII


def sparkline(values: list[float], ascii: bool) -> str:
    """Return one sign per value, by its logarithm between the least and the greatest value."""
    signs = SPARKS_ASCII if ascii else SPARKS
    least, most = min(values), max(values)
    size = log(most / least) if least > 0 else 0.0
    return "".join(signs[round(log(value / least) / size * (len(signs) - 1)) if size else 0] for value in values)


class KnobContent(TreeTable):
    """The table of knobs, with the curve of the selected knob above it."""

    def __init__(self) -> None:
        super().__init__(tree=False)
        self.curve, self.metric = EMPTY_TABLE, ""
        self._above = 0
        self._device = ""

    def show(self, page: Page, metric: str, device: str) -> None:
        """Take the page. Rows keep their order until another metric or device sorts the knobs."""
        tables = [part for part in page.parts if isinstance(part, Table)]
        _, self.curve, knobs = tables
        if (metric, device) == (self.metric, self._device) and self.table.rows:
            rows = {row.key: row for row in knobs.rows}
            knobs = msgspec.structs.replace(knobs, rows=tuple(rows.get(row.key, row) for row in self.table.rows))
        self.metric, self._device = metric, device
        self.update(knobs)

    def resize(self, width: int, height: int) -> None:
        self._above = ABOVE if height >= ABOVE + LEAST else 0
        super().resize(width, height - self._above)

    def key_at(self, y: int) -> str | None:
        return super().key_at(y - self._above) if y >= self._above else None

    def head_at(self, x: int, y: int) -> str | None:
        return super().head_at(x, y - self._above)

    def line(self, y: int, palette: Palette, focused: bool) -> list[Segment]:
        if y >= self._above:
            return super().line(y - self._above, palette, focused)
        return self._knob_line(y, palette)

    def _knob_line(self, line: int, palette: Palette) -> list[Segment]:
        """Return a line on the selected knob: its metric and range (0), the curve (1), or the marks below the curve."""
        rows, place = self.curve.rows, [column.key for column in self.curve.columns]
        if not self.table.rows:
            text = f"Sorting the facts by their effect on {METRICS[self.metric].noun} …" if line == 0 else ""
            return [Segment(plain(text, palette), palette.get("dim"))]
        if not rows:
            return [Segment(plain(f"{self.curve.title} …", palette) if line == 0 else "", palette.get("dim"))]
        if line == 0:
            ends = f"{rows[0].cells[0]} to {rows[-1].cells[0]}"
            title = f"{METRICS[self.metric].noun} by {self.curve.title.removesuffix(' turned')}, {ends}"
            return [Segment(shorten(plain(title, palette), self.width), palette.get("header"))]
        wide = max(1, min(WIDEST, (self.width - 8) // len(rows)))
        if line == 1:
            values = [float(row.cells[place.index(self.metric)] or 0.0) for row in rows]
            drawn = "".join(sign * wide for sign in sparkline(values, palette.ascii))
            return [Segment(drawn[: self.width], palette.get("bar"))]
        return self._marks(rows, wide, palette)

    def _marks(self, rows: tuple[Row, ...], wide: int, palette: Palette) -> list[Segment]:
        """Return the line under the curve: a sign at the knob's value and at the knee, then what they mean."""
        line, meanings = "", list[str]()
        for place, row in enumerate(rows):
            for mark in str(row.cells[-1]).split():
                sign = SIGNS[mark][palette.ascii]
                line = line.ljust(place * wide) + sign
                meanings.insert(0 if mark == "now" else 1, f"{sign} {mark} {row.cells[0]}")
        legend = plain("  ".join(["", *meanings]), palette)
        return [
            Segment(line, palette.get("accent")),
            Segment(whole(legend, self.width - width_of(line), "  "), palette.get("dim")),
        ]
