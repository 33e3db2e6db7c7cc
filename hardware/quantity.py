"""Numbers as text with a unit, `quantity(1.25e-3, "s") == "1.25 ms"`; numbers with spread and source; and the published
prices between process nodes and capacities (hardware/coefficients.toml)."""

import math
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import msgspec

from hardware import file_access

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
    "SI": ("", 1e-12, 1e18),
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
COEFFICIENTS = Path(__file__).parent / "coefficients.toml"
Triple = tuple[float, float, float]


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


class SourcedValue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value with its spread and source."""

    value: float
    low: float
    high: float
    source: str
    quality: str

    @property
    def all(self) -> tuple[float, float, float]:
        """The value, low and high. Of times, low is the fast end; of rates and shares, low is the slow end."""
        return self.value, self.low, self.high


def exact_value(value: float) -> SourcedValue:
    """Return a number without spread or source, as a default."""
    return SourcedValue(value=value, low=value, high=value, source="", quality="")


@cache
def price_table() -> dict[str, Any]:
    """Return the table of published prices, coefficients.toml."""
    return file_access.shipped(COEFFICIENTS)


def log_interpolate(x: float, points: list[tuple[float, Triple]]) -> Triple:
    """Interpolate log-log between the points around x. Beyond an end, return its value (callers extrapolate)."""
    points = sorted(points)
    if x <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x <= x1:
            w = math.log(x / x0) / math.log(x1 / x0)
            a, b, c = (math.exp((1 - w) * math.log(p) + w * math.log(q)) for p, q in zip(y0, y1, strict=True))
            return a, b, c
    return points[-1][1]


def price_at_node(value: Triple, process_nm: float, by_node: dict[str, float]) -> Triple:
    """Return a stated price with its spread at a node: interpolated between stated nodes, beyond them by logic."""
    points = [(float(node), (each, each, each)) for node, each in by_node.items()]
    nearest = min(max(process_nm, min(points)[0]), max(points)[0])
    at_node = log_interpolate(nearest, points)[0] * logic_scale(process_nm) / logic_scale(nearest)
    return at_node, value[1] / value[0] * at_node, value[2] / value[0] * at_node


@lru_cache(maxsize=64)  # nodes
def logic_scale(process_nm: float) -> float:
    """Return the energy of logic at a node relative to 7 nm."""
    scaling = price_table()["logic_scaling"]
    points = [(n, (f, f, f)) for n, f in zip(scaling["nodes"], scaling["factors"], strict=True)]
    return log_interpolate(process_nm, points)[0]
