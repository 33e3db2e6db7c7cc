"""Search of the fastest of a bounded list of tilings and loop orders for each operator; of equals, least energy wins.

Menus of tiles depend on neither machine nor batch, so a larger memory or smaller batch has at least as many choices.
Arrays are filled as far as a tile allows. So a larger array or more bandwidth is never slower."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from itertools import product

import msgspec
import numpy as np

from hardware.demand import Floats, Ints
from hardware.hierarchy import LOOPS
from hardware.spatial.costs import Costs, Needs, find_needs
from hardware.spatial.loop_nest import CONCERNS, Bools, C, G, K, N, Nest, P, Problem, Q, R, S, Station, count_moves
from hardware.spatial.lower_bound import least
from hardware.spatial.machine import LevelMemory, MachineLevel, SpatialMachine

# Loops outermost first: weights stay while rows pass; results stay, of one channel or of all; inputs stay.
_WEIGHTS, _RESULTS, _INPUTS = ("GKCRSNPQ",), ("GKNPQCRS", "GNPQKCRS"), ("GNPQCRSK",)
_ORDERS = {
    "weight": _WEIGHTS,
    "row": _WEIGHTS,
    "output": _RESULTS,
    "input": _INPUTS,
    "free": _WEIGHTS + _RESULTS + _INPUTS,
}
# Extents of outer tiles do not depend on the loop, so a longer loop takes as many tiles or more.
_ROWS = (1.0, 2.0, 4.0, 7.0, 14.0, 28.0, 56.0, 112.0, 256.0, 1024.0, 4096.0, 16384.0)
_IMAGES = (1.0, 2.0, 4.0, 16.0, 64.0)
_CHANNELS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 48.0, 64.0, 96.0, 128.0, 256.0, 512.0, 1024.0, 4096.0)
_GROUPS = (1.0, 8.0, 64.0)
_TOGETHER = 8192  # mappings counted together
_AT_ONCE = 32  # columns compared with all others together
_INSIDE = 8192  # most combinations of ways and inner tiles for each outermost tile
_WAYS = 48  # most combinations of ways to spread loops over all arrays
_EFFORT = 32768  # mappings of one operator after which no further ones are counted
_ENDLESS = 2.0**20  # more than any tile
_KEEP = 1024  # most operators remembered per machine
_ROUNDING = 1e-12


def search(
    machine: SpatialMachine, problem: Problem, value_bytes: Floats, prices: tuple[float, ...], costs: Costs
) -> tuple[Nest, Floats]:
    """Return the mapping of each of n operators, and the most seconds (n,) by which a mapping that was not counted may
    end sooner. `value_bytes` is (3, n); `prices` of the machine's events are relative to the first."""
    rows = np.vstack([problem.sizes, problem.stride, problem.part, value_bytes]).T
    known, found, open_s = _searches(machine, prices), [_no_mappings(len(machine.places))], []
    for i, row in enumerate(np.ascontiguousarray(rows)):
        operator = known.pop(row.tobytes(), None) or Operator(machine, problem, value_bytes, prices, i)
        best, saved_s = operator.fastest(costs.take(np.array([i])))
        found.append(best)
        open_s.append(saved_s)
        if not saved_s:  # what a search counted that ended early must not decide another
            known[row.tobytes()] = operator
    for key in list(known)[: max(len(known) - _KEEP, 0)]:
        del known[key]
    return _concatenate(found), np.array(open_s)


def _no_mappings(places: int) -> Nest:
    none, orders = np.ones((8, 0)), np.zeros((8, 0), dtype=np.intp)
    return Nest((none,) * (places - 1), (none,) * places, (orders,) * places)


@lru_cache(maxsize=64)
def _searches(_machine: SpatialMachine, _prices: tuple[float, ...]) -> dict[bytes, Operator]:
    return {}


class Operator:
    """The search of one operator: lower bounds (`least`) by outermost tile and ways, (t, w, ..), `uncounted` of these,
    and the Pareto-optimal mappings so far (`nest`), with needs (`table`) and `place` in the list of all."""

    def __init__(
        self, machine: SpatialMachine, problem: Problem, value_bytes: Floats, prices: tuple[float, ...], i: int
    ) -> None:
        self.problem, self.prices = problem.take(np.array([i])), prices
        self.machine = machine = _fewer_ways(machine, self.problem.sizes[:, 0])
        self.value_bytes = value_bytes[:, [i]]
        ways = int(np.prod([len(place.ways) for place in machine.places]))
        outermost, *inner = (self._shortlist(s) for s in range(1, len(machine.places)))
        self.menus = [outermost, *_thin(inner, max(_INSIDE // ways, 1))]
        tiles, by = np.minimum(self.menus[0][0], self.problem.sizes), self.menus[0][1]
        first = _distinct(tiles, by)
        self.menus[0] = tiles, by = tiles[:, first], by[:, first]
        spread = _spread(machine.places[0], self.problem.sizes, tiles)
        self.least = least(machine, self.problem, self.value_bytes, prices, tiles, by, spread)
        shape = tiles.shape[1], *(len(place.ways) for place in machine.places)
        self.uncounted = np.ones(shape, dtype=np.bool_)
        self.nest = _no_mappings(len(machine.places))
        self.place: Ints = np.zeros(0, dtype=np.intp)
        self.table = np.zeros((len(Needs.__struct_fields__), 0))

    def _shortlist(self, s: int) -> tuple[Floats, Ints]:
        loops = (*_endless(self.problem), float(self.problem.stride[0]), float(self.problem.part[0]))
        place, widths = self.machine.places[s], tuple(self.value_bytes[:, 0].tolist())
        stays = "free" if s + 1 < len(self.machine.places) else self.machine.stationary
        orders = (place.order,) if place.order else _ORDERS[stays]
        return _shortlist(loops, widths, place.memories, s == 1, orders, place.extents)

    def fastest(self, costs: Costs) -> tuple[Nest, float]:
        """Return the mapping whose kernel ends first within the power limit; of equals, the one of least energy, then
        the first. Certainly slower mappings are not counted. Return too the most seconds that those left may save."""
        (ends_s, moved_j), effort = costs.kernel_cost(self.least), 0
        inside = int(np.prod([menu.shape[1] for menu, _ in self.menus[1:]]))
        together, most = (max(each * _TOGETHER // inside, 1) for each in (2, 16))
        while True:
            counted_s, counted_j = costs.kernel_cost(Needs(*self.table))
            best = np.lexsort((counted_j, counted_s))[:1]
            worth = self.uncounted.ravel().copy()
            if best.size:
                slower = ends_s > counted_s[best] * (1 + _ROUNDING)
                as_fast = ends_s > counted_s[best] * (1 - _ROUNDING)
                worth &= ~slower & ~(as_fast & (moved_j > counted_j[best] * (1 + _ROUNDING)))
            left = np.flatnonzero(worth)
            if not left.size or effort > _EFFORT:
                return _take(self.nest, best), max(float(np.max(counted_s[best] - ends_s[left], initial=0.0)), 0.0)
            effort += self.count(left[np.lexsort((moved_j[left], ends_s[left]))][:together])
            together = min(2 * together, most)

    def count(self, which: Ints) -> int:
        """Evaluate the mappings with some outermost tiles and ways, and keep the Pareto-optimal ones. Return the number
        of all."""
        self.uncounted.flat[which] = False
        asked = np.zeros_like(self.uncounted)
        asked.flat[which] = True
        tried, place = self._candidates(asked)
        if not place.size:  # other ways to spread loops give the same mappings
            return 0
        table = np.empty((len(self.table), len(place)))
        marks = column_hash(*tried.orders)
        for mark in np.unique(marks):  # one order at a time, which is faster
            same = np.flatnonzero(marks == mark)
            for start in range(0, len(same), _TOGETHER):
                part = same[start : start + _TOGETHER]
                runs = count_moves(self.problem.take(part * 0), _take(tried, part), self.machine.stations)
                needs = find_needs(self.machine, runs, self.value_bytes[:, part * 0], self.prices)
                table[:, part] = [getattr(needs, name) for name in Needs.__struct_fields__]
        table, place = np.hstack([self.table, table]), np.append(self.place, place)
        listed = np.argsort(place)
        kept = listed[_pareto_columns(table[:, listed])]
        self.nest, self.table, self.place = _take(_concatenate([self.nest, tried]), kept), table[:, kept], place[kept]
        return len(marks)

    def _candidates(self, asked: Bools) -> tuple[Nest, Ints]:
        """Return the mappings with the outermost tiles and ways asked for, and the index of each in the list of all."""
        outermost = np.flatnonzero(asked.any(axis=tuple(range(1, asked.ndim))))
        tiles: list[Floats] = [np.repeat(self.problem.sizes, len(outermost), axis=1)]
        tiles, orders, number = [*tiles, self.menus[0][0][:, outermost]], [self.menus[0][1][:, outermost]], outermost
        for here, by in self.menus[1:]:
            lower = np.minimum(tiles[-1][:, :, None], here[:, None, :]).reshape(8, -1)
            upper, row = np.divmod(np.arange(lower.shape[1]), here.shape[1])
            first = _distinct(upper[None], lower, by[:, row])
            tiles = [*(tile[:, upper[first]] for tile in tiles), lower[:, first]]
            orders = [*(order[:, upper[first]] for order in orders), by[:, row[first]]]
            number = number[upper[first]] * here.shape[1] + row[first]
        within = [*tiles[1:], np.ones_like(tiles[0])]
        spread = [_spread(*each) for each in zip(self.machine.places, tiles, within, strict=True)]
        other = np.ones(len(number), dtype=np.bool_)
        for part in spread:
            fresh = [~np.any((part[:, :way] == part[:, [way]]).all(axis=0), axis=0) for way in range(part.shape[1])]
            other = other[..., None] & np.stack(fresh, axis=-1).reshape(-1, *(1,) * (other.ndim - 1), len(fresh))
        menu = int(np.prod([here.shape[1] for here, _ in self.menus[1:]]))
        kept, *ways = np.nonzero(other & asked[number // menu])
        placed = tuple(part[:, way, kept] for part, way in zip(spread, ways, strict=True))
        turns = tuple(by[:, kept] for by in (*orders, orders[-1]))
        place = number[kept] * asked[0].size + np.ravel_multi_index(ways, asked.shape[1:])
        return Nest(tuple(tile[:, kept] for tile in tiles[1:]), placed, turns), place


def _fewer_ways(machine: SpatialMachine, sizes: Floats) -> SpatialMachine:
    """Return the machine without ways that differ in loops of one step alone, and with at most `_WAYS` in all: the axis
    with most ways loses its last."""
    axes = [
        [list(dict.fromkeys(tuple(loop for loop in way if sizes[loop] > 1) for way in ways)) for _, ways in place.axes]
        for place in machine.places
    ]
    while math.prod(map(len, itertools.chain(*axes))) > _WAYS:
        max(itertools.chain(*axes), key=len).pop()
    fewer = [
        tuple((elements, tuple(ways)) for (elements, _), ways in zip(place.axes, each, strict=True))
        for place, each in zip(machine.places, axes, strict=True)
    ]
    places = (msgspec.structs.replace(p, axes=each) for p, each in zip(machine.places, fewer, strict=True))
    return msgspec.structs.replace(machine, places=tuple(places))


def _thin(menus: list[tuple[Floats, Ints]], most: int) -> list[tuple[Floats, Ints]]:
    """Return menus with at most about `most` combinations. Among tiles of about the same volume, the first are best."""
    sizes = [tiles.shape[1] for tiles, _ in menus]
    share = min((most / math.prod(sizes)) ** (1.0 / max(sum(size > 2 for size in sizes), 1)), 1.0)
    thinned = []
    for size, (tiles, orders) in zip(sizes, menus, strict=True):
        _, place = np.unique(np.round(np.log2(np.prod(tiles, axis=0))), return_inverse=True)
        rank = [np.count_nonzero(place[:i] == place[i]) for i in range(size)]
        left = np.sort(np.argsort(rank, kind="stable")[: max(int(share * size), min(size, 2))])
        thinned.append((tiles[:, left], orders[:, left]))
    return thinned


def _pareto_columns(table: Floats) -> Ints:
    """Return the Pareto-optimal columns: no other is as low in all rows. Of equal columns, keep the first."""
    most = np.maximum(np.abs(table).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    middling = table[:, [(table / most).sum(axis=0).argmin()]]
    left = np.flatnonzero((table < middling).any(axis=0) | (table == middling).all(axis=0))  # it beats most columns
    left, kept = left[np.lexsort(table[::-1, left])], []
    while len(left):  # sorted: no column beats an earlier one
        first = np.arange(min(_AT_ONCE, len(left)))
        beaten: Bools = first[:, None] < np.arange(len(left))
        for row in table[:, left]:
            beaten &= row[first, None] <= row
        stays = np.flatnonzero(~beaten.any(axis=0))
        kept.append(left[stays[stays < len(first)]])
        left = left[stays[stays >= len(first)]]
    return np.concatenate(kept)


def _concatenate(nests: list[Nest]) -> Nest:
    parts = ([getattr(nest, name) for nest in nests] for name in Nest.__struct_fields__)
    return Nest(*(tuple(np.concatenate(each, axis=1) for each in zip(*part, strict=True)) for part in parts))


def _take(nest: Nest, index: Ints) -> Nest:
    return Nest(*(tuple(part[:, index] for part in getattr(nest, name)) for name in Nest.__struct_fields__))


def _distinct(*parts: Floats | Ints) -> Ints:
    first: Ints = np.sort(np.unique(column_hash(*parts), return_index=True)[1])
    return first


def column_hash(*parts: Floats | Ints) -> Floats:
    """Return a hash of each column: its products with random numbers. Equal columns have equal hashes; others almost
    never do."""
    draw = np.random.default_rng(0)
    marks: Floats = np.sum([draw.random(len(part)) @ part for part in parts], axis=0)
    return marks


def _endless(problem: Problem) -> list[float]:
    """Return the loops of one operator, _ENDLESS where they grow with the batch: images, groups, rows of products."""
    sizes = problem.sizes[:, 0].copy()
    sizes[[N, G]] = _ENDLESS
    if np.prod(sizes[[Q, R, S]]) == 1:
        sizes[P] = _ENDLESS
    found: list[float] = sizes.tolist()
    return found


def _spread(place: MachineLevel, outer: Floats, inner: Floats) -> Floats:
    """Return the elements that an array gives each loop, (8, w, m), in each of w ways: loop by loop in equal rounds."""
    parts = np.ceil(outer / inner)
    given = np.ones((8, len(place.ways), parts.shape[1]))
    for number, way in enumerate(place.ways):
        for (elements, _), loops in zip(place.axes, way, strict=True):
            room = np.full(parts.shape[1], max(np.floor(elements), 1.0))
            for loop in loops:
                left = np.ceil(parts[loop] / given[loop, number])
                taken = np.ceil(left / np.ceil(left / room))
                given[loop, number] *= taken
                room = np.floor(room / taken)
    return given


@lru_cache(maxsize=_KEEP)
def _shortlist(
    loops: tuple[float, ...],
    widths: tuple[float, ...],
    memories: tuple[LevelMemory, ...],
    is_outer: bool,
    orders: tuple[str, ...],
    extents: tuple[tuple[int, float], ...],
) -> tuple[Floats, Ints]:
    """Return the tiles (8, k) of a menu that memories have room for, and the order of their loops, (8, k).

    Keep the Pareto-optimal tiles by room in every memory, bytes that pass under the best order, length of sums, result
    channels that share inputs, and rows that share weights: a larger memory has all tiles of a smaller one. `extents`
    of loops are fixed, unless no tile with them has room."""
    sizes, value_bytes = np.array(loops[:8]), np.array(widths)[:, None]
    problem = Problem(sizes[:, None], np.array(loops[8:9]), np.array(loops[9:]))
    menu, held = (_outer if is_outer else _inner)(sizes), np.array([memory.holds for memory in memories])
    fixed = menu.copy()
    for loop, extent in extents:
        fixed[loop] = min(extent, sizes[loop])
    tiles, rooms = _with_room(fixed, loops[8], value_bytes, memories)
    if not extents or not tiles.size:
        tiles, rooms = _with_room(menu, loops[8], value_bytes, memories)
        tiles, rooms = np.hstack([tiles, np.ones((8, 1))]), np.hstack([rooms, np.zeros((len(memories), 1))])
    inputs, weights, outputs = (bool(held[:, t].any()) for t in range(3))
    turns = np.array([[LOOPS.index(loop) for loop in order] for order in orders])
    passing = np.stack(
        [_passing_bytes(problem, (inputs, weights, outputs), tiles, value_bytes, turn) for turn in turns]
    )
    added_up = np.prod(tiles[[C, R, S]], axis=0)
    side_by_side = np.prod(tiles[[G, K]], axis=0)
    in_rows = np.prod(tiles[[N, P, Q]], axis=0)
    kept = _pareto_columns(np.vstack([rooms, passing.min(axis=0), -added_up, -side_by_side, -in_rows]))
    if not is_outer:
        kept = kept[np.argsort(passing.min(axis=0)[kept], kind="stable")]
    return tiles[:, kept], turns[passing.argmin(axis=0)[kept]].T


def _with_room(
    menu: Floats, stride: float, value_bytes: Floats, memories: tuple[LevelMemory, ...]
) -> tuple[Floats, Floats]:
    """Return the tiles of a menu that memories have room for, and the bytes that each memory holds of them."""
    held = np.array([memory.holds for memory in memories])
    needed_bytes = held @ (_footprints(stride, menu) * value_bytes)
    fits = (needed_bytes <= np.array([[memory.size_bytes] for memory in memories])).all(axis=0)
    return menu[:, fits], needed_bytes[:, fits]


def _passing_bytes(problem: Problem, holds: tuple[bool, ...], menu: Floats, value_bytes: Floats, order: Ints) -> Floats:
    """Return the bytes into a station with such tiles, (e,); a tensor it does not hold passes again in other loops."""
    each = np.zeros(menu.shape[1], dtype=np.intp)
    many, orders = problem.take(each), np.repeat(order[:, None], len(each), axis=1)
    alone = np.ones_like(menu)
    stations = (Station((True, True, True)), Station(holds))
    found = count_moves(many, Nest((menu,), (alone, alone), (orders, orders)), stations)
    passing, steps = np.zeros(len(each)), np.ceil(many.sizes / menu)
    for t, held in enumerate(holds):
        if held:
            values = found.moves[1, t].fills + found.moves[1, t].drains
        else:
            values = np.prod(many.sizes[CONCERNS[t]], axis=0) * np.prod(steps[~CONCERNS[t]], axis=0)
        passing += values * value_bytes[t]
    return passing


def _footprints(stride: float, menu: Floats) -> Floats:
    """Return the values of each tensor in a tile, (3, e)."""
    span = [(menu[result] - 1) * stride + menu[window] for result, window in ((P, R), (Q, S))]
    inputs = menu[N] * menu[G] * menu[C] * span[0] * span[1]
    weights = menu[G] * menu[K] * menu[C] * menu[R] * menu[S]
    return np.stack([inputs, weights, menu[N] * menu[G] * menu[K] * menu[P] * menu[Q]])


def _outer(sizes: Floats) -> Floats:
    """Return tiles (8, e) of some rows or some images, some of both kinds of channels, and whole windows."""
    n, g, k, c, p, q, r, s = sizes
    rows = [(1.0, 1.0, np.ceil(q / 4)), *((1.0, extent, q) for extent in _up_to(_ROWS, p))]
    rows += [(extent, p, q) for extent in _up_to(_IMAGES, n)]
    return np.array([
        (tn, tg, tk, tc, tp, tq, r, s)
        for tn, tp, tq in dict.fromkeys(rows)
        for tk, tc, tg in product(_up_to(_CHANNELS, k), _up_to(_CHANNELS, c), _up_to(_GROUPS, g))
    ]).T  # fmt: skip


def _up_to(menu: tuple[float, ...], size: float) -> list[float]:
    return sorted({min(extent, size) for extent in (*menu, size)})


def _inner(sizes: Floats) -> Floats:
    """Return tiles (8, e) of an inner memory: some channels, a whole window or one value of it, and some columns or
    whole rows."""
    extents = [sorted({min(e, size) for e in menu}) for menu, size in zip(_INNER, sizes, strict=True)]
    tiles = np.array(list(product(*extents))).T
    return tiles[:, (tiles[P] == 1) | (tiles[Q] == extents[Q][-1])]


_INNER = (
    (1.0,),
    (1.0,),
    (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0),
    (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0),
    (1.0, 2.0, 4.0, 16.0, 64.0, 256.0),
    (1.0, 4.0, 16.0, 64.0),
    (1.0, np.inf),
    (1.0, np.inf),
)
