"""How the causes of time and energy are shown: one name, colour, texture and letter for each, everywhere the same."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from analysis.estimate.causes import CAUSES


class Look(msgspec.Struct, frozen=True):
    """`short` where there is little room; colours on dark and light ground and of the 16; `texture` where a terminal
    shows few colours or none, `letter` where it has ASCII only."""

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
_LEAST = 1e-9  # of a width: what is less is one trace, not several
HELP = ", ".join(f"{look.texture} {look.name}" for look in LOOKS)


def cells(parts: Sequence[float], width: int) -> list[int]:
    """Whole cells of each part of a bar of `width` cells, where the parts are fractions of the width. Their sum is the
    rounded sum; anything above zero leaves a trace where the bar itself does."""
    whole = sum(parts)
    total = max(round(min(whole, 1.0) * width), 1 if whole > 0 else 0)
    if whole < _LEAST:
        return [total * (part == max(parts) and part not in parts[:place]) for place, part in enumerate(parts)]
    counts, at, drawn = [], 0.0, 0
    for part in parts:
        at += part / whole * total
        counts.append(round(at) - drawn)
        drawn = round(at)
    return counts


def cause_bar(parts: Sequence[float], width: int) -> str:
    """Return a bar of blocks, of a texture for each cause."""
    return "".join(look.texture * count for look, count in zip(LOOKS, cells(parts, width), strict=True))
