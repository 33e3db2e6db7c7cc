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


COLOURS = {
    "dark": Colours(
        ground="#11151a",
        text="#d6dce3",
        dim="#7d8896",
        accent="#6cb6ff",
        guide="#3d4753",
        bar="#4f8fd0",
        good="#7fd08a",
        bad="#f58f85",
        warn="#f0c24f",
        other="#c4a1ff",
        cursor="#254467",
        blurred="#1e2833",
    ),
    "light": Colours(
        ground="#fcfcfa",
        text="#1f2328",
        dim="#656d76",
        accent="#0a5fc0",
        guide="#c3cad2",
        bar="#5a97d8",
        good="#1a7f37",
        bad="#b8281d",
        warn="#8a5d00",
        other="#7a4fc0",
        cursor="#c9e0fa",
        blurred="#e9eef3",
        dark=False,
    ),
    "ansi": Colours(
        ground="default",
        text="default",
        dim="bright_black",
        accent="cyan",
        guide="bright_black",
        bar="blue",
        good="green",
        bad="red",
        warn="yellow",
        other="magenta",
        cursor="default",
        blurred="default",
    ),
    "contrast": Colours(
        ground="#000000",
        text="#ffffff",
        dim="#c0c0c0",
        accent="#5fd7ff",
        guide="#808080",
        bar="#00afff",
        good="#5fff5f",
        bad="#ff8787",
        warn="#ffff5f",
        other="#ff87ff",
        cursor="#0000af",
        blurred="#303030",
    ),
    "dusk": Colours(
        ground="#2e3440",
        text="#e5e9f0",
        dim="#9aa6b8",
        accent="#88c0d0",
        guide="#4c566a",
        bar="#81a1c1",
        good="#a3be8c",
        bad="#e08e96",
        warn="#ebcb8b",
        other="#b48ead",
        cursor="#4a5a78",
        blurred="#3b4252",
    ),
    "paper": Colours(
        ground="#fdf6e3",
        text="#3a4a50",
        dim="#6a787c",
        accent="#1a6fa8",
        guide="#cfc8b4",
        bar="#6c9fc4",
        good="#5a7000",
        bad="#b83030",
        warn="#8f6400",
        other="#7d5fa8",
        cursor="#e3dcc0",
        blurred="#f2ebd6",
        dark=False,
    ),
}
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
