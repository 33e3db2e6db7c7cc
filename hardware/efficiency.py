"""Fitted efficiencies: one per operator class and architecture, with their spread."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from hardware import files
from hardware.demand import Floats, OpClass

PATH = Path(__file__).parent / "efficiency.toml"
ENDS = [0, 2, 1]  # of [nominal, low, high]: nominal, fast, slow


class Efficiency(msgspec.Struct, frozen=True):
    """Shares of the peak rates that software reaches, one row per setting: nominal, fast end, slow end.

    `compute` and `bandwidth` (s, classes) by operator class; `nchw` (s,) the rate of NCHW convolutions relative to
    channels last, `vector_convolution` (s,) that of convolutions on the vector units relative to the matrix unit's.
    A calibration passes settings of its own."""

    compute: Floats
    bandwidth: Floats
    nchw: Floats
    vector_convolution: Floats


@lru_cache(maxsize=1)
def table() -> dict[str, Any]:
    return files.table(PATH)


@lru_cache(maxsize=8)
def efficiency(architecture: str) -> Efficiency:
    """The efficiencies of an architecture."""

    def columns(section: dict[str, list[float]]) -> Floats:
        return np.array([section.get(name, section["other"]) for name in OpClass.__members__]).T[ENDS]

    data = table()[architecture]
    return Efficiency(
        columns(data["compute"]),
        columns(data["bandwidth"]),
        np.array(table()["layout"]["nchw"])[ENDS],
        np.array(data.get("vector_convolution", [1.0, 1.0, 1.0]))[ENDS],
    )


@lru_cache(maxsize=2)
def usable_cache(kind: str) -> float:
    """Share of the last on-chip level that a model's tensors can hold: 'cached' by hardware or 'managed' by a
    compiler."""
    return float(table()["usable_cache"][kind]["value"])


@lru_cache(maxsize=8)
def overlap(architecture: str) -> float:
    """Exponent with which compute and memory time combine: high is perfect overlap, 1 is none."""
    return float(table()[architecture]["overlap"]["value"])


@lru_cache(maxsize=1)
def reorder_passes() -> float:
    """How many more times data that a CPU library rearranges into its own layout crosses the memory interface."""
    return float(table()["cpu"]["reorder_passes"]["value"])
