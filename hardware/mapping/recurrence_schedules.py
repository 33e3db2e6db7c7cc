"""Contractions as systems of uniform recurrences on fabrics of cells, and the cycles of their schedules.

The index space of a product is (m, n, k). The left operand has the dependence (0, 1, 0): a value moves along n. The
right one has (1, 0, 0), the sums have (0, 0, 1). The linear schedule (1, 1, 1) computes an index at cycle m + n + k. A
projection along one axis takes the other two to the rows and columns of a fabric: what depends along this axis stays in
the cells, the rest streams through. So a projection along k keeps results, along m weights, along n inputs.

Blocks that keep their results follow each other without a gap: the wavefront fills and drains the fabric once. Blocks
that keep an operand load it, fill and drain one by one, and add up their sums outside."""

import math
from functools import cached_property

import msgspec
import numpy as np

from hardware.base.records import memoize
from hardware.demand import Demand, Floats
from hardware.mapping.common import Tiling

Sizes = Floats | float
Size = tuple[int, int, int]  # M, N and K of a product
KEPT = ("results", "weights", "inputs")  # what may stay in the cells
RESULTS, WEIGHTS, INPUTS = range(3)
_FIELDS = Tiling.__struct_fields__
_SUM_BYTES = 4.0  # of a sum that is not complete


class Fabric(msgspec.Struct, frozen=True, dict=True):
    """Equal tiles of `rows` x `columns` cells, which multiply `macs_per_clock` in all. Through its edges a tile takes a
    value for each row and column in a cycle. DMA engine, block mover and streamer of a tile move `bus_bytes` a cycle
    each; blocks of operands of `operand_bytes` are buffered twice in `buffer_bytes`. Results leave with `result_bytes`.
    The first value of a chunk arrives after `latency` cycles. A cell inverts a value in `divide_cycles`. Memories
    beside a tile give its edges `edge_bytes` a cycle."""

    rows: float
    columns: float
    units: float
    macs_per_clock: float
    clock_hz: float
    bus_bytes: float
    buffer_bytes: float
    operand_bytes: float
    result_bytes: float
    latency: float = 0.0
    divide_cycles: float = 0.0
    edge_bytes: float = math.inf

    @cached_property
    def cells(self) -> float:
        """Cells of a tile."""
        return self.rows * self.columns

    @cached_property
    def side(self) -> float:
        """The side of the largest square block of operands: two pairs of them are buffered."""
        return max(math.floor(math.sqrt(self.buffer_bytes / (4.0 * self.operand_bytes))), 1)

    @memoize()
    def shape_rows(self, stretches: tuple[float, ...]) -> list[float]:
        """Return the rows of the shapes that a domain may take on a tile: the fabric folds."""
        ways = {*stretches, *(1.0 / each for each in stretches), self.columns, 1.0 / self.rows}
        return [self.rows * way for way in sorted(ways)]

    def beat(self, rows: Sizes, columns: Sizes) -> Floats:
        """Return the cycles of one step of the schedule, by the multipliers and by the edges. Cells that multiply more
        than one pair in a cycle take as many values."""
        at_once = max(self.macs_per_clock / self.cells, 1.0)
        by_edges = (rows + columns) / (self.rows + self.columns) / at_once
        by_edges = np.maximum(by_edges, (rows + columns) * self.operand_bytes / self.edge_bytes)
        return np.maximum(rows * columns / self.macs_per_clock, by_edges)


def schedules(gemm: Floats, fabric: Fabric, stretches: tuple[float, ...], splits: tuple[int, ...]) -> Tiling:
    """Return every schedule of each contraction (G, M, N, K), (c, n): three projections, shapes of the fabric, and ways
    to divide an axis among tiles that would idle. Their blocks are tile_m x tile_n x K / split."""
    ways = np.array([(rows, split) for rows in fabric.shape_rows(stretches) for split in splits])
    rows, split = ways[:, :1], ways[:, 1:]
    columns = fabric.cells / rows
    weights = keep_operand(gemm, fabric, rows, columns, split, most_folds=max(splits))
    inputs = keep_operand(gemm[[0, 2, 1, 3]], fabric, rows, columns, split, INPUTS, most_folds=max(splits))
    inputs = msgspec.structs.replace(inputs, tile_m=inputs.tile_n, tile_n=inputs.tile_m)
    kinds = keep_results(gemm, fabric, rows, columns, split, most_folds=max(splits)), weights, inputs
    every = np.empty((len(_FIELDS), len(kinds), len(ways), gemm.shape[1]))
    for part, name in zip(every, _FIELDS, strict=True):
        for of_kind, kind in zip(part, kinds, strict=True):
            of_kind[...] = getattr(kind, name)
    return Tiling(*every.reshape(len(_FIELDS), -1, gemm.shape[1]))


def fastest_schedule(every: Tiling) -> Tiling:
    """Return the fastest schedule of each contraction, the first of equals."""
    return every.take(every.seconds.argmin(axis=0), np.arange(every.seconds.shape[1]))


def _fold_last_round(blocks: Floats, fabric: Fabric, depth: Floats, most_folds: float) -> Floats:
    """Return the parts that each block of the last round is divided in among the tiles that would idle, at most
    `most_folds` and one for each step; 1 if it is the only round, or full."""
    rest = blocks - np.floor(blocks / fabric.units) * fabric.units
    ways = np.floor(fabric.units / np.maximum(rest, 1.0))
    folds = np.maximum(np.minimum(ways, most_folds) * ((rest > 0) & (blocks > fabric.units)), 1.0)
    return np.asarray(np.minimum(folds, np.maximum(depth, 1.0)))


def keep_results(
    gemm: Floats, fabric: Fabric, rows: Sizes, columns: Sizes, split: Sizes, most_folds: float = 1.0
) -> Tiling:
    """Return the schedule that keeps blocks of `rows` x `columns` results, K in `split` parts, each on a tile. Blocks
    that share operands are fetched, moved and drained in groups; K is fetched ahead in chunks that fit. K of blocks in
    the last round is divided in up to `most_folds` parts."""
    g, m, n, k = gemm
    depth, results = np.ceil(k / split), g * np.ceil(m / rows) * np.ceil(n / columns)
    blocks, waves = results * split, np.ceil(results * split / fabric.units)
    folds = _fold_last_round(blocks, fabric, depth, most_folds)
    high, wide = np.minimum(rows, m), np.minimum(columns, n)
    skew = (high + wide - 2.0) * (1.0 + (np.greater(split, 1) | (folds > 1)))
    together, chunk = _buffered(fabric, (rows, columns), (high, wide), waves, depth)
    groups = np.ceil(waves / np.maximum(together, 1.0))
    load = np.maximum(high, wide) * np.sqrt(together) * chunk * fabric.operand_bytes / fabric.bus_bytes
    drain = high * wide * together * fabric.result_bytes / fabric.bus_bytes
    # A chunk hides the latency of the next one if it takes as long. Less than a step in the buffer is waited for.
    beat = fabric.beat(rows, columns) * np.maximum(1.0 / np.maximum(chunk, 1e-9), 1.0)
    beat = np.maximum(beat, fabric.latency / np.maximum(together * chunk, 1e-9))
    cycles = (waves * depth - depth + np.ceil(depth / folds)) * beat * (waves > 0)
    cycles = cycles + np.maximum(skew, 2.0 * load + drain) + (groups - 1.0) * (2.0 * load + drain)
    cycles = np.where(np.greater(split, 1) & (results >= fabric.units), np.inf, cycles)
    return _tiling(cycles, fabric, blocks, waves, (rows, columns, split, RESULTS))


def _buffered(
    fabric: Fabric, shape: tuple[Sizes, Sizes], block: tuple[Floats, Floats], waves: Floats, depth: Floats
) -> tuple[Floats, Floats]:
    """Return the blocks of results of a tile that share operands, and the steps of K that the buffer holds for them."""
    side, (rows, columns), (high, wide) = fabric.side, shape, block
    together = np.minimum(waves, np.maximum(np.floor(side / rows) * np.floor(side / columns), 1.0))
    step_bytes = 2.0 * (high + wide) * np.sqrt(together) * fabric.operand_bytes
    held = fabric.buffer_bytes / np.maximum(step_bytes, 1e-9)
    whole = np.maximum(np.floor(held), np.minimum(held, 1.0))  # a part of a step is not rounded
    return together, np.minimum(np.minimum(depth, side), whole)


def movements(gemm: Floats, tiling: Tiling, fabric: Fabric) -> tuple[Floats, Floats]:
    """Return the blocks that share what a tile fetched, and the chunks of operands that movers fetch, (n,) each."""
    _, m, n, k = gemm
    depth = k / np.maximum(tiling.split, 1.0)
    shape = np.maximum(tiling.tile_m, 1.0), np.maximum(tiling.tile_n, 1.0)  # of the folded fabric
    block = np.minimum(tiling.tile_m, m), np.minimum(tiling.tile_n, n)
    keeps_results = np.equal(tiling.stationary, RESULTS)
    together, chunk = _buffered(fabric, shape, block, tiling.waves, depth)
    together = np.where(keeps_results, np.maximum(together, 1.0), 1.0)
    chunks = np.where(keeps_results, np.ceil(depth / np.maximum(chunk, 1e-9)), 1.0)
    return together, np.ceil(tiling.blocks / together) * chunks


def keep_operand(
    gemm: Floats,
    fabric: Fabric,
    rows: Sizes,
    columns: Sizes,
    split: Sizes,
    stationary: float = WEIGHTS,
    most_folds: float = 1.0,
) -> Tiling:
    """Return the schedule that keeps the right operand, rows along K and columns along N, while M streams: in `split`
    parts, each on a tile. M of the last round is divided in up to `most_folds` parts."""
    g, m, n, k = gemm
    part, passes = np.ceil(m / split), np.ceil(k / rows)
    blocks = g * passes * np.ceil(n / columns) * split
    waves = np.ceil(blocks / fabric.units)
    high, wide = np.minimum(rows, k), np.minimum(columns, n)
    leaving = wide * np.where(passes > 1, 2.0 * _SUM_BYTES, fabric.result_bytes) / fabric.bus_bytes
    beat = np.maximum(fabric.beat(rows, columns), leaving)
    load = high * np.maximum(wide, np.minimum(part, fabric.side)) * fabric.operand_bytes / fabric.bus_bytes
    steps = waves * part - part + np.ceil(part / _fold_last_round(blocks, fabric, part, most_folds))
    cycles = steps * beat + waves * (2.0 * high + wide - 2.0) + 2.0 * load
    useless = np.greater(split, 1) & (blocks / split >= fabric.units)
    sizes = part, columns, k / np.maximum(high, 1.0), stationary
    return _tiling(np.where(useless, np.inf, cycles), fabric, blocks, waves, sizes)


def factorisations(gemm: Floats, fabric: Fabric, parts: tuple[float, ...]) -> Tiling:
    """Return the schedule of LU, Cholesky and triangular solves, (n,), products (G, M, N, K) whose N columns follow
    each other: the index space is the part of (i, j, k) with k <= j, blocks of results stay. In each of its steps a
    block column takes the fabric for the blocks that are left, and at least until its own columns have followed each
    other: the linear schedule (1, 1, 1) ends at cycle M + 2 N - 2, and each column waits for a value of the diagonal
    to be inverted. Blocks of a part of the cells keep more tiles at work to the end, and stream more operands."""
    g, m, n, k = gemm
    is_solve = 2.0 * k > 0.75 * (n - 1.0)  # its mean depth is half the columns, that of LU a third, of Cholesky a sixth
    chain = m + 2.0 * n - 2.0 + np.where(is_solve, 0.0, n * fabric.divide_cycles)
    whole = np.minimum(np.floor(np.sqrt(fabric.cells)), np.maximum(n, 1.0))
    waits, ways = g * m * n > fabric.units * fabric.cells, []  # results that wait for their step in the tile's memory
    for part in parts:
        side = np.maximum(np.floor(whole / math.sqrt(part)), 1.0)
        columns, rows = np.ceil(n / side), np.ceil(m / side)
        to_do = np.arange(1.0, max(float(columns.max(initial=0.0)), 1.0) + 1.0)[:, None]
        square = np.where(4.0 * k < n, to_do * (to_do + 1.0) / 2.0, to_do**2)
        waves = np.ceil(g * np.where(is_solve, rows * to_do, square) / fabric.units)
        moves = 2.0 * side * (fabric.operand_bytes + fabric.result_bytes * waits) / fabric.bus_bytes
        step = waves * side * np.maximum(np.maximum(fabric.beat(side, side), 1.0), moves)
        steps = np.maximum(step, chain / np.maximum(columns, 1.0)) * (to_do <= columns)
        cycles = np.maximum(steps.sum(axis=0), chain)
        blocks = np.ceil(g * rows * columns * np.where(4.0 * k < n, 0.5, 1.0))
        sizes = side, side, np.ones_like(side), RESULTS * side
        ways.append(_tiling(cycles, fabric, blocks, np.ceil(blocks / fabric.units), sizes))
    return fastest_schedule(Tiling(*(np.stack([getattr(way, name) for way in ways]) for name in _FIELDS)))


def windows(demand: Demand, fabric: Fabric) -> Tiling:
    """Return the schedule of convolutions without a reduction over channels, (n,): results stay, inputs move to the
    cells beside, so that each enters once for all windows of a block."""
    g, m, n, k = demand.gemm
    blocks = np.ceil(g * m * n / fabric.cells)
    waves = np.ceil(blocks / fabric.units)
    stride = np.maximum(demand.windows[4], 1.0)
    inputs = fabric.cells * np.minimum(stride**2, np.maximum(k, 1.0))
    beat = np.maximum(
        fabric.beat(fabric.rows, fabric.columns), inputs / np.maximum(k, 1.0) / (fabric.rows + fabric.columns)
    )
    moves = (2.0 * inputs * fabric.operand_bytes + fabric.cells * fabric.result_bytes) / fabric.bus_bytes
    cycles = waves * (k * beat + moves) + np.maximum(fabric.rows + fabric.columns - 2.0 - moves, 0.0)
    return _tiling(cycles, fabric, blocks, waves, (fabric.rows, fabric.columns, 1.0, RESULTS))


def _tiling(cycles: Floats, fabric: Fabric, blocks: Floats, waves: Floats, sizes: tuple[Sizes, ...]) -> Tiling:
    tile_m, tile_n, split, stationary = map(np.asarray, sizes)
    seconds, units = cycles / fabric.clock_hz, np.minimum(blocks, fabric.units)
    return Tiling(seconds, blocks, waves, units, tile_m, tile_n, split, stationary)


def filling_cycles(gemm: Floats, tiling: Tiling) -> Floats:
    """Return the cycles in which tiles load, fill and drain, over all tiles: once each if results stay, else for each
    block."""
    _, m, n, k = gemm
    depth = np.minimum(k / np.maximum(tiling.split, 1.0), k)
    high, wide = np.minimum(tiling.tile_m, m), np.minimum(tiling.tile_n, n)
    once = tiling.units * (high + wide - 2.0) * (1.0 + (tiling.split > 1))
    each = tiling.blocks * (2.0 * depth + np.where(np.equal(tiling.stationary, WEIGHTS), wide, high) - 2.0)
    cycles: Floats = np.maximum(np.where(np.equal(tiling.stationary, RESULTS), once, each), 0.0)
    return cycles


class ProductChain(msgspec.Struct, frozen=True, kw_only=True):
    """Two products, of which N of the first is K of the second: the `tiles` that hold their weights, and the cycles of
    both one after another, of both as a stream, and until the first result leaves."""

    tiles: int
    beat: float
    in_turn_cycles: float
    streamed_cycles: float
    first_result_cycle: float


def chain_products(first: Size, second: Size, fabric: Fabric) -> ProductChain:
    """Return the schedule of two products of which the first streams its results into the second. All weights
    stay in cells, rows along K and columns along N. Values of a row enter one cycle apart, and so leave at the foot of
    the columns. Both take the longer of their beats: what leaves enters."""
    (m, n, k), (_, last, _) = first, second
    tiles = sum(math.ceil(size[2] / fabric.rows) * math.ceil(size[1] / fabric.columns) for size in (first, second))
    beat = float(fabric.beat(fabric.rows, fabric.columns))
    each = (m - 1) * beat
    return ProductChain(
        tiles=tiles,
        beat=beat,
        in_turn_cycles=2 * each + (k + n - 1) + (n + last - 1),
        streamed_cycles=each + k + n + last - 1,
        first_result_cycle=float(k + n),
    )
