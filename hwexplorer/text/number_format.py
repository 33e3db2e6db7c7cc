"""Numbers and names for human eyes: one SI prefix per column, and text that is safe to put on a terminal.

Everything before this module is SI (seconds, joules, bytes); everything after it is text. The screen and the
text exporters both go through here, so they cannot disagree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from hardware.quantity import MISSING, PLAIN, decimals_for, fixed, not_a_number, prefix_for, quantity
from hardware.safe_text import safe

__all__ = ["quantity", "safe"]  # re-exported: views format whole numbers, names and columns alike

# What stands for marks where a terminal knows no Unicode.
_PLAIN = {
    "µ": "u", "·": "*", "×": "x", "…≈": "~", "–—−▾─━": "-", "≤": "<=", "≥": ">=", "→": "->", "∞": "inf",
    "▸╭╮╰╯┏┓┗┛┤┬": "+", "◂": "<", "Σ": "sum", "η": "eff", "Δ": "d", "²": "^2", "³": "^3", "±": "+-",
    "│┃├└": "|", "█▇▉▊▋▌▍▎▏▀▄◆": "#", "◉": "@", "●○": "O", "÷": "/", "✓": "v",
    "•◌": "o",  # ◌: a design target
}  # fmt: skip
ASCII = str.maketrans({mark: plain for marks, plain in _PLAIN.items() for mark in marks})


def delta(fraction: float | None) -> str:
    """A signed change: `+29 %`, `-0.4 %`, `0 %`, and as a factor when it is large (`x12`, `÷30`)."""
    special = not_a_number(fraction)
    if special is not None or fraction is None:
        return special or MISSING
    if abs(fraction) < 0.0005:
        return "0 %"
    if fraction >= 9.995:
        return f"x{fraction + 1:,.0f}"
    if -1 < fraction <= -0.9505:
        return f"÷{1 / (1 + fraction):,.0f}"
    return f"{fraction * 100:+.0f} %" if abs(fraction) >= 0.0995 else f"{fraction * 100:+.1f} %"


class Scale(msgspec.Struct, frozen=True):
    """The format of every number of a column: factor, decimals, the unit for the header, and the width."""

    factor: float = 1.0
    places: int = 0
    label: str = ""
    width: int = 0

    def cell(self, value: float | None) -> str:
        """Return a number of the column as text."""
        special = not_a_number(value)
        if special is not None or value is None:
            return special or MISSING
        return fixed(value / self.factor, self.places)


def scale_for(values: Iterable[float | None], unit: str = "", decimals: int = 3) -> Scale:
    """Return one prefix and one number of decimals for a column: the largest value picks the prefix, the smallest
    asks for decimals (at most `decimals`); what is still too small reads `<.001`, never 0."""
    present = [v for v in values if v is not None and -math.inf < v < math.inf]  # nan is on neither side
    finite = [v for v in map(abs, present) if v]
    if not finite:
        label = PLAIN[unit] if unit in PLAIN else ("" if unit == "count" else prefix_for(0, unit)[1])
        return Scale(label=label, width=1)
    if unit == "count":
        scale = Scale()
    else:
        factor, label = prefix_for(max(finite), unit)
        if min(finite) < 0.01 * factor and max(finite) < 10 * factor and unit not in PLAIN:
            # Over so many magnitudes a smaller unit tells more: 2363, 725.0 and 5.8 rather than 2.363 and 0.006.
            factor, label = prefix_for(factor / 1000, unit)
        largest, smallest = max(finite) / factor, min(finite) / factor
        least = decimals_for(largest, 3)
        room = decimals if largest < 1000 else 1
        places = max(min(least, decimals), min(decimals_for(smallest, 2), room, least + 1))
        if unit == "%":
            places = 1
        elif unit == "byte" and factor == 1.0:
            places = 0
        scale = Scale(factor, places, label)
    width = max(len(scale.cell(v)) for v in (max(present), min(present), min(finite)))
    return Scale(scale.factor, scale.places, scale.label, width)


def to_ascii(text: str) -> str:
    """The same text for terminals without Unicode."""
    if text.isascii():
        return text
    return text.replace("J·s", "Js").translate(ASCII).encode("ascii", "replace").decode("ascii")
