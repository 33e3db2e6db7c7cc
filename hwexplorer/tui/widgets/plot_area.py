"""The plot of a pane: its cached drawing, its cursor, and the point that a click means."""

from collections.abc import Collection
from operator import itemgetter

from rich.segment import Segment

from hwexplorer.text.number_format import quantity, safe
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.widgets.framed_pane import Content
from hwexplorer.tui.widgets.plot_drawing import Drawing, Point, draw, say, titled
from hwexplorer.views.layout import shorten, width_of
from hwexplorer.views.plain import Plot

REACH = 2  # cells at most from a click to the point that it means
NO_POINT: Point = ("", 0.0, 0.0)


class PlotArea(Content):
    """The plot of a pane, drawn once per size and data; a move of the cursor redraws only the cursor."""

    def __init__(self) -> None:
        self.plot: Plot | None = None
        self.cursor = ""
        self.below: Collection[str] = ()
        self._drawing: Drawing | list[list[Segment]] | None = None
        self._lines: list[list[Segment]] = []

    def update(self, plot: Plot | None, cursor: str, below: Collection[str] = ()) -> None:
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

    def _draw_lines(self, plot: Plot, palette: Palette) -> list[list[Segment]]:
        height = self.height - 1 if self.height > 8 else self.height
        if self._drawing is None:
            self._drawing = draw(plot, self.width, height, palette)
        drawing = self._drawing
        lines = drawing.lines(palette, self.cursor, self.below) if isinstance(drawing, Drawing) else drawing
        if height == self.height:
            return lines
        title = titled(plot.x_title, plot.x_unit)
        for note in map(safe, plot.notes):  # as many whole notes as there is room for
            title += f" · {note}" if width_of(title) + width_of(note) + 3 <= self.width else ""
        return [*lines, [Segment(say(shorten(title, self.width), palette), palette.get("header"))]]

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
        left = sum(width_of(segment.text) for segment in self._drawing.labels[0])
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
