"""How the memories and arrays of a spatial accelerator nest; sizes stand among the facts of its file, by these
names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

Tensor = Literal["input", "weight", "output"]
Stationary = Literal["weight", "output", "input", "row", "free"]

TENSORS: tuple[Tensor, ...] = ("input", "weight", "output")
LOOPS = "NGKCPQRS"  # batch, groups, result channels, input channels, rows and columns of results, of the window


class ArrayAxis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One side of an array, as long as the fact of its name. `takes`: ways to spread loops over it, letters of
    LOOPS."""

    name: str
    takes: tuple[str, ...]


class Array(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Elements side by side. One read serves all elements for `multicast` tensors; `reduces` adds partial sums on the
    way out; `shares_windows` shares the overlap of windows; `is_systolic` passes operands from element to element;
    `hides_load` loads what it keeps behind the work before."""

    name: str
    axes: tuple[ArrayAxis, ...]
    multicast: tuple[Tensor, ...] = ("input", "weight")
    reduces: bool = True
    shares_windows: bool = False
    is_systolic: bool = False
    hides_load: bool = True


class Level(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One memory, or one in each element of the arrays above it: facts `NAME_bytes` and `NAME_width`. Tensors that it
    does not hold pass by; `below` is the array that it feeds."""

    name: str
    holds: tuple[Tensor, ...] = TENSORS
    kind: Literal["sram", "register"] = "sram"
    is_managed: bool = True
    below: Array | None = None


class Hierarchy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Levels inward; `stationary` is what the innermost elements keep; `across` the array whose elements have the
    levels."""

    stationary: Stationary
    levels: tuple[Level, ...]
    across: Array | None = None

    @property
    def arrays(self) -> Iterator[Array]:
        """All arrays, inward."""
        if self.across:
            yield self.across
        yield from (level.below for level in self.levels if level.below)

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of all axes, inward."""
        return tuple(axis.name for array in self.arrays for axis in array.axes)

    def wrong(self) -> str:
        """Return what is wrong with the hierarchy, '' where nothing is."""
        names = [*(level.name for level in self.levels), *(array.name for array in self.arrays), *self.axes]
        if not self.levels:
            return "levels: has none"
        if bad := next((name for name in names if not name.isidentifier() or not name.islower()), None):
            return f"{bad!r} is no name (small letters, digits and _)"
        if len(set(names)) < len(names):
            return f"{next(name for name in names if names.count(name) > 1)!r} names two things"
        if not self.axes:
            return "levels: none has an array below it"
        for array in self.arrays:
            for axis in array.axes:
                for way in axis.takes or ("",):
                    if not way or set(way) - set(LOOPS) or len(set(way)) < len(way):
                        return f"{axis.name}: {way!r} is no way to spread loops (letters of {LOOPS}, each once)"
        return ""
