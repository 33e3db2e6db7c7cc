"""A plot as lines of segments: axes, ticks, polylines, points and the one under the cursor."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec
from rich.segment import Segment

from hwexplorer.format import safe, to_ascii
from hwexplorer.tui.cell_text import shorten, width_of
from hwexplorer.tui.palette import SERIES, Palette
from hwexplorer.tui.widgets.axis import Axis, axis
from hwexplorer.tui.widgets.braille import Braille
from hwexplorer.views.plain import Plot, Series


def _roofs(lines: Sequence[Series], x: Axis) -> list[float]:
    """The highest place of each line in sight, so that the axis shows it without its far ends."""
    return [
        max(inside) for line in lines if (inside := [b for a, b in zip(line.x, line.y, strict=False) if a <= x.high])
    ]


class Drawing(msgspec.Struct, frozen=True):
    """A plot without its cursor: what moving along it leaves as it is."""

    points: tuple[Series, ...]
    x: Axis
    y: Axis
    title: list[Segment]
    labels: list[list[Segment]]  # left of each row: the label of y and the axis
    cells: list[list[tuple[str, str]]]  # character and role of each place of each row
    rows: list[list[Segment]]  # the same as segments
    bottom: list[list[Segment]]

    def lines(self, palette: Palette, cursor: str = "") -> list[list[Segment]]:
        """All lines, the point of the cursor marked."""
        marked: dict[int, list[tuple[str, str]]] = {}
        for column, row, label in reversed(_cursor(self, cursor)):
            _mark(marked.setdefault(row, list(self.cells[row])), column, label, palette)
        rows = [_runs(marked[i], palette) if i in marked else row for i, row in enumerate(self.rows)]
        return [self.title, *(label + row for label, row in zip(self.labels, rows, strict=True)), *self.bottom]


def render(
    plot: Plot, width: int, height: int, palette: Palette, cursor: str = "", least: int = 16
) -> list[list[Segment]]:
    """The whole plot in exactly `height` lines of at most `width` cells."""
    drawing = draw(plot, width, height, palette, least)
    return drawing.lines(palette, cursor) if isinstance(drawing, Drawing) else drawing


def draw(plot: Plot, width: int, height: int, palette: Palette, least: int = 16) -> Drawing | list[list[Segment]]:
    """The plot without its cursor; lines that say why where it cannot be drawn."""
    if width < least or height < 5 or not any(len(s.x) for s in plot.series):
        text = "no room to draw" if any(len(s.x) for s in plot.series) else "nothing to draw"
        return [[Segment(shorten(text, width), palette.get("dim"))]] + [[] for _ in range(height - 1)]
    lines = [s for s in plot.series if s.line]
    points = [s for s in plot.series if not s.line]
    shown = points or lines
    x = axis([v for s in shown for v in s.x], plot.log_x, plot.x_unit)
    y = axis([v for s in shown for v in s.y] + _roofs(lines if points else [], x), plot.log_y, plot.y_unit)
    rows = height - 3  # title line, axis, labels of x
    y_ticks = y.ticks(max(2, rows // 2))
    left = max((width_of(label) for _, label in y_ticks), default=0)
    columns = width - left - 2
    canvas = Braille(columns, rows)
    owners = _owners(plot.series)
    for owner, series in sorted(zip(owners, plot.series, strict=True), key=lambda pair: not pair[1].guide):
        if not series.mark:  # guides first: whatever is read by them lies over them
            _draw(canvas, series, x, y, owner)
    tags = _tags(plot.series, owners, x, y, columns, rows) if len(lines) > 1 else []
    cells = [_cells(canvas, row, tags, palette) for row in range(rows)]
    labels = {_row(y, value, rows): label for value, label in reversed(y_ticks)}
    return Drawing(
        tuple(points),
        x,
        y,
        _title(plot, width, palette),
        [_label(labels.get(row, ""), left, palette) for row in range(rows)],
        cells,
        [_runs(row, palette) for row in cells],
        _bottom(x, left, columns, palette),
    )


def _row(y: Axis, value: float, rows: int) -> int:
    place = y.place(value) or 0.0
    return min(rows - 1, max(0, rows - 1 - int(place * (rows - 0.001))))


def _draw(canvas: Braille, series: Series, x: Axis, y: Axis, owner: int) -> None:
    right, top = 2 * canvas.width - 1, 4 * canvas.height - 1
    before: tuple[float, float] | None = None
    for value_x, value_y in zip(series.x, series.y, strict=False):
        place_x, place_y = x.place(value_x), y.place(value_y)
        if place_x is None or place_y is None:
            before = None
            continue
        here = (place_x * right, place_y * top)
        if not series.line:
            canvas.dot(round(here[0]), round(here[1]), owner)
        elif before is not None:
            canvas.segment(*before, *here, owner)
        before = here


def _cursor(drawing: Drawing, key: str) -> list[tuple[int, int, str]]:
    """(column, row, label) of the point under the cursor, or of all the points of a branch, its first one named."""
    x, y, rows = drawing.x, drawing.y, len(drawing.cells)
    columns = len(drawing.cells[0])
    labels: list[tuple[int, int, str]] = []
    for series in drawing.points:
        for index, other in enumerate(series.keys):
            if not key or (other != key and not other.startswith(key + "/")):
                continue
            place_x, place_y = x.place(series.x[index]), y.place(series.y[index])
            if place_x is None or place_y is None:
                continue
            label = series.labels[index] if index < len(series.labels) and other == key else key
            column = min(columns - 1, max(0, int(place_x * (columns - 0.001))))
            labels.append((column, _row(y, series.y[index], rows), "" if labels else safe(label)))
    return labels


TAG = 14
_SIGNS = str.maketrans({"◆": "#"})


def _owners(series: Sequence[Series]) -> list[int]:
    """A colour for each series; those of one name (points and the line through them) share it, guides are dim."""
    names = list(dict.fromkeys(each.name for each in series if not each.guide))
    return [len(SERIES) - 1 if each.guide else names.index(each.name) % (len(SERIES) - 1) for each in series]


def _tags(
    series: Sequence[Series], owners: Sequence[int], x: Axis, y: Axis, columns: int, rows: int
) -> list[tuple[int, int, str, str]]:
    """(column, row, text, role): names at the right end of lines, which colour alone would not tell, and marks."""
    tags: list[tuple[int, int, str, str]] = []
    used: dict[int, list[tuple[int, int]]] = {}

    def free(row: int, start: int, end: int) -> bool:
        return 0 <= row < rows and all(end <= a or start >= b for a, b in used.get(row, ()))

    for owner, each in zip(owners, series, strict=True):
        role = SERIES[owner % len(SERIES)]
        if each.mark:
            for a, b in zip(each.x, each.y, strict=True):
                place_x, place_y = x.place(a), y.place(b)
                if place_x is not None and place_y is not None:
                    at = min(columns - 1, max(0, int(place_x * (columns - 0.001))))
                    tags.append((at, _row(y, b, rows), "◆", "strong"))
        if not each.line or not each.x:
            continue
        name = to_ascii(shorten(safe(each.name), TAG, middle=True))
        end = _visible_end(each, x, y, columns, rows)
        if end is None or len(name) + 2 > columns:
            continue
        start = min(columns - len(name), max(0, end[0] - len(name)))
        for row in (end[1] - 1, end[1] + 1, end[1] - 2, end[1] + 2):
            if free(row, start, start + len(name)):
                used.setdefault(row, []).append((start, start + len(name) + 1))
                tags.append((start, row, name, role))
                break
    return tags


def _visible_end(line: Series, x: Axis, y: Axis, columns: int, rows: int) -> tuple[int, int] | None:
    """(column, row) of the last place of a line that is in sight."""
    places = [(x.place(a), y.place(b)) for a, b in zip(line.x, line.y, strict=True)]
    known = [(a, b) for a, b in places if a is not None and b is not None]
    for (x0, y0), (x1, y1) in reversed(list(pairwise(known))):
        for step in range(40, -1, -1):
            a, b = x0 + (x1 - x0) * step / 40, y0 + (y1 - y0) * step / 40
            if 0 <= a <= 1 and 0 <= b <= 1:
                return int(a * (columns - 1)), rows - 1 - int(b * (rows - 1))
    return None


def _title(plot: Plot, width: int, palette: Palette) -> list[Segment]:
    """What y is, then a legend entry for each series while there is room."""
    head = shorten(_say(_titled(plot.y_title, plot.y_unit), palette), width)
    segments = [Segment(head, palette.get("header"))]
    used = width_of(head)
    told: set[str] = set()
    for index, series in zip(_owners(plot.series), plot.series, strict=True):
        if series.name in told or series.guide:
            continue
        told.add(series.name)
        sign = "─ " if series.line else "◆ " if series.mark else "• "
        name = _say("  " + sign + safe(series.name), palette) if not palette.ascii else ""
        if palette.ascii:
            name = f"  {'*+ox'[index % 4]} {to_ascii(safe(series.name))}"
        if used + width_of(name) > width:
            break
        segments.append(Segment(name, palette.get(SERIES[index % len(SERIES)])))
        used += width_of(name)
    return segments


def _symbol(unit: str) -> str:
    return {"byte": "B", "byte/s": "B/s", "Js": "J·s", "FLOP/byte": "FLOP/B", "1/s": "/s", "count": ""}.get(unit, unit)


def _titled(title: str, unit: str) -> str:
    """The title of an axis with its unit, unless it names it already."""
    symbol = _symbol(unit)
    return title if symbol.partition("/")[0] in title else f"{title} {symbol}"


def _say(text: str, palette: Palette) -> str:
    return to_ascii(text) if palette.ascii else text


def _label(label: str, left: int, palette: Palette) -> list[Segment]:
    """What stands left of a row: the label of y there, and the axis."""
    return [
        Segment(_say(label.rjust(left), palette), palette.get("dim")),
        Segment(" " + ("|" if palette.ascii else "┤" if label else "│"), palette.get("guide")),
    ]


def _cells(
    canvas: Braille, row: int, tags: Sequence[tuple[int, int, str, str]], palette: Palette
) -> list[tuple[str, str]]:
    """Character and role of each place of a row."""
    text: list[tuple[str, str]] = []
    for column in range(canvas.width):
        character, owner = canvas.cell(column, row, palette.ascii)
        text.append((character, SERIES[owner % len(SERIES)] if owner >= 0 else "text"))
    for column, at, name, role in tags:
        if at == row:
            for offset, character in enumerate(name.translate(_SIGNS) if palette.ascii else name):
                text[column + offset] = (character, role)
    return text


def _mark(text: list[tuple[str, str]], column: int, label: str, palette: Palette) -> None:
    """The point under the cursor: a sign and, on the side with room, its name."""
    text[column] = ("@" if palette.ascii else "◉", "strong")
    label = shorten(_say(label, palette), max(0, max(column, len(text) - column) - 3), middle=True)
    if not label.isascii():
        label = to_ascii(label)  # one cell a character, whatever the name is
    start = column + 2 if column + 2 + len(label) <= len(text) else column - 1 - len(label)
    if label and start >= 0:
        for offset, character in enumerate(label):
            text[start + offset] = (character, "strong")


def _runs(text: list[tuple[str, str]], palette: Palette) -> list[Segment]:
    segments: list[Segment] = []
    start = 0
    for index in range(1, len(text) + 1):
        if index == len(text) or text[index][1] != text[start][1]:
            segments.append(Segment("".join(c for c, _ in text[start:index]), palette.get(text[start][1])))
            start = index
    return segments


def _bottom(x: Axis, left: int, columns: int, palette: Palette) -> list[list[Segment]]:
    """The x axis and its labels."""
    axis = ["-" if palette.ascii else "─"] * columns
    labels = [" "] * columns
    free = 0
    for value, label in x.ticks(max(2, columns // 7)):
        place = x.place(value)
        if place is None:
            continue
        column = min(columns - 1, max(0, int(place * (columns - 0.001))))
        label = _say(label, palette)
        start = min(max(0, column - len(label) // 2), columns - len(label))
        if start < free:
            continue
        axis[column] = "+" if palette.ascii else "┬"
        labels[start : start + len(label)] = label
        free = start + len(label) + 1
    corner = " " * (left + 1) + ("+" if palette.ascii else "└")
    return [
        [Segment(corner + "".join(axis), palette.get("guide"))],
        [Segment(" " * (left + 2) + "".join(labels), palette.get("dim"))],
    ]


class PlotArea:
    """The plot of a pane, drawn once per size and data; a cursor that moves draws only itself anew."""

    def __init__(self) -> None:
        self.plot: Plot | None = None
        self.cursor = ""
        self.width = self.height = 0
        self._drawing: Drawing | list[list[Segment]] | None = None
        self._lines: list[list[Segment]] = []

    def update(self, plot: Plot | None, cursor: str) -> None:
        if plot is not self.plot:
            self._drawing = None
        if plot is not self.plot or cursor != self.cursor:
            self.plot, self.cursor = plot, cursor
            self._lines = []

    def resize(self, width: int, height: int) -> None:
        if (width, height) != (self.width, self.height):
            self.width, self.height = width, height
            self.forget()

    def line(self, y: int, palette: Palette, focused: bool) -> list[Segment]:
        if self.plot is None:
            return []
        if not self._lines:
            self._lines = self._drawn(self.plot, palette)
        return self._lines[y] if y < len(self._lines) else []

    def _drawn(self, plot: Plot, palette: Palette) -> list[list[Segment]]:
        height = self.height - 1 if self.height > 8 else self.height
        if self._drawing is None:
            self._drawing = draw(plot, self.width, height, palette)
        drawing = self._drawing
        lines = drawing.lines(palette, self.cursor) if isinstance(drawing, Drawing) else drawing
        if height == self.height:
            return lines
        title = _titled(plot.x_title, plot.x_unit)
        note = "".join(f" · {safe(n)}" for n in plot.notes)
        return [*lines, [Segment(_say(shorten(title + note, self.width), palette), palette.get("header"))]]

    def move(self, by: int) -> str:
        """To the next point: the cursor is linked, so this moves along the tree as well."""
        keys = [k for s in (self.plot.series if self.plot else ()) if not s.line for k in s.keys]
        if not keys:
            return ""
        index = keys.index(self.cursor) if self.cursor in keys else (-1 if by > 0 else 0)
        return keys[max(0, min(len(keys) - 1, index + by))]

    def scroll(self, by: int) -> None:
        """A plot is always in sight as a whole."""

    def page(self) -> int:
        return 10

    def extent(self) -> tuple[int, int, int]:
        return 0, 1, 1

    def forget(self) -> None:
        self._drawing, self._lines = None, []
