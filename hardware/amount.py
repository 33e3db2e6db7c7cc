"""Amounts as people type them, read in one place: `100mJ`, `50 ms`, `512MB`, `15W`, `10k/s`, `5 %`."""

import math
import re

from hardware.errors import RequestError

_PREFIXES = {"": 1.0, "p": 1e-12, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "m": 1e-3, "k": 1e3, "K": 1e3, "M": 1e6,
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


def amount_example(unit: str) -> str:
    """Return an amount of `unit` as people write it."""
    return _SYMBOLS.get(unit, _SYMBOLS[""])[1].partition(",")[0]


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
        if prefix in _PREFIXES:
            return _PREFIXES[prefix]
        if unit == "byte" and prefix in _BINARY:
            return _BINARY[prefix]
    return None


def _wrong(text: str, unit: str, why: str) -> RequestError:
    return RequestError(f"{text.strip()[:40]!r} {why} (accepted: {_SYMBOLS.get(unit, _SYMBOLS[''])[1]})")
