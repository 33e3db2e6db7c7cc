"""Numbers and names as text: with a unit (`quantity(1.25e-3, "s") == "1.25 ms"`), read as people type them (`100mJ`,
`15W`, `10k/s`, `5 %`), and made safe where they come from elsewhere (a model's names, a device file)."""

import math
import re
import unicodedata
from functools import cache
from typing import Literal

from hardware.base.errors import RequestError

_PREFIXES = [(float(f"1e{3 * i - 18}"), prefix) for i, prefix in enumerate((*"afpnµm", "", *"kMGTPE"))]
# Symbol, smallest and largest prefix that people write with it. Nobody says kiloseconds or millibytes.
_UNITS = {
    "s": ("s", 1e-12, 1.0),
    "J": ("J", 1e-18, 1e6),
    "Js": ("J·s", 1e-18, 1e6),
    "byte": ("B", 1.0, 1e18),
    "W": ("W", 1e-6, 1e6),
    "1/s": ("/s", 1.0, 1e12),
    "1/J": ("/J", 1e-3, 1e12),
    "SI": ("", 1.0, 1e18),
    "FLOP": ("FLOP", 1.0, 1e18),
    "MAC": ("MAC", 1.0, 1e18),
    "FLOP/s": ("FLOP/s", 1.0, 1e18),
    "OP/s": ("OPS", 1.0, 1e12),
    "FLOP/J": ("FLOP/J", 1.0, 1e18),
    "byte/s": ("B/s", 1.0, 1e18),
}
# '%' are fractions (0-1), 'x' ratios, 'count' plain integers, 'SI' a count with a prefix (1.2 G), '' text.
Unit = Literal[
    "", "s", "J", "Js", "byte", "SI", "W", "1/s", "1/J", "FLOP", "MAC", "FLOP/s", "OP/s", "byte/s", "FLOP/byte",
    "FLOP/J", "%", "x", "count",
]  # fmt: skip
PLAIN = {"FLOP/byte": "FLOP/B", "%": "%", "x": "x", "count": "", "": ""}
MISSING = ""


def prefix_for(magnitude: float, unit: str) -> tuple[float, str]:
    """Return the factor and the label (`ms`, `GB/s`) with which `magnitude` reads as 1 to 999."""
    if unit in PLAIN:
        return (0.01 if unit == "%" else 1.0), PLAIN[unit]
    if magnitude == 0:
        return 1.0, _UNITS[unit][0]
    usable = _labels(unit)
    for factor, label in usable:
        if magnitude >= factor * 0.9995:  # 999.7 would print as 1000 with three digits: it belongs to the next prefix
            return factor, label
    return usable[-1]


@cache
def _labels(unit: str) -> list[tuple[float, str]]:
    """Return the factors and labels of a unit, the largest first. `KB` is as data sheets write it, and 1000 bytes."""
    symbol, low, high = _UNITS[unit]
    usable = [(factor, prefix + symbol) for factor, prefix in reversed(_PREFIXES) if low <= factor <= high]
    return [(factor, label.replace("kB", "KB")) for factor, label in usable]


def decimals_for(magnitude: float, digits: int) -> int:
    """Return the decimals that give `magnitude` (already scaled) `digits` significant digits."""
    if magnitude <= 0:
        return 0
    exponent = int(f"{magnitude:.{digits - 1}e}".partition("e")[2])  # after rounding: 0.9997 counts as 1
    return max(0, digits - 1 - exponent)


def fixed(value: float, decimals: int) -> str:
    """Return a fixed-point text, with a thousands separator from 10,000. A value too small to show becomes `<.001`."""
    if value == 0:
        return "0"
    if abs(value) < 0.5 * 10**-decimals:
        least = f"{10**-decimals:.{decimals}f}".lstrip("0")
        return ("-" if value < 0 else "") + f"<{least}"
    return f"{value:,.{decimals}f}" if abs(value) >= 10_000 else f"{value:.{decimals}f}"


def plain_number(value: float) -> str:
    """Return a number of three significant digits without a prefix: `2,080`, `20.8`, `0.0208`."""
    return f"{value:,.{decimals_for(abs(value), 3)}f}"


def not_a_number(value: float | None) -> str | None:
    """Return the text for a value that is missing or not finite; None for a number."""
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return None


def quantity(value: float | None, unit: str = "", digits: int = 3) -> str:
    """Return a value with its unit: `quantity(1.25e-3, "s") == "1.25 ms"`."""
    special = not_a_number(value)
    if special is not None or value is None:
        return special or MISSING
    if unit == "count":
        return f"{round(value):,}"
    factor, label = prefix_for(abs(value), unit)
    scaled = value / factor
    if unit == "byte" and factor == 1.0:
        number = f"{round(value)}"
    else:
        number = fixed(scaled, min(decimals_for(abs(scaled), digits), 1 if unit == "%" else 3))
    if unit == "x":
        return f"{number}x"
    return f"{number} {label}" if label else number


def percent(fraction: float, decimals: int = 0) -> str:
    """Return a fraction in percent: `percent(0.384) == "38 %"`."""
    return f"{fraction * 100:.{decimals}f} %"


def of_fact(value: float, unit: str) -> str:
    """Return a fact or a price in its unit, with a prefix where people write one: `of_fact(1.98e9, "Hz")`."""
    if unit == "J/s":
        return quantity(value, "W")
    if unit.startswith("J/"):
        by = f"/{unit.removeprefix('J/')}"  # energies of operations are in picojoules, as in the literature
        return f"{value * 1e12:.4g} pJ{by}" if value < 1e-9 else f"{quantity(value, 'J')}{by}"
    if unit in _UNITS:
        return quantity(value, unit)
    if unit in ("Hz", "transfer/s"):
        return quantity(value, "SI") + unit.replace("transfer", "T")
    number = f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    return number if unit in ("count", "fraction") else f"{number} {unit}"


_FORMULA = ("=", "+", "-", "@")
_UNSEEN = re.compile(r"[^\n -~]")  # in JSON, whose own control characters are escaped


def safe(text: object, limit: int = 2000) -> str:
    """Make text safe for a terminal: control, format and private characters become visible or vanish."""
    source = str(text)[:limit]
    if source.isprintable():
        return source
    return "".join(map(_safe_character, source))


def _safe_character(character: str) -> str:
    if character.isprintable():
        return character
    if character in "\t\n\r\v\f":
        return " "
    if unicodedata.category(character) == "Cc" and ord(character) < 0x20:
        return chr(0x2400 + ord(character))  # the visible pictures of control characters
    return "�"


def inert(text: str) -> str:
    """Quote text that a spreadsheet would run as a formula, also if it begins with blanks or wide letters."""
    shown = safe(text)
    start = unicodedata.normalize("NFKC", shown.lstrip()[:1])
    return "'" + shown if start.startswith(_FORMULA) else shown


def visible_json(document: str) -> str:
    """Return the same JSON with unprintable characters (direction marks, C1 controls) escaped."""
    if document.replace("\n", "").isprintable():
        return document
    return _UNSEEN.sub(lambda match: match[0] if match[0].isprintable() else _escaped(match[0]), document)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


_FACTORS = {"": 1.0, "p": 1e-12, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "m": 1e-3, "k": 1e3, "K": 1e3, "M": 1e6,
             "G": 1e9, "T": 1e12, "P": 1e15}  # fmt: skip
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
# What may follow the prefix, per unit of the result, and examples for the error message. Case matters only where
# it must: m is milli, M is mega.
_SYMBOLS = {
    "J": (("J",), "100mJ, 2.5 J"),
    "s": (("s",), "50ms, 800 us"),
    "Js": (("Js", "J*s", "J·s"), "20uJs"),
    "byte": (("B", "b", "byte", "bytes", ""), "512MB, 2GiB"),
    "byte/s": (("B/s", "byte/s", ""), "3.35TB/s, 2e12"),
    "Hz": (("Hz", ""), "1.2GHz, 900MHz"),
    "nm": (("nm", ""), "7nm, 16"),
    "W": (("W",), "15W"),
    "1/s": (("/s", ""), "10000, 10k/s"),
    "1/J": (("/J",), "20/J, 1.5k/J"),
    "USD": (("", "USD", "$"), "250, 0.2 USD"),
    "fraction": (("",), "0.5, 50%"),
    "": (("",), "4, 10k"),
}
_BARE = ("", "%", "fraction", "1/s", "USD")  # units whose limits may be bare numbers
_NUMBER = r"[+-]?(?:[0-9][0-9_,]*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"


def parse_amount(text: str, unit: str) -> float:
    """Return the SI value of an amount of `unit`; any unit that is not in _SYMBOLS takes a plain number.

    A bare number is taken as SI. Raises RequestError naming the accepted units."""
    source = text.strip()
    number = re.match(_NUMBER, source)
    if number is None:
        raise _wrong(text, unit, "does not start with a number")
    factor = _factor(source[number.end() :].strip(), unit)
    if factor is None:
        suffix = source[number.end() :].strip()
        other = next((one for one in _SYMBOLS if suffix and suffix[-1] in one and _factor(suffix, one)), "")
        why = f"is in {other}, not in {unit}" if other and unit in _SYMBOLS else f"has an unknown unit {suffix[:20]!r}"
        raise _wrong(text, unit, why)
    value = float(number[0].replace(",", "").replace("_", "")) * factor
    if not abs(value) < 1e30:  # products of amounts stay finite
        raise _wrong(text, unit, "is too large" if math.isfinite(value) else "is not finite")
    return value


def parse_limit(text: str, unit: str) -> float:
    """Return the SI value of a limit. Raises RequestError for an amount without its unit: `5` may mean 5 ms."""
    if unit not in _BARE and re.fullmatch(_NUMBER, text.strip()):
        raise _wrong(text, unit, "has no unit")
    return parse_amount(text, unit)


def exact_amount(value: float, unit: str) -> str:
    """Write an amount in SI in the shortest way of which `parse_amount` returns the same value: `5ms`."""
    symbol = _SYMBOLS[unit][0][0]
    prefixes = _FACTORS if symbol else {"": 1.0}
    texts = [f"{value / factor:.12g}{prefix}{symbol}" for prefix, factor in prefixes.items()]
    exact = (text for text in texts if parse_amount(text, unit) == value)
    return min(exact, key=len, default=f"{float(value)!r}{symbol}")


def parse_whole(text: str, least: int, most: int) -> int:
    """Return a whole number from `least` to `most`, of ASCII digits alone. Raises RequestError."""
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise RequestError(f"{text[:40]!r} is not a whole number (allowed: {least} to {most})")
    if len(text) > 12 or not least <= int(text) <= most:
        raise RequestError(f"{text[:40]} is out of range (allowed: {least} to {most})")
    return int(text)


def _factor(suffix: str, unit: str) -> float | None:
    if suffix == "":
        return 1.0
    if suffix == "%":
        return 0.01 if unit == "fraction" else None
    if unit == "fraction":
        return None
    symbols, _ = _SYMBOLS.get(unit, _SYMBOLS[""])
    for symbol in symbols:
        prefix = suffix.removesuffix(symbol) if symbol else suffix
        if symbol and prefix == suffix:
            continue
        if prefix in _FACTORS:
            return _FACTORS[prefix]
        if unit == "byte" and prefix in _BINARY:
            return _BINARY[prefix]
    return None


def _wrong(text: str, unit: str, why: str) -> RequestError:
    return RequestError(f"{text.strip()[:40]!r} {why} (accepted: {_SYMBOLS.get(unit, _SYMBOLS[''])[1]})")


def whole(value: float) -> str:
    """Return a whole number with thousands separators."""
    return f"{value:,.0f}"


def count_noun(count: float, what: str) -> str:
    """Return a count with its noun, in the plural unless the count is 1."""
    return f"{whole(count)} {what}{'s' if count != 1 else ''}"
