"""Text in terminal cells: cut, pad and wrap with wide characters counted as two."""

from __future__ import annotations

import re
from functools import lru_cache

from rich.cells import cell_len, chop_cells, set_cell_size

from hwexplorer.text.number_format import ASCII


def width_of(text: str) -> int:
    """Return the width of a text in cells."""
    return len(text) if text.isascii() and text.isprintable() else cell_len(text)


def pad(text: str, width: int, right: bool = False) -> str:
    """Return a text in exactly `width` cells; longer text is cut with an ellipsis."""
    missing = width - width_of(text)
    if missing == 0:
        return text
    if missing < 0:
        return pad(shorten(text, width), width, right)  # the cut may have dropped a space
    return " " * missing + text if right else text + " " * missing


@lru_cache(4096)
def shorten(text: str, width: int, middle: bool = False) -> str:
    """Return a text in at most `width` cells, with an ellipsis at the end or, for dotted names, in the middle."""
    if width_of(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    if not middle or width < 8:
        return set_cell_size(text, width - 1).rstrip() + "…"
    # The end of a module path tells more than its beginning.
    tail = width * 3 // 5
    back = text[-tail:]
    while width_of(back) > tail:
        back = back[1:]
    return set_cell_size(text, width - 1 - width_of(back)).rstrip() + "…" + back


def whole(text: str, width: int, between: str = " · ") -> str:
    """Return as many leading parts of a text as `width` cells hold, each of them whole; '' if none fits."""
    while text and width_of(text) > width:
        text = text.rpartition(between)[0]
    return text


def ascii_cells(text: str) -> str:
    """Return a text in ASCII that is as many cells wide, for text that has its place on the screen already."""
    if text.isascii():
        return text
    return "".join(c if c.isascii() else ASCII.get(ord(c), "?")[0] * max(0, cell_len(c)) for c in text)


def wrap(text: str, width: int, indent: int = 0) -> list[str]:
    """Return lines of at most `width` cells; all but the first are indented by `indent`."""
    if width < 4:
        return [shorten(text, max(width, 0))]
    if width_of(text) <= width:
        return [text]
    indent = min(indent, width // 2)
    lines: list[str] = []
    current = ""
    for word in re.split(" (?!%)", text):  # 38 % stays on one line
        room = width - (indent if lines else 0)
        candidate = f"{current} {word}" if current else word
        if width_of(candidate) <= room:
            current = candidate
            continue
        if current:
            lines.append(current)
        *full, current = chop_cells(word, width - indent) or [""]
        lines += full
    lines.append(current)
    return lines[:1] + [" " * indent + line for line in lines[1:]]
