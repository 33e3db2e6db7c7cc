"""Colours by role, for each theme. No role conveys its meaning by colour alone."""

import msgspec
from rich.style import Style

from hwexplorer.views.cause_looks import LOOKS

THEMES = ("dark", "light", "ansi", "contrast", "dusk", "paper")
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
contrast #000000 #ffffff #c0c0c0      #5fd7ff #808080      #00afff #5fff5f #ff8787 #ffff5f #ff87ff #0000af #303030
dusk     #2e3440 #e5e9f0 #9aa6b8      #88c0d0 #4c566a      #81a1c1 #a3be8c #e08e96 #ebcb8b #b48ead #4a5a78 #3b4252
paper    #fdf6e3 #3a4a50 #6a787c      #1a6fa8 #cfc8b4      #6c9fc4 #5a7000 #b83030 #8f6400 #7d5fa8 #e3dcc0 #f2ebd6
"""
_LIGHT = ("light", "paper")


def _read_themes(table: str) -> dict[str, Colours]:
    (_, *roles), *rows = (line.split() for line in table.strip().splitlines())
    return {name: Colours(**dict(zip(roles, colours, strict=True)), dark=name not in _LIGHT) for name, *colours in rows}


COLOURS = _read_themes(_TABLE)
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
