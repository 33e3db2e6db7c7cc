"""The fastest of a bounded list of tilings and loop orders for each operator; of equals, that of least traffic.

Tiles come from menus that depend neither on the machine nor on the batch, and one stays unless another that needs no
more of any memory lets no more through, were the batch endless. So what a smaller memory or a larger batch may choose
is open to a larger memory and a smaller batch. Arrays are filled as far as a tile goes, so a larger one takes fewer
steps over the same tiles: it is never slower, nor is more bandwidth.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import product
from typing import Any

import msgspec
import numpy as np

from hardware.demand import Floats, Ints
from hardware.hierarchy import LOOPS
from hardware.mapping.spatial.machine import Machine, Memory, Place
from hardware.mapping.spatial.nest import CONCERNS, C, G, K, N, Nest, P, Problem, Q, R, Run, S, Station, run

# Loops outermost first: weights stay while rows pass; results stay, of one channel or of all; inputs stay.
_ORDERS = np.array([[LOOPS.index(x) for x in order] for order in ("GKCRSNPQ", "GKNPQCRS", "GNPQKCRS", "GNPQCRSK")])
_OF = {"weight": (0,), "row": (0,), "output": (1, 2), "input": (3,), "free": (0, 1, 2, 3)}
# Extents of outer tiles, whatever the loop: so a longer loop takes as many tiles or more.
_ROWS = (1.0, 2.0, 4.0, 7.0, 14.0, 28.0, 56.0, 112.0, 256.0, 1024.0, 4096.0, 16384.0)
_IMAGES = (1.0, 2.0, 4.0, 16.0, 64.0)
_CHANNELS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 48.0, 64.0, 96.0, 128.0, 256.0, 512.0, 1024.0, 4096.0)
_GROUPS = (1.0, 8.0, 64.0)
_TOGETHER = 8192  # mappings counted together
_ENDLESS = 2.0**20  # more than any tile
_KEEP = 4096  # operators remembered of a machine


class Power(msgspec.Struct, frozen=True):
    """J of a byte of off-chip memory and of the first event on chip; W of clocks, and of all that does not rest."""

    byte_j: float
    chip_j: float
    clock_w: float
    budget_w: float


class Costs(msgspec.Struct, frozen=True):
    """What time depends on beside the mapping, of n operators: seconds of a cycle and of a byte of off-chip memory; of
    the bytes moved once those that are on chip already, `spared`; the MACs over those of the loops, `scale`; seconds
    `beside_s` of operators that the same kernel runs before or after, `behind_s` of work meanwhile, and J of all that
    no mapping changes, `rest_j`; each (n,). Seconds of an access on chip and of starting a kernel."""

    cycle_s: Floats
    byte_s: Floats
    spared: Floats
    scale: Floats
    beside_s: Floats
    behind_s: Floats
    rest_j: Floats
    access_s: float
    start_s: float
    power: Power

    def of(self, index: Ints) -> Costs:
        """Those of an index."""
        by_operator = {name: getattr(self, name)[index] for name in self.__struct_fields__[:7]}
        return msgspec.structs.replace(self, **by_operator)

    def fastest(self, needs: Needs, i: int) -> int:
        """The mapping of operator i with which its kernel ends first within the power limit; of equals, that of least
        energy, of these the first."""
        power, scale = self.power, self.scale[i]
        busy_s = np.maximum(needs.seconds(self, i).max(axis=0) * scale + self.beside_s[i], self.behind_s[i])
        moved_j = (needs.traffic * power.chip_j + needs.passing(self, i) * power.byte_j) * scale
        limited_s = (self.rest_j[i] + moved_j + power.clock_w * busy_s) / power.budget_w
        return int(np.lexsort((moved_j, np.maximum(busy_s + self.start_s, limited_s)))[0])


class Needs(msgspec.Struct, frozen=True):
    """What m mappings need: cycles of the elements, bytes of off-chip memory, accesses one after the other of the
    busiest level on chip, and the energy of what moves there over that of the first event, each (m,)."""

    cycles: Floats
    off_chip: Floats
    accesses: Floats
    traffic: Floats

    def passing(self, costs: Costs, i: Ints | int) -> Floats:
        """Bytes that are not on chip already, (m,), each mapping of an operator i (m,) or all of one."""
        left: Floats = np.maximum(self.off_chip - costs.spared[i], 0.0)
        return left

    def seconds(self, costs: Costs, i: Ints | int) -> Floats:
        """Of the arrays, of off-chip memory and of the levels on chip, (3, m)."""
        passing_s = self.passing(costs, i) * costs.byte_s[i]
        return np.stack([self.cycles * costs.cycle_s[i], passing_s, self.accesses * costs.access_s])


class _Tried(msgspec.Struct, frozen=True):
    """The mappings of one operator that no other beats in everything they need: whatever clocks and bandwidths are,
    the best is among them."""

    nest: Nest
    needs: Needs


def search(machine: Machine, problem: Problem, value_bytes: Floats, prices: tuple[float, ...], costs: Costs) -> Nest:
    """The mapping of each of n operators. `value_bytes` (3, n) of inputs, weights and partial sums; `prices` of the
    events of the machine, relative to the first."""
    rows = np.vstack([problem.sizes, problem.stride, problem.part, value_bytes]).T
    keys = [row.tobytes() for row in np.ascontiguousarray(rows)]
    known = _remembered(machine, prices)
    found = [_nothing(len(machine.places))]
    for i, key in enumerate(keys):
        if key not in known:
            known[key] = _worthwhile(machine, problem.of(np.array([i])), value_bytes[:, [i]], prices)
        found.append(_at(known[key].nest, np.array([costs.fastest(known[key].needs, i)])))
    for key in list(known)[: max(len(known) - _KEEP, 0)]:
        del known[key]
    return _joined(found)


def _nothing(places: int) -> Nest:
    """The mappings of no operator."""
    none, orders = np.ones((8, 0)), np.zeros((8, 0), dtype=np.intp)
    return Nest((none,) * (places - 1), (none,) * places, (orders,) * places)


@lru_cache(maxsize=64)
def _remembered(_machine: Machine, _prices: tuple[float, ...]) -> dict[bytes, _Tried]:
    """What was found of a machine, by operator."""
    return {}


def _worthwhile(machine: Machine, problem: Problem, value_bytes: Floats, prices: tuple[float, ...]) -> _Tried:
    """What is worth trying of one operator."""
    tried = _candidates(machine, problem, value_bytes)
    table = np.empty((len(Needs.__struct_fields__), tried.tiles[0].shape[1]))
    marks = _marks(*tried.orders)
    for mark in np.unique(marks):  # of one order at a time: it is counted quicker
        same = np.flatnonzero(marks == mark)
        for start in range(0, len(same), _TOGETHER):
            part = same[start : start + _TOGETHER]
            runs = run(problem.of(part * 0), _at(tried, part), machine.stations)
            needs = needed(machine, runs, value_bytes[:, part * 0], prices)
            table[:, part] = [getattr(needs, name) for name in Needs.__struct_fields__]
    kept = _unbeaten(table)
    return _Tried(_at(tried, kept), Needs(*table[:, kept]))


def _unbeaten(table: Floats) -> Ints:
    """The columns of which no other is as low in all rows, of equals the first."""
    most = np.maximum(np.abs(table).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    middling = table[:, [(table / most).sum(axis=0).argmin()]]
    left = np.flatnonzero((table < middling).any(axis=0) | (table == middling).all(axis=0))  # most are beaten by it
    left, kept = left[np.lexsort(table[::-1, left])], []
    table = table[:, left]
    while len(left):
        kept.append(left[0])
        stays = np.flatnonzero(np.logical_or.reduce([row < row[0] for row in table]))
        left, table = left[stays], table[:, stays]
    return np.array(kept)


def needed(machine: Machine, runs: Run, value_bytes: Floats, prices: tuple[float, ...]) -> Needs:
    """What mappings need; `value_bytes` (3, m)."""
    moved = [runs.moves[0, t] for t in range(3)]
    off_chip = np.sum([(m.reads + m.updates) * width for m, width in zip(moved, value_bytes, strict=True)], axis=0)
    accesses, on_chip = np.zeros_like(runs.cycles), moved_on_chip(machine, runs, value_bytes)
    for s, place in enumerate(machine.places):
        for memory in place.memories:
            longest = np.maximum(*(on_chip[label] for label in memory.events))
            accesses = np.maximum(accesses, longest / memory.width_bytes / runs.instances[s])
    traffic = np.sum([on_chip[label] * price for label, price in zip(machine.events, prices, strict=True)], axis=0)
    return Needs(runs.cycles, off_chip, accesses, traffic)


def moved_on_chip(machine: Machine, runs: Run, value_bytes: Floats) -> dict[str, Floats]:
    """The events of a machine, (m,) each."""
    moved = {"control.tile_setup": runs.tiles}
    for s, place in enumerate(machine.places):
        for memory in place.memories:
            moved.update(zip(memory.events, level_bytes(runs, s, memory, value_bytes), strict=True))
        if place.array:
            moved[place.network] = _handed(machine, runs, value_bytes, s)
    return moved


def _handed(machine: Machine, runs: Run, value_bytes: Floats, s: int) -> Floats:
    """Bytes that the network below a station hands to its elements and takes from them: of a tensor that passes
    several networks, each element of the innermost has its own."""
    total = np.zeros_like(runs.cycles)
    for t, width in enumerate(value_bytes):
        outer = max(i for i in range(s + 1) if (i, t) in runs.moves)
        moved = runs.moves[outer, t]
        further = [i for i in range(s + 1, len(machine.places)) if machine.places[i].array]
        is_last = not further or any((i, t) in runs.moves for i in range(s + 1, further[0] + 1))
        total += (moved.reads + moved.updates) * np.where(is_last, moved.shared, 1.0) * width
    return total


def level_bytes(runs: Run, s: int, memory: Memory, value_bytes: Floats) -> tuple[Floats, Floats]:
    """Bytes read from and written to all instances of one level."""
    moved = [(runs.moves[s, t], value_bytes[t]) for t, held in enumerate(memory.holds) if held]
    read = sum((m.reads + m.drains) * width for m, width in moved)
    written = sum((m.fills + m.updates) * width for m, width in moved)
    return np.asarray(read), np.asarray(written)


def _joined(nests: list[Nest]) -> Nest:
    def side(parts: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
        return tuple(np.concatenate(each, axis=1) for each in zip(*parts, strict=True))

    return Nest(
        side(nest.tiles for nest in nests), side(nest.spread for nest in nests), side(nest.orders for nest in nests)
    )


def _at(nest: Nest, index: Ints) -> Nest:
    return Nest(*(tuple(part[:, index] for part in getattr(nest, name)) for name in Nest.__struct_fields__))


def _candidates(machine: Machine, problem: Problem, value_bytes: Floats) -> Nest:
    """The mappings of one operator that are tried."""
    inward, widths = machine.places[1:], tuple(value_bytes[:, 0].tolist())
    loops = (*_endless(problem), float(problem.stride[0]), float(problem.part[0]))
    tiles: list[Floats] = [problem.sizes]
    orders: list[Ints] = []
    for s, place in enumerate(inward):
        of = _OF["free" if s + 1 < len(inward) else machine.stationary]
        here, by = _shortlist(loops, widths, place.memories, s == 0, of)
        lower = np.minimum(tiles[-1][:, :, None], here[:, None, :]).reshape(8, -1)
        upper, row = np.divmod(np.arange(lower.shape[1]), here.shape[1])
        first = _distinct(upper[None], lower, by[None, row])
        tiles = [*(tile[:, upper[first]] for tile in tiles), lower[:, first]]
        orders = [*(order[upper[first]] for order in orders), by[row[first]]]
    spread = [_spread(*each) for each in zip(machine.places, tiles, [*tiles[1:], np.ones_like(tiles[0])], strict=True)]
    other = np.ones(tiles[0].shape[1], dtype=np.bool_)
    for part in spread:
        fresh = [~np.any((part[:, :way] == part[:, [way]]).all(axis=0), axis=0) for way in range(part.shape[1])]
        other = other[..., None] & np.stack(fresh, axis=-1).reshape(-1, *(1,) * (other.ndim - 1), len(fresh))
    kept, *ways = np.nonzero(other)
    placed = tuple(part[:, way, kept] for part, way in zip(spread, ways, strict=True))
    turns = tuple(_ORDERS[by[kept]].T for by in (*orders, orders[-1]))
    return Nest(tuple(tile[:, kept] for tile in tiles[1:]), placed, turns)


def _distinct(*parts: Floats | Ints) -> Ints:
    """The first of all columns that are equal."""
    first: Ints = np.sort(np.unique(_marks(*parts), return_index=True)[1])
    return first


def _marks(*parts: Floats | Ints) -> Floats:
    """By which columns are told apart: their products with a vector of random numbers."""
    draw = np.random.default_rng(0)
    marks: Floats = np.sum([draw.random(len(part)) @ part for part in parts], axis=0)
    return marks


def _endless(problem: Problem) -> list[float]:
    """The loops of one operator, endless where a batch lengthens them: images, groups, and rows of products."""
    sizes = problem.sizes[:, 0].copy()
    sizes[[N, G]] = _ENDLESS
    if np.prod(sizes[[Q, R, S]]) == 1:
        sizes[P] = _ENDLESS
    found: list[float] = sizes.tolist()
    return found


def _spread(place: Place, outer: Floats, inner: Floats) -> Floats:
    """Elements that the array of a place gives each loop, (8, w, m), in each of w ways: an axis is filled loop by loop
    as far as the tile goes, in equal rounds."""
    parts, ways = np.ceil(outer / inner), tuple(product(*(ways for _, ways in place.axes)))
    given = np.ones((8, len(ways), parts.shape[1]))
    for number, way in enumerate(ways):
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
    memories: tuple[Memory, ...],
    is_outer: bool,
    orders: tuple[int, ...],
) -> tuple[Floats, Ints]:
    """The tiles (8, k) of a menu that memories have room for, and which of `orders` their loops have, (k,). `loops` of
    an operator with its stride and part, `widths` of its values.

    Those stay that no others beat in the room of every memory, in what they let pass under the best of the orders, in
    how much is added up in them, and in how many channels of results share their inputs: whatever the room, a larger
    one has all that a smaller one has. Single values always pass."""
    sizes, value_bytes = np.array(loops[:8]), np.array(widths)[:, None]
    problem = Problem(sizes[:, None], np.array(loops[8:9]), np.array(loops[9:]))
    menu, held = (_outer if is_outer else _inner)(sizes), np.array([memory.holds for memory in memories])
    room = np.array([[memory.size_bytes] for memory in memories])
    needed_bytes = held @ (_footprints(loops[8], menu) * value_bytes)
    fits = (needed_bytes <= room).all(axis=0)
    tiles = np.hstack([menu[:, fits], np.ones((8, 1))])
    rooms = np.hstack([needed_bytes[:, fits], np.zeros_like(room)])
    inputs, weights, outputs = (bool(held[:, t].any()) for t in range(3))
    passing = np.stack(
        [_passing(problem, (inputs, weights, outputs), tiles, value_bytes, _ORDERS[order]) for order in orders]
    )
    added_up = np.prod(tiles[[C, R, S]], axis=0)
    side_by_side = np.prod(tiles[[G, K]], axis=0)
    kept = _unbeaten(np.vstack([rooms, passing.min(axis=0), -added_up, -side_by_side]))
    return tiles[:, kept], np.array(orders)[passing.argmin(axis=0)[kept]]


def _passing(
    problem: Problem, holds: tuple[bool, bool, bool], menu: Floats, value_bytes: Floats, order: Ints
) -> Floats:
    """Bytes that pass into a station that holds such tiles of an operator, (e,). A tensor that it does not hold passes
    whenever another tile of the others comes."""
    each = np.zeros(menu.shape[1], dtype=np.intp)
    many, orders = problem.of(each), np.repeat(order[:, None], len(each), axis=1)
    alone = np.ones_like(menu)
    stations = (Station((True, True, True)), Station(holds))
    found = run(many, Nest((menu,), (alone, alone), (orders, orders)), stations)
    passing, steps = np.zeros(len(each)), np.ceil(many.sizes / menu)
    for t, held in enumerate(holds):
        if held:
            values = found.moves[1, t].fills + found.moves[1, t].drains
        else:
            values = np.prod(many.sizes[CONCERNS[t]], axis=0) * np.prod(steps[~CONCERNS[t]], axis=0)
        passing += values * value_bytes[t]
    return passing


def _footprints(stride: float, menu: Floats) -> Floats:
    """Values of each tensor in a tile, (3, e)."""
    span = [(menu[result] - 1) * stride + menu[window] for result, window in ((P, R), (Q, S))]
    inputs = menu[N] * menu[G] * menu[C] * span[0] * span[1]
    weights = menu[G] * menu[K] * menu[C] * menu[R] * menu[S]
    return np.stack([inputs, weights, menu[N] * menu[G] * menu[K] * menu[P] * menu[Q]])


def _outer(sizes: Floats) -> Floats:
    """Tiles (8, e) of some rows or some images, some of both kinds of channels, and whole windows."""
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
    """Tiles (8, e) of an element: a few channels, a window or a value of it, a few columns."""
    return np.array(
        list(product(*(sorted({min(e, size) for e in menu}) for menu, size in zip(_INNER, sizes, strict=True))))
    ).T


_INNER = (
    (1.0,),
    (1.0,),
    (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0),
    (1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
    (1.0,),
    (1.0, 4.0, 16.0, 64.0),
    (1.0, np.inf),
    (1.0, np.inf),
)
