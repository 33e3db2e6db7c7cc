"""Colours by role, for each theme, and single cells drawn in them. No role conveys its meaning by colour alone."""

from collections.abc import Sequence
from functools import lru_cache

import msgspec
from rich.segment import Segment
from rich.style import Style

from analysis.document import Cell
from hardware.base.text import safe
from hwexplorer.text.number_format import to_ascii
from hwexplorer.views.plain import LOOKS, NUMBERS, Amount, Row, Table, cells

THEMES = ("dark", "light", "ansi")
PLAIN, CURSOR, BLURRED = 0, 1, 2  # a cell's background: normal, the cursor row, a cursor row without focus


class Colours(msgspec.Struct, frozen=True):
    """One theme as colour names."""

    ground: str
    text: str
    dim: str
    accent: str
    guide: str
    bar: str
    good: str
    bad: str
    warn: str
    other: str
    cursor: str
    blurred: str
    dark: bool = True


_TABLE = """
theme    ground  text    dim          accent  guide        bar     good    bad     warn    other   cursor  blurred
dark     #11151a #d6dce3 #7d8896      #6cb6ff #3d4753      #4f8fd0 #7fd08a #f58f85 #f0c24f #c4a1ff #254467 #1e2833
light    #fcfcfa #1f2328 #656d76      #0a5fc0 #c3cad2      #5a97d8 #1a7f37 #b8281d #8a5d00 #7a4fc0 #c9e0fa #e9eef3
ansi     default default bright_black cyan    bright_black blue    green   red     yellow  magenta default default
"""


(_, *_HEADS), *_THEMES = (line.split() for line in _TABLE.strip().splitlines())
COLOURS = {name: Colours(**dict(zip(_HEADS, row, strict=True)), dark=name != "light") for name, *row in _THEMES}
_ROLES: dict[str, tuple[str, str]] = {
    **{name: (name, "") for name in ("text", "dim", "guide", "bar", "accent", "good", "bad", "warn")},
    "strong": ("text", "bold"),
    "header": ("dim", "bold"),
    "title": ("accent", "bold"),
    "find": ("warn", "bold underline"),
    "key": ("accent", "bold"),
    **{f"series{n}": (name, "") for n, name in enumerate(("accent", "warn", "good", "other", "text", "dim"))},
}
CLICK = "click"  # the key in a style's meta data for the action that a click on the text does
CAUSE = "cause"  # prefix of the role of a cause; the cause's index in LOOKS follows
SERIES = tuple(role for role in _ROLES if role.startswith("series"))


class Palette:
    """Rich styles of one theme by role and background, computed once."""

    def __init__(self, theme: str, ascii: bool = False, dimmed: bool = False) -> None:
        self.theme = theme
        self.ascii = ascii
        colours = COLOURS[theme]
        self._styles: dict[tuple[str, int], Style] = {}
        for role, (name, attributes) in _ROLES.items():
            colour = "dim" if dimmed and role != "guide" else name
            self._add(role, colours, getattr(colours, colour), attributes)
        # With few or no colours, and in ASCII, bars show each cause by its own texture or letter.
        self.textured = colours.ground == "default" or ascii
        for place, look in enumerate(LOOKS):
            own = look.ansi if colours.ground == "default" else look.dark if colours.dark else look.light
            self._add(f"{CAUSE}{place}", colours, colours.dim if dimmed else own)

    def _add(self, role: str, colours: Colours, colour: str, attributes: str = "") -> None:
        for ground in (PLAIN, CURSOR, BLURRED):
            self._styles[role, ground] = _style(colours, colour, attributes, ground)

    def get(self, role: str, ground: int = PLAIN) -> Style:
        """Return the style of a role on a background."""
        return self._styles[role, ground]


def _style(colours: Colours, colour: str, attributes: str, ground: int) -> Style:
    bold, underline, is_reversed = "bold" in attributes, "underline" in attributes, None
    back = (colours.ground, colours.cursor, colours.blurred)[ground]
    if colours.ground != "default":
        colour = colours.dim if colour == colours.guide and ground != PLAIN else colour
    elif ground == CURSOR:  # the terminal's own colours, reversed, mark the cursor row
        colour, is_reversed = "default", True
    elif ground == BLURRED:
        bold = True
    return Style(color=colour, bgcolor=back, reverse=is_reversed, bold=bold, underline=underline)


EIGHTHS = " ▏▎▍▌▋▊▉█"
TRACE = 0.5  # cells; a shorter bar fills no cell of any cause


def plain(text: Cell, palette: Palette) -> str:
    """Return a cell as text without control characters, in ASCII if the palette is."""
    cleaned = safe(text)
    return to_ascii(cleaned) if palette.ascii else cleaned


def bar(fraction: float, width: int, ascii: bool = False) -> str:
    """Return a bar of eighth blocks in `width` cells; anything above zero leaves a trace."""
    if not fraction > 0:
        return " " * width
    if ascii:
        return ("#" * max(1, round(fraction * width))).ljust(width)
    eighths = min(max(1, round(fraction * width * 8)), width * 8)
    full, part = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[part] if part else "")).ljust(width)


def stacked(parts: Sequence[float], width: int, palette: Palette, ground: int = PLAIN) -> list[Segment]:
    """Return a bar of `width` cells by cause; `parts` are fractions of the width. In colour, borders are drawn to an
    eighth of a cell; otherwise each cause has its own texture or letter."""
    if palette.textured and sum(parts) * width < TRACE:
        drawn = [Segment(("." if palette.ascii else EIGHTHS[1]) * (sum(parts) > 0), palette.get("dim", ground))]
    elif palette.textured:
        drawn = [
            Segment((look.letter if palette.ascii else look.texture) * count, palette.get(f"{CAUSE}{place}", ground))
            for place, (look, count) in enumerate(zip(LOOKS, cells(parts, width), strict=True))
            if count
        ]
    else:
        drawn = _coloured(parts, width, palette, ground)
    used = sum([len(segment.text) for segment in drawn])
    return [*drawn, Segment(" " * (width - used), palette.get("text", ground))] if used < width else drawn


def _coloured(parts: Sequence[float], width: int, palette: Palette, ground: int) -> list[Segment]:
    """Return cells in the colour of their cause. A cell of several causes shows the two largest: a partial block of one
    on the colour of the other."""
    eighths = cells(parts, width * 8)
    if not sum(eighths):
        return []
    owner = [place for place, count in enumerate(eighths) for _ in range(count)]
    drawn = []
    for start in range(0, len(owner), 8):
        inside = owner[start : start + 8]
        most = sorted(sorted(set(inside), key=inside.count)[-2:])
        filled = inside.count(most[0])
        if len(most) > 1:
            filled = round(len(inside) * filled / (filled + inside.count(most[1])))
        drawn.append(Segment(EIGHTHS[filled], _of_causes(palette, most[0], most[-1], ground)))
    return drawn


@lru_cache(maxsize=256)
def _of_causes(palette: Palette, cause: int, behind: int, ground: int) -> Style:
    style = palette.get(f"{CAUSE}{cause}", ground)
    return style if behind == cause else style + Style(bgcolor=palette.get(f"{CAUSE}{behind}", ground).color)


def device_cell_role(
    table: Table, row: Row, key: str, number: float | None, has_colours: bool = True
) -> tuple[str, str]:
    """Return role and sign of one device's figure. The winner has a sign; the others have a colour, or without colours
    a sign, by their ratio to the least figure of a device in silicon."""
    cells = dict(zip([column.key for column in table.columns], row.cells, strict=True))
    wins = key == f"on:{cells.get('wins')}"
    values = [v for name, v in cells.items() if name[:3] == "on:" and isinstance(v, NUMBERS)]
    least = 0.0 if Amount in map(type, values) else float(min(values, default=0.0))
    ratio = number / least if number is not None and least > 0 else 1.0
    role = "good" if wins else "text" if ratio < 2 else "warn" if ratio < 10 else "bad"
    return role, {"good": "◂", "warn": "+", "bad": "!"}.get(role, " ") if wins or not has_colours else " "


def highlighted(text: str, find: str, palette: Palette, role: str, ground: int) -> list[Segment]:
    """Return a text with the first match of `find` marked."""
    plain = palette.get(role, ground)
    start = text.casefold().find(find.casefold()) if find else -1
    if start < 0:
        return [Segment(text, plain)]
    end, marked = start + len(find), palette.get("find", ground)
    return [Segment(text[:start], plain), Segment(text[start:end], marked), Segment(text[end:], plain)]
