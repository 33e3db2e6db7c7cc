"""A plot as lines of segments: axes, ticks, polylines, points and the one under the cursor."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

import msgspec
from rich.segment import Segment

from hwexplorer.text.number_format import safe, to_ascii
from hwexplorer.tui.palette import BLURRED, PLAIN, SERIES, Palette
from hwexplorer.tui.widgets.braille import Braille
from hwexplorer.tui.widgets.cell_text import ascii_cells, shorten, width_of
from hwexplorer.views.plain import Plot, Series
from hwexplorer.views.plot_axis import Axis, axis


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

    def lines(self, palette: Palette, cursor: str = "", below: Collection[str] = ()) -> list[list[Segment]]:
        """All lines, the points of the cursor marked."""
        marked: dict[int, list[tuple[str, str]]] = {}
        for column, row, label in reversed(_cursor(self, cursor, below)):
            text = marked.setdefault(row, list(self.cells[row]))
            text[column] = ("@" if palette.ascii else "◉", _role_over(text[column]))
            for place, start in _free_place(self.cells, row, column, len(label)) if label else ():
                text = marked.setdefault(place, list(self.cells[place]))
                for offset, character in enumerate(to_ascii(label) if palette.ascii else label):
                    text[start + offset] = (character, _role_over(text[start + offset]))
        rows = [_runs(marked[i], palette) if i in marked else row for i, row in enumerate(self.rows)]
        return [self.title, *(label + row for label, row in zip(self.labels, rows, strict=True)), *self.bottom]


def _role_over(cell: tuple[str, str]) -> str:
    """The role of what is written over a cell, which stays shaded."""
    return SHADED + "strong" if cell[1].startswith(SHADED) else "strong"


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
    y = axis(
        [v for s in (shown if plot.log_y else plot.series) for v in s.y] + _roofs(lines if points else [], x),
        plot.log_y,
        plot.y_unit,
    )
    rows = height - 3  # title line, axis, labels of x
    y_ticks = y.ticks(max(2, rows // 2))
    left = max((width_of(label) for _, label in y_ticks), default=0)
    columns = width - left - 2
    canvas = Braille(columns, rows)
    owners = _owners(plot.series)
    for owner, series in sorted(zip(owners, plot.series, strict=True), key=lambda pair: not pair[1].guide):
        if not (series.mark or series.area):  # guides first: whatever is read by them lies over them
            _draw(canvas, series, x, y, owner)
    signs = [
        sign for owner, each in zip(owners, plot.series, strict=True) if not (each.mark or each.line)
        for sign in _size_signs(each, x, y, columns, rows, SERIES[owner])
    ]  # fmt: skip
    tags = [*signs, *_tags(plot.series, owners, canvas, x, y, signs)]
    shaded = {place for series in lines if series.area for place in _cells_below(series, x, y, columns, rows)}
    cells = [_cells(canvas, row, tags, palette, shaded) for row in range(rows)]
    labels = {row_of(y, value, rows): label for value, label in reversed(y_ticks)}
    return Drawing(
        tuple(points),
        x,
        y,
        _title(plot, width, palette, {text for _, _, text, _ in tags}),
        [_label(labels.get(row, ""), left, palette) for row in range(rows)],
        cells,
        [_runs(row, palette) for row in cells],
        _bottom(x, left, columns, palette),
    )


def row_of(y: Axis, value: float, rows: int) -> int:
    """Return the row of the canvas that a value is in."""
    place = y.place(value) or 0.0
    return min(rows - 1, max(0, rows - 1 - int(place * (rows - 0.001))))


def _draw(canvas: Braille, series: Series, x: Axis, y: Axis, owner: int) -> None:
    right, top = 2 * canvas.width - 1, 4 * canvas.height - 1
    before: tuple[float, float] | None = None
    places = zip(x.places(series.x), y.places(series.y), strict=False)
    if not series.line:  # of thousands of points many are the same dot
        known = {(round(a * right), round(b * top)) for a, b in places if a is not None and b is not None}
        for column, row in known:
            canvas.dot(column, row, owner)
        return
    for place_x, place_y in places:
        if place_x is None or place_y is None:
            before = None
            continue
        here = (place_x * right, place_y * top)
        if before is not None:
            canvas.segment(*before, *here, owner)
        before = here


def _cursor(drawing: Drawing, key: str, below: Collection[str]) -> list[tuple[int, int, str]]:
    """(column, row, label) of the point under the cursor and of those that its row stands for, the first one named."""
    x, y, rows = drawing.x, drawing.y, len(drawing.cells)
    columns = len(drawing.cells[0])
    labels: list[tuple[int, int, str]] = []
    if not key:
        return labels
    for series in drawing.points:
        for index in [i for i, other in enumerate(series.keys) if other == key or other in below]:
            other = series.keys[index]
            place_x, place_y = x.place(series.x[index]), y.place(series.y[index])
            if place_x is None or place_y is None:
                continue
            label = series.labels[index] if index < len(series.labels) and other == key else key
            told = shorten(to_ascii(safe(label)), max(8, columns // 2), middle=True)  # one cell a character
            column = min(columns - 1, max(0, int(place_x * (columns - 0.001))))
            labels.append((column, row_of(y, series.y[index], rows), "" if labels else told))
    return labels


TAG = 18
TAKEN = 255  # a cell that no name may stand on
SHADED = "shaded "  # begins the role of what stands in a shaded area
BLANKS = ("·", ".")  # what shades where there are no grounds; in ASCII
Place = tuple[int, int]
Tag = tuple[int, int, str, str]  # column, row, text, role
_SIZES = ((0.05, "●"), (0.01, "•"))  # from this share of the whole on; less is a dot
_LEAST = min(least for least, _ in _SIZES)


def _owners(series: Sequence[Series]) -> list[int]:
    """A colour for each series: that of its device, else one that no device has; those of one name share it, guides are
    dim."""
    free = max((each.device for each in series), default=-1) + 1
    names = list(dict.fromkeys(each.name for each in series if not each.guide and each.device < 0))
    last = len(SERIES) - 1
    return [
        last if each.guide else (each.device if each.device >= 0 else free + names.index(each.name)) % last
        for each in series
    ]


def _size_signs(series: Series, x: Axis, y: Axis, columns: int, rows: int, role: str) -> list[Tag]:
    """(column, row, sign, role) of the points that are more than a dot: the heavier the larger, hollow on paper."""
    signs: list[Tag] = []
    sizes = series.sizes or (0.0,) * len(series.x)
    drawn = [point for point in zip(series.x, series.y, sizes, strict=True) if series.on_paper or point[2] >= _LEAST]
    for a, b, size in sorted(drawn, key=lambda point: point[2]):
        sign = "○" if series.on_paper else next(sign for least, sign in _SIZES if size >= least)
        place = x.place(a)
        if place is not None and y.place(b) is not None:
            signs.append((min(columns - 1, max(0, int(place * (columns - 0.001)))), row_of(y, b, rows), sign, role))
    return signs


def _tags(
    series: Sequence[Series], owners: Sequence[int], canvas: Braille, x: Axis, y: Axis, signs: Sequence[Tag]
) -> list[Tag]:
    """(column, row, text, role): marks, and the names of lines and of devices beside them, which colour alone would not
    tell. A name stands on nothing: no point, no line, no other name; and where it can, beside nothing else."""
    columns, rows = canvas.width, canvas.height
    taken = [canvas.owners(row) for row in range(rows)]
    for column, row, _, _ in signs:
        taken[row][column] = TAKEN
    tags: list[Tag] = []
    for each in series:
        for column, row in _points(each, x, y, columns, rows) if each.mark else ():
            tags.append((column, row, "◆", "strong"))
            taken[row][column] = TAKEN
    lines = {each.name for each in series if each.line}
    clouds = {each.name for each in series if not each.mark and each.device >= 0} - lines
    for owner, each in zip(owners, series, strict=True):
        is_only = len(lines) == 1 and not each.guide  # which the title tells
        if each.mark or (is_only and each.line) or not (each.line or (len(clouds) > 1 and each.name in clouds)):
            continue
        name = shorten(safe(each.name), TAG, middle=True)
        name = name if width_of(name) == len(name) else to_ascii(name)  # one cell a character
        trace = dict(_points(each, x, y, columns, rows)) if not each.line else _trace(each, x, y, columns, rows)
        if (place := _beside_line(trace, len(name), taken, owner + 1)) is not None:
            start, row = place
            taken[row][start : start + len(name)] = bytes([TAKEN]) * len(name)
            tags.append((start, row, name, SERIES[owner % len(SERIES)]))
    return tags


def _points(series: Series, x: Axis, y: Axis, columns: int, rows: int) -> Iterator[tuple[int, int]]:
    """(column, row) of each."""
    for a, b in zip(series.x, series.y, strict=True):
        place = x.place(a)
        if place is not None and y.place(b) is not None:
            yield min(columns - 1, max(0, int(place * (columns - 0.001)))), row_of(y, b, rows)


def _trace(line: Series, x: Axis, y: Axis, columns: int, rows: int) -> dict[int, int]:
    """The row of a line in each column where it is in sight; of an area its foot."""
    known = [(a, b) for a, b in zip(x.places(line.x), y.places(line.y), strict=True) if a is not None and b is not None]
    trace: dict[int, int] = {}
    for (x0, y0), (x1, y1) in pairwise(known):
        for column in range(max(0, int(x0 * columns)), min(columns, int(x1 * columns) + 1)):
            b = y0 + (y1 - y0) * (column / columns - x0) / ((x1 - x0) or 1.0)
            if 0 <= b <= 1:
                trace[column] = rows - 1 if line.area else rows - 1 - int(b * (rows - 0.001))
    return trace


def _beside_line(trace: dict[int, int], length: int, taken: Sequence[bytearray], own: int) -> tuple[int, int] | None:
    """(start, row) of a name next to a line, as far to the right as may be: first where no other line is as near."""
    rows, columns = len(taken), len(taken[0])
    for is_alone, away in ((True, 1), (True, 2), (False, 1)):
        for column in sorted(trace, reverse=True):
            start = min(column, columns - 1) - length + 1
            if start < 0:
                break
            for row in (trace[column] - away, trace[column] + away):
                if not 0 <= row < rows or any(taken[row][max(0, start - 1) : start + length + 1]):
                    continue
                near = [
                    *taken[max(0, row - 1)][start : start + length],
                    *taken[min(rows - 1, row + 1)][start : start + length],
                ]
                if not is_alone or not {*near} - {0, own}:
                    return start, row
    return None


def _title(plot: Plot, width: int, palette: Palette, told: Collection[str]) -> list[Segment]:
    """Return what y is, then a legend of all series; where there is no room for all, of those that are not named
    beside what they draw, cut where even they do not fit."""
    head = shorten(say(titled(plot.y_title, plot.y_unit), palette), width)
    entries = dict[str, tuple[str, int]]()
    for index, series in zip(_owners(plot.series), plot.series, strict=True):
        if not series.guide:
            mark = "─" if series.line else "◆" if series.mark else "○" if series.on_paper else "•"
            entries.setdefault(safe(series.name), ("*+ox"[index % 4] if palette.ascii else mark, index))
    room = width - width_of(head)
    if sum(width_of(name) + 4 for name in entries) > room:
        entries = {name: entry for name, entry in entries.items() if shorten(name, TAG, middle=True) not in told}
    fits = sum(width_of(name) + 4 for name in entries) <= room
    most = room if fits else room // max(1, len(entries)) - 4
    segments = [Segment(head, palette.get("header"))]
    for name, (sign, index) in entries.items():
        if most > 1:
            legend = say(f"  {sign} {shorten(name, most, True)}", palette)
            segments.append(Segment(legend, palette.get(SERIES[index % len(SERIES)])))
    return segments


def _symbol(unit: str) -> str:
    return {"byte": "B", "byte/s": "B/s", "Js": "J·s", "FLOP/byte": "FLOP/B", "1/s": "/s", "count": ""}.get(unit, unit)


def titled(title: str, unit: str) -> str:
    """The title of an axis with its unit, unless it names it already."""
    symbol = _symbol(unit)
    return title if symbol.partition("/")[0] in title else f"{title} {symbol}"


def say(text: str, palette: Palette) -> str:
    """Return a text, in ASCII where the palette is."""
    return to_ascii(text) if palette.ascii else text


def _label(label: str, left: int, palette: Palette) -> list[Segment]:
    """Return what stands left of a row: the label of y there, and the axis."""
    return [
        Segment(say(label.rjust(left), palette), palette.get("dim")),
        Segment(" " + ("|" if palette.ascii else "┤" if label else "│"), palette.get("guide")),
    ]


def _cells_below(series: Series, x: Axis, y: Axis, columns: int, rows: int) -> Iterator[tuple[int, int]]:
    """(column, row) of what lies below a line."""
    known = [(x.place(a), y.place(b)) for a, b in zip(series.x, series.y, strict=True)]
    for column in range(columns):
        at = (column + 0.5) / columns
        for (x0, y0), (x1, y1) in pairwise((a, b) for a, b in known if a is not None and b is not None):
            if x0 <= at < x1:
                height = y0 + (y1 - y0) * (at - x0) / (x1 - x0)
                yield from ((column, row) for row in range(rows) if (rows - row - 0.5) / rows < height)


def _cells(
    canvas: Braille,
    row: int,
    tags: Sequence[tuple[int, int, str, str]],
    palette: Palette,
    shaded: Collection[tuple[int, int]] = (),
) -> list[tuple[str, str]]:
    """Character and role of each place of a row; a shaded one has a ground of its own, or a dot where there are no
    grounds."""
    text: list[tuple[str, str]] = []
    for column in range(canvas.width):
        character, owner = canvas.cell(column, row, palette.ascii)
        text.append((character, SERIES[owner % len(SERIES)] if owner >= 0 else "text"))
    for column, at, name, role in tags:
        if at == row:
            for offset, character in enumerate(ascii_cells(name) if palette.ascii else name):
                text[column + offset] = (character, role)
    told = {column + i for column, at, name, _ in tags if at == row for i in range(len(name))}
    blank = (BLANKS[palette.ascii], "guide") if palette.textured else (" ", "text")
    for column in range(canvas.width if shaded else 0):
        if (column, row) in shaded:
            character, role = blank if text[column][0] == " " and column not in told else text[column]
            text[column] = (character, SHADED + role)
    return text


def _free_place(
    cells: Sequence[Sequence[tuple[str, str]]], row: int, column: int, length: int
) -> list[tuple[int, int]]:
    """Return [(row, start)] of the first place beside a point where a label stands on nothing, else []."""
    for place in (row, *(row + sign * away for away in (1, 2, 3) for sign in (-1, 1))):
        for start in (column + 2, column - 1 - length, column - length // 2):
            if place == row and start <= column < start + length:
                continue
            if 0 <= place < len(cells) and start >= 0 and start + length <= len(cells[0]):
                around = cells[place][max(0, start - 1) : start + length + 1]
                if all(character in (" ", *BLANKS) for character, _ in around):
                    return [(place, start)]
    return []


def _runs(text: list[tuple[str, str]], palette: Palette) -> list[Segment]:
    segments: list[Segment] = []
    start = 0
    for index in range(1, len(text) + 1):
        if index == len(text) or text[index][1] != text[start][1]:
            role = text[start][1]
            ground = BLURRED if role.startswith(SHADED) and not palette.textured else PLAIN
            style = palette.get(role.removeprefix(SHADED), ground)
            segments.append(Segment("".join(c for c, _ in text[start:index]), style))
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
        label = say(label, palette)
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
