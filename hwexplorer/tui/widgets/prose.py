"""Headed paragraphs, wrapped to the window and scrolled by lines."""

from __future__ import annotations

from rich.segment import Segment

from hwexplorer.format import safe, to_ascii
from hwexplorer.tui.cell_text import pad, width_of, wrap
from hwexplorer.tui.palette import Palette
from hwexplorer.views.plain import Text

EMPTY = Text(name="", title="", sections=())


class Prose:
    """Sections of text. A line that starts with `key<tab>text` sets the key apart (the help screen does)."""

    def __init__(self) -> None:
        self.text = EMPTY
        self.top = 0
        self.width = self.height = 0
        self._lines: list[tuple[str, str, str]] | None = None

    def update(self, text: Text) -> None:
        """The same place in a new text when only numbers changed, its beginning otherwise."""
        if text is self.text:
            return
        if len(text.sections) != len(self.text.sections) or text.title != self.text.title:
            self.top = 0
        self.text = text
        self._lines = None

    def resize(self, width: int, height: int) -> None:
        if (width, height) != (self.width, self.height):
            self.width, self.height = width, height
            self._lines = None

    def _wrapped(self) -> list[tuple[str, str, str]]:
        """(role, key, text) for each line."""
        if self._lines is not None:
            return self._lines
        wrapped: list[tuple[str, str, str]] = []
        for heading, lines in self.text.sections:
            if wrapped and self.height > 9:
                wrapped.append(("text", "", ""))
            if heading:
                wrapped += [("title", "", line) for line in wrap(safe(heading), self.width)]
            for line in lines:
                wrapped += self._paragraph(line)
        self._lines = wrapped
        self.scroll(0)
        return wrapped

    def _paragraph(self, line: str) -> list[tuple[str, str, str]]:
        key, tab, rest = line.partition("\t")
        if not tab:
            return [("text", "", part) for part in wrap(safe(line), self.width, 2)]
        key = pad(safe(key), min(18, self.width // 3)) + " "
        parts = wrap(safe(rest), max(4, self.width - width_of(key)))
        return [("text", key if n == 0 else " " * width_of(key), part) for n, part in enumerate(parts)]

    def move(self, by: int) -> str:
        self.scroll(by)
        return ""

    def scroll(self, by: int) -> None:
        last = len(self._wrapped()) - self.height if self._lines is not None or self.width else 0
        self.top = max(0, min(self.top + by, last))

    def page(self) -> int:
        return max(1, self.height - 1)

    def extent(self) -> tuple[int, int, int]:
        return self.top, self.height, len(self._wrapped())

    def line(self, y: int, palette: Palette, focused: bool) -> list[Segment]:
        lines = self._wrapped()
        if self.top + y >= len(lines):
            return []
        role, key, text = lines[self.top + y]
        if palette.ascii:
            key, text = to_ascii(key), to_ascii(text)
        body = Segment(text, palette.get(role))
        return [Segment(key, palette.get("key")), body] if key else [body]

    def forget(self) -> None:
        """Nothing is kept that holds a colour."""
