"""Numbers and names for human eyes: one SI prefix per column, and text that is safe to put on a terminal.

Everything before this module is SI (seconds, joules, bytes); everything after it is text. The screen and the
text exporters both go through here, so they cannot disagree. A number with its unit is `hardware.base.text.quantity`.
"""

import math
from collections.abc import Iterable

import msgspec

from hardware.base.text import MISSING, PLAIN, decimals_for, fixed, not_a_number, prefix_for

# ASCII for marks on terminals without Unicode.
_PLAIN = {
    "µ": "u", "·": "*", "×": "x", "…≈": "~", "–—−▾─━": "-", "≤": "<=", "≥": ">=", "→": "->", "∞": "inf",
    "▸╭╮╰╯┏┓┗┛┤┬": "+", "◂": "<", "Σ": "sum", "η": "eff", "Δ": "d", "²": "^2", "³": "^3", "±": "+-",
    "│┃├└": "|", "█▇▉▊▋▌▍▎▏▀▄◆": "#", "◉": "@", "●○": "O", "÷": "/", "✓": "v",
    "•◌▓": "o", "▒": "d",  # ◌: a design target
}  # fmt: skip
ASCII = str.maketrans({mark: plain for marks, plain in _PLAIN.items() for mark in marks})


def delta(fraction: float | None) -> str:
    """Return a signed change: `+29 %`, `-0.4 %`, `0 %`, or a factor if it is large (`x12`, `÷30`)."""
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


DIGITS = 7  # integer digits of a column's largest number + decimals: two digits over five decades


class Scale(msgspec.Struct, frozen=True):
    """The format of every number of a column: factor, decimals, the unit for the header, and the width. If
    `is_wide`, each number has up to three significant digits and decimal points are aligned."""

    factor: float = 1.0
    places: int = 0
    label: str = ""
    width: int = 0
    is_wide: bool = False

    def cell(self, value: float | None) -> str:
        """Return a number of the column as text."""
        special = not_a_number(value)
        if special is not None or value is None:
            return special or MISSING
        number = value / self.factor
        if not self.is_wide:
            return fixed(number, self.places)
        places = min(decimals_for(abs(number), 3), self.places)
        return fixed(number, places) + " " * (self.places - places + (places == 0))


def scale_for(values: Iterable[float | None], unit: str = "") -> Scale:
    """Return the format of a column: one prefix, and decimals that give each number two digits over five decades. A
    smaller number reads `<.001`, never 0."""
    present = [v for v in values if v is not None and -math.inf < v < math.inf]  # nan is on neither side
    finite = [v for v in map(abs, present) if v]
    if not finite:
        label = PLAIN[unit] if unit in PLAIN else ("" if unit == "count" else prefix_for(0, unit)[1])
        return Scale(label=label, width=1)
    if unit == "count":
        scale = Scale()
    else:
        factor, label = prefix_for(max(finite), unit)
        if (unit in ("W", "Js") or "/s" in unit) and min(finite) < 0.01 * factor and max(finite) < 10 * factor:
            factor, label = prefix_for(factor / 1000, unit)  # data sheets write 1200 W and 8 W, and no kilowatts
        largest, smallest = max(finite) / factor, min(finite) / factor
        least, most = decimals_for(largest, 3), decimals_for(smallest, 2)
        places = max(min(least, 3), min(most, 3 if largest < 1000 else 1, least + 1))
        if unit == "%":
            scale = Scale(factor, 1, label)
        elif unit == "byte" and factor == 1.0:
            scale = Scale(factor, 0, label)
        elif most > places or largest >= 1000:
            scale = Scale(factor, min(most, max(DIGITS - len(str(int(largest))), 1)), label, is_wide=True)
        else:
            scale = Scale(factor, places, label)
    width = max(len(scale.cell(v)) for v in (max(present), min(present), min(finite)))
    return msgspec.structs.replace(scale, width=width)


def header(title: str, label: str) -> str:
    """Return `title unit`, without a unit that the title ends with, and without a title that the unit ends with.
    `Energy/inf` in mJ is `Energy mJ/inf`."""
    if label == "x" or title.endswith(label):
        return title
    name, _, per = title.rpartition("/")
    if per == "s":
        return f"{label.removesuffix('/s')} {title}"
    if name and " " not in per:
        return f"{name} {label}/{per}"
    return label if label.endswith(title) else f"{title} {label}"


def to_ascii(text: str) -> str:
    """Return the text in ASCII, for terminals without Unicode."""
    if text.isascii():
        return text
    return text.replace("J·s", "Js").translate(ASCII).encode("ascii", "replace").decode("ascii")
