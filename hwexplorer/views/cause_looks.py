"""The look of each cause of time and energy: one name, colour, texture and letter, the same in every view."""

from collections.abc import Sequence

import msgspec

from analysis.estimate.causes import CAUSES


class Look(msgspec.Struct, frozen=True):
    """The look of a cause. `short` is the name for narrow places; `dark`, `light` and `ansi` are colours for dark and
    light themes and 16-colour terminals; `texture` is for fewer colours, `letter` for ASCII only."""

    name: str
    short: str
    dark: str
    light: str
    ansi: str
    texture: str
    letter: str


LOOKS = (
    Look("compute", "comp", "#5aa2f5", "#2f7bd8", "blue", "█", "c"),
    Look("on-chip", "chip", "#45c2a5", "#1c9a7d", "cyan", "▓", "o"),
    Look("DRAM", "DRAM", "#e3a83f", "#c98512", "yellow", "▒", "d"),
    Look("launch", "launch", "#b58cf2", "#8a5bd1", "magenta", "/", "l"),
    Look("power limit", "limit", "#ef7fc0", "#c8488f", "bright_magenta", "%", "p"),
    Look("static", "static", "#77828f", "#98a1aa", "bright_black", ":", "s"),
)
assert len(LOOKS) == len(CAUSES)
_LEAST = 1e-9  # fraction of the width; a shorter bar is one cell of its largest part
HELP = ", ".join(f"{look.texture} {look.name}" for look in LOOKS)


def cells(parts: Sequence[float], width: int) -> list[int]:
    """Return the whole cells of each part of a bar of `width` cells. The parts are fractions of the width. The cells
    add up to the rounded length of the bar, at most `width` and at least 1 if any part is above zero."""
    whole = sum(parts)
    total = max(round(min(whole, 1.0) * width), 1 if whole > 0 else 0)
    if whole < _LEAST:
        return [total * (part == max(parts) and part not in parts[:place]) for place, part in enumerate(parts)]
    counts, position, drawn_cells = [], 0.0, 0
    for part in parts:
        position += part / whole * total
        counts.append(round(position) - drawn_cells)
        drawn_cells = round(position)
    return counts


def cause_bar(parts: Sequence[float], width: int) -> str:
    """Return a bar of characters, with the texture of each cause."""
    return "".join(look.texture * count for look, count in zip(LOOKS, cells(parts, width), strict=True))
