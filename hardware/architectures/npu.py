"""NPU, static dataflow: a compiler lays a network out over the chip, a few units and some memory for each layer.

Rows stream through layers that all work at once, so the slowest sets the pace. A network that does not fit is cut into
contexts that run one after another: each batch loads their weights again and passes data between them. A chip that runs
one layer at a time (a DLA) has a context per layer.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple, cast

import msgspec
import numpy as np

from hardware.architecture import Architecture
from hardware.architecture_facts import ChipLevel, Efficiency, NpuConstants, usable_cache
from hardware.base.text import whole
from hardware.demand import READ, READ_WEIGHT, WRITE, Bools, Demand, Floats, Ints, OpClass
from hardware.device import Device
from hardware.mapping import common, result_blocks
from hardware.mapping.common import Mapping, Stages, Tiling, Traffic, elements, format_run, product
from hardware.setup import Setup


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """The capacity of a chip, bytes of weights and layers at once; seconds to switch its content, and seconds per byte
    that one part hands to another."""

    weight_bytes: float
    layers: int
    switch_s: float
    byte_s: float


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """k kernels in order, (k,) each: `weight_bytes`; `need_s` of the whole chip, which a part shares, and `least_s` at
    its peak and over its link; `stream_s`, the least seconds in which data passes; `lag` behind the inputs, as a
    fraction of the part's time."""

    weight_bytes: Floats
    need_s: Floats
    least_s: Floats
    stream_s: Floats
    lag: Floats


def starts(group: Ints) -> Ints:
    """Return the index at which each run of equal numbers begins."""
    return np.flatnonzero(np.diff(group, prepend=-1))


def contexts(demand: Demand, steps: Steps, room: Room) -> Ints:
    """Return the part of its model (context) that each kernel is in, numbered over all models, (k,)."""
    if room.layers == 1:
        return np.arange(demand.n_kernels)
    own, before = demand.kernel[demand.transfers.op], demand.transfers.previous
    is_handed = (before >= 0) & (demand.transfers.role != READ_WEIGHT) & (before != own)
    seconds = demand.transfers.size_bytes[is_handed] * room.byte_s
    begins, ends = np.minimum(own, before)[is_handed], np.maximum(own, before)[is_handed]
    is_read, begins_part = demand.transfers.role[is_handed] == READ, np.zeros(demand.n_kernels, dtype=np.int64)
    begins_part[starts(demand.model)] = 1
    for runs in _models_to_divide(demand.model, steps.weight_bytes, begins, ends, room):
        kernels, of = runs[0]
        of_batch = ("need_s", "least_s", "stream_s", "lag")
        shared = {name: np.stack([getattr(steps, name)[some] for some, _ in runs], axis=1) for name in of_batch}
        many = Steps(weight_bytes=steps.weight_bytes[kernels], **shared)
        handed_s = np.stack([seconds[each] for _, each in runs], axis=1)
        ways = begins[of] - kernels.start, ends[of] - kernels.start, is_read[of]
        found = quickest(many, ways, handed_s, room)
        for (each, _), parts in zip(runs, found, strict=True):
            begins_part[each.start + np.array(parts)] = 1
    numbers: Ints = np.cumsum(begins_part) - 1
    return numbers


def _models_to_divide(
    model: Ints, weight_bytes: Floats, begins: Ints, ends: Ints, room: Room
) -> Iterable[list[tuple[slice, slice]]]:
    """Return the kernels and transfers of the models that do not fit as a whole; those that differ in batch alone
    together. Transfers go from kernels `begins` to kernels `ends`, ordered by model."""
    first = starts(model)
    handed = np.searchsorted(model[begins], model[first]).tolist()
    alike: dict[tuple[bytes, ...], list[tuple[slice, slice]]] = {}
    for begin, end, some, more in zip(
        first.tolist(), [*first[1:].tolist(), len(model)], handed, [*handed[1:], len(begins)], strict=True
    ):
        kernels, of = slice(begin, end), slice(some, more)
        if end - begin > room.layers or weight_bytes[kernels].sum() > room.weight_bytes:
            network = weight_bytes[kernels], begins[of] - begin, ends[of] - begin
            alike.setdefault(tuple(each.tobytes() for each in network), []).append((kernels, of))
    return alike.values()


def quickest(steps: Steps, ways: tuple[Ints, Ints, Bools], seconds: Floats, room: Room) -> list[list[int]]:
    """Return, for each of b batches, the kernels at which the parts of one model begin so that the total time is least.
    All arrays of `steps` but the weights are (k, b).

    Each of h transfers goes one of `ways`, (h,) each: from a kernel to a later one, which it reads or writes for. If a
    cut separates these, it takes `seconds` (h, b) of the link while the part runs that it is read or written in."""
    n, b = steps.need_s.shape
    weights, need, peak, lag = (
        np.concatenate([np.zeros((1, *each.shape[1:])), each]).cumsum(axis=0)
        for each in (steps.weight_bytes, steps.need_s, steps.least_s, steps.lag)
    )
    low = np.maximum(np.searchsorted(weights, weights[1:] - room.weight_bytes), np.arange(n) + 1 - room.layers)
    low = np.minimum(np.maximum.accumulate(low), np.arange(n))  # a kernel that is too large is a part by itself
    order = np.argsort(ways[1], kind="stable")
    (begins, ends, is_read), seconds = (each[order] for each in ways), seconds[order]
    until = np.searchsorted(ends, np.arange(n + 1)).tolist()
    written = np.zeros((n, b))  # by origin
    np.add.at(written, begins[~is_read], seconds[~is_read])
    least, before = np.zeros((n + 1, b)), np.zeros((n + 1, b), dtype=np.int64)  # of all kernels before
    slowest, handed = np.zeros((n, b)), np.zeros((n, b))  # of the part from each kernel to `end`
    batches, first = np.arange(b), low.tolist()
    for end in range(1, n + 1):
        for i in range(until[end - 1], until[end]):
            if is_read[i]:
                handed[begins[i] + 1 : end] += seconds[i]
            else:
                handed[: begins[i] + 1] -= seconds[i]
        handed[:end] += written[end - 1]
        part = slice(first[end - 1], end)
        streams = slowest[part]
        np.maximum(streams, steps.stream_s[end - 1], out=streams)
        cost = np.maximum(need[end] - need[part], peak[end] - peak[part] + handed[part])
        np.maximum(cost, streams, out=cost)
        cost *= 1.0 + lag[end] - lag[part]
        cost += least[part]
        best = cost.argmin(axis=0)
        least[end], before[end] = cost[best, batches] + room.switch_s, part.start + best
    parts: list[list[int]] = [[n] for _ in range(b)]
    for begun, each in zip(parts, before.T.tolist(), strict=True):
        while begun[-1]:
            begun.append(each[begun[-1]])
    return [begun[1:] for begun in parts]


class Placement(msgspec.Struct, frozen=True):
    """The placement of each kernel, (k,): `context`, over all models; `reloads`, True if each batch loads its weights
    again; `units` at work on it, of `placed` in its context; `stored` bytes of a weight over its width in the plan.
    `begins` are the first kernels of the contexts."""

    context: Ints
    begins: Ints
    reloads: Bools
    units: Floats
    placed: Floats
    stored: Floats


def map_operators(demand: Demand, setup: Setup, rates: Efficiency) -> Mapping:
    """Map contractions to the arrays of the units that each layer has; element-wise work follows on the same units."""
    device, work = setup.device, _work_on_units(demand, setup, rates)
    beside = _streamed_traffic(demand, setup)
    dram_s, chip_s = _memory_seconds(demand, device, rates, beside, work.blocks)
    # While layers stream to each other, images enter and results leave: the link then limits all layers together.
    link_s = dram_s * _streams(device)
    # Where layers stream to each other, not all units can have one.
    share = cast(NpuConstants, device.arch.constants).usable_units if _streams(device) else 1.0
    usable = max(float(np.floor(device.units * share)), 1.0)
    on_usable = work.matrix_s / usable, work.vector_s / usable, dram_s - link_s, chip_s
    every_s = np.stack(np.broadcast_arrays(*on_usable), axis=1)
    least_s = np.maximum(*demand.per_kernel(np.array((work.matrix_ideal_s, work.vector_ideal_s))))
    steps = Steps(
        weight_bytes=np.zeros(0),
        need_s=common.overlapped(demand.per_kernel(every_s), device.software.overlap.value),
        least_s=np.maximum(least_s, demand.per_kernel(link_s)),
        stream_s=_stream_seconds(demand, device),
        lag=demand.per_kernel(_lag(demand, device)),
    )
    # Seconds of one unit, whose arrays and lanes work at once.
    unit_work_s = np.maximum(demand.per_kernel(work.matrix_s[0]), demand.per_kernel(work.vector_s[0]))
    placed = _place(demand, device, steps, usable, unit_work_s)
    change = _change_contexts(demand, device, beside, placed, rates)
    pace_s, taken_s = _share_context(placed, steps, steps.least_s + demand.per_kernel(change.handed_s))
    fill_s = pace_s[:, demand.kernel] * _lag(demand, device) if work.blocks is None else work.blocks.unhidden_s[None]
    paced = _pace_units(placed, steps, usable, unit_work_s)
    at_work = np.minimum(paced, taken_s / np.maximum(unit_work_s, 1e-300))[:, demand.kernel]
    idle = work.on_matrix * (work.padded - demand.macs)
    if _streams(device):
        # Clocked cells of a context that wait for its slowest layer or stream are clocked with those at work.
        cycles = unit_work_s * paced * usable * device.clock_hz * device.array_rows * device.array_columns
        lacking: Floats = np.maximum(cycles - demand.per_kernel(work.on_matrix * demand.macs), 0.0)
        idle = lacking[demand.kernel] * demand.head
    return Mapping(
        matrix_s=work.matrix_s * at_work + fill_s,
        vector_s=work.vector_s * at_work + fill_s,
        dram_s=dram_s + change.handed_s + change.waits_s + change.switch_s,
        chip_s=chip_s,
        matrix_ideal_s=work.matrix_ideal_s,
        vector_ideal_s=work.vector_ideal_s,
        on_matrix=work.on_matrix,
        units=placed.placed[demand.kernel],
        traffic=change.flow,
        tiling=_tiling(demand, device, placed),
        counts=_counts(demand, setup, change, placed, work.on_matrix, idle),
        is_reduced=np.zeros(demand.n, dtype=np.bool_),
        busy_s=taken_s + demand.per_kernel(fill_s + change.waits_s + change.switch_s),
        fill_s=demand.per_kernel(fill_s[0]),
        is_resident=~placed.reloads,
        staged_s=change.waits_s[0] + change.switch_s,
        clocked_s=unit_work_s / device.units,  # blocks without a layer or without data are not clocked
    )


class UnitWork(NamedTuple):
    """The work of operators: whether products run on arrays, (n,), with multiply-accumulates of all cells, `padded`;
    seconds of the array and of the lanes of one unit, (s, n), and of all at their peak, (n,); blocks of results."""

    on_matrix: Bools
    padded: Floats
    matrix_s: Floats
    vector_s: Floats
    matrix_ideal_s: Floats
    vector_ideal_s: Floats
    blocks: result_blocks.Blocks | None


def _work_on_units(demand: Demand, setup: Setup, rates: Efficiency) -> UnitWork:
    device, on_matrix = setup.device, common.on_matrix_unit(demand, setup.plan)
    blocks = result_blocks.divide(demand, device) if result_blocks.has_blocks(device) else None
    padded = _padded_macs(demand, device) if blocks is None else blocks.padded
    matrix_s, vector_s = _unit_seconds(demand, setup, rates, on_matrix, padded)
    of_lanes = 1.0 if blocks is None else result_blocks.left_to_lanes(demand)
    if blocks is not None:
        vector_s = np.maximum(vector_s * of_lanes, blocks.output_s)
    matrix_ideal_s = 2.0 * demand.macs * on_matrix / setup.matrix_flops
    vector_ideal_s = 2.0 * demand.macs * ~on_matrix / setup.vector_mac_flops
    vector_ideal_s = vector_ideal_s + of_lanes * demand.vector_flops / setup.vector_flops
    return UnitWork(on_matrix, padded, matrix_s, vector_s, matrix_ideal_s, vector_ideal_s, blocks)


def _memory_seconds(
    demand: Demand, device: Device, rates: Efficiency, beside: Traffic, blocks: result_blocks.Blocks | None
) -> tuple[Floats, Floats]:
    """Return the seconds that DRAM or the link works for each operator, (s, n), and the memory of the chip, (n,).
    Weights are read in order and ahead of their layer: at the rate of products, whatever the layer."""
    others_bytes, bandwidth = beside.dram_bytes - beside.weight_read, rates.bandwidth
    dram_s = common.memory_seconds_of(device, others_bytes, bandwidth[:, demand.op_class])
    dram_s = dram_s + common.memory_seconds_of(device, beside.weight_read, bandwidth[:, [OpClass.GEMM]])
    if blocks is None:
        return dram_s, beside.chip_bytes / device.last_level_bandwidth
    read_s, chip_s = result_blocks.memory_seconds(demand, device, beside, blocks)
    return np.maximum(dram_s, read_s), chip_s


class ContextChange(NamedTuple):
    """The cost of contexts that follow each other: traffic with it, bytes of weights `loaded` (n,), and seconds that a
    context waits for its weights and that it hands data on, (s, n), and that the switch to it takes, (n,)."""

    flow: Traffic
    loaded: Floats
    waits_s: Floats
    handed_s: Floats
    switch_s: Floats


def _change_contexts(
    demand: Demand, device: Device, beside: Traffic, placed: Placement, rates: Efficiency
) -> ContextChange:
    """Return what contexts cost beside the traffic of layers that stay in one. A context waits for its weights, and
    hands data on while its layers work."""
    bandwidth = rates.bandwidth[:, demand.op_class]
    loaded, flow = _flow(demand, beside, placed) if _streams(device) else (beside.weight_read, beside)
    waits_s = common.memory_seconds_of(device, loaded * _streams(device), bandwidth)
    handed_s = common.memory_seconds_of(device, flow.dram_bytes - beside.dram_bytes, bandwidth) - waits_s
    begins = (np.diff(placed.context, prepend=-1) != 0) & placed.reloads  # a context that is switched to
    switch_s = (begins[demand.kernel] & demand.head & _streams(device)) * device.context_switch_s
    return ContextChange(flow, loaded, waits_s, handed_s, switch_s)


def _pace_units(placed: Placement, steps: Steps, usable: float, unit_work_s: Floats) -> Floats:
    """Return the factor of the seconds of one unit that a kernel works, (k,): usable units work at the pace of the
    slowest stream of their context, which has their clock."""
    work_s, stream_s = _of_context(placed, np.add, unit_work_s[None]), steps.stream_s[None]
    slowest_s = _of_context(placed, np.maximum, stream_s)
    paced: Floats = np.maximum(slowest_s / np.maximum(work_s, 1e-300), 1.0 / usable)[0]
    return paced


def _share_context(placed: Placement, steps: Steps, least_s: Floats) -> tuple[Floats, Floats]:
    """Return the seconds of the context of each kernel, and those that the kernel takes, (s, k) each. Layers of a
    context work at once, each on units in proportion to its work, at the pace of the slowest stream. Each takes its
    least time, and those that need more have a share of the rest."""
    need_s, all_least_s = (_of_context(placed, np.add, each) for each in (steps.need_s, least_s))
    pace_s = np.maximum(np.maximum(need_s, all_least_s), _of_context(placed, np.maximum, steps.stream_s[None]))
    more_s = np.maximum(steps.need_s - least_s, 0.0)
    more_s = np.where(_of_context(placed, np.add, more_s) > 0, more_s, steps.need_s)
    rest = (pace_s - all_least_s) / np.maximum(_of_context(placed, np.add, more_s), 1e-300)
    return pace_s, least_s + more_s * rest


def _streams(device: Device) -> bool:
    """Return True if layers stream rows to each other, rather than run one after another."""
    return device.layers_at_once > 1


def _padded_macs(demand: Demand, device: Device) -> Floats:
    """Return multiply-accumulates including those of empty cells. K fills the rows of an array, N (depthwise: channels)
    its columns."""
    g, m, n, k = demand.gemm
    rows, columns = device.array_rows, device.array_columns
    deep = np.ceil(k / rows) * rows
    beside = np.where(demand.is_depthwise, np.ceil(g * n / columns), g * np.ceil(n / columns))
    padded: Floats = np.maximum(m * beside * columns * deep, demand.macs)
    return padded


def _unit_seconds(
    demand: Demand, setup: Setup, rates: Efficiency, on_matrix: Bools, padded: Floats
) -> tuple[Floats, Floats]:
    """Return the seconds of one unit's array and of its lanes, (s, n) each."""
    device, plan = setup.device, setup.plan
    compute, other = rates.compute[:, demand.op_class], rates.compute[:, OpClass.ELEMENTWISE][:, None]
    array = device.mac_rate("matrix", plan.matrix) * plan.matrix_rate
    lanes = device.mac_rate("vector", plan.vector_mac)
    elementwise = common.vector_work(demand, device.arch.constants.special_flops)
    elementwise = elementwise + _image_flops(demand, device, plan.element_bytes)
    vector_s = elementwise / (2.0 * device.mac_rate("vector", plan.vector)) / other
    return on_matrix * padded / array / compute, vector_s + ~on_matrix * demand.macs / lanes / compute


def _image_flops(demand: Demand, device: Device, element_bytes: float) -> Floats:
    """Return the lane operations that convert an image to 16 bits and to the layout of the arrays, (n,), in a chip that
    runs one layer at a time. An image in 8 bits is used as it is."""
    if _streams(device) or element_bytes <= 1.0:
        return np.zeros(demand.n)
    is_image = (demand.transfers.previous < 0) & demand.is_convolution[demand.transfers.op]
    values = demand.per_op(demand.transfers.size_bytes * is_image, READ) / element_bytes
    return values * cast(NpuConstants, device.arch.constants).image_value_flops


def _stream_seconds(demand: Demand, device: Device) -> Floats:
    """Return the seconds in which values pass between layers or enter the chip, (k,), whatever the number of units."""
    moved = [demand.per_kernel(demand.moved_bytes[role]) for role in (READ, WRITE)]
    seconds: Floats = np.maximum(*moved) / (device.stream_bytes_per_clock * device.clock_hz)
    if not _streams(device):
        return seconds
    entering = demand.per_op(demand.transfers.size_bytes * (demand.transfers.previous < 0), READ)
    rows = np.sqrt(entering * demand.batch / _COLOURS) * demand.is_convolution  # of square images
    cycles = np.maximum(entering / device.input_bytes_per_clock, rows * device.values["input_row_cycles"])
    return np.maximum(seconds, demand.per_kernel(cycles) / device.clock_hz)


def _place(demand: Demand, device: Device, steps: Steps, usable: float, work_s: Floats) -> Placement:
    """Place kernels in contexts. Pack weights into fewer bits if a model does not fit otherwise and mainly convolves;
    share units among layers by `work_s` (k,)."""
    weight_bytes, most_layers = _weight_bytes(demand), int(min(device.layers_at_once, usable))
    model = demand.model
    whole_model, is_long = np.bincount(model, weight_bytes)[model], (np.bincount(model) > most_layers)[model]
    narrowest = float(np.broadcast_to(demand.right_bytes, demand.n)[demand.macs > 0].min(initial=1.0))
    packing = max(device.weight_packing, _LEAST_BYTES / narrowest)
    convolved = demand.per_kernel(np.where(demand.is_convolution, demand.macs, -demand.macs))  # less other products
    is_packed = (np.bincount(model, convolved)[model] > 0) & (is_long | (whole_model > _room(device)))
    stored = np.where(is_packed, min(packing, 1.0), 1.0)
    room = Room(
        weight_bytes=_room(device),
        layers=most_layers,
        switch_s=device.context_switch_s,
        byte_s=1.0 / (device.memory_bandwidth * float(device.software.efficiency.bandwidth[0, OpClass.ELEMENTWISE])),
    )
    need_s, least_s = steps.need_s[0], steps.least_s[0]  # nominal
    layers = msgspec.structs.replace(steps, weight_bytes=weight_bytes * stored, need_s=need_s, least_s=least_s)
    context = contexts(demand, layers, room)
    begins = starts(context)
    contexts_of = np.bincount(model[begins])[model]
    reloads = (contexts_of > 1) | (whole_model * stored > _room(device))
    all_work = np.add.reduceat(work_s, begins)[context]
    # Round up to whole units, except for rounding errors: a layer alone has all usable units.
    units = np.ceil(usable * work_s / np.where(all_work > 0, all_work, 1.0) - _ROUNDING)
    return Placement(context, begins, reloads, units, np.where(all_work > 0, usable, 1.0), stored)


def _weight_bytes(demand: Demand) -> Floats:
    return demand.per_kernel(demand.moved_bytes[READ_WEIGHT])


def _room(device: Device) -> float:
    return device.scratchpad_bytes * usable_cache(True)


def _of_context(placed: Placement, joined: np.ufunc, seconds: Floats) -> Floats:
    of_context: Floats = joined.reduceat(seconds, placed.begins, axis=1)[:, placed.context]
    return of_context


def _lag(demand: Demand, device: Device) -> Floats:
    """Return the delay of a batch in each operator, as a fraction of the work of its context."""
    return demand.lag / demand.batch if _streams(device) else np.zeros(demand.n)


def _streamed_traffic(demand: Demand, setup: Setup) -> Traffic:
    """Return the traffic while layers work: the model's input and output, or all of each layer's without streaming."""
    device = setup.device
    if not _streams(device) and not result_blocks.has_blocks(device):
        return common.traffic(demand, device)
    size = demand.transfers.size_bytes
    new = np.where((demand.transfers.previous < 0) & (demand.transfers.role != READ_WEIGHT), size, 0.0)
    if result_blocks.has_blocks(device):  # stripes of images pass from layer to layer on chip
        weights = demand.moved_bytes[READ_WEIGHT]
        new = new + result_blocks.spilled(demand, device)
        entering = demand.per_op(new, READ) + weights
        return Traffic(entering, demand.per_op(new, WRITE), demand.read_bytes, demand.written_bytes, weights)
    # A layer whose weights alone are more than the chip holds runs part by part, over its input each time.
    parts = np.ceil(np.maximum(_weight_bytes(demand) / _room(device), 1.0))[demand.kernel]
    again = demand.moved_bytes[READ] * (parts - 1.0)
    read, nothing = demand.read_bytes + again, np.zeros(demand.n)
    return Traffic(demand.per_op(new, READ) + again, demand.per_op(new, WRITE), read, demand.written_bytes, nothing)


def _flow(demand: Demand, beside: Traffic, placed: Placement) -> tuple[Floats, Traffic]:
    """Return the bytes of weights that contexts load before they start, (n,), and all traffic, including data handed
    between contexts."""
    kernel, before = demand.kernel[demand.transfers.op], demand.transfers.previous
    is_weight = demand.transfers.role == READ_WEIGHT
    is_handed = (before >= 0) & (placed.context[kernel] != placed.context[before]) & ~is_weight
    handed = np.where(is_handed, demand.transfers.size_bytes, 0.0)
    loaded = demand.per_op(is_weight * demand.transfers.size_bytes * (placed.reloads * placed.stored)[kernel])
    return loaded, Traffic(
        beside.dram_read + loaded + demand.per_op(handed, READ),
        beside.dram_write + demand.per_op(handed, WRITE),
        beside.chip_read,
        beside.chip_write,
        loaded,
    )


def _tiling(demand: Demand, device: Device, placed: Placement) -> Tiling:
    g, _, n, k = demand.gemm
    tiled = (demand.macs > 0) & (g > 0)
    units = np.maximum(placed.units[demand.kernel], 1.0)
    blocks = np.where(tiled, g * np.ceil(n / device.array_columns) * np.ceil(k / device.array_rows), demand.macs > 0)
    side_m, side_n = tiled * device.array_rows, tiled * device.array_columns
    return Tiling(np.zeros(demand.n), blocks, np.ceil(blocks / units), units, side_m, side_n, np.ones(demand.n))


def _counts(
    demand: Demand, setup: Setup, change: ContextChange, placed: Placement, on_matrix: Bools, idle: Floats
) -> Floats:
    """Count events: operands are fed to arrays from line buffers, rows stream on to the next layer."""
    device, flow = setup.device, change.flow
    (counts, row), assumed = common.empty_counts(device, demand), cast(NpuConstants, device.arch.constants)
    g, m, n, k = demand.gemm
    width, macs = setup.plan.element_bytes, demand.macs * on_matrix
    rows, columns = device.array_rows, device.array_columns
    in_image = demand.batch * np.sqrt(np.where(m > 0, m, demand.elements) / demand.batch)
    image_rows = np.where(demand.is_convolution | (m == 0), in_image, m)
    # Each operand is read once for all columns of an array; weights stay in it for a row of the image.
    fed = np.where(macs > 0, g * m * k * np.ceil(n / columns) * width, flow.chip_read)
    held = np.where(macs > 0, g * k * n * width * image_rows, 0.0)
    reprogrammed = demand.head & placed.reloads[demand.kernel]

    counts[row["array.mac"]] = macs
    counts[row["array.operand_feed"]] = fed + held
    counts[row["array.partial_sum"]] = macs / rows * assumed.accumulator_bytes
    counts[row["array.idle_cell"]] = idle
    counts[row["vector.flop"]] = demand.vector_flops + 2.0 * (demand.macs - macs)
    counts[row["vector.special_function"]] = demand.special
    counts[row["vector.requantisation"]] = np.where(macs > 0, demand.elements, 0.0)
    counts[row["weights.read"]] = held
    counts[row["weights.write"]] = change.loaded
    counts[row["line_buffer.read"]] = fed
    counts[row["line_buffer.write"]] = demand.moved_bytes[READ]
    counts[row["interconnect.hop"]] = flow.chip_write * assumed.hops
    counts[row["interconnect.port"]] = flow.chip_write
    counts[row["link.dram_read"]] = flow.dram_read
    counts[row["link.dram_write"]] = flow.dram_write
    counts[row["link.descriptor"]] = np.ceil(flow.dram_bytes / assumed.dma_bytes)
    counts[row["control.row_start"]] = image_rows * placed.units[demand.kernel] * demand.head
    counts[row["control.layer_sync"]] = image_rows * demand.head
    counts[row["control.layer_program"]] = reprogrammed
    counts[row["control.context_switch"]] = change.switch_s > 0
    counts[row["control.run_start"]] = (np.diff(demand.model, prepend=-1) != 0)[demand.kernel] & demand.head
    return counts


def _sentence(demand: Demand, setup: Setup, mapping: Mapping, i: int) -> str:
    device, plan, tiling = setup.device, setup.plan, mapping.tiling
    where = f"{whole(tiling.units[i])}/{whole(device.units)} {device.unit_name}s"
    beside = f", {whole(mapping.units[i])} at work beside each other" if _streams(device) else ""
    if demand.macs[i] > 0:
        how = "arrays" if mapping.on_matrix[i] else "lanes"
        return (
            f"{product(demand, i)} on the {how} of {where} ({format_run(mapping, plan, i)}): "
            f"{whole(tiling.blocks[i])} weight tiles of {whole(device.array_rows)} x {whole(device.array_columns)}"
            f"{beside}"
        )
    return f"{elements(demand, i, 'elements')} on the lanes of {where} ({plan.vector}){beside}"


def _divide_stages(stages: Stages, demand: Demand, setup: Setup, mapping: Mapping, i: int) -> Stages:
    """Return the stages with weight tiles as blocks: all rows of the input pass each."""
    (g, m, n, k), rows, columns = demand.gemm[:, i].tolist(), setup.device.array_rows, setup.device.array_columns
    blocks = 1, max(math.ceil(n / columns), 1), max(round(g * math.ceil(k / rows)), 1)
    return msgspec.structs.replace(stages, blocks=blocks, block=(m, min(columns, n), min(rows, k)), keeps="weights")


_ROUNDING = 1e-6  # of a unit
_LEAST_BYTES = 0.5  # of a weight in the narrowest format, int4
_COLOURS = 3.0  # values of a pixel

ARCHITECTURE = Architecture(
    id="npu",
    name="NPU",
    unit="unit",
    levels=(ChipLevel("on-chip memory", "scratchpad_bytes"),),
    constants_type=NpuConstants,
    is_managed=True,
    places_models=True,
    splits_batches=True,
    map_operators=map_operators,
    sentence=_sentence,
    execution="fused",
    divide_stages=_divide_stages,
)
