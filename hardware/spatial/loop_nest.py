"""Data movement of a loop nest, tiled over memories and spread over arrays, at every level, by the rules of Timeloop
(Parashar et al., ISPASS 2019).

A level sees a new tile whenever a loop above it steps along the tensor. If the network multicasts, one read serves all
elements that need the value; if it adds, their partial sums leave as one. If the innermost loop slides along windows,
their overlap is read once. Ragged tiles add up to the sizes of the whole."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from hardware.demand import Floats, Ints
from hardware.hierarchy import LOOPS, TENSORS

N, G, K, C, P, Q, R, S = range(len(LOOPS))
INPUT, WEIGHT, OUTPUT = range(len(TENSORS))
Bools = np.ndarray[Any, np.dtype[np.bool_]]
CONCERNS = np.array([[letter in loops for letter in LOOPS] for loops in ("NGCPQRS", "GKCRS", "NGKPQ")])
WINDOWS = ((P, R), (Q, S))
_SIDES = ((C, R, S), (K,), (N, P, Q))  # loops along a systolic array's sides: sums, result channels, rows


class Network(msgspec.Struct, frozen=True):
    """The array below a station: which tensors it multicasts, whether it adds partial sums and shares windows. `kept`
    is the stationary tensor of a systolic array, of which `load_rows` load in each cycle; `hides_load` says whether the
    load is hidden."""

    multicast: tuple[bool, ...] = (True, True, False)
    reduces: bool = True
    shares_windows: bool = False
    kept: int | None = None
    hides_load: bool = True
    load_rows: float = 1.0


class Station(msgspec.Struct, frozen=True):
    """Memories between two arrays, which hold one tile: the tensors held, and the array below."""

    holds: tuple[bool, ...]
    network: Network = Network()


class Problem(msgspec.Struct, frozen=True):
    """m loop nests: `sizes` (8, m), the `stride` of windows (m,), and the `part` (m,) of the input under them that is
    not padding."""

    sizes: Floats
    stride: Floats
    part: Floats

    def take(self, index: Ints) -> Problem:
        """Return the loop nests at an index."""
        return Problem(self.sizes[:, index], self.stride[index], self.part[index])


class Nest(msgspec.Struct, frozen=True):
    """m mappings on s stations, off-chip memory first: `tiles`, extents (8, m) of each station but the first; `spread`,
    elements (8, m) that each array gives the loops; `orders`, temporal loops outermost first, (8, m)."""

    tiles: tuple[Floats, ...]
    spread: tuple[Floats, ...]
    orders: tuple[Ints, ...]


class TensorMoves(msgspec.Struct, frozen=True):
    """Values of one tensor at all instances of a station, (m,): `reads` for the inside, `fills` from outside, `updates`
    from inside, `drains` to the outside. One read serves `shared` elements."""

    reads: Floats
    fills: Floats
    updates: Floats
    drains: Floats
    shared: Floats


class NestRun(msgspec.Struct, frozen=True):
    """The moves of m nests by station and tensor; `cycles` of an element; busy `instances` of each station and last of
    the elements; `tiles` of the outermost memory."""

    moves: dict[tuple[int, int], TensorMoves]
    cycles: Floats
    instances: tuple[Floats, ...]
    tiles: Floats


def count_moves(problem: Problem, nest: Nest, stations: tuple[Station, ...]) -> NestRun:
    """Count the moves of each mapping. Shapes are as in `Nest`; a station's tile contains the tiles inside it."""
    return _Counter(problem, nest, stations).run()


class _Counter:
    """One evaluation: the steps of every loop, in time and over elements."""

    def __init__(self, problem: Problem, nest: Nest, stations: tuple[Station, ...]) -> None:
        self.problem, self.stations, self.spread = problem, stations, nest.spread
        ones = np.ones_like(problem.sizes)
        extents = (problem.sizes, *nest.tiles, ones)
        parts = [np.ceil(outer / inner) for outer, inner in pairwise(extents)]
        self.tiles: Floats = np.prod(parts[0], axis=0)
        self.steps = [np.ceil(part / spread) for part, spread in zip(parts, nest.spread, strict=True)]
        # Elements at work on average: the last round over an array may be partly empty.
        self.busy = [part / step for part, step in zip(parts, self.steps, strict=True)]
        # The loops of each station, innermost first: each with its steps, and where it has more than one.
        self.inward = [list(self._loops(steps, order)) for steps, order in zip(self.steps, nest.orders, strict=True)]
        self.macs: Floats = np.prod(problem.sizes, axis=0)

    @staticmethod
    def _loops(steps: Floats, orders: Ints) -> Iterator[tuple[Ints, Floats, Bools]]:
        column = np.arange(steps.shape[1])
        for loop in orders[::-1]:
            is_one = (loop == loop[:1]).all()  # the same loop in all mappings: use a row of `steps` without a copy
            taken = steps[loop[:1]][0] if is_one and loop.size else steps[loop, column]
            if (moves := taken > 1).any():
                yield loop[:1] if is_one else loop, taken, moves

    def run(self) -> NestRun:
        """Return the values that each station moves and the cycles that they take."""
        moves = {}
        for tensor in range(len(TENSORS)):
            held = [s for s, station in enumerate(self.stations) if station.holds[tensor]]
            come = {station: self._values_in(tensor, station) for station in (*held, len(self.stations))}
            for outer, inner in pairwise(come):
                moves[outer, tensor] = self._moves(tensor, outer, inner, come)
        cycles = np.prod([np.prod(step, axis=0) for step in self.steps], axis=0)
        cycles = cycles + self._exposed_cycles(cycles)
        each = [np.ones_like(self.macs), *(np.prod(spread, axis=0) for spread in self.spread)]
        return NestRun(moves, cycles, tuple(np.cumprod(each, axis=0)), self.tiles)

    def _moves(self, tensor: int, outer: int, inner: int, come: dict[int, Floats]) -> TensorMoves:
        shared = self._sharing_elements(tensor, outer, inner)
        zero = np.zeros_like(self.macs)
        if tensor != OUTPUT:
            return TensorMoves(come[inner] / shared, come[outer], zero, zero, shared)
        results = np.prod(self.problem.sizes[CONCERNS[OUTPUT]], axis=0)
        # The first partial sum of a result needs no read. Elements idle at ragged edges: each result keeps at least
        # one update.
        drains, sums = come[outer], come[inner]
        first = np.minimum(results * self._copy_count(OUTPUT, outer), sums)
        updates = np.maximum(sums / shared, first)
        shared = sums / updates
        return TensorMoves(updates - first, np.maximum(drains - first, 0.0) if outer else zero, updates, drains, shared)

    def _values_in(self, tensor: int, station: int) -> Floats:
        """Return the values of a tensor that come to all instances of a station; multipliers take every operand."""
        if station in (0, len(self.stations)):  # off-chip memory has everything from the start
            return self.macs if station else np.zeros_like(self.macs)
        again, slides = self._repeats(tensor, station)
        return self._volume(tensor, station, slides) * again * self._copy_count(tensor, station)

    def _copy_count(self, tensor: int, station: int) -> Floats:
        others = ~CONCERNS[tensor]
        copies = np.ones(len(self.macs))
        for busy in self.busy[:station]:
            copies = copies * np.prod(busy[others], axis=0)
        return copies

    def _repeats(self, tensor: int, station: int) -> tuple[Floats, Ints]:
        """Return how often each value comes, and the loop (m,) whose steps slide along windows, -1 for none."""
        m = len(self.macs)
        concerned, again = np.zeros(m, dtype=np.bool_), np.ones(m)
        slides, column = np.full(m, -1), np.arange(m)
        started = np.zeros(m, dtype=np.bool_)
        alone = np.ones((8, m), dtype=np.bool_)  # no array between spreads the loop
        for above in range(station - 1, -1, -1):
            alone &= self.busy[above] <= 1
            for loop, steps, moves in self.inward[above]:
                matters = CONCERNS[tensor][loop]
                if tensor == INPUT and not started.all():
                    slides = np.where(~started & moves & alone[loop, column], loop, slides)
                    started |= moves
                if not matters.all():
                    again = again * np.where(concerned & ~matters, steps, 1.0)
                if matters.any():
                    concerned |= matters & moves
        return again, slides

    def _volume(self, tensor: int, station: int, slides: Ints) -> Floats:
        sizes = self.problem.sizes
        if tensor != INPUT:
            values: Floats = np.prod(sizes[CONCERNS[tensor]], axis=0)
            return values
        tiles = {loop: np.minimum(self._parts(loop, slice(station)), sizes[loop]) for pair in WINDOWS for loop in pair}
        total: Floats = sizes[N] * sizes[G] * sizes[C] * self.problem.part
        for pair in WINDOWS:
            parts = [tiles[loop] for loop in pair]
            whole = [
                np.where(slid, np.minimum(self._tiles_at_rest(loop, station), tiles[loop]), tiles[loop])
                if (slid := slides == loop).any() else tiles[loop]
                for loop in pair
            ]  # fmt: skip
            # With a stride beyond the window tiles do not touch.
            total = total * np.minimum(self._extent(pair, parts), self._extent(pair, whole))
        return total

    def _parts(self, loop: int, stations: slice) -> Floats:
        """Return the number of parts that some stations cut a loop into."""
        parts = np.ones(len(self.macs))
        for step, busy in zip(self.steps[stations], self.busy[stations], strict=True):
            parts = parts * step[loop] * busy[loop]
        return parts

    def _extent(self, pair: tuple[int, int], parts: list[Floats]) -> Floats:
        """Return the inputs along one side, (m,), whose results and window are cut into `parts`."""
        results, window = (self.problem.sizes[loop] for loop in pair)
        rows, pieces = parts
        extent: Floats = pieces * (self.problem.stride * (results - rows) + rows) + rows * (window - pieces)
        return extent

    def _tiles_at_rest(self, loop: int, station: int) -> Floats:
        """Return the tiles along a loop, not counting its innermost temporal steps."""
        left, tiles = np.zeros(len(self.macs), dtype=np.bool_), np.ones(len(self.macs))
        for above in range(station - 1, -1, -1):
            steps = self.steps[above][loop]
            tiles = tiles * self.busy[above][loop] * np.where(left, steps, 1.0)
            left |= steps > 1
        return tiles

    def _sharing_elements(self, tensor: int, outer: int, inner: int) -> Floats:
        """Return how many elements between two stations one read serves, or have sums that leave as one, (m,)."""
        shared = np.ones(len(self.macs))
        for station in range(outer, min(inner, len(self.stations))):
            network, busy = self.stations[station].network, self.busy[station]
            if network.reduces if tensor == OUTPUT else network.multicast[tensor]:
                shared = shared * np.prod(busy[~CONCERNS[tensor]], axis=0)
            if tensor == INPUT and network.shares_windows:
                shared = shared * self._overlap(station)
        return shared

    def _overlap(self, station: int) -> Floats:
        """Return the inputs that the elements of an array need separately over those that they need together, (m,)."""
        stride, ratio = self.problem.stride, np.ones(len(self.macs))
        for result, window in WINDOWS:
            rows, pieces = self.busy[station][result], self.busy[station][window]
            of_row, of_piece = (self._parts(loop, slice(station + 1, None)) for loop in (result, window))
            apart = rows * pieces * ((of_row - 1) * stride + of_piece)
            together = (rows * of_row - 1) * stride + pieces * of_piece
            ratio = ratio * np.maximum(apart / together, 1.0)
        return ratio

    def _exposed_cycles(self, cycles: Floats) -> Floats:
        """Return the cycles in which systolic arrays fill, drain and load while no element multiplies, (m,)."""
        exposed = np.zeros(len(self.macs))
        for s, station in enumerate(self.stations):
            if station.network.kept is None:
                continue
            sides = np.stack([np.prod(self.busy[s][list(loops)], axis=0) for loops in _SIDES])
            skew = (sides - 1.0).sum(axis=0)
            load = sides[0] / station.network.load_rows if station.network.kept != OUTPUT else np.zeros_like(skew)
            passes = self._tile_changes(station.network.kept, s + 1)
            if station.network.hides_load:
                # The next tile loads during the work on this one: only the part that takes longer is exposed.
                exposed = exposed + skew + passes * np.maximum(load - cycles / passes, 0.0)
            else:
                exposed = exposed + passes * (load + skew)
        return exposed

    def _tile_changes(self, tensor: int, station: int) -> Floats:
        m = len(self.macs)
        concerned, visits = np.zeros(m, dtype=np.bool_), np.ones(m)
        for above in range(station - 1, -1, -1):
            for loop, steps, moves in self.inward[above]:
                concerned |= CONCERNS[tensor][loop] & moves
                visits = visits * np.where(concerned, steps, 1.0)
        return visits
