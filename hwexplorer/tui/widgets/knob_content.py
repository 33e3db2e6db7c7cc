"""The knobs of a chip: its cost against the cost of the unchanged chip, the curve of one knob, and the table of all."""

from __future__ import annotations

from math import log

import msgspec
from rich.segment import Segment

from analysis.estimate.metrics import METRICS
from hwexplorer.text.number_format import delta
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.widgets.cell_drawing import plain
from hwexplorer.tui.widgets.tree_table import TreeTable
from hwexplorer.views.layout import pad, shorten, whole, width_of
from hwexplorer.views.plain import EMPTY_TABLE, Page, Row, Table

SPARKS, SPARKS_ASCII = "▁▂▃▄▅▆▇█", ".:-=+*#@"
ABOVE = 6  # lines over the table: three metrics, the range, the curve, the marks
LEAST = 5  # lines of the table; if it has fewer, nothing is drawn above it
WIDEST = 3  # cells at most for each value of the curve
SIGNS = {"now": "▲^", "knee": "△v"}  # below the curve, in Unicode and in ASCII
BAR, FIGURES = 30, 18  # cells at most of a bar, and of the figures after it


def sparkline(values: list[float], ascii: bool) -> str:
    """Return one sign per value, by its logarithm between the least and the greatest value."""
    signs = SPARKS_ASCII if ascii else SPARKS
    least, most = min(values), max(values)
    size = log(most / least) if least > 0 else 0.0
    return "".join(signs[round(log(value / least) / size * (len(signs) - 1)) if size else 0] for value in values)


class KnobContent(TreeTable):
    """The table of knobs, with the cost of the state's chip above it."""

    def __init__(self) -> None:
        super().__init__(tree=False)
        self.before, self.curve, self.metric = EMPTY_TABLE, EMPTY_TABLE, ""
        self._above = 0
        self._device = ""

    def show(self, page: Page, metric: str, device: str) -> None:
        """Take the page. Rows keep their order until another metric or device sorts the knobs."""
        tables = [part for part in page.parts if isinstance(part, Table)]
        self.before, self.curve, knobs = tables
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
        rows = self.before.rows
        if y < len(rows):
            return self._metric_bar(rows[y], palette)
        return self._knob_line(y - len(rows), palette)

    def _metric_bar(self, row: Row, palette: Palette) -> list[Segment]:
        """Return a bar over the bar of the unchanged chip: a saving is left as a paler bar, an increase stands out."""
        name, now, was, change = row.cells
        ratio = 1.0 + float(change or 0.0)
        is_same = abs(ratio - 1.0) < 0.0005
        figures = f" {pad(str(now), 9, True)}" + ("" if is_same else f" {delta(ratio - 1.0)}")
        head = pad(str(name).partition(" ")[0], 8)
        room = max(4, min(BAR, self.width - width_of(head) - FIGURES))
        full = max(ratio, 1.0)
        here, there = round(room * min(ratio, 1.0) / full), round(room / full)
        signs = "#.+" if palette.ascii else "█░▓"
        drawn = [
            Segment(signs[0] * here, palette.get("bar")),
            Segment(signs[1] * (there - here), palette.get("dim")),
            Segment(signs[2] * (room - max(here, there)), palette.get("bad")),
        ]
        longer = f"{figures} of {was}"
        if not is_same and width_of(head) + room + width_of(longer) <= self.width:
            figures = longer
        sense = "dim" if is_same else "good" if ratio < 1.0 else "bad"
        return [
            Segment(head, palette.get("strong" if head.strip().casefold() == self.metric else "text")),
            *drawn,
            Segment(shorten(plain(figures, palette), self.width - width_of(head) - room), palette.get(sense)),
        ]

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
