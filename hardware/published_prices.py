"""Numbers with spread and source, and the published prices between process nodes and capacities (coefficients.toml)."""

import math
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from hardware.base import file_access

COEFFICIENTS = Path(__file__).parent / "coefficients.toml"
Triple = tuple[float, float, float]


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
