"""The nesting of a spatial accelerator's memories and arrays. Their sizes are facts of the device file, under these
names."""

import re
from collections.abc import Iterator
from itertools import product
from typing import Annotated, Literal

import msgspec

Tensor = Literal["input", "weight", "output"]
Kind = Literal["sram", "register"]
Stationary = Literal["weight", "output", "input", "row", "free"]

TENSORS: tuple[Tensor, ...] = ("input", "weight", "output")
DIRECTIONS = ("read", "write")
LOOPS = "NGKCPQRS"  # batch, groups, result channels, input channels, rows and columns of results, of the window


class ArrayAxis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One side of an array; the fact of the same name is its length. Each string of `takes` (letters of LOOPS) is one
    way to spread loops over it."""

    name: str
    takes: tuple[str, ...]


class Array(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Elements side by side. One read of a `multicast` tensor serves all elements. The array adds partial sums on their
    way out (`reduces`), shares the overlap of windows (`shares_windows`), passes operands from element to element
    (`is_systolic`), and loads its next stationary tile, `load_rows` in each cycle, while it works on the current one
    (`hides_load`)."""

    name: str
    axes: tuple[ArrayAxis, ...]
    multicast: tuple[Tensor, ...] = ("input", "weight")
    reduces: bool = True
    shares_windows: bool = False
    is_systolic: bool = False
    hides_load: bool = True
    load_rows: Annotated[float, msgspec.Meta(ge=1)] = 1.0


class Level(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One memory, or one in each element of the arrays above it: facts `NAME_bytes`, `NAME_width` and `NAME_banks`.
    Tensors that it does not hold bypass it; it feeds the array `below`. Each port takes an access per cycle of the
    kinds that it names. `tile` fixes the extents of loops; `order` fixes the order of the tiles."""

    name: str
    holds: tuple[Tensor, ...] = TENSORS
    kind: Kind = "sram"
    is_managed: bool = True
    below: Array | None = None
    ports: tuple[str, ...] = DIRECTIONS
    tile: str = ""
    order: str = ""

    @property
    def extents(self) -> tuple[tuple[int, float], ...]:
        """The loops that `tile` fixes, each with its extent. Malformed words are skipped; `wrong` reports them."""
        words = [re.fullmatch(f"([{LOOPS}])([1-9][0-9]{{0,8}})", word) for word in self.tile.split()]
        return tuple((LOOPS.index(word[1]), float(word[2])) for word in words if word)

    def is_taken(self, port: str, way: str, tensor: str) -> bool:
        """Return True if a port takes an access. A port without a way takes both; one without a tensor takes all."""
        words = set(port.split())
        return all(each in words or not words & set(kind) for each, kind in ((way, DIRECTIONS), (tensor, TENSORS)))

    def wrong(self) -> str:
        """Return what is wrong with the level, '' if nothing is."""
        known = (*DIRECTIONS, *TENSORS)
        if bad := next((port for port in self.ports if not port.split() or set(port.split()) - set(known)), None):
            return f"{self.name}: {bad!r} is not a port (words of {', '.join(known)})"
        for way, tensor in product(DIRECTIONS, self.holds):
            if not any(self.is_taken(port, way, tensor) for port in self.ports):
                return f"{self.name}: no port takes '{way} {tensor}'"
        loops = [loop for loop, _ in self.extents]
        if len(set(loops)) < len(self.tile.split()):
            return f"{self.name}: {self.tile!r} is not a tile (loops of {LOOPS}, each once with its extent: 'K64 P7')"
        if self.order and sorted(self.order) != sorted(LOOPS):
            return f"{self.name}: {self.order!r} is not an order (all of {LOOPS}, the outermost first)"
        return ""


class Hierarchy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The `levels`, outermost first. The innermost elements keep `stationary`. `across` is an array above all levels:
    each of its elements has all of them. With `keeps_weights`, as many weights as fit stay on chip between calls."""

    stationary: Stationary
    levels: tuple[Level, ...]
    across: Array | None = None
    keeps_weights: bool = False

    @property
    def arrays(self) -> Iterator[Array]:
        """All arrays, outermost first."""
        if self.across:
            yield self.across
        yield from (level.below for level in self.levels if level.below)

    @property
    def gated(self) -> tuple[str, ...]:
        """The events that a zero input spares: the product, and in the element the weight that is read and the sum that
        is updated; operands on their way to the element, unless it holds the inputs itself."""
        outer = max((i for i, level in enumerate(self.levels) if level.below), default=-1)
        inside = self.levels[outer + 1 :]
        reads = (f"{level.name}.read" for level in inside if "input" not in level.holds)
        writes = (f"{level.name}.write" for level in inside if level.holds == ("output",))
        keeps = any("input" in level.holds for level in inside)
        return ("array.mac", *reads, *writes, *(() if keeps else (f"network.{list(self.arrays)[-1].name}",)))

    def level(self, name: str) -> Level:
        """Return the level of a name."""
        return next(level for level in self.levels if level.name == name)

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of all axes, outermost first."""
        return tuple(axis.name for array in self.arrays for axis in array.axes)

    def wrong(self) -> str:
        """Return what is wrong with the hierarchy, '' if nothing is."""
        names = [*(level.name for level in self.levels), *(array.name for array in self.arrays), *self.axes]
        if not self.levels:
            return "levels: has none"
        if bad := next((name for name in names if not name.isidentifier() or not name.islower()), None):
            return f"{bad!r} is not a name (small letters, digits and _)"
        if len(set(names)) < len(names):
            return f"{next(name for name in names if names.count(name) > 1)!r} names two things"
        if not self.axes:
            return "levels: no level has an array below it"
        for level in self.levels:
            if bad := level.wrong():
                return bad
        for array in self.arrays:
            for axis in array.axes:
                for way in axis.takes or ("",):
                    if not way or set(way) - set(LOOPS) or len(set(way)) < len(way):
                        return f"{axis.name}: {way!r} is not a way to spread loops (letters of {LOOPS}, each once)"
        return ""
