"""Interpolation of prices between published process nodes and capacities, from hardware/coefficients.toml."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from hardware import file_access

PATH = Path(__file__).parent / "coefficients.toml"
Triple = tuple[float, float, float]


def table() -> dict[str, Any]:
    """Return the table of published prices, coefficients.toml."""
    return file_access.shipped(PATH)


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


@lru_cache(maxsize=64)  # nodes
def logic_scale(process_nm: float) -> float:
    """Return the energy of logic at a node relative to 7 nm."""
    scaling = table()["logic_scaling"]
    points = [(n, (f, f, f)) for n, f in zip(scaling["nodes"], scaling["factors"], strict=True)]
    return log_interpolate(process_nm, points)[0]
