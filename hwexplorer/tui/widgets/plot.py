"""A plot as lines of segments: axes, ticks, polylines, points and the one under the cursor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import msgspec
from rich.segment import Segment

from hwexplorer.format import quantity, safe, to_ascii
from hwexplorer.tui.palette import SERIES, Palette
from hwexplorer.tui.text import shorten, width_of
from hwexplorer.tui.widgets.braille import Braille
from hwexplorer.views.plain import Plot, Series


class Axis(msgspec.Struct, frozen=True):
    """Data to 0..1, straight or by decades."""

    low: float
    high: float
    log: bool
    unit: str

    def place(self, value: float) -> float | None:
        """None: this value has no place (zero on a log axis, not a number)."""
        if not math.isfinite(value) or (self.log and value <= 0):
            return None
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """At most `most` (value, label), at powers of ten or at steps of 1, 2, 5."""
        values = self._decades(most) if self.log else self._steps(most)
        return [(value, _tick(value, self.unit)) for value in values]

    def _decades(self, most: int) -> list[float]:
        first = math.ceil(math.log10(self.low) - 1e-9)
        last = math.floor(math.log10(self.high) + 1e-9)
        count = last - first + 1
        if count < 2 and most > 1:  # less than two decades: label what is near the ends as well
            inside = [10.0**e * m for e in range(first - 2, last + 2) for m in (1, 2, 5)]
            return [v for v in inside if self.low <= v <= self.high][:most]
        every = max(1, math.ceil(count / max(1, most)))
        return [10.0**e for e in range(first, last + 1, every)]

    def _steps(self, most: int) -> list[float]:
        rough = (self.high - self.low) / max(1, most)
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _tick(value: float, unit: str) -> str:
    """`1 TFLOP/s` is `1T` on an axis that is titled with its unit."""
    if unit == "%":
        return f"{value * 100:g}"
    if unit in ("", "x", "count", "FLOP/byte"):
        return f"{value:g}" if 0.01 <= abs(value) < 100_000 or value == 0 else f"{value:.0e}"
    number, _, label = quantity(value, unit).partition(" ")
    symbol = {"byte": "B", "byte/s": "B/s", "1/s": "/s", "Js": "J·s"}.get(unit, unit)
    number = f"{float(number.replace(',', '')):g}" if number[:1].isdigit() else number
    return number + label.removesuffix(symbol)


def _axis(values: Sequence[float], log: bool, unit: str) -> Axis:
    usable = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
    low, high = (min(usable), max(usable)) if usable else (1.0, 10.0)
    if log:
        low, high = low / 1.3, high * 1.5
        return Axis(low, high if high > low * 2 else low * 10, log, unit)
    if low > 0 and low < 0.5 * high:
        low = 0.0
    spread = (high - low) or abs(high) or 1.0
    return Axis(low, high + 0.05 * spread, log, unit)


def _roofs(lines: Sequence[Series], x: Axis) -> list[float]:
    """The highest place of each line in sight, so that the axis shows it without its far ends."""
    return [
        max(inside) for line in lines if (inside := [b for a, b in zip(line.x, line.y, strict=False) if a <= x.high])
    ]


def render(
    plot: Plot, width: int, height: int, palette: Palette, cursor: str = "", least: int = 16
) -> list[list[Segment]]:
    """The whole plot in exactly `height` lines of at most `width` cells."""
    if width < least or height < 5 or not any(len(s.x) for s in plot.series):
        text = "no room to draw" if any(len(s.x) for s in plot.series) else "nothing to draw"
        return [[Segment(shorten(text, width), palette.get("dim"))]] + [[] for _ in range(height - 1)]
    lines = [s for s in plot.series if s.line]
    points = [s for s in plot.series if not s.line]
    shown = points or lines
    x = _axis([v for s in shown for v in s.x], plot.log_x, plot.x_unit)
    y = _axis([v for s in shown for v in s.y] + _roofs(lines if points else [], x), plot.log_y, plot.y_unit)
    rows = height - 3  # title line, axis, labels of x
    y_ticks = y.ticks(max(2, rows // 2))
    left = max((width_of(label) for _, label in y_ticks), default=0)
    columns = width - left - 2
    canvas = Braille(columns, rows)
    owners = _owners(plot.series)
    for owner, series in zip(owners, plot.series, strict=True):
        if not series.mark:
            _draw(canvas, series, x, y, owner)
    found = _cursor(points, x, y, columns, rows, cursor)
    tags = _tags(plot.series, owners, x, y, columns, rows) if len(lines) > 1 else []
    out = [_title(plot, width, palette)]
    labels = {_row(y, value, rows): label for value, label in reversed(y_ticks)}
    out += [_body(canvas, row, labels.get(row, ""), left, (found, tags), palette) for row in range(rows)]
    out += _bottom(x, left, columns, palette)
    return out


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


def _cursor(
    points: Sequence[Series], x: Axis, y: Axis, columns: int, rows: int, key: str
) -> list[tuple[int, int, str]]:
    """(column, row, label) of the point under the cursor, or of all the points of a branch, its first one named."""
    found: list[tuple[int, int, str]] = []
    for series in points:
        for index, other in enumerate(series.keys):
            if not key or (other != key and not other.startswith(key + "/")):
                continue
            place_x, place_y = x.place(series.x[index]), y.place(series.y[index])
            if place_x is None or place_y is None:
                continue
            label = series.labels[index] if index < len(series.labels) and other == key else key
            column = min(columns - 1, max(0, int(place_x * (columns - 0.001))))
            found.append((column, _row(y, series.y[index], rows), "" if found else safe(label)))
    return found


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
    found: list[tuple[int, int, str, str]] = []
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
                    found.append((at, _row(y, b, rows), "◆", "strong"))
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
                found.append((start, row, name, role))
                break
    return found


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


def _body(
    canvas: Braille,
    row: int,
    label: str,
    left: int,
    marks: tuple[list[tuple[int, int, str]], list[tuple[int, int, str, str]]],
    palette: Palette,
) -> list[Segment]:
    found, tags = marks
    segments = [
        Segment(_say(label.rjust(left), palette), palette.get("dim")),
        Segment(" " + ("|" if palette.ascii else "┤" if label else "│"), palette.get("guide")),
    ]
    text: list[tuple[str, str]] = []
    for column in range(canvas.width):
        character, owner = canvas.cell(column, row, palette.ascii)
        text.append((character, SERIES[owner % len(SERIES)] if owner >= 0 else "text"))
    for column, at, name, role in tags:
        if at == row:
            for offset, character in enumerate(name.translate(_SIGNS) if palette.ascii else name):
                text[column + offset] = (character, role)
    for column, at, label in reversed(found):
        if at == row:
            _mark(text, column, label, palette)
    return segments + _runs(text, palette)


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
    """The plot of a pane, drawn once per size, data and cursor."""

    def __init__(self) -> None:
        self.plot: Plot | None = None
        self.cursor = ""
        self.width = self.height = 0
        self._drawn: list[list[Segment]] | None = None

    def update(self, plot: Plot | None, cursor: str) -> None:
        if plot is not self.plot or cursor != self.cursor:
            self.plot, self.cursor = plot, cursor
            self._drawn = None

    def resize(self, width: int, height: int) -> None:
        if (width, height) != (self.width, self.height):
            self.width, self.height = width, height
            self._drawn = None

    def line(self, y: int, palette: Palette, focused: bool) -> list[Segment]:
        if self.plot is None:
            return []
        if self._drawn is None:
            height = self.height - 1 if self.height > 8 else self.height
            self._drawn = render(self.plot, self.width, height, palette, self.cursor)
            if height < self.height:
                title = _titled(self.plot.x_title, self.plot.x_unit)
                note = "".join(f" · {safe(n)}" for n in self.plot.notes)
                text = _say(shorten(title + note, self.width), palette)
                self._drawn.append([Segment(text, palette.get("header"))])
        return self._drawn[y] if y < len(self._drawn) else []

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
        self._drawn = None
