"""The cells that a terminal shows, so that only those that change are written to it.

Textual writes each line in which something changed, whole, with every colour of every piece: 19 KB for another batch. A
line over the network feels that.
"""

import re
from functools import lru_cache

from rich.cells import cell_len

# A place (line, column), a style, a link, or text between them. Anything else is not a drawing.
_PART = re.compile(r"\x1b\[(\d+);(\d+)H|\x1b\[([\d;]+)m|\x1b\]8;([^\x1b\x07]*)(?:\x1b\\|\x07)|\n|([^\x1b\n]+)|(\x1b)")
_OTHER_SCREEN = "\x1b[?1049"  # what it shows is not known
_GAP = 3  # unchanged cells that are written again, as they are shorter than a jump
_DRAWS_SPACE = {"4", "7", "9", "21", "53"}  # underlined, reversed, struck out: a space shows them

Style = tuple[frozenset[str] | None, str | None, str, str]  # attributes, colour, ground, link; None: of no account
Cell = tuple[str, Style]

_PLAIN: Style = (frozenset(), "39", "49", "")


class TerminalCells:
    """The cells of each line, as far as they are known."""

    def __init__(self, columns: int) -> None:
        self.columns = columns  # what is beyond them is not written: it would cover the last one
        self._lines: dict[int, dict[int, Cell]] = {}

    def forget(self) -> None:
        """Forget all: the terminal has another size, or shows another screen."""
        self._lines.clear()

    def changes(self, text: str) -> str:
        """Return what must be written so that the terminal shows what it would show after `text`."""
        if "H" not in text or _OTHER_SCREEN in text:
            if _OTHER_SCREEN in text:
                self.forget()
            return text
        parts = _PART.findall(text)
        if any(part[5] or (part[4] and cell_len(part[4]) != len(part[4])) for part in parts):
            self.forget()  # wide characters, or more than a drawing
            return text
        written = list[str]()
        line, x, style, link = 0, 0, "", ""
        at, drawn, pen = (-1, -1), _PLAIN, _PLAIN
        for row, column, sgr, opened, piece, _ in parts:
            if row:
                line, x = int(row), int(column)
            elif piece:
                cells = self._lines.setdefault(line, {})
                inked, blank = _styles(style, link)
                for character in piece:
                    cell = character, blank if character == " " else inked
                    if cells.get(x) != cell and x <= self.columns:
                        cells[x] = cell
                        if at != (line, x):
                            written.append(self._jump(at, (line, x), pen))
                        if drawn is not cell[1]:
                            drawn = cell[1]
                            code, pen = _change(pen, drawn)
                            written.append(code)
                        written.append(character)
                        at = line, x + 1
                    x += 1
            elif sgr:
                style = "" if sgr == "0" else sgr
            elif opened:
                link = "" if opened == ";" else opened
        end = f"\x1b[{line};{x}H" if at != (line, x) else ""
        return "".join((*written, _change(pen, _PLAIN)[0], end))

    def _jump(self, at: tuple[int, int], to: tuple[int, int], pen: Style) -> str:
        """Return what moves the cursor: the cells between if they are few and need no other style, else a jump."""
        if at[0] == to[0] and 0 < to[1] - at[1] <= _GAP:
            between = [self._lines[to[0]].get(x) for x in range(at[1], to[1])]
            if all(cell is not None and not _change(pen, cell[1])[0] for cell in between):
                return "".join(cell[0] for cell in between if cell is not None)
        return f"\x1b[{to[0]};{to[1]}H"


@lru_cache(maxsize=256)
def _styles(sgr: str, link: str) -> tuple[Style, Style]:
    """Return a style from the numbers of an escape sequence, and what shows of it in a space."""
    attributes, colour, ground = set[str](), "39", "49"
    numbers = sgr.split(";")
    while numbers:
        number = numbers.pop(0)
        if number in ("38", "48"):
            size = 2 if numbers[0] == "5" else 4
            value = ";".join([number, *numbers[:size]])
            del numbers[:size]
        else:
            value = number
        if len(value) > 1 and value[0] in "39":
            colour = value
        elif len(value) > 1 and value.startswith(("4", "10")):
            ground = value
        elif value not in ("", "0"):
            attributes.add(value)
    style = frozenset(attributes), colour, ground, link
    return style, style if link or _DRAWS_SPACE & attributes else (None, None, ground, "")


@lru_cache(maxsize=512)
def _change(pen: Style, style: Style) -> tuple[str, Style]:
    """Return the escape sequence from one style to another, and the style that the terminal then has."""
    attributes, colour, ground, link = style
    if attributes is None:
        attributes = frozenset() if pen[0] is None or pen[0] & _DRAWS_SPACE else pen[0]
    numbers = list[str]()
    before = pen
    if attributes != pen[0]:
        numbers = ["0", *sorted(attributes)] if pen[0] else sorted(attributes)
        before = (attributes, "39", "49", pen[3]) if pen[0] else pen
    colour = before[1] if colour is None else colour
    numbers += [new for new, old in ((colour, before[1]), (ground, before[2])) if new and new != old]
    code = f"\x1b[{';'.join(numbers)}m" if numbers else ""
    code += f"\x1b]8;{link or ';'}\x1b\\" if link != pen[3] else ""
    return code, (attributes, colour, ground, link)
