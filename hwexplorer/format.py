"""Numbers and names for human eyes: one SI prefix per column, and text that is safe to put on a terminal.

Everything before this module is SI (seconds, joules, bytes); everything after it is text. The screen and the
text exporters both go through here, so they cannot disagree.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence

import msgspec

_PREFIXES = (
    (1e-18, "a"),
    (1e-15, "f"),
    (1e-12, "p"),
    (1e-9, "n"),
    (1e-6, "µ"),
    (1e-3, "m"),
    (1.0, ""),
    (1e3, "k"),
    (1e6, "M"),
    (1e9, "G"),
    (1e12, "T"),
    (1e15, "P"),
    (1e18, "E"),
)
# Symbol, smallest and largest prefix that people write with it. Nobody says kiloseconds or millibytes.
_UNITS = {
    "s": ("s", 1e-12, 1.0),
    "J": ("J", 1e-18, 1e6),
    "Js": ("J·s", 1e-18, 1e6),
    "byte": ("B", 1.0, 1e18),
    "W": ("W", 1e-6, 1e6),
    "1/s": ("/s", 1.0, 1e12),
    "FLOP": ("FLOP", 1.0, 1e18),
    "MAC": ("MAC", 1.0, 1e18),
    "FLOP/s": ("FLOP/s", 1.0, 1e18),
    "byte/s": ("B/s", 1.0, 1e18),
}
_PLAIN = {"FLOP/byte": "FLOP/B", "%": "%", "x": "x", "count": "", "": ""}
_ASCII = str.maketrans(
    {
        "µ": "u",
        "·": "*",
        "×": "x",
        "…": "~",
        "–": "-",
        "—": "-",
        "−": "-",
        "≤": "<=",
        "≥": ">=",
        "≈": "~",
        "→": "->",
        "∞": "inf",
        "▾": "-",
        "▸": "+",
        "Σ": "sum",
        "η": "eff",
        "Δ": "d",
        "²": "^2",
        "³": "^3",
        "±": "+-",
    }
)
MISSING = ""


def prefix_for(magnitude: float, unit: str) -> tuple[float, str]:
    """The factor and the label (`ms`, `GB/s`) with which `magnitude` reads as 1 to 999."""
    if unit in _PLAIN:
        return (0.01 if unit == "%" else 1.0), _PLAIN[unit]
    symbol, low, high = _UNITS[unit]
    usable = [(factor, prefix) for factor, prefix in _PREFIXES if low <= factor <= high]
    # 999.7 would print as 1000 with three digits: it belongs to the next prefix.
    factor, prefix = next(
        ((f, p) for f, p in reversed(usable) if magnitude >= f * 0.9995),
        (1.0, "") if magnitude == 0 else usable[0],
    )
    if symbol.startswith("B") and prefix == "k":
        prefix = "K"  # as data sheets write it; 1000-based like the others
    return factor, prefix + symbol


def _decimals(magnitude: float, digits: int) -> int:
    """Decimals that give `magnitude` (already scaled) `digits` significant digits."""
    if magnitude <= 0:
        return 0
    exponent = int(f"{magnitude:.{digits - 1}e}".partition("e")[2])  # after rounding: 0.9997 counts as 1
    return max(0, digits - 1 - exponent)


def _fixed(value: float, decimals: int) -> str:
    """Fixed point with a thousands separator from 10,000; a value too small to show says so."""
    if value == 0:
        return "0"
    if abs(value) < 0.5 * 10**-decimals:
        least = f"{10**-decimals:.{decimals}f}".lstrip("0")
        return ("-" if value < 0 else "") + f"<{least}"
    return f"{value:,.{decimals}f}" if abs(value) >= 10_000 else f"{value:.{decimals}f}"


def _not_a_number(value: float | None) -> str | None:
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return None


def quantity(value: float | None, unit: str = "", digits: int = 3) -> str:
    """A single value with its unit: `quantity(1.25e-3, "s") == "1.25 ms"`."""
    special = _not_a_number(value)
    if special is not None or value is None:
        return special or MISSING
    if unit == "count":
        return f"{round(value):,}"
    factor, label = prefix_for(abs(value), unit)
    scaled = value / factor
    if unit == "byte" and factor == 1.0:
        number = f"{round(value)}"
    else:
        number = _fixed(scaled, min(_decimals(abs(scaled), digits), 1 if unit == "%" else 3))
    if unit == "x":
        return f"{number}x"
    return f"{number} {label}" if label else number


def delta(fraction: float | None) -> str:
    """A signed change: `+29 %`, `-0.4 %`, `0 %`, and as a factor when it is large (`x12`)."""
    special = _not_a_number(fraction)
    if special is not None or fraction is None:
        return special or MISSING
    if abs(fraction) < 0.0005:
        return "0 %"
    if fraction >= 9.995:
        return f"x{fraction + 1:,.0f}"
    return f"{fraction * 100:+.0f} %" if abs(fraction) >= 0.0995 else f"{fraction * 100:+.1f} %"


class Scale(msgspec.Struct, frozen=True):
    """How every number of one column is written: factor, decimals, the unit for the header, and the width."""

    factor: float = 1.0
    places: int = 0
    label: str = ""
    width: int = 0

    def cell(self, value: float | None) -> str:
        special = _not_a_number(value)
        if special is not None or value is None:
            return special or MISSING
        return _fixed(value / self.factor, self.places)


def scale_for(values: Iterable[float | None], unit: str = "", decimals: int = 3) -> Scale:
    """One prefix and one number of decimals for a column, without formatting its cells.

    The largest value picks the prefix, the smallest asks for decimals (at most `decimals`), so that decimal
    points stand in line; what is still too small reads `<.001`, never 0.
    """
    present = [v for v in values if v is not None and math.isfinite(v)]
    finite = [abs(v) for v in present if v]
    if not finite:
        label = _PLAIN[unit] if unit in _PLAIN else ("" if unit == "count" else prefix_for(0, unit)[1])
        return Scale(label=label, width=1)
    if unit == "count":
        scale = Scale()
    else:
        factor, label = prefix_for(max(finite), unit)
        largest, smallest = max(finite) / factor, min(finite) / factor
        least = _decimals(largest, 3)
        places = max(min(least, decimals), min(_decimals(smallest, 1), decimals, least + 1))
        if unit == "%":
            places = 1
        elif unit == "byte" and factor == 1.0:
            places = 0
        scale = Scale(factor, places, label)
    width = max(len(scale.cell(v)) for v in (max(present), min(present), min(finite)))
    return Scale(scale.factor, scale.places, scale.label, width)


def format_column(values: Sequence[float | None], unit: str = "", decimals: int = 3) -> tuple[list[str], str]:
    """All cells of a column in one scale, and the unit for its header."""
    scale = scale_for(values, unit, decimals)
    return [scale.cell(v) for v in values], scale.label


def safe(text: object, limit: int = 2000) -> str:
    """Text that cannot steer a terminal: control, format and private characters become visible or vanish.

    Markup is not touched here: nothing that renders this text parses markup.
    """
    source = str(text)[:limit]
    if source.isprintable():
        return source
    return "".join(_safe_characters(source))


def _safe_characters(source: str) -> Iterable[str]:
    for character in source:
        if character.isprintable():
            yield character
        elif character in "\t\n\r\v\f":
            yield " "
        elif unicodedata.category(character) == "Cc" and ord(character) < 0x20:
            yield chr(0x2400 + ord(character))  # the visible pictures of control characters
        else:
            yield "�"


def to_ascii(text: str) -> str:
    """The same text for terminals without Unicode."""
    return text if text.isascii() else text.translate(_ASCII).encode("ascii", "replace").decode("ascii")
