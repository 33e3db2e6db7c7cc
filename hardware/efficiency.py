"""Fitted efficiencies: shares of peak rates by operator class, with their spread (hardware/efficiency.toml)."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import msgspec

from hardware import file_access
from hardware.demand import Floats

PATH = Path(__file__).parent / "efficiency.toml"


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


@lru_cache(maxsize=2)
def usable_cache(is_managed: bool) -> float:
    """Share of the last on-chip level that a model's tensors can hold: managed by a compiler, or cached by hardware."""
    return float(file_access.shipped(PATH)["usable_cache"]["managed" if is_managed else "cached"]["value"])
