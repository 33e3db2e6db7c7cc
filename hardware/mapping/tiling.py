"""Tiling of contractions, whose tiles are distributed over units in rounds, and the blocks of vector work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
import numpy as np

from hardware.architecture_facts import Tiles
from hardware.constants import GpuConstants
from hardware.demand import Demand, Floats, Ints
from hardware.device import Device
from hardware.setup import Setup

Bools = np.ndarray[Any, np.dtype[np.bool_]]


class Tiling(msgspec.Struct, frozen=True):
    """The chosen tiles, (n,), zero for operators that are not contractions. `seconds` are at a unit's full rate;
    `waves` are rounds over the units; `units` are those busy in the fullest round; K is divided in `split` ways.
    `stationary` says what cells keep: a place in KEPT of hardware/mapping/recurrence_schedules.py."""

    seconds: Floats
    blocks: Floats
    waves: Floats
    units: Floats
    tile_m: Floats
    tile_n: Floats
    split: Floats
    stationary: Floats | float = 0.0

    @property
    def is_tiled(self) -> Bools:
        """True for operators with tiles, (n,)."""
        return (self.tile_m > 0.0) & (self.blocks > 0.0)

    def take(self, *index: Ints) -> Tiling:
        """Select the tiles at an index."""
        columns = (getattr(self, name) for name in self.__struct_fields__)
        return Tiling(*(column[index] if isinstance(column, np.ndarray) else column for column in columns))

    def exchange(self, index: Ints, other: Tiling) -> Tiling:
        """Return the tiles with those of `other`, one each, at the operators of an index."""
        columns = [np.array(getattr(self, name)) for name in self.__struct_fields__]
        for column, name in zip(columns, self.__struct_fields__, strict=True):
            column[index] = getattr(other, name)
        return Tiling(*columns)


def by_shape(demand: Demand, gemm: Floats, tiled: Callable[[Floats], Tiling]) -> Tiling:
    """Tile each distinct shape of a demand's contractions once. `gemm` (4, n) are their sizes, or those of products
    that replace them, zero without a product. `tiled` takes the sizes of distinct shapes."""
    first, shape_of = demand.shapes
    sizes = gemm[:, first]
    taken = np.flatnonzero(sizes[0])
    if not len(taken):
        return Tiling(*np.zeros((len(Tiling.__struct_fields__), demand.n)))
    tiling, places = tiled(sizes[:, taken]), taken + 1 if len(taken) < len(first) else slice(1, None)
    tiles = np.zeros((len(Tiling.__struct_fields__), len(first) + 1))
    for row, name in zip(tiles, Tiling.__struct_fields__, strict=True):
        row[places] = getattr(tiling, name)
    return Tiling(*tiles[:, shape_of])


def tile_menu(
    demand: Demand,
    gemm: Floats,
    menu: Tiles,
    device: Device,
    macs_per_s: float,
    element_bytes: float,
    step_s: float = 0.0,
    **timing: float,
) -> Tiling:
    """Return the fastest of a menu's tiles for each contraction of a demand, `gemm` (4, n), over the device's units. A
    step of the menu in K takes `step_s` at least; `timing` are other fields of TileChoices."""
    k_step = menu.k_step_bytes / element_bytes if menu.k_step_bytes else menu.k_step
    choices = TileChoices(menu.shapes, menu.splits, device, macs_per_s, k_step, step_s=step_s / k_step, **timing)
    return by_shape(demand, gemm, lambda few: fastest_tiles(few, choices))


class TileChoices(msgspec.Struct, frozen=True):
    """Tiles to choose from, (t, 3) rows, columns and relative rate, and ways to divide K, which is padded to `k_step`.
    `macs_per_s` is the rate of one unit. If rules choose, a side of a tile is `ruled_side`, or shorter where it covers
    the matrix (0: all are tried). In `operand_s` one value of a row or column comes from the last on-chip level
    to the unit. `step_s`, per value of K, is how long a block waits for memory; each further round of blocks fills in
    `refill_s`. In `store_s` a unit stores a result, before its next tile begins. If K is divided, a unit moves a value
    of a part in `part_s`, and a kernel that adds up the parts takes `split_s`. Groups of unequal rows end in a part of
    a tile that is `partly_full` in the mean, 0 for equal groups."""

    tiles: Floats
    splits: tuple[int, ...]
    device: Device
    macs_per_s: float
    k_step: float
    operand_s: float = 0.0
    step_s: float = 0.0
    store_s: float = 0.0
    split_s: float = 0.0
    part_s: float = 0.0
    refill_s: float = 0.0
    partly_full: float = 0.0
    ruled_side: float = 0.0


def fastest_tiles(gemm: Floats, choices: TileChoices) -> Tiling:
    """Return the fastest tiles for each contraction (G, M, N, K), (n,). Their seconds never fall as sizes grow. A fifth
    row is 1 where multiplication hides `operand_s` in part, 0 where it hides them whole."""
    every, n = _evaluate_tiles(gemm, choices), gemm.shape[1]
    best = every[0].reshape(-1, n).argmin(axis=0)
    tile, way = np.divmod(best, len(choices.splits))
    place = best * n + np.arange(n)
    seconds, blocks, waves = (each.ravel()[place] for each in every)
    units, (tile_m, tile_n) = np.minimum(blocks, choices.device.units), choices.tiles[tile, :2].T
    return Tiling(seconds, blocks, waves, units, tile_m, tile_n, np.array(choices.splits, dtype=np.float64)[way])


def _evaluate_tiles(gemm: Floats, choices: TileChoices) -> Sequence[Floats]:
    """Return seconds, blocks and waves, (t, s, n) each, for t tiles with s splits of K."""
    units, assumed = choices.device.units, cast(GpuConstants, choices.device.arch.constants)
    g, m, n, k, *is_fed = gemm
    tm, tn, rate = (choices.tiles[:, i, None, None] for i in range(3))
    split = np.array(choices.splits, dtype=np.float64)[None, :, None]
    is_split = split > 1
    tiles_m = np.maximum(m / tm + choices.partly_full, 1.0) if choices.partly_full else np.ceil(m / tm)
    results = g * tiles_m * np.ceil(n / tn)
    blocks, waves = results * split, np.ceil(results * (split / units))
    depth = np.ceil(k / split / choices.k_step) * choices.k_step
    rate = rate * np.where(is_split, assumed.split_rate, 1.0)
    seconds = waves * depth
    # A small tile reuses its operands too little: the last on-chip level cannot feed the unit at full rate.
    multiply_s, load_s = tm * tn / (rate * choices.macs_per_s), (tm + tn) * choices.operand_s
    step_s = np.maximum(multiply_s, load_s)
    if is_fed:
        exponent = assumed.feed_overlap
        fed_s = multiply_s * (1.0 + (load_s / multiply_s) ** exponent) ** (1.0 / exponent)
        step_s = np.where(is_fed[0] > 0.0, fed_s, multiply_s)
    seconds *= step_s
    if choices.step_s:  # blocks that share a unit wait for memory at the same time
        rounds = np.ceil(blocks / (units * assumed.grouped_blocks))
        seconds = np.maximum(seconds, rounds * depth * choices.step_s) + (rounds - 1.0) * choices.refill_s
    stored_s = choices.store_s + is_split * choices.part_s
    seconds = seconds + waves * (tm * tn) * stored_s + is_split * choices.split_s
    # K is divided among units that would idle: if the result alone fills them all, a split only adds blocks.
    np.copyto(seconds, np.inf, where=is_split & (results >= units))
    if side := choices.ruled_side:
        is_ruled = [(tile == side) | (tile < side) & (size <= tile) for tile, size in ((tm, m), (tn, n))]
        np.copyto(seconds, np.inf, where=~(is_ruled[0] & is_ruled[1]))
    return seconds, blocks, waves


def vector_seconds(demand: Demand, device: Device, flops: Floats, peak_flops: float) -> tuple[Floats, Floats]:
    """Return the seconds of element-wise work at the vector units' full rate, in rounds of blocks, and busy units."""
    per_block, elements = device.arch.constants.elements_per_block, np.maximum(demand.elements, 1.0)
    blocks = np.ceil(elements / per_block)
    rounds = np.ceil(blocks / device.units)
    per_element = flops / elements
    # A unit works a whole block even if the last is partly empty; small tensors leave units idle.
    full = rounds * np.minimum(per_block, elements) * per_element / (peak_flops / device.units)
    return full, np.minimum(blocks, device.units)


def vector_tiling(demand: Demand, setup: Setup, elsewhere: Bools | None = None) -> Tiling:
    """Tile contractions for the vector units, except those that run `elsewhere`. Depthwise ones give each result a
    lane."""
    device, plan = setup.device, setup.plan
    assumed, unit_rate = cast(GpuConstants, device.arch.constants), device.mac_rate("vector", plan.vector_mac)
    depthwise = demand.is_depthwise
    tiled = ~depthwise if elsewhere is None else ~(depthwise | elsewhere)
    feed = device.facts.get("operand_bytes_per_clock")
    narrowest = min(plan.widths.weights, demand.element_bytes)
    fed_s = narrowest / (feed.value * device.clock_hz) if feed else 0.0
    timing = {"operand_s": fed_s, "ruled_side": assumed.rule_tile if setup.products.is_untuned else 0.0}
    menu = device.arch.data.tiles["vector"]
    dense = tile_menu(demand, demand.gemm * tiled, menu, device, unit_rate, demand.element_bytes, **timing)
    if not depthwise.any():
        return dense
    seconds, units = vector_seconds(demand, device, 2.0 * demand.macs, 2.0 * unit_rate * device.units)
    blocks = np.ceil(demand.elements / assumed.elements_per_block)
    zero = np.zeros(demand.n)
    lanes = Tiling(seconds, blocks, np.ceil(blocks / device.units), units, zero, zero, zero + 1.0)
    return choose(depthwise, lanes, dense)


def choose(take: Bools, a: Tiling, b: Tiling) -> Tiling:
    """Return per operator `a` where `take`, else `b`."""
    if a is b:
        return a
    return Tiling(*(np.where(take, getattr(a, name), getattr(b, name)) for name in Tiling.__struct_fields__))
