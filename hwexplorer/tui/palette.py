"""Colours by role, for each theme. A role never says by colour alone what it says."""

from __future__ import annotations

import msgspec
from rich.style import Style

from hwexplorer.views.cause_looks import LOOKS

THEMES = ("dark", "light", "ansi", "contrast", "dusk", "paper")
PLAIN, CURSOR, BLURRED = 0, 1, 2  # the ground a cell stands on: none, the cursor row, that of another pane


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
    "text": ("text", ""),
    "strong": ("text", "bold"),
    "dim": ("dim", ""),
    "header": ("dim", "bold"),
    "guide": ("guide", ""),
    "bar": ("bar", ""),
    "accent": ("accent", ""),
    "title": ("accent", "bold"),
    "good": ("good", ""),
    "bad": ("bad", ""),
    "warn": ("warn", ""),
    "find": ("warn", "bold underline"),
    "key": ("accent", "bold"),
    "series0": ("accent", ""),
    "series1": ("warn", ""),
    "series2": ("good", ""),
    "series3": ("other", ""),
    "series4": ("text", ""),
    "series5": ("dim", ""),
}
CLICK = "click"  # in the meta data of a style: the action of a click on the text
CAUSE = "cause"  # begins the role of a cause: its place follows
SERIES = ("series0", "series1", "series2", "series3", "series4", "series5")


class Palette:
    """Rich styles of one theme, by role and by the ground they stand on; computed once."""

    def __init__(self, theme: str, ascii: bool = False, dimmed: bool = False) -> None:
        self.theme = theme
        self.ascii = ascii
        colours = COLOURS[theme]
        self._styles: dict[tuple[str, int], Style] = {}
        for role, (name, attributes) in _ROLES.items():
            colour = "dim" if dimmed and role not in ("guide",) else name
            for ground in (PLAIN, CURSOR, BLURRED):
                self._styles[role, ground] = _style(colours, getattr(colours, colour), attributes, ground)
        # Where colours are few or none, and in ASCII, the causes are told apart by what bars are made of.
        self.textured = colours.ground == "default" or ascii
        for place, look in enumerate(LOOKS):
            own = look.ansi if colours.ground == "default" else look.dark if colours.dark else look.light
            for ground in (PLAIN, CURSOR, BLURRED):
                colour = colours.dim if dimmed else own
                self._styles[f"{CAUSE}{place}", ground] = _style(colours, colour, "", ground)

    def get(self, role: str, ground: int = PLAIN) -> Style:
        """Return the style of a role on a ground."""
        return self._styles[role, ground]


def _style(colours: Colours, colour: str, attributes: str, ground: int) -> Style:
    bold, underline = "bold" in attributes, "underline" in attributes
    if colours.ground == "default":
        # The terminal's own colours: the cursor is reversed, so it needs no ground of its own.
        if ground == CURSOR:
            return Style(color="default", bgcolor="default", reverse=True, bold=bold, underline=underline)
        if ground == BLURRED:
            return Style(color=colour, bgcolor="default", bold=True, underline=underline)
        return Style(color=colour, bgcolor="default", bold=bold, underline=underline)
    back = (colours.ground, colours.cursor, colours.blurred)[ground]
    fore = colours.dim if colour == colours.guide and ground != PLAIN else colour
    return Style(color=fore, bgcolor=back, bold=bold, underline=underline)
