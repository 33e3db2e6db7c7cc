"""Fitted efficiencies: shares of peak rates by operator class, with their spread (hardware/efficiency.toml)."""

from functools import lru_cache
from pathlib import Path

import msgspec

from hardware.base import file_access
from hardware.demand import Floats

PATH = Path(__file__).parent / "efficiency.toml"


class Efficiency(msgspec.Struct, frozen=True):
    """The shares of peak rates that software reaches, for s settings: one, or several that a fit tries.

    `compute`, `bandwidth` and `overhead` are (s, classes); `overhead` is the extra seconds to start a kernel. `nchw`
    (s,) is relative to channels last; `vector_convolution` (s,) is relative to the matrix unit."""

    compute: Floats
    bandwidth: Floats
    nchw: Floats
    vector_convolution: Floats
    overhead: Floats


@lru_cache(maxsize=2)
def usable_cache(is_managed: bool) -> float:
    """Return the share of the last on-chip level that tensors can use, if a compiler manages it or as a cache."""
    return float(file_access.shipped(PATH)["usable_cache"]["managed" if is_managed else "cached"]["value"])
