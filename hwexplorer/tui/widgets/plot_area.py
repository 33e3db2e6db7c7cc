"""A plot in a pane, as lines of segments: axes, ticks, polylines in braille dots (two across, four down in each cell),
points, the one under the cursor, and the one that a click means. The drawing is kept until the plot or size changes.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter

import msgspec
from rich.segment import Segment

from hardware.base.text import quantity, safe
from hwexplorer.text.number_format import to_ascii
from hwexplorer.tui.palette import SERIES, Palette
from hwexplorer.tui.palette import plain as cleaned
from hwexplorer.tui.widgets.framed_pane import Content
from hwexplorer.views import layout, plain
from hwexplorer.views.plot_axis import Axis, axis, titled

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


class Braille:
    """Dots, and for each cell the series that drew last."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._dots = [bytearray(width) for _ in range(height)]
        self.owners = [bytearray(width) for _ in range(height)]  # counted from 1, 0: none

    def dot(self, x: int, y: int, owner: int) -> None:
        """Set a dot if it is inside. x grows to the right from 0 to 2*width-1, y upwards from 0 to 4*height-1."""
        if not (0 <= x < 2 * self.width and 0 <= y < 4 * self.height):
            return
        y = 4 * self.height - 1 - y
        self._dots[y >> 2][x >> 1] |= _DOTS[y & 3][x & 1]
        self.owners[y >> 2][x >> 1] = owner + 1

    def segment(self, x0: float, y0: float, x1: float, y1: float, owner: int) -> None:
        """Draw a straight line between two places, which may be outside."""
        steps = max(1, round(max(abs(x1 - x0), abs(y1 - y0))))
        for step in range(steps + 1):
            at = step / steps
            self.dot(round(x0 + (x1 - x0) * at), round(y0 + (y1 - y0) * at), owner)

    def cell(self, column: int, row: int, ascii: bool = False) -> tuple[str, int]:
        """Return the character of a cell and the cell's series (-1: none)."""
        dots = self._dots[row][column]
        owner = self.owners[row][column] - 1
        if not dots:
            return " ", -1
        return ("*+ox"[owner % 4] if ascii else chr(0x2800 + dots)), owner


WIDTH_MIN = 16
TAG = 18  # cells of a name at most
TAKEN = 255  # a cell that no name may cover
Place = tuple[int, int]  # column, row
Point = tuple[str, float, float]  # key, x, y
Tag = tuple[int, int, str, str]  # column, row, text, role
_SIZES = ((0.05, "●"), (0.01, "•"))  # by least share of the whole; a smaller point is a dot
_LEAST = min(least for least, _ in _SIZES)


def _roofs(lines: Sequence[plain.Series], x: Axis) -> list[float]:
    """Return the highest value of each line on the x axis, so that the y axis shows it without its far ends."""
    inside = ([b for a, b in zip(line.x, line.y, strict=False) if a <= x.high] for line in lines)
    return [max(values) for values in inside if values]


class Grid(msgspec.Struct, frozen=True):
    """The axes of a plot, and how many cells they take."""

    x: Axis
    y: Axis
    columns: int
    rows: int

    def row(self, value: float) -> int:
        """Return the row that a value of y is in."""
        return min(self.rows - 1, max(0, self.rows - 1 - int((self.y.place(value) or 0.0) * (self.rows - 0.001))))

    def cell(self, x: float, y: float) -> Place | None:
        """Return (column, row) of a point, None out of sight."""
        place = self.x.place(x)
        if place is None or self.y.place(y) is None:
            return None
        return min(self.columns - 1, max(0, int(place * (self.columns - 0.001)))), self.row(y)

    def places(self, series: plain.Series) -> Iterator[tuple[float | None, float | None]]:
        """Yield the place of each point on both axes (0 to 1 is in sight), None for a value without a place."""
        return zip(self.x.places(series.x), self.y.places(series.y), strict=False)


class Drawing(msgspec.Struct, frozen=True):
    """A plot without its cursor: the part that a move of the cursor does not change."""

    points: tuple[plain.Series, ...]
    grid: Grid
    title: list[Segment]
    labels: list[list[Segment]]  # left of each row: the label of y and the axis
    cells: list[list[tuple[str, str]]]  # character and role of each place of each row
    rows: list[list[Segment]]  # the same as segments
    bottom: list[list[Segment]]

    def lines(self, palette: Palette, cursor: str = "", below: Collection[str] = ()) -> list[list[Segment]]:
        """Return all lines, with the point under the cursor and those that its row stands for marked."""
        marked_rows: dict[int, list[tuple[str, str]]] = {}
        for (column, row), _ in self.shown_points({cursor, *below} if cursor else set()):
            marked_rows.setdefault(row, list(self.cells[row]))[column] = ("@" if palette.ascii else "◉", "strong")
        rows = [_runs(marked_rows[i], palette) if i in marked_rows else row for i, row in enumerate(self.rows)]
        return [self.title, *(label + row for label, row in zip(self.labels, rows, strict=True)), *self.bottom]

    def shown_points(self, keys: Collection[str] | None = None) -> Iterator[tuple[Place, Point]]:
        """Yield the points in sight, all or those with these keys, each with its place."""
        for item in self.points:
            for key, x, y in zip(item.keys, item.x, item.y, strict=False):
                if (keys is None or key in keys) and (place := self.grid.cell(x, y)) is not None:
                    yield place, (key, x, y)


def draw(plot: plain.Plot, width: int, height: int, palette: Palette) -> Drawing | list[list[Segment]]:
    """Draw a plot without its cursor. Return lines that say why if it cannot be drawn."""
    has_points = any(len(s.x) for s in plot.series)
    if width < WIDTH_MIN or height < 5 or not has_points:
        text = "no room to draw" if has_points else "nothing to draw"
        return [[Segment(layout.shorten(text, width), palette.get("dim"))]] + [[] for _ in range(height - 1)]
    lines = [s for s in plot.series if s.line]
    points = [s for s in plot.series if not s.line]
    visible_series = points or lines
    x = axis([v for s in visible_series for v in s.x], plot.x_unit)
    heights = [v for s in visible_series for v in s.y]
    y = axis(heights + _roofs(lines if points else [], x), plot.y_unit)
    rows = height - 3  # title line, axis, labels of x
    y_ticks = y.ticks(max(2, rows // 2))
    label_width = max((layout.width_of(label) for _, label in y_ticks), default=0)
    columns = width - label_width - 2
    canvas, grid = Braille(columns, rows), Grid(x, y, columns, rows)
    owners = _owners(plot.series)
    for owner, series in zip(owners, plot.series, strict=True):
        if not series.mark:
            _draw(canvas, series, grid, owner)
    signs = [
        sign for owner, item in zip(owners, plot.series, strict=True) if not (item.mark or item.line)
        for sign in _size_signs(item, grid, SERIES[owner])
    ]  # fmt: skip
    tags = [*signs, *_tags(plot.series, owners, canvas, grid, signs)]
    cells = [_cells(canvas, row, tags, palette) for row in range(rows)]
    labels = {grid.row(value): label for value, label in reversed(y_ticks)}
    return Drawing(
        tuple(points),
        grid,
        _title(plot, width, palette, {text for _, _, text, _ in tags}),
        [_label(labels.get(row, ""), label_width, palette) for row in range(rows)],
        cells,
        [_runs(row, palette) for row in cells],
        _bottom(x, label_width, columns, palette),
    )


def _draw(canvas: Braille, series: plain.Series, grid: Grid, owner: int) -> None:
    right, top = 2 * canvas.width - 1, 4 * canvas.height - 1
    previous: tuple[float, float] | None = None
    if not series.line:  # thousands of points share far fewer dots
        places = grid.places(series)
        vertices = {(round(a * right), round(b * top)) for a, b in places if a is not None and b is not None}
        for column, row in vertices:
            canvas.dot(column, row, owner)
        return
    for place_x, place_y in grid.places(series):
        if place_x is None or place_y is None:
            previous = None
            continue
        end = (place_x * right, place_y * top)
        if previous is not None:
            canvas.segment(*previous, *end, owner)
        previous = end


def _owners(series: Sequence[plain.Series]) -> list[int]:
    """Return the index of a colour for each series: its device's, else one that no device has. Series of one name share
    a colour."""
    free = max((item.device for item in series), default=-1) + 1
    names = list(dict.fromkeys(item.name for item in series if item.device < 0))
    colours = len(SERIES) - 1
    return [(item.device if item.device >= 0 else free + names.index(item.name)) % colours for item in series]


def _size_signs(series: plain.Series, grid: Grid, role: str) -> list[Tag]:
    """Return (column, row, sign, role) of points larger than a dot: larger for a larger share."""
    signs: list[Tag] = []
    sizes = series.sizes or (0.0,) * len(series.x)
    visible = [point for point in zip(series.x, series.y, sizes, strict=True) if point[2] >= _LEAST]
    for a, b, size in sorted(visible, key=lambda point: point[2]):
        sign = next(sign for least, sign in _SIZES if size >= least)
        if (place := grid.cell(a, b)) is not None:
            signs.append((*place, sign, role))
    return signs


def _tags(
    series: Sequence[plain.Series], owners: Sequence[int], canvas: Braille, grid: Grid, signs: Sequence[Tag]
) -> list[Tag]:
    """Return (column, row, text, role) of marks and of names next to lines and devices, which colour alone would not
    tell. A name covers no point, line or other name. Without a place for it, the legend has it alone."""
    owner_rows = [*map(bytearray, canvas.owners)]
    for column, row, _, _ in signs:
        owner_rows[row][column] = TAKEN
    tags: list[Tag] = []
    for item in series:
        for column, row in _points(item, grid) if item.mark else ():
            tags.append((column, row, "◆", "strong"))
            owner_rows[row][column] = TAKEN
    lines = {item.name for item in series if item.line}
    clouds = {item.name for item in series if not item.mark and item.device >= 0} - lines
    for owner, item in zip(owners, series, strict=True):
        is_only = len(lines) == 1 and item.line  # the title names a single line
        if item.mark or is_only or not (item.line or (len(clouds) > 1 and item.name in clouds)):
            continue
        name = layout.shorten(safe(item.name), TAG, middle=True)
        name = name if layout.width_of(name) == len(name) else to_ascii(name)  # one cell a character
        trace = _trace(item, grid) if item.line else dict(_points(item, grid))
        if (place := _beside_line(trace, len(name), owner_rows)) is not None:
            start, row = place
            owner_rows[row][start : start + len(name)] = bytes([TAKEN]) * len(name)
            tags.append((start, row, name, SERIES[owner % len(SERIES)]))
    return tags


def _points(series: plain.Series, grid: Grid) -> list[Place]:
    places = (grid.cell(a, b) for a, b in zip(series.x, series.y, strict=True))
    return [place for place in places if place is not None]


def _trace(line: plain.Series, grid: Grid) -> dict[int, int]:
    """Return the row of a line in each column where the line is in sight."""
    columns, rows = grid.columns, grid.rows
    positions = [(a, b) for a, b in grid.places(line) if a is not None and b is not None]
    trace: dict[int, int] = {}
    for (x0, y0), (x1, y1) in pairwise(positions):
        for column in range(max(0, int(x0 * columns)), min(columns, int(x1 * columns) + 1)):
            b = y0 + (y1 - y0) * (column / columns - x0) / ((x1 - x0) or 1.0)
            if 0 <= b <= 1:
                trace[column] = rows - 1 - int(b * (rows - 0.001))
    return trace


def _beside_line(trace: dict[int, int], length: int, taken: Sequence[bytearray]) -> tuple[int, int] | None:
    """Return (start, row) for a name above or below a line, as far right as possible."""
    for column in sorted(trace, reverse=True):
        start = min(column, len(taken[0]) - 1) - length + 1
        if start < 0:
            return None
        for row in (trace[column] - 1, trace[column] + 1):
            if 0 <= row < len(taken) and not any(taken[row][max(0, start - 1) : start + length + 1]):
                return start, row
    return None


def _title(plot: plain.Plot, width: int, palette: Palette, named: Collection[str]) -> list[Segment]:
    """Return the title of y, then a legend of all series. Short of room, series in `named`, whose names are in the
    plot, are left out, and names that still do not fit are cut."""
    head = layout.shorten(cleaned(titled(plot.y_title, plot.y_unit), palette), width)
    entries = dict[str, tuple[str, int]]()
    for index, series in zip(_owners(plot.series), plot.series, strict=True):
        mark = "─" if series.line else "◆" if series.mark else "•"
        entries.setdefault(safe(series.name), ("*+ox"[index % 4] if palette.ascii else mark, index))
    room = width - layout.width_of(head)
    if sum(layout.width_of(name) + 4 for name in entries) > room:
        entries = {
            name: entry for name, entry in entries.items() if layout.shorten(name, TAG, middle=True) not in named
        }
    fits = sum(layout.width_of(name) + 4 for name in entries) <= room
    width_limit = room if fits else room // max(1, len(entries)) - 4
    segments = [Segment(head, palette.get("header"))]
    for name, (sign, index) in entries.items():
        if width_limit > 1:
            legend = cleaned(f"  {sign} {layout.shorten(name, width_limit, True)}", palette)
            segments.append(Segment(legend, palette.get(SERIES[index % len(SERIES)])))
    return segments


def _label(label: str, left: int, palette: Palette) -> list[Segment]:
    return [
        Segment(cleaned(label.rjust(left), palette), palette.get("dim")),
        Segment(" " + ("|" if palette.ascii else "┤" if label else "│"), palette.get("guide")),
    ]


def _cells(canvas: Braille, row: int, tags: Sequence[Tag], palette: Palette) -> list[tuple[str, str]]:
    """Return the character and role of each cell of a row."""
    text: list[tuple[str, str]] = []
    for column in range(canvas.width):
        character, owner = canvas.cell(column, row, palette.ascii)
        text.append((character, SERIES[owner % len(SERIES)] if owner >= 0 else "text"))
    for column, tag_row, name, role in tags:
        if tag_row == row:
            for offset, character in enumerate(layout.ascii_cells(name) if palette.ascii else name):
                text[column + offset] = (character, role)
    return text


def _runs(text: list[tuple[str, str]], palette: Palette) -> list[Segment]:
    runs = groupby(text, itemgetter(1))
    return [Segment("".join([character for character, _ in run]), palette.get(role)) for role, run in runs]


def _bottom(x: Axis, left: int, columns: int, palette: Palette) -> list[list[Segment]]:
    axis = ["-" if palette.ascii else "─"] * columns
    labels = [" "] * columns
    free = 0
    for value, label in x.ticks(max(2, columns // 7)):
        place = x.place(value)
        if place is None:
            continue
        column = min(columns - 1, max(0, int(place * (columns - 0.001))))
        label = cleaned(label, palette)
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


REACH = 2  # cells at most from a click to the point that it means
NO_POINT: Point = ("", 0.0, 0.0)


class PlotArea(Content):
    """The plot of a pane, drawn once per size and data; a move of the cursor redraws only the cursor."""

    def __init__(self) -> None:
        self.plot: plain.Plot | None = None
        self.cursor = ""
        self.below: Collection[str] = ()
        self._drawing: Drawing | list[list[Segment]] | None = None
        self._lines: list[list[Segment]] = []

    def update(self, plot: plain.Plot | None, cursor: str, below: Collection[str] = ()) -> None:
        """Take a plot and its cursor. `below` are the keys that the row of the cursor stands for."""
        if plot is not self.plot:
            self._drawing = None
        if plot is not self.plot or (cursor, below) != (self.cursor, self.below):
            self.plot, self.cursor, self.below = plot, cursor, below
            self._lines = []

    def line(self, y: int, palette: Palette, focused: bool) -> list[Segment]:
        if self.plot is None:
            return []
        if not self._lines:
            self._lines = self._draw_lines(self.plot, palette)
        return self._lines[y] if y < len(self._lines) else []

    def _draw_lines(self, plot: plain.Plot, palette: Palette) -> list[list[Segment]]:
        height = self.height - 1 if self.height > 8 else self.height
        if self._drawing is None:
            self._drawing = draw(plot, self.width, height, palette)
        drawing = self._drawing
        lines = drawing.lines(palette, self.cursor, self.below) if isinstance(drawing, Drawing) else drawing
        if height == self.height:
            return lines
        title = titled(plot.x_title, plot.x_unit)
        for note in map(safe, plot.notes):  # as many whole notes as there is room for
            title += f" · {note}" if layout.width_of(title) + layout.width_of(note) + 3 <= self.width else ""
        return [*lines, [Segment(cleaned(layout.shorten(title, self.width), palette), palette.get("header"))]]

    def move(self, by: int) -> str:
        """Return the key of the point `by` places on. The cursor is the state's, so it moves along the tree as well."""
        keys = [k for s in (self.plot.series if self.plot else ()) if not s.line for k in s.keys]
        if not keys:
            return ""
        index = keys.index(self.cursor) if self.cursor in keys else (-1 if by > 0 else 0)
        return keys[max(0, min(len(keys) - 1, index + by))]

    def key_at(self, x: int, y: int) -> str:
        """Return the key of the point at a place; '' if there is none."""
        return self._point_at(x, y)[0]

    def help_at(self, x: int, y: int) -> str:
        """Return the figures of the point at a place, as the axes name them."""
        key, a, b = self._point_at(x, y)
        if not key or self.plot is None:
            return ""
        figures = (self.plot.x_title, a, self.plot.x_unit), (self.plot.y_title, b, self.plot.y_unit)
        return f"{key}: " + ", ".join(f"{title} {quantity(value, unit)}" for title, value, unit in figures)

    def _point_at(self, x: int, y: int) -> Point:
        """Return the point drawn nearest to a place, at most REACH cells away; without a key if there is none."""
        if not isinstance(self._drawing, Drawing):
            return NO_POINT
        left = sum(layout.width_of(segment.text) for segment in self._drawing.labels[0])
        near = [
            (abs(left + column - x) / 2 + abs(row + 1 - y), point)
            for (column, row), point in self._drawing.shown_points()
        ]
        away, nearest = min(near, key=itemgetter(0), default=(REACH, NO_POINT))
        return nearest if away < REACH else NO_POINT

    def page(self) -> int:
        """Return how many points a page moves by."""
        return 10

    def forget(self) -> None:
        self._drawing, self._lines = None, []
