"""Parts that all mappings share: off-chip traffic through a capacity, tiles and waves, vector work."""

from collections.abc import Callable
from functools import cached_property

import msgspec
import numpy as np

from hardware.demand import READ, READ_WEIGHT, WRITE, Demand, Floats, OpClass
from hardware.device import Device
from hardware.efficiency import Efficiency, usable_cache
from hardware.mapping.tiling import Bools, Tiling, choose, vector_seconds
from hardware.plan import Plan
from hardware.setup import Setup

Seconds = Floats | float
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


class Mapping(msgspec.Struct, frozen=True, kw_only=True):
    """The mapping of each operator to a device, before operators are joined into kernels, at s settings of the
    efficiencies.

    `matrix_s`, `vector_s` (s, n) are on each kind of unit, `dram_s`, `chip_s` at each memory level, `*_ideal_s` at full
    peak. `counts` is (e, n); counts that need the final time are still zero. `is_reduced` marks products with fewer
    multiplications. `busy_s` (s, k) is set if kernels work at once and wait for each other; in its part `fill_s` (k,) a
    pipeline fills, while the batch before runs if the kernel `is_resident`. Nothing hides `serial_s` (3, n): waiting of
    units while blocks fill and drain, memory passes of auxiliary kernels, and their starts. `staged_s` (n,) are memory
    passes within `vector_s` or `busy_s`, which no clock makes quicker. `clocked_s` (k,) is the time in which all units
    are clocked, if those without work are not. `mark` says what a search left out."""

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
    mark: str = ""


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


def traffic(
    demand: Demand, device: Device, reorder: tuple[float, float] = (0.0, 0.0), most: Floats | None = None
) -> Traffic:
    """Return the bytes that reach memory, given what the last on-chip level can hold (LRU): `most`, (n,), if stated.

    `reorder` is how many more times a convolution's weights and activations pass the last level because software
    rearranges them. The part that the level cannot hold goes to memory."""
    capacity: Floats | float = usable_last_level_bytes(device) if most is None else most
    size, distance = demand.transfers.size_bytes, demand.transfers.distance
    room = left = capacity
    if device.arch.is_managed:
        room, distance = _pinned(demand, capacity * device.arch.constants.pinned_share, capacity)
        left = room[demand.transfers.op]
    missed = np.maximum(size - np.maximum(left - distance, 0.0), 0.0)
    reads, weights, writes = (demand.per_op(missed, role) for role in (READ, READ_WEIGHT, WRITE))
    chip_reads, chip_writes = demand.read_bytes, demand.written_bytes
    again = reread(demand, chip_reads, room)
    passing = np.zeros(demand.n)
    if any(reorder):
        activations = demand.moved_bytes[READ] + demand.moved_bytes[WRITE]
        rearranged = demand.moved_bytes[READ_WEIGHT] * reorder[0] + activations * reorder[1]
        passing = np.where(demand.op_class == OpClass.CONV, rearranged, 0.0)
        again = again + np.where(passing > 0, np.maximum(passing - capacity * max(reorder), 0.0), 0.0)
    return Traffic(reads + weights + again, writes, chip_reads + np.maximum(again, passing), chip_writes, weights)


def _pinned(demand: Demand, most: Floats | float, capacity: Floats | float) -> tuple[Floats, Floats]:
    """Keep all weights of a model on chip between inferences if they leave room. Return the capacity left (n,) and the
    new distances (t,)."""
    held = np.where(demand.weight_bytes > most, 0.0, demand.weight_bytes)
    kept = held[demand.transfers.op]
    pinned = (demand.transfers.role == READ_WEIGHT) & (kept > 0)
    return capacity - held, np.where(pinned, -kept, demand.transfers.distance)


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
    device, plan = setup.device, setup.plan
    compute_rate, bandwidth = rates.compute[:, demand.op_class], rates.bandwidth[:, demand.op_class]
    relative = np.where(
        on_matrix, rates.nchw[:, None] if setup.layout == "nchw" else 1.0, rates.vector_convolution[:, None]
    )
    if (relative != 1.0).any():
        compute_rate = np.where(demand.op_class == OpClass.CONV, compute_rate * relative, compute_rate)
    contraction = demand.macs > 0
    chosen = choose(on_matrix, matrix, vector) if (contraction & ~on_matrix).any() else matrix
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
    elementwise_s, vector_units = elementwise_seconds(demand, device, setup.vector_flops)
    product_s = np.maximum(contraction_s / compute_rate, ideal / np.maximum(demand.product_rate, 1.0))
    if device.clock_share < 1.0:  # what products of matrix units wait for below their peak keeps its time
        at_peak_s = np.where(on_matrix, ideal / device.arch.constants.matrix_clock_bound, np.inf)
        product_s = np.maximum(product_s * device.clock_share, np.minimum(product_s, at_peak_s))
    matrix_s = np.where(on_matrix, product_s, 0.0)
    vector_s = np.where(on_matrix, 0.0, product_s) + elementwise_s / rates.compute[:, demand.vector_class]
    vector_ideal_s = np.where(on_matrix, 0.0, ideal) + demand.vector_flops / setup.vector_flops
    dram_s, chip_s = memory_seconds_of(device, flow.dram_bytes, bandwidth), last_level_seconds(device, flow.chip_bytes)
    if demand.unpack_ops is not None:
        # Unpacking is part of the product's kernel, and as efficient as the rest of it.
        unpacked_s = unpack_seconds(demand, setup)
        vector_s, vector_ideal_s = vector_s + unpacked_s / compute_rate, vector_ideal_s + unpacked_s
        demand = demand.with_values(vector_flops=demand.vector_flops + unpack_flops(demand, device))
    units = np.where(contraction, np.minimum(np.maximum(chosen.units, 1.0), total_units(device)), vector_units)
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


def units_in_all(device: Device, on_matrix: Bools) -> Floats:
    """Return the units that each operator could use, (n,): arrays for what runs on them, else units."""
    return np.where(on_matrix, total_units(device), device.units)


def total_units(device: Device) -> float:
    """Return the number of arrays that blocks are distributed over, or of units if they have no separate arrays."""
    arrays = device.facts.get("arrays_per_unit")
    return device.units * (arrays.value if arrays else 1.0)
