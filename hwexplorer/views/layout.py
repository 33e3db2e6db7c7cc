"""Layout of text in cells, for terminals, the screen and HTML: width, cut, pad, wrap, and the columns of tables.

Wide characters take two cells, combining ones none.
"""

import re
import unicodedata
from collections.abc import Collection, Sequence
from functools import lru_cache

import msgspec

from analysis.document import Cell, Column
from hardware.base.text import quantity, safe
from hwexplorer.text import number_format
from hwexplorer.views import plain

LEFT = ("text", "bar")  # roles whose cells are left-aligned
SMALL_PART = 1e-3  # fraction of the largest figure of a tree


def width_of(text: str) -> int:
    """Return the width of a text in cells."""
    if text.isascii():
        return len(text)
    return sum(map(_cells_of, text))


@lru_cache(4096)
def _cells_of(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def _cut_end(text: str, width: int) -> str:
    """Return as much of the beginning of a text as fits."""
    text = text[:width]
    while width_of(text) > width:
        text = text[:-1]
    return text


def pad(text: str, width: int, right: bool = False) -> str:
    """Return a text in exactly `width` cells; longer text is cut with an ellipsis."""
    missing = width - width_of(text)
    if missing < 0:
        return pad(shorten(text, width), width, right)  # the cut may have dropped a space
    return " " * missing + text if right else text + " " * missing


@lru_cache(1024)
def shorten(text: str, width: int, middle: bool = False) -> str:
    """Return a text in at most `width` cells, with an ellipsis at the end or, for dotted names, in the middle."""
    if width_of(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    if not middle or width < 8:
        return _cut_end(text, width - 1).rstrip() + "…"
    # The end of a module path tells more than its beginning.
    tail = width * 3 // 5
    back = text[-tail:]
    if re.search(r"[._/]", text):  # a name of several words ends with whole ones, else its beginning tells more
        back = re.split(r"[._/]", back, maxsplit=1)[-1]
        if back == text[-tail:]:
            return shorten(text, width)
    while width_of(back) > tail:
        back = back[1:]
    return _cut_end(text, width - 1 - width_of(back)).rstrip() + "…" + back


def whole(text: str, width: int, between: str = " · ") -> str:
    """Return as many leading parts of a text as `width` cells hold, each of them whole; '' if none fits."""
    while text and width_of(text) > width:
        text = text.rpartition(between)[0]
    return text


def ascii_cells(text: str) -> str:
    """Return a text in ASCII that is as many cells wide, for text that has its place on the screen already."""
    if text.isascii():
        return text
    return "".join(c if c.isascii() else number_format.ASCII.get(ord(c), "?")[0] * max(0, width_of(c)) for c in text)


def wrap_evenly(text: str, width: int, indent: int = 0) -> list[str]:
    """Return lines of at most `width` cells, of about equal length if the last would be shorter than a fifth of it."""
    lines = wrap(text, width, indent)
    if len(lines) < 2 or width_of(lines[-1]) * 5 >= width:
        return lines
    candidates = (wrap(text, cells, indent) for cells in range(width_of(text) // len(lines), width + 1))
    return next((even for even in candidates if len(even) == len(lines)), lines)


def wrap(text: str, width: int, indent: int = 0) -> list[str]:
    """Return lines of at most `width` cells; all but the first are indented by `indent`."""
    if width < 4:
        return [shorten(text, max(width, 0))]
    if width_of(text) <= width:
        return [text]
    indent = min(indent, width // 2)
    lines: list[str] = []
    current, used, cells = "", 0, len if text.isascii() else width_of
    words = re.split(r"(?<=\S) (?!%)", text)  # 38 % stays on one line
    for word, needed in zip(words, map(cells, words), strict=True):
        room = width - (indent if lines else 0)
        if used + bool(current) + needed <= room:
            current, used = f"{current} {word}" if current else word, used + bool(current) + needed
            continue
        if current:
            lines.append(current)
            word = word.lstrip(" ")
        while width_of(word) > width - indent:
            lines.append(_cut_end(word, width - indent))
            word = word[len(lines[-1]) :]
        current, used = word, width_of(word)
    lines.append(current)
    return lines[:1] + [" " * indent + line for line in lines[1:]]


class Measure(msgspec.Struct, frozen=True):
    """A column as it is written: its scale and head, and the least and the most cells that it can use. `short` is a
    head for the least width; `narrow` are lesser widths for want of room."""

    column: Column
    scale: number_format.Scale = number_format.Scale()
    header: str = ""
    least: int = 0
    most: int = 0
    short: str = ""
    narrow: tuple[int, ...] = ()

    def at_width(self, width: int) -> "Measure":
        """Return the measure of the column in a width: with its short head if the head does not fit."""
        is_short = bool(self.short) and width < width_of(self.header)
        column = msgspec.structs.replace(self.column, title=self.short)
        return msgspec.structs.replace(self, header=self.short, column=column) if is_short else self

    def write(self, value: Cell) -> str:
        """Return a cell as text. A bar has none."""
        role = self.column.role
        if role == "text" or isinstance(value, str):
            return "" if value is None else safe(value)
        if isinstance(value, plain.Worded):
            return value.word
        number = value if isinstance(value, plain.NUMBERS) else None
        if role == "delta":
            return number_format.delta(number)
        if role == "quantity":
            return quantity(number, number.unit if isinstance(number, plain.Amount) else self.column.unit)
        return self.scale.cell(number)


def is_amount(column: Column) -> bool:
    """Return True for a bar beside which an amount stands, not the percentage that the bar is of the whole."""
    return column.role == "bar" and column.unit not in ("", "%")


def measure(columns: Sequence[Column], place: int, rows: Sequence[plain.Row]) -> Measure:
    """Return the scale and the head of a column of these rows. In a tree, and beside bars, small parts ask for no more
    digits."""
    column = columns[place]
    if column.role != "number" and not is_amount(column):
        return Measure(column, header=column.title)
    values = plain.scale_values(columns, place, rows)
    is_tree = column.unit in ("s", "J", "Js") and (is_amount(column) or any(row.depth for row in rows))
    if is_tree:
        least = SMALL_PART * max(max(values, default=0.0), -min(values, default=0.0))
        values = [value for value in values if value >= least or value <= -least]
    scale = number_format.scale_for(values, column.unit)
    if is_tree:
        scale = msgspec.structs.replace(scale, is_wide=True)
    return Measure(column, scale, number_format.header(column.title, scale.label))


def fit(measures: Sequence[Measure], total: int, gap: int, empty: Collection[int] = ()) -> list[int]:
    """Return the width of each column with so many cells between them, 0 if it is dropped or empty. Short of room,
    columns with the highest `keep` are dropped first, those with 0 never."""
    places = [place for place in range(len(measures)) if place not in empty]
    if not places:
        return [0] * len(measures)
    # Bars of several devices are dropped together, and so are their figures, which have one scale.
    columns = [measure.column for measure in measures]
    groups = [
        (column.keep, "bar" if column.role == "bar" else column.scale or place) for place, column in enumerate(columns)
    ]
    spare = total - sum([measures[i].least for i in places]) - gap * (len(places) - 1)
    for worst in sorted([i for i in places if columns[i].keep > 0], key=lambda i: (columns[i].keep, i), reverse=True):
        if spare >= 0 or len(places) == 1:
            break
        if worst not in places:
            continue
        slack = sum([max(0, measures[i].least - measures[i].narrow[0]) for i in places if measures[i].narrow])
        if columns[worst].keep == 1 and spare + slack >= 0:
            break  # a shorter bar says more than a missing figure
        spare += sum([measures[i].least + gap for i in places if groups[i] == groups[worst]])
        places = [i for i in places if groups[i] != groups[worst]]
    widths = [measures[i].least if i in places else 0 for i in range(len(measures))]
    if spare < 0:  # the columns left have no room: bars become numbers, then the name is cut
        steps = sorted(((i, width) for i in places for width in measures[i].narrow), key=lambda pair: -pair[1])
        for index, narrow in steps:
            cut_cells = max(0, min(-spare, widths[index] - narrow))
            widths[index] -= cut_cells
            spare += cut_cells
        widths[places[0]] = max(4, widths[places[0]] + min(0, spare))
        spare = max(0, spare)
    # Spare cells go to long heads first, then to the name, then to long texts, then in equal parts to bars: one scale.
    heads = [i for i in places if measures[i].short]
    texts, bars = ([i for i in places[1:] if measures[i].column.role == role] for role in ("text", "bar"))
    for index in (*heads, places[0], *texts):
        missing = measures[index].most - widths[index]
        spare_cells = max(0, min(spare, missing)) if missing <= spare or index not in heads else 0  # no part of a head
        widths[index] += spare_cells
        spare -= spare_cells
    for index in bars:
        widths[index] += max(0, min(spare // len(bars), measures[index].most - widths[index]))
    return widths


def fit_places(columns: Sequence[Column], widths: Sequence[int], total: int, is_stacked: bool = False) -> list[int]:
    """Return the places of the columns of these widths that fit with two spaces between them; all if `total` is 0. A
    stacked table keeps all columns if they fit with one space."""
    if not total or (is_stacked and sum(widths) + len(widths) - 1 <= total):
        return list(range(len(columns)))
    measures = [Measure(column, least=width, most=width) for column, width in zip(columns, widths, strict=True)]
    return [place for place, width in enumerate(fit(measures, total, 2)) if width]
