"""One line of text being typed: a frozen value, and what a key makes of it."""

from __future__ import annotations

import msgspec

LENGTH_MAX = 500


class Line(msgspec.Struct, frozen=True):
    """`stem` is what completion began with. What is `selected` was there before, and gives way to what is typed."""

    text: str = ""
    place: int = 0
    stem: str | None = None
    selected: bool = False


def typed(line: Line, text: str) -> Line:
    """Text put in at the cursor, from a key or pasted; what cannot be printed is left out."""
    if line.selected:
        line = Line()
    text = "".join(c for c in text if c.isprintable())[: max(0, LENGTH_MAX - len(line.text))]
    return Line(line.text[: line.place] + text + line.text[line.place :], line.place + len(text))


def edit(line: Line, key: str, character: str | None) -> Line:
    """The line after a key; unknown keys do nothing."""
    text, place = line.text, line.place
    if line.selected and key in ("backspace", "delete"):
        text, place = "", 0
    elif key == "backspace" and place:
        text, place = text[: place - 1] + text[place:], place - 1
    elif key == "delete":
        text = text[:place] + text[place + 1 :]
    elif key in ("left", "ctrl+b"):
        place = max(0, place - 1)
    elif key in ("right", "ctrl+f"):
        place = min(len(text), place + 1)
    elif key in ("home", "ctrl+a"):
        place = 0
    elif key in ("end", "ctrl+e"):
        place = len(text)
    elif key == "ctrl+u":
        text, place = text[place:], 0
    elif key == "ctrl+w":
        start = len(text[:place].rstrip().rpartition(" ")[0])
        text, place = text[:start] + text[place:], start
    elif character and character.isprintable():
        return typed(line, character)
    return Line(text, place)
