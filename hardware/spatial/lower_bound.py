"""Lower bounds on the resources of mappings with a given outermost tile, whatever the inner tiles.

Traffic is least if the inner tiles are as large as the outermost. Every multiply-accumulate takes its operands from the
innermost memory; one read serves at most as many elements as the array can give the loops."""

from itertools import pairwise, product

import msgspec
import numpy as np

from hardware.demand import Floats, Ints
from hardware.spatial.costs import Needs, find_needs
from hardware.spatial.loop_nest import (
    CONCERNS,
    INPUT,
    OUTPUT,
    WINDOWS,
    Bools,
    Nest,
    NestRun,
    Problem,
    TensorMoves,
    count_moves,
)
from hardware.spatial.machine import SpatialMachine

_EVERY = np.ones(8, dtype=np.bool_)
_OF_WINDOWS = np.isin(np.arange(8), WINDOWS)


def least(
    machine: SpatialMachine, problem: Problem, value_bytes: Floats, prices: tuple[float, ...],
    tiles: Floats, orders: Ints, spread: Floats,
) -> Needs:  # fmt: skip
    """Return the least needs of one operator's mappings with outermost tiles (8, t), loop `orders` (8, t), and loops
    `spread` over the outermost array in w ways (8, w, t): by tile and by way of every array, (t * w * ..)."""
    ways, within = spread.shape[1], len(machine.places) - 1
    tiles, orders = np.repeat(tiles, ways, axis=1), np.repeat(orders, ways, axis=1)
    each, alone = np.zeros(tiles.shape[1], dtype=np.intp), np.ones_like(tiles)
    along = (spread.transpose(0, 2, 1).reshape(8, -1), *(alone,) * within)
    nest = Nest((tiles,) * within, along, (orders,) * len(along))
    problem, value_bytes = problem.take(each), value_bytes[:, each]
    runs = count_moves(problem, nest, machine.stations)
    found = [
        find_needs(machine, _Inside(machine, inward, problem, nest).least(runs), value_bytes, prices)
        for inward in product(*(place.ways for place in machine.places[1:]))
    ]
    names = Needs.__struct_fields__
    return Needs(*(np.stack([getattr(needs, name) for needs in found], axis=-1).ravel() for name in names))


class _Inside:
    """Nests whose inner tiles are as large as the outermost; `ways` spread the loops over the inner arrays."""

    def __init__(
        self, machine: SpatialMachine, ways: tuple[tuple[tuple[int, ...], ...], ...], problem: Problem, nest: Nest
    ) -> None:
        self.machine, self.ways, self.problem = machine, ways, problem
        self.tiles, self.spread = nest.tiles[0], nest.spread[0]
        parts = np.ceil(problem.sizes / self.tiles)
        self.steps = np.ceil(parts / self.spread)
        self.busy = parts / self.steps
        self.macs: Floats = np.prod(problem.sizes, axis=0)

    def least(self, runs: NestRun) -> NestRun:
        """Return the least moves that smaller inner tiles make, from the moves of these nests."""
        moves, end, inward = dict(runs.moves), len(self.machine.stations), range(1, len(self.machine.stations))
        for tensor in range(len(CONCERNS)):
            held = [s for s, station in enumerate(self.machine.stations) if station.holds[tensor]]
            for outer, inner in pairwise((*held, end)):
                moved = moves[outer, tensor]
                if tensor == INPUT:
                    moved = self._inputs(moved, outer, inner)
                moves[outer, tensor] = self._innermost_moves(moved, tensor, outer) if inner == end else moved
        elements = [self._reach(s, _EVERY) for s in inward]
        longest = np.ones_like(self.macs)
        for loop in range(len(self.tiles)):
            most = np.prod([self._reach(s, np.arange(len(self.tiles)) == loop) for s in inward], axis=0)
            longest = longest * np.ceil(self.tiles[loop] / most)
        even = np.ceil(np.prod(self.tiles, axis=0) / np.prod(elements, axis=0))
        cycles = np.prod(self.steps, axis=0) * np.maximum(longest, even)
        instances = np.cumprod([np.ones_like(self.macs), np.prod(self.spread, axis=0), *elements], axis=0)
        return msgspec.structs.replace(runs, moves=moves, cycles=cycles, instances=tuple(instances))

    def _reach(self, station: int, loops: Bools) -> Floats:
        """Return the most elements of the array below a station that some loops can be given, (m,)."""
        if station == 0:
            busy: Floats = np.prod(self.busy[loops], axis=0)
            return busy
        most: Floats = np.ones_like(self.macs)
        for (elements, _), way in zip(self.machine.places[station].axes, self.ways[station - 1], strict=True):
            extent = np.prod(self.tiles[[loop for loop in way if loops[loop]]], axis=0)
            most = most * np.minimum(max(np.floor(elements), 1.0), extent)
        return most

    def _inputs(self, moved: TensorMoves, outer: int, inner: int) -> TensorMoves:
        """Return the least moves of inputs. Strides skip some inputs on the way inward. Along a side of unequal tiles,
        an array that shares windows shares less than 2 + stride times as much."""
        gaps, shared = np.ones_like(self.macs), np.ones_like(self.macs)
        for pair in WINDOWS:
            results, window = (self.problem.sizes[loop] for loop in pair)  # no outermost tile cuts windows
            gaps = gaps * np.maximum(((results - 1.0) * self.problem.stride + window) / (results * window), 1.0)
            for s in range(max(outer, 1), min(inner, len(self.machine.places))):
                if self.machine.places[s].station.network.shares_windows and set(pair) & set(sum(self.ways[s - 1], ())):
                    shared = shared * (2.0 + self.problem.stride)
        reads = moved.reads / gaps / shared if inner > 1 else moved.reads
        return msgspec.structs.replace(moved, reads=reads, fills=moved.fills / gaps if outer > 1 else moved.fills)

    def _innermost_moves(self, moved: TensorMoves, tensor: int, outer: int) -> TensorMoves:
        """Return the moves of the innermost memory: each multiply-accumulate reads operands and, except for the first
        of a result, a partial sum."""
        others, shared, copies = ~CONCERNS[tensor], np.ones_like(self.macs), np.ones_like(self.macs)
        for s, station in enumerate(self.machine.stations):
            network, loops = station.network, np.zeros_like(others)
            if s < outer:
                copies = copies * self._reach(s, others)
                continue
            if network.reduces if tensor == OUTPUT else network.multicast[tensor]:
                loops |= others
            if tensor == INPUT and network.shares_windows:
                loops |= _OF_WINDOWS
            shared = shared * self._reach(s, loops)
        taken = self.macs / shared
        if tensor != OUTPUT:
            return msgspec.structs.replace(moved, reads=taken, shared=shared)
        first = np.prod(self.problem.sizes[CONCERNS[OUTPUT]], axis=0) * copies
        return msgspec.structs.replace(moved, reads=np.maximum(taken - first, 0.0), updates=taken, shared=shared)
