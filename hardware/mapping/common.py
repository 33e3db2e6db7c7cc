"""What all mappings share: tiles of contractions, distributed over units in rounds; off-chip traffic through a
capacity; vector work in blocks of elements; and the stages and phrases by which texts tell how an operator runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import cast

import msgspec
import numpy as np

from hardware.architecture_facts import Efficiency, GpuConstants, Tiles, usable_cache
from hardware.base.text import whole
from hardware.demand import READ, READ_WEIGHT, WRITE, Bools, Demand, Floats, Ints, OpClass
from hardware.device import Device
from hardware.plan import Plan
from hardware.setup import Setup


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
        columns = [getattr(self, name) for name in self.__struct_fields__]
        return Tiling(*[column[index] if isinstance(column, np.ndarray) else column for column in columns])

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
    (taken,) = sizes[0].nonzero()
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
    splits = menu.splits if not demand.training_devices or len(menu.splits) == 1 else (*menu.splits, *DEEP_SPLITS)
    choices = TileChoices(menu.shapes, splits, device, macs_per_s, k_step, step_s=step_s / k_step, **timing)
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
    seconds, blocks, waves = [each.ravel()[place] for each in every]
    units, (tile_m, tile_n) = np.minimum(blocks, choices.device.units), choices.tiles[tile, :2].T
    return Tiling(seconds, blocks, waves, units, tile_m, tile_n, np.array(choices.splits, dtype=np.float64)[way])


def _evaluate_tiles(gemm: Floats, choices: TileChoices) -> Sequence[Floats]:
    """Return seconds, blocks and waves, (t, s, n) each, for t tiles with s splits of K."""
    units, assumed = choices.device.units, cast(GpuConstants, choices.device.arch.constants)
    g, m, n, k, *is_fed = gemm
    tm, tn, rate = choices.tiles.T[..., None, None]
    split = np.array(choices.splits, dtype=np.float64)[None, :, None]
    is_split = split > 1
    tiles_m = np.maximum(m / tm + choices.partly_full, 1.0) if choices.partly_full else np.ceil(m / tm)
    results = g * tiles_m * np.ceil(n / tn)
    blocks, waves = results * split, np.ceil(results * (split / units))
    depth = np.ceil(k / split / choices.k_step) * choices.k_step
    rate = rate * np.where(is_split, assumed.split_rate, 1.0)
    seconds = waves * depth
    seconds *= _step_seconds(tm, tn, rate, choices, is_fed[0] if is_fed else None)
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


def _step_seconds(tm: Floats, tn: Floats, rate: Floats, choices: TileChoices, is_fed: Floats | None) -> Floats:
    """Return the seconds of a step along K of tiles of these sides. A small tile reuses its operands too little: the
    last on-chip level cannot feed the unit at full rate. If `is_fed` is given, only
    the products that it marks wait for loads, which overlap them in part."""
    multiply_s, load_s = tm * tn / (rate * choices.macs_per_s), (tm + tn) * choices.operand_s
    if is_fed is None:
        return np.maximum(multiply_s, load_s)
    exponent = cast(GpuConstants, choices.device.arch.constants).feed_overlap
    fed_s = multiply_s * (1.0 + (load_s / multiply_s) ** exponent) ** (1.0 / exponent)
    return np.where(is_fed > 0.0, fed_s, multiply_s)


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
    return Tiling(*[np.where(take, getattr(a, name), getattr(b, name)) for name in Tiling.__struct_fields__])


Seconds = Floats | float
DEEP_SPLITS = (32, 64, 128)  # of the rows of all images or tokens, over which gradients of weights are summed
CONTRACTIONS = (OpClass.GEMM, OpClass.CONV, OpClass.DEPTHWISE, OpClass.ATTENTION)


class Traffic(msgspec.Struct, frozen=True, dict=True):
    """Bytes per operator, shape (n,). `dram_*` cross the memory interface; `chip_*` cross the last on-chip
    level, whether or not they came from memory."""

    dram_read: Floats
    dram_write: Floats
    chip_read: Floats
    chip_write: Floats
    weight_read: Floats

    @cached_property
    def dram_bytes(self) -> Floats:
        """Bytes that cross the memory interface either way."""
        return self.dram_read + self.dram_write

    @cached_property
    def chip_bytes(self) -> Floats:
        """Bytes that cross the last on-chip level either way."""
        return self.chip_read + self.chip_write


CountEvents = Callable[[Demand, Setup, Traffic, Tiling, Bools, Floats], Floats]
BLOCKS, PASSES, STARTS = range(3)  # rows of `Mapping.serial_s`
TIMES = ("matrix_s", "vector_s", "dram_s", "chip_s", "busy_s", "fill_s", "serial_s", "staged_s", "clocked_s")


BY_TILES = ("matrix_s", "chip_s", "units", "counts", "tiling")  # what follows from tiles, without engines


class Mapping(msgspec.Struct, frozen=True, kw_only=True):
    """The mapping of each operator to a device, before operators are joined into kernels, at s settings of the
    efficiencies.

    `matrix_s`, `vector_s` (s, n) are on each kind of unit, `dram_s`, `chip_s` at each memory level, `*_ideal_s` at full
    peak. `counts` is (e, n); counts that need the final time are still zero. `is_reduced` marks products with fewer
    multiplications. `busy_s` (s, k) is set if kernels work at once and wait for each other; in its part `fill_s` (k,) a
    pipeline fills, while the batch before runs if the kernel `is_resident`. Nothing hides `serial_s` (3, n): waiting of
    units while blocks fill and drain, memory passes of auxiliary kernels, and their starts. `staged_s` (n,) are memory
    passes within `vector_s` or `busy_s`, which no clock makes quicker. `clocked_s` (k,) is the time in which all units
    are clocked, if those without work are not. Tiles of `least_energy` take less of it. `mark` says what a search left
    out."""

    matrix_s: Floats
    vector_s: Floats
    dram_s: Floats
    chip_s: Floats
    matrix_ideal_s: Floats
    vector_ideal_s: Floats
    on_matrix: Bools
    units: Floats
    traffic: Traffic
    tiling: Tiling
    counts: Floats
    is_reduced: Bools
    busy_s: Floats | None = None
    fill_s: Floats | None = None
    is_resident: Bools | None = None
    serial_s: Floats | None = None
    staged_s: Floats | None = None
    clocked_s: Floats | None = None
    least_energy: Mapping | None = None
    mark: str = ""

    def exchange(self, other: Mapping, taken: Bools) -> Mapping:
        """Return the mapping with the tiles of another, and what follows from them, where `taken`, (n,), holds."""
        changed = {name: np.where(taken, getattr(other, name), getattr(self, name)) for name in BY_TILES[:-1]}
        return msgspec.structs.replace(self, tiling=choose(taken, other.tiling, self.tiling), **changed)


def add_serial(
    mapping: Mapping, demand: Demand, *, blocks_s: Seconds = 0.0, passes_s: Seconds = 0.0, starts_s: Seconds = 0.0
) -> Mapping:
    """Return the mapping with more serial seconds of each kind, (n,)."""
    serial_s = np.zeros((3, demand.n)) if mapping.serial_s is None else mapping.serial_s.copy()
    for row, seconds in ((BLOCKS, blocks_s), (PASSES, passes_s), (STARTS, starts_s)):
        serial_s[row] += seconds
    return msgspec.structs.replace(mapping, serial_s=serial_s)


def usable_last_level_bytes(device: Device) -> float:
    """Return the bytes of the last on-chip level that tensors of a model can use."""
    stated = device.facts.get("usable_last_level")
    return device.last_level_bytes * (stated.value if stated else usable_cache(device.arch.is_managed))


def traffic(demand: Demand, device: Device, reorder: tuple[float, float] = (0.0, 0.0)) -> Traffic:
    """Return the bytes that reach memory, given what the last on-chip level can hold (LRU).

    `reorder` is how many more times a convolution's weights and activations pass the last level because software
    rearranges them. The part that the level cannot hold goes to memory."""
    capacity = usable_last_level_bytes(device)
    reads, weights, writes, again = _misses(demand, device, capacity)
    chip_reads, chip_writes = demand.read_bytes, demand.written_bytes
    passing = np.zeros(demand.n)
    if any(reorder):
        activations = demand.moved_bytes[READ] + demand.moved_bytes[WRITE]
        rearranged = demand.moved_bytes[READ_WEIGHT] * reorder[0] + activations * reorder[1]
        passing = np.where(demand.op_class == OpClass.CONV, rearranged, 0.0)
        again = again + np.where(passing > 0, np.maximum(passing - capacity * max(reorder), 0.0), 0.0)
    return Traffic(reads + weights + again, writes, chip_reads + np.maximum(again, passing), chip_writes, weights)


def _misses(demand: Demand, device: Device, capacity: float) -> Floats:
    """Return the bytes of reads, weights, writes, and operands read again that reach memory, (4, n). Software that
    manages the level keeps all weights of a model there if they leave room and this moves less."""

    def missed_bytes(room: Floats | float, distance: Floats) -> Floats:
        """Return the bytes with this room for what stays for this distance."""
        left = room[demand.transfers.op] if isinstance(room, np.ndarray) else room
        missed = np.maximum(demand.transfers.size_bytes - np.maximum(left - distance, 0.0), 0.0)
        parts = [demand.per_op(missed, role) for role in (READ, READ_WEIGHT, WRITE)]
        return np.array([*parts, reread(demand, demand.read_bytes, room)])

    distance = demand.transfers.distance
    shared = missed_bytes(capacity, distance)
    if not device.arch.is_managed:
        return shared
    most = capacity * device.arch.constants.pinned_share
    held = np.where(demand.weight_bytes > most, 0.0, demand.weight_bytes)
    if not held.any():
        return shared
    kept = held[demand.transfers.op]
    is_pinned = (demand.transfers.role == READ_WEIGHT) & (kept > 0)
    pinned = missed_bytes(capacity - held, np.where(is_pinned, -kept, distance))
    model = demand.model[demand.kernel]
    times = 1.0 if demand.order is None else np.bincount(demand.order)[demand.kernel]
    more = np.bincount(model, (pinned - shared).sum(axis=0) * times)[model] > 0.0
    return np.where(more, shared, pinned)


def reread(demand: Demand, operand_bytes: Floats, capacity: Floats | float) -> Floats:
    """Return the bytes read again because a contraction's operands do not fit on chip together, (n,), at the cheapest
    of three blockings: hold panels of either operand, or a square of results."""
    g, m, n, k = demand.gemm
    capacity = np.maximum(capacity, 2.0 * demand.element_bytes)  # without memory: a square of one result
    right = g * k * n * demand.right_bytes
    left = np.minimum(g * m * k * demand.element_bytes, np.maximum(operand_bytes - right, 0.0))
    groups = np.maximum(g, 1.0)
    side = (capacity / (2.0 * demand.element_bytes)) ** 0.5
    passes_left = np.maximum(2.0 * right / groups / capacity, 1.0) - 1.0
    passes_right = np.maximum(2.0 * left / groups / capacity, 1.0) - 1.0
    streamed = left * (np.maximum(n / side, 1.0) - 1.0) + right * (np.maximum(m / side, 1.0) - 1.0)
    again: Floats = np.minimum(np.minimum(left * passes_left, right * passes_right), streamed)
    return again


def vector_work(demand: Demand, special_flops: float) -> Floats:
    """Return the vector-unit FLOP slots per operator: element-wise arithmetic plus the slots of special functions."""
    return demand.vector_flops + demand.special * (special_flops - 1.0)


def last_level_seconds(device: Device, moved_bytes: Floats) -> Floats:
    """Return the seconds to move bytes at the last on-chip level, at the reachable share of its bandwidth."""
    reached = device.last_level_bandwidth * device.arch.constants.last_level_reached
    seconds: Floats = moved_bytes / reached
    return seconds


def memory_seconds_of(device: Device, moved_bytes: Floats, bandwidth: Floats | float) -> Floats:
    """Return the seconds to move bytes at the memory interface, at a share of its data-sheet bandwidth."""
    reached = device.memory_bandwidth * bandwidth
    if fact := device.arch.unit_bandwidth:
        reached = np.minimum(reached, device.units * device.clock_hz * device.values[fact])
    seconds: Floats = moved_bytes / reached
    return seconds


def overlapped(resources: Floats, exponent: float) -> Floats:
    """Return the seconds of each kernel, (s, k), from those of two kinds of unit and two levels of memory, (s, 4, k).

    Near the ridge point overlap is imperfect: combine both with a high exponent. The smaller time is hidden entirely
    below half of the larger."""
    compute, memory = np.maximum(resources[:, 0], resources[:, 1]), np.maximum(resources[:, 2], resources[:, 3])
    larger, smaller = np.maximum(compute, memory), np.minimum(compute, memory)
    ratio = np.maximum(2.0 * smaller / np.where(larger > 0, larger, 1.0) - 1.0, 0.0)
    combined: Floats = larger * (1.0 + ratio**exponent) ** (1.0 / exponent)
    return combined


def empty_counts(device: Device, demand: Demand) -> tuple[Floats, dict[str, int]]:
    """Return a zero count matrix (e, n) for the device's taxonomy and the row of each event label."""
    return np.zeros((len(device.arch.events), demand.n)), device.arch.row


def on_matrix_unit(demand: Demand, plan: Plan) -> Bools:
    """Return True where the plan gives an operator's contraction to matrix units, (n,)."""
    taken = [pair[0] == "matrix" for pair in (plan.contraction, plan.convolution)]
    on_matrix: Bools = np.where(demand.is_convolution, taken[1], taken[0]) & (demand.macs > 0)
    return on_matrix


def wide_products(demand: Demand, plan: Plan) -> Bools:
    """Return True for products whose right operand is wider than weights are, (n,): they run in the wide format."""
    stored = plan.widths.weights if plan.widths.weights < plan.widths.activations else np.inf
    is_wide: Bools = (demand.op_class == OpClass.GEMM) & (demand.right_bytes > stored)
    return is_wide


def assemble(
    demand: Demand,
    setup: Setup,
    rates: Efficiency,
    flow: Traffic,
    matrix: Tiling,
    vector: Tiling,
    on_matrix: Bools,
    count_events: CountEvents,
) -> Mapping:
    """Join tilings, vector work, traffic and counts into a Mapping."""
    device = setup.device
    bandwidth, compute_rate = rates.bandwidth[:, demand.op_class], _compute_rate(demand, setup, rates, on_matrix)
    contraction = demand.macs > 0
    chosen = choose(on_matrix, matrix, vector) if (contraction & ~on_matrix).any() else matrix
    product_s, ideal = _product_seconds(demand, setup, chosen, on_matrix, compute_rate)
    elementwise_s, vector_units = elementwise_seconds(demand, device, setup.vector_flops)
    matrix_s = np.where(on_matrix, product_s, 0.0)
    vector_s = np.where(on_matrix, 0.0, product_s) + elementwise_s / rates.compute[:, demand.vector_class]
    vector_ideal_s = np.where(on_matrix, 0.0, ideal) + demand.vector_flops / setup.vector_flops
    dram_s, chip_s = memory_seconds_of(device, flow.dram_bytes, bandwidth), last_level_seconds(device, flow.chip_bytes)
    if demand.unpack_ops is not None:
        # Unpacking is part of the product's kernel, and as efficient as the rest of it.
        unpacked_s = unpack_seconds(demand, setup)
        vector_s, vector_ideal_s = vector_s + unpacked_s / compute_rate, vector_ideal_s + unpacked_s
        demand = demand.with_values(vector_flops=demand.vector_flops + unpack_flops(demand, device))
    used = np.minimum(np.maximum(chosen.units, 1.0), units_in_all(setup, on_matrix))
    units = np.where(contraction, used, vector_units)
    return Mapping(
        matrix_s=matrix_s,
        vector_s=vector_s,
        dram_s=dram_s,
        chip_s=chip_s,
        matrix_ideal_s=np.where(on_matrix, ideal, 0.0),
        vector_ideal_s=vector_ideal_s,
        on_matrix=on_matrix,
        units=units,
        traffic=flow,
        tiling=chosen,
        counts=count_events(demand, setup, flow, chosen, on_matrix, units),
        is_reduced=np.zeros(demand.n, dtype=np.bool_),
    )


def _compute_rate(demand: Demand, setup: Setup, rates: Efficiency, on_matrix: Bools) -> Floats:
    """Return the share of full rate at which each operator computes, (s, n). Convolutions depend on the layout of
    images and on the unit."""
    compute_rate: Floats = rates.compute[:, demand.op_class]
    relative = np.where(
        on_matrix, rates.nchw[:, None] if setup.layout == "nchw" else 1.0, rates.vector_convolution[:, None]
    )
    if (relative != 1.0).any():
        compute_rate = np.where(demand.op_class == OpClass.CONV, compute_rate * relative, compute_rate)
    return compute_rate


def _product_seconds(
    demand: Demand, setup: Setup, chosen: Tiling, on_matrix: Bools, compute_rate: Floats
) -> tuple[Floats, Floats]:
    """Return the seconds of contractions, (s, n), and those at the peak of their unit, (n,): tiles take longer than the
    peak allows, formats of attention and of wide products are slower, and a lower clock slows only what it clocks."""
    device, plan = setup.device, setup.plan
    # A contraction without GEMM dimensions (recurrent cells) runs at the rate of its unit, untiled.
    padded = np.multiply.reduce(demand.gemm)
    scale = np.where((padded > 0) & ~demand.is_depthwise, demand.macs / np.maximum(padded, 1.0), 1.0)
    ideal = 2.0 * demand.macs / np.where(on_matrix, setup.matrix_flops, setup.vector_mac_flops)
    tiled = chosen.seconds * scale / demand.product_rate
    contraction_s = np.where(tiled > 0, tiled, ideal / np.maximum(demand.product_rate, 1.0))
    if plan.attention != plan.contraction[1]:
        slower = np.where(demand.is_attention, _attention_s(setup), 1.0)
        ideal, contraction_s = ideal * slower, contraction_s * slower
    if (is_wide := wide_products(demand, plan) & on_matrix).any():
        ideal = np.where(is_wide, ideal * setup.matrix_flops / setup.wide_setup.matrix_flops, ideal)
    product_s = np.maximum(contraction_s / compute_rate, ideal / np.maximum(demand.product_rate, 1.0))
    if device.clock_share < 1.0:  # what products of matrix units wait for below their peak keeps its time
        at_peak_s = np.where(on_matrix, ideal / device.arch.constants.matrix_clock_bound, np.inf)
        product_s = np.maximum(product_s * device.clock_share, np.minimum(product_s, at_peak_s))
    return product_s, ideal


def _attention_s(setup: Setup) -> float:
    """Return the seconds of an attention product over those of an equal product of weights, at full rates; 1 at
    least."""
    device, plan = setup.device, setup.plan
    unit = plan.contraction[0]
    rate = plan.matrix_rate if unit == "matrix" else 1.0
    return max(device.mac_rate(unit, plan.contraction[1]) * rate / device.mac_rate(unit, plan.attention), 1.0)


def unpack_flops(demand: Demand, device: Device) -> Floats:
    """Return the operations of unpacking stored values, (n,), on all units: once per block of rows that uses them."""
    assert demand.unpack_ops is not None
    rows = device.arch.constants.unpack_rows
    operations: Floats = demand.unpack_ops * np.maximum(np.ceil(demand.gemm[1] / rows), 1.0)
    return operations


def unpack_seconds(demand: Demand, setup: Setup) -> Floats:
    """Return the seconds of unpacking at the vector units' full rate, (n,): an operation in each slot of a
    multiply-add, two if lanes issue integers at once with other operations."""
    device, plan = setup.device, setup.plan
    at_once = device.facts.get("unpacking_at_once")
    rate = device.mac_rate("vector", plan.unpacking) * (at_once.value if at_once else 1.0)
    return unpack_flops(demand, device) / (device.units * rate)


def elementwise_seconds(demand: Demand, device: Device, peak: float) -> tuple[Floats, Floats]:
    """Return the vector units' seconds for all but products, at a peak in FLOP/s, and the units at work, (n,) each."""
    return vector_seconds(demand, device, vector_work(demand, device.arch.constants.special_flops), peak)


def vector_beside(demand: Demand, setup: Setup, rates: Efficiency) -> Floats:
    """Return the seconds of vector work in each operator's kernel besides its products, (n,), at nominal rates."""
    seconds = elementwise_seconds(demand, setup.device, setup.vector_flops)[0] / rates.compute[0, OpClass.ELEMENTWISE]
    if demand.unpack_ops is not None:
        seconds = seconds + unpack_seconds(demand, setup) / rates.compute[0, demand.op_class]
    return demand.per_kernel(seconds)[demand.kernel]


def units_in_all(setup: Setup, on_matrix: Bools) -> Floats:
    """Return the units that each operator could use, (n,): those of products for what runs on them, else all units."""
    return np.where(on_matrix, total_units(setup), setup.device.units)


def total_units(setup: Setup) -> float:
    """Return the units, or the arrays in them, that blocks are distributed over: all that multiply the format."""
    device = setup.device
    of_format = device.file.format_units.get(setup.plan.matrix)
    units = of_format.value * device.units / device.file.facts["units"].value if of_format else device.units
    return units * device.values.get("arrays_per_unit", 1.0)


def product(demand: Demand, i: int) -> str:
    """Return the sizes of a contraction as text."""
    g, m, n, k = demand.gemm[:, i]
    groups = f"{whole(g)} x " if g > 1 else ""
    return f"{groups}{whole(m)} x {whole(n)} x {whole(k)} matrix product"


def elements(demand: Demand, i: int, what: str) -> str:
    """Return the number of elements of an operator, with their name."""
    return f"{whole(demand.elements[i])} {what}"


def format_run(mapping: Mapping, plan: Plan, i: int) -> str:
    """Return the format in which an operator's multiply-accumulates run."""
    return plan.matrix if mapping.on_matrix[i] else plan.vector_mac


def split(mapping: Mapping, i: int) -> str:
    """Return the number of ways in which K is divided, as text; '' if it is not."""
    ways = mapping.tiling.split[i]
    return f", K split {whole(ways)} ways" if ways > 1 else ""


FILL, STREAM, DRAIN = NAMES = ("fill", "steady", "drain")  # in the order of time
_OF_TILING = ("seconds", "blocks", "waves", "units", "tile_m", "tile_n", "split")


class Stages(msgspec.Struct, frozen=True, kw_only=True):
    """The schedule of one operator. `blocks` of its index space along M, N, and its groups and parts of K, of `block`
    (M, N, K) each, are taken by `units` at once, in `rounds`; work without a product has blocks of `block[0]` elements.

    Units `fill`, `stream` and `drain` for so many cycles of a clock of `clock_hz`, in all rounds: once, or in each
    round if they are `repeated`. `cells` are the rows and columns of the array of a unit, (0, 0) for a unit that is
    none; `keeps` names what stays in its cells. The wavefront of a step crosses a diagonal of cells a cycle, and one
    follows after each `beat`; the first of a round enters after `loading` cycles, and each is in the cells for `skew`
    cycles."""

    clock_hz: float
    blocks: tuple[int, int, int]
    block: tuple[float, float, float]
    units: int
    rounds: int
    fill: float = 0.0
    stream: float
    drain: float = 0.0
    repeated: tuple[str, ...] = (STREAM,)
    cells: tuple[int, int] = (0, 0)
    keeps: str = ""
    beat: float = 1.0
    loading: float = 0.0
    skew: float = 0.0

    @property
    def cycles(self) -> dict[str, float]:
        """The cycles by stage."""
        return dict(zip(NAMES, (self.fill, self.stream, self.drain), strict=True))


def stream_stages(demand: Demand, setup: Setup, mapping: Mapping, i: int) -> Stages:
    """Return operator `i` as it streams all the time: in tiles, or without them in blocks of elements."""
    device, tiling = setup.device, mapping.tiling.take(np.full(1, i))
    seconds, blocks, rounds, units, tile_m, tile_n, split = (float(getattr(tiling, name)[0]) for name in _OF_TILING)
    g, m, n, k = demand.gemm[:, i].tolist()
    is_tiled = bool(tiling.is_tiled[0])
    if mapping.is_reduced[i]:
        m = max(float(demand.patches[i]), 1.0)
    if not is_tiled:
        blocks = max(math.ceil(demand.elements[i] / device.arch.constants.elements_per_block), 1)
        units = min(float(mapping.units[i]), blocks)
        rounds, k, seconds = blocks / units, 1.0, 0.0
    if not is_tiled or demand.is_depthwise[i]:  # results of all channels are folded into blocks
        g, m, n = 1.0, max(float(demand.elements[i]), 1.0), 1.0
        tile_m, tile_n = m / blocks, 1.0
    layers, along_n = max(round(g), 1) * max(math.ceil(split), 1), max(math.ceil(n / tile_n), 1)
    if blocks % (along_n * layers):  # products of one input are one product, with more columns
        along_n = max(round(blocks / (layers * max(math.ceil(m / tile_m), 1))), 1)
    clock_hz = device.matrix_clock_hz if mapping.on_matrix[i] else device.vector_clock_hz
    return Stages(
        clock_hz=clock_hz,
        blocks=(max(math.ceil(blocks / (along_n * layers) - 1e-9), 1), along_n, layers),
        block=(min(tile_m, m), min(tile_n, n), k / max(split, 1.0)),
        units=max(round(units), 1),
        rounds=max(math.ceil(rounds), 1),
        stream=(seconds or max(float(mapping.matrix_s[0, i]), float(mapping.vector_s[0, i]))) * clock_hz,
    )
