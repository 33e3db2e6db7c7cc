"""Fitted efficiencies: shares of peak rates by operator class, with their spread (hardware/efficiency.toml)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np

from hardware import file_access
from hardware.demand import Floats, OpClass

PATH = Path(__file__).parent / "efficiency.toml"
ENDS = [0, 2, 1]  # of [nominal, low, high]: nominal, fast, slow

Ends = tuple[float, float, float]


class Efficiency(msgspec.Struct, frozen=True):
    """Shares of the peak rates that software reaches, by setting (s,): nominal, fast end, slow end.

    `compute`, `bandwidth` and `overhead`, the seconds that a kernel takes to start beyond others, are (s, classes);
    `nchw` is relative to channels last, `vector_convolution` to the matrix unit."""

    compute: Floats
    bandwidth: Floats
    nchw: Floats
    vector_convolution: Floats
    overhead: Floats

    @property
    def nominal(self) -> Efficiency:
        """The first setting alone."""
        return Efficiency(*(getattr(self, name)[:1] for name in self.__struct_fields__))


def rates(
    compute: Mapping[str, Ends],
    bandwidth: Mapping[str, Ends],
    nchw: Ends,
    vector_convolution: Ends,
    overhead: Mapping[str, Ends],
) -> Efficiency:
    """Tables of [nominal, low, high] by the name of the operator class, 'other' for those without a row."""

    def columns(section: Mapping[str, Ends]) -> Floats:
        return np.array([section.get(name, section["other"]) for name in OpClass.__members__]).T[ENDS]

    slower = columns({"other": (0.0, 0.0, 0.0), **overhead})[[0, 2, 1]]  # the fast end takes the least
    ends = np.array(nchw)[ENDS], np.array(vector_convolution)[ENDS]
    return Efficiency(columns(compute), columns(bandwidth), *ends, slower)


@lru_cache(maxsize=2)
def usable_cache(is_managed: bool) -> float:
    """Share of the last on-chip level that a model's tensors can hold: managed by a compiler, or cached by hardware."""
    return float(file_access.shipped(PATH)["usable_cache"]["managed" if is_managed else "cached"]["value"])
