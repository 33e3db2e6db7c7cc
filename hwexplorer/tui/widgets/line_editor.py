"""One line of text being typed: a frozen value, and what a key makes of it.

Textual's Input is not used: it edits when its own queue is read, so the second of two keys in one read would find the
line as it was, and mounting it takes 9 ms of the first `:`.
"""

import msgspec

LENGTH_MAX = 500


class EditedLine(msgspec.Struct, frozen=True):
    """A line being typed. `place` is the cursor, `stem` what completion began with. Typing replaces `selected` text."""

    text: str = ""
    place: int = 0
    stem: str | None = None
    selected: bool = False


def insert_text(line: EditedLine, text: str) -> EditedLine:
    """Return the line with text inserted at the cursor, without characters that cannot be printed."""
    if line.selected:
        line = EditedLine()
    text = "".join(c for c in text if c.isprintable())[: max(0, LENGTH_MAX - len(line.text))]
    return EditedLine(line.text[: line.place] + text + line.text[line.place :], line.place + len(text))


def press_key(line: EditedLine, key: str, character: str | None) -> EditedLine:
    """Return the line after a key; unknown keys do nothing."""
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
        return insert_text(line, character)
    return EditedLine(text, place)
