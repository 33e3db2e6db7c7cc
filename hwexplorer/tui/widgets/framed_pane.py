"""The Textual widgets of panes and lines: a frame with a title around content that draws lines, and a status line."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.geometry import NULL_OFFSET, Offset, Region, Size, Spacing
from textual.layout import Layout, WidgetPlacement
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from hardware.base.text import safe
from hwexplorer.tui.palette import CLICK, Palette
from hwexplorer.views import layout

FAR = 10**6  # more rows than any table has
FRAME, CAPTION = -1, -2  # `y` of a click on no line of the content


class Content:
    """The content of a pane: it is resized, drawn line by line, and scrolled if not all of it is in sight."""

    width = height = 0

    def resize(self, width: int, height: int) -> None:
        """Take the size to draw in."""
        if (width, height) != (self.width, self.height):
            self.width, self.height = width, height
            self.forget()

    def forget(self) -> None:
        """Drop the drawing, because colours or the size changed."""

    def line(self, y: int, palette: Palette, focused: bool) -> list[Segment]:
        """Return line `y` of the drawing."""
        raise NotImplementedError

    def help_at(self, x: int, y: int) -> str:
        """Return one line about what is at a place, '' for nothing."""
        return ""

    def move(self, by: int) -> str:
        """Move the cursor and return the key that it is on; without keys, scroll and return ''."""
        self.scroll(by)
        return ""

    def scroll(self, by: int) -> None:
        """Move the window by lines."""

    def page(self) -> int:
        """Return the lines of a page."""
        return max(1, self.height - 1)

    def extent(self) -> tuple[int, int, int]:
        """Return (first line in sight, lines in sight, all lines), for the scroll mark."""
        return 0, 1, 1


def fit(line: list[Segment], width: int, palette: Palette) -> list[Segment]:
    """Return a line of `width` cells: filled with blanks, or cropped."""
    room = width - cell_len("".join([segment.text for segment in line]))
    blanks = [Segment(" " * room, palette.get("text"))] * (room > 0)
    return [*line, *blanks] if room >= 0 else Segment.adjust_line_length(line, width)


def ascii_strip(strip: Strip, palette: Palette) -> Strip:
    """Return a line as the terminal gets it: in ASCII if the palette is."""
    if not palette.ascii or all(segment.text.isascii() for segment in strip):
        return strip
    return Strip([Segment(layout.ascii_cells(s.text), s.style, s.control) for s in strip], strip.cell_length)


class Hovered(Message):
    """The pointer is over something else. `text` explains it; '' for nothing to explain."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class Drawn(Widget, can_focus=False, inherit_css=False):
    """Draws lines with all their colours. Textual applies no styles to them, which takes longer than to draw them."""

    palette: Palette
    _drawn: Sequence[Strip] = ()  # all lines as the terminal gets them; none after a change
    _hovered = ""

    def draw(self, width: int, height: int) -> list[Strip]:
        """Return all lines."""
        raise NotImplementedError

    def drawn(self) -> Sequence[Strip]:
        """Return all lines as the terminal gets them: in ASCII if the palette is."""
        width, height = self.outer_size
        if len(self._drawn) != height or (height and self._drawn[0].cell_length != width):
            self._drawn = [ascii_strip(line, self.palette) for line in self.draw(width, height)]
        return self._drawn

    def redraw(self) -> None:
        """Draw again. Only lines that changed are sent to the terminal; after a cursor key these are few."""
        before, self._drawn = self._drawn, ()
        if not self.is_on_screen or len(before) != self.outer_size.height:
            self.refresh()  # all of it, drawn when it is asked for
            return
        width = self.outer_size.width
        changed = [Region(0, y, width, 1) for y, line in enumerate(self.drawn()) if line != before[y]]
        if changed:
            self.refresh(*changed)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines of a region for Textual."""
        lines = list(self.drawn()[crop.y : crop.bottom])
        for line_filter in self.get_line_filters():
            lines = [line.apply_filter(line_filter, self.styles.background) for line in lines]
        return lines if crop.width == self.outer_size.width else [line.crop(*crop.column_span) for line in lines]

    def explain(self, text: str) -> None:
        """Post what is under the pointer, if that changed."""
        if text != self._hovered:
            self._hovered = text
            self.post_message(Hovered(text))

    def on_leave(self) -> None:
        """Post that the pointer is over nothing."""
        self.explain("")


class FramedPane(Drawn):
    """Draws its own frame: one line of title, a mark for the scroll position, thick lines if the pane has the keys."""

    class Clicked(Message):
        """A click at a place of the content (`y` may be FRAME or CAPTION). `times` is 2 for a double click."""

        def __init__(self, pane: str, x: int, y: int, times: int) -> None:
            super().__init__()
            self.pane, self.x, self.y, self.times = pane, x, y, times

    class Wheeled(Message):
        """The wheel turned on line `y` of the content, by `by` lines (negative: up)."""

        def __init__(self, pane: str, y: int, by: int) -> None:
            super().__init__()
            self.pane, self.y, self.by = pane, y, by

    class Dragged(Message):
        """A border between panes was dragged by some cells."""

        def __init__(self, border: str, by: int) -> None:
            super().__init__()
            self.border, self.by = border, by

    def __init__(self, name: str, number: int, content: Content, palette: Palette) -> None:
        super().__init__(id=name)
        self.border = ""  # the field of `Sizes` whose border the mouse holds, at the place `held` of the screen
        self.held, self.is_dragged = Offset(), False
        self.pane, self.number, self.content = name, number, content
        self.palette = palette
        self.heading = name.title()
        self.remark = ""
        self.caption: list[Segment] = []  # in the lower line of the frame
        self.active = False
        self._made: dict[int, tuple[object, Strip]] = {}  # framed lines by y, each with the parts that it was made of

    def step(self, action: str) -> bool:
        """Move in the content. Return False if the action is not a move."""
        page = self.content.page()
        steps = {"down": 1, "up": -1, "page_down": page, "page_up": -page, "first": -FAR, "last": FAR}
        if action in steps:
            self.content.move(steps[action])
            self.redraw()
        return action in steps

    @property
    def framed(self) -> bool:
        """True if the pane has a frame. In a very small window every line is for content."""
        return self.outer_size.height >= 6 and self.outer_size.width >= 20

    def on_resize(self) -> None:
        """Hand the size to the content before it is drawn, since a key may move by a page."""
        width, height = self.outer_size
        self.content.resize(*((width - 4, height - 2) if self.framed else (width, height)))

    def draw(self, width: int, height: int) -> list[Strip]:
        """Return the lines of the frame and of the content."""
        self.on_resize()
        if self.framed:
            thumb = self._thumb(height - 2)
            return [self._framed_line(y, width, height, thumb) for y in range(height)]
        return [Strip(fit(self.content.line(y, self.palette, True), width, self.palette), width) for y in range(height)]

    def _framed_line(self, y: int, width: int, height: int, thumb: range) -> Strip:
        if y == 0:
            return self._top(width)
        side = self.palette.get("accent" if self.active else "guide")
        bars = "||" if self.palette.ascii else "┃┃" if self.active else "││"
        if y == height - 1:
            ends = "++" if self.palette.ascii else "┗┛" if self.active else "╰╯"
            return self._edge(width, ends, self.caption)
        mark = ("#" if self.palette.ascii else "█") if y - 1 in thumb else bars[1]
        line = self.content.line(y - 1, self.palette, self.active)
        made_of = (line, bars[0], mark, side, width)
        if y not in self._made or self._made[y][0] != made_of:  # after a cursor key most lines are unchanged
            blank = Segment(" ", self.palette.get("text"))
            inner = fit(line, width - 4, self.palette)
            strip = Strip([Segment(bars[0], side), blank, *inner, blank, Segment(mark, side)], width)
            self._made[y] = made_of, strip
        return self._made[y][1]

    def _top(self, width: int) -> Strip:
        is_path = " " not in self.heading.rpartition(" · ")[2]  # of which the end tells most
        title = layout.shorten(safe(f"{self.number or ''} {self.heading}".strip()), width - 6, middle=is_path)
        remark = layout.whole(safe(self.remark), max(0, width - 8 - layout.width_of(title)))
        words = [Segment(title, self.palette.get("title" if self.active else "header"))]
        ends = "++" if self.palette.ascii else "┏┓" if self.active else "╭╮"
        return self._edge(width, ends, words, [Segment(remark, self.palette.get("dim"))] if remark else [])

    def _edge(self, width: int, ends: str, left: list[Segment], right: Sequence[Segment] = ()) -> Strip:
        """Return a line of the frame with words on its left and on its right."""
        side = self.palette.get("accent" if self.active else "guide")
        flat = ("-=" if self.palette.ascii else "─━")[self.active]  # shape shows which pane has the keys, not colour
        space = [Segment(" ", side)]
        left = [Segment(ends[0] + flat, side), *(space if left else ()), *left, *(space if left else ())]
        right = [*(space if right else ()), *right, Segment(f" {flat}{ends[1]}" if right else ends[1], side)]
        used = sum(segment.cell_length for segment in (*left, *right))
        if used > width:  # words for a wider pane, until it is drawn with its own
            return self._edge(width, ends, [])
        return Strip([*left, Segment(flat * (width - used), side), *right], width)

    def _thumb(self, height: int) -> range:
        first, page, total = self.content.extent()
        if total <= page or page < 1:
            return range(0)
        size = max(1, round(height * page / total))
        start = round((height - size) * first / max(1, total - page))
        return range(start, start + size)

    def on_click(self, event: events.Click) -> None:
        """Post what was clicked, unless a border was dragged."""
        event.stop()
        if self.is_dragged:
            return
        x, y, last = event.x, event.y, self.outer_size.height - 1
        if self.framed:
            x, y = x - 2, y - 1 if 0 < y < last else CAPTION if y and self.caption else FRAME
        self.post_message(self.Clicked(self.pane, x, y, event.chain))

    def on_mouse_up(self) -> None:
        """Let the border go."""
        self.border = ""
        self.release_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Post how far the border was dragged, or what is under the pointer if that changed."""
        if self.border:
            by, self.held, self.is_dragged = event.screen_offset - self.held, event.screen_offset, True
            self.post_message(self.Dragged(self.border, by.x if self.border == "tree" else by.y))
            return
        self.explain(self.content.help_at(event.x - 2 * self.framed, event.y - self.framed))

    def on_mouse_scroll_down(self, event: events.MouseEvent) -> None:
        """Post a scroll by three lines, down or up."""
        event.stop()
        by = 3 if isinstance(event, events.MouseScrollDown) else -3
        self.post_message(self.Wheeled(self.pane, event.y - self.framed, by))

    on_mouse_scroll_up = on_mouse_scroll_down

    def scroll_content(self, by: int) -> None:
        """Scroll and draw."""
        self.content.scroll(by)
        self.redraw()


class PaneLayout(Layout):
    """Places each child in its box of the parent's session; a child without a box is not drawn."""

    name = "panes"

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> list[WidgetPlacement]:
        """Place the children in the boxes of the parent's session."""
        boxes = parent.session.visible_boxes(parent.state, size)  # type: ignore[attr-defined]
        return [
            WidgetPlacement(Region(*boxes[child.id]), NULL_OFFSET, Spacing(), child)
            for child in children
            if child.id in boxes
        ]


class StatusLine(Drawn):
    """One line of text in segments: the header, the tabs, the footer."""

    class Pressed(Message):
        """A click on the line. `action` is what the text under it does, '' for nothing."""

        def __init__(self, line: str, action: str) -> None:
            super().__init__()
            self.line, self.action = line, action

    def __init__(self, name: str, palette: Palette) -> None:
        super().__init__(id=name)
        self.palette = palette
        self.segments: list[Segment] = []

    def show(self, segments: list[Segment]) -> None:
        """Take the segments, and draw them with the next frame if they changed."""
        if segments != self.segments:
            self.segments, self._drawn = segments, ()
            self.refresh()

    def draw(self, width: int, height: int) -> list[Strip]:
        """Return the line, and empty ones below it."""
        return [Strip(fit([] if y else self.segments, width, self.palette), width) for y in range(height)]

    def on_click(self, event: events.Click) -> None:
        """Post what was clicked."""
        event.stop()
        self.post_message(self.Pressed(self.id or "", event.style.meta.get(CLICK, "")))
