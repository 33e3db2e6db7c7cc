"""Headed paragraphs, wrapped to the window and scrolled by lines."""

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style

from hardware.base.text import quantity, safe
from hwexplorer.text.links import split_links
from hwexplorer.text.number_format import to_ascii
from hwexplorer.tui.palette import Palette, stacked
from hwexplorer.tui.widgets.framed_pane import Content
from hwexplorer.views import layout, plain

NAME = 13  # cells of the name of a step
KEY = 18  # cells at least for the key of a line
BAR_MIN = 4  # cells; a narrower bar says nothing
ROOMY = 12  # lines; a higher pane has blank lines between sections
NARROW = 36  # cells; a narrower pane has of the sections without a heading only the first
EMPTY = plain.Text(name="", title="", sections=())


class Prose(Content):
    """Sections of text. A line that starts with `key<tab>text` sets the key apart (the help screen does)."""

    def __init__(self) -> None:
        self.text = EMPTY
        self.top = 0
        self._keys = KEY
        self.is_open = False  # True if the user asked for what is folded
        self.is_zoomed = False  # True if the pane has the whole screen
        self._lines: list[tuple[str, str, str]] | None = None

    def toggle(self) -> None:
        """Show what is folded, or fold it."""
        self.is_open = not self.is_open
        self._lines = None

    def update(self, text: plain.Text, is_zoomed: bool = False) -> None:
        """Take a text. It stays where it is scrolled if only numbers changed, else it begins at the top. Nothing is
        folded if the pane has the whole screen."""
        if text is self.text and is_zoomed == self.is_zoomed:
            return
        self.is_zoomed = is_zoomed
        if len(text.sections) != len(self.text.sections) or text.title != self.text.title:
            self.top = 0
        self.text = text
        self._lines = None

    def _wrapped(self) -> list[tuple[str, str, str]]:
        """Return the lines: of all sections if the user asked for them or all have room, else without the folded."""
        if self._lines is None:
            text = self.text
            keys = [line.partition("\t")[0] for _, lines in text.sections for line in lines if "\t" in line]
            self._keys = max(KEY, *map(layout.width_of, keys), 0)
            lines: list[tuple[str, str, str]] = [("step", "", str(n)) for n in range(len(text.steps))]
            self._add_lines(lines, text.sections)
            is_folded = self.is_open == self.is_zoomed and (self.is_open or len(lines) > self.height)
            if is_folded and text.folded is not None:
                del lines[len(text.steps) :]
                first, *others = text.sections[: text.folded]
                is_wide = self.width >= NARROW
                self._add_lines(lines, (first, *(section for section in others if section[0] or is_wide)))
                lines += [("text", "", ""), ("dim", "", "space: more")]
            self._lines = lines
            self.scroll(0)
        return self._lines

    def _add_lines(self, lines: list[tuple[str, str, str]], sections: Sequence[plain.Section]) -> None:
        """Add the lines of sections."""
        for heading, paragraphs in sections:
            if lines and heading and self.height > ROOMY:
                lines.append(("text", "", ""))
            if heading:
                lines += [("title", "", line) for line in layout.wrap(safe(heading), self.width)]
            for paragraph in paragraphs:
                lines += self._paragraph(paragraph)

    def _paragraph(self, line: str) -> list[tuple[str, str, str]]:
        key, tab, rest = line.partition("\t")
        if not tab:
            return [("text", "", part) for part in layout.wrap(safe(line), self.width, 2)]
        key = layout.pad(safe(key), min(self._keys, self.width // 3)) + " "
        parts = layout.wrap(safe(rest), max(4, self.width - layout.width_of(key)))
        return [("text", key if n == 0 else " " * layout.width_of(key), part) for n, part in enumerate(parts)]

    def names_folded(self, y: int) -> bool:
        """Return True if line `y` names what is folded."""
        lines = self._wrapped()
        return 0 <= y < len(lines) - self.top and lines[self.top + y][0] == "dim"

    def scroll(self, by: int) -> None:
        last = len(self._wrapped()) - self.height if self._lines is not None or self.width else 0
        self.top = max(0, min(self.top + by, last))

    def extent(self) -> tuple[int, int, int]:
        return self.top, self.height, len(self._wrapped())

    def line(self, y: int, palette: Palette, focused: bool) -> list[Segment]:
        lines = self._wrapped()
        if self.top + y >= len(lines):
            return []
        role, key, text = lines[self.top + y]
        if role == "step":
            return self._step(self.text.steps[int(text)], palette)
        if palette.ascii:
            key, text = to_ascii(key), to_ascii(text)
        style = palette.get(role)
        body = [Segment(part, style + Style(link=link or None)) for part, link in split_links(text) if part]
        return [Segment(key, palette.get("key")), *body] if key else body

    def _step(self, step: plain.WaterfallStep, palette: Palette) -> list[Segment]:
        """Draw the name of a step, its bar where the one before ended, and its seconds."""
        seconds = " " + quantity(step.seconds, "s").rjust(8)
        name = (
            layout.pad(step.name, min(NAME, self.width // 2, max(1, self.width - layout.width_of(seconds) - 1))) + " "
        )
        room = self.width - layout.width_of(name) - layout.width_of(seconds)
        bar: list[Segment] = []
        if room >= BAR_MIN:
            at = min(round(step.start * room), room - 1)
            bar = [Segment(" " * at, palette.get("text"))]
            bar += stacked([part * room / (room - at) for part in step.bar.parts], room - at, palette)
        if palette.ascii:
            seconds = to_ascii(seconds)
        return [Segment(name, palette.get("dim")), *bar, Segment(seconds, palette.get("strong"))]

    def forget(self) -> None:
        self._lines = None
