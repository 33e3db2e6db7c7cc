"""KPU, domain flow: tiles execute recurrences; tokens fire cells as they meet, and no instructions are fetched."""

import math
from functools import partial
from typing import NamedTuple, cast

import msgspec
import numpy as np

from hardware.architecture import Architecture
from hardware.architecture_facts import UNITS, ChipLevel, Efficiency, KpuConstants
from hardware.base.records import memoize
from hardware.base.text import count_noun, whole
from hardware.demand import Bools, Demand, Floats, Ints, OpClass, distinct_shapes
from hardware.device import Device
from hardware.mapping import common
from hardware.mapping.common import Mapping, Stages, Tiling, Traffic, choose, vector_tiling
from hardware.mapping.recurrence_schedules import (
    KEPT,
    RESULTS,
    Fabric,
    chain_products,
    factorisations,
    fastest_schedule,
    filling_cycles,
    movements,
    schedules,
    windows,
)
from hardware.precision import FORMATS
from hardware.setup import Setup

# By class, what the cells of the fabric reduce.
_REDUCES = np.isin(list(OpClass), (OpClass.POOL, OpClass.NORM, OpClass.ROW_NORM, OpClass.SOFTMAX, OpClass.REDUCTION))
_HOP = "network_on_chip.hop"
_SHAPES_AT_ONCE = 32  # whose schedules are chosen at once: 100 kilobytes for each


def map_operators(demand: Demand, setup: Setup, rates: Efficiency) -> Mapping:
    """Map contractions to domain-flow programs over tiles, depthwise and element-wise work to the tiles' lanes."""
    device, fabric = setup.device, fabric_of(setup)
    on_array = common.on_matrix_unit(demand, setup.plan)
    vector = vector_tiling(demand, setup, elsewhere=on_array)
    every = _schedules(demand, setup, fabric)
    array = fastest_schedule(every).take(demand.shapes[1])
    is_factor = demand.is_factor
    if demand.is_depthwise.any():
        array = choose(demand.is_depthwise, windows(demand, fabric), array)
    if is_factor.any():
        factors = factorisations(demand.gemm * is_factor, fabric, device.arch.data.tiles["matrix"].stretches)
        array = choose(is_factor, factors, array)
    flow = common.traffic(demand, device)
    mapping = common.assemble(demand, setup, rates, flow, array, vector, on_array, partial(_counts, fabric))
    mapping = _leave_through_banks(demand, setup, _reduce_on_fabric(demand, setup, fabric, rates, mapping))
    return _choose_schedules(demand, setup, fabric, mapping, every, on_array & ~(demand.is_depthwise | is_factor))


def _hops_per_s(device: Device) -> float:
    """Return the bytes that all links move each second: each tile has a link to the right and one down."""
    return 2.0 * device.units * device.link_bytes_per_clock * device.clock_hz


@memoize()
def fabric_of(setup: Setup) -> Fabric:
    """Return the fabric of the device for the format of its products: the tiles of a checkerboard that multiply it."""
    device, plan, units = setup.device, setup.plan, common.total_units(setup)
    assumed = cast(KpuConstants, device.arch.constants)
    edge_bytes = min(_width(device, "tile_memory"), _width(device, "stream_buffer"))
    return Fabric(
        rows=device.array_rows,
        columns=device.array_columns,
        units=units,
        macs_per_clock=device.mac_rate("matrix", plan.matrix) * device.units / units / device.matrix_clock_hz,
        clock_hz=device.matrix_clock_hz,
        bus_bytes=min(device.bus_bytes_per_clock, _width(device, "shared_memory"), edge_bytes),
        buffer_bytes=device.values.get("tile_memory_bytes") or device.stream_buffer_bytes,
        operand_bytes=FORMATS[plan.matrix].bits / 8.0,
        result_bytes=plan.element_bytes,
        latency=math.sqrt(device.units) * assumed.hops_per_side,  # of the mean way on a square mesh
        divide_cycles=assumed.divide_cycles,
        edge_bytes=edge_bytes,
    )


def _width(device: Device, level: str) -> float:
    """Return the bytes that an instance of a level reads and writes a cycle, infinity if no width is stated."""
    return device.values.get(f"{level}_width", math.inf)


def _schedules(demand: Demand, setup: Setup, fabric: Fabric) -> Tiling:
    """Return every schedule of each distinct shape of a demand's contractions, (c, u + 1), after a column of zeros."""
    menu, operators = setup.device.arch.data.tiles["matrix"], demand.shapes[0]
    sizes = np.zeros((4, len(operators) + 1))
    sizes[:, 1:] = demand.gemm[:, operators]
    return schedules(sizes, fabric, menu.stretches, menu.splits)


def _reduce_on_fabric(demand: Demand, setup: Setup, fabric: Fabric, rates: Efficiency, mapping: Mapping) -> Mapping:
    """Run pooling, softmax and norms on the cells: recurrences that keep their sums, into which values stream."""
    device = setup.device
    reduces = _REDUCES[demand.op_class]
    if not reduces.any():
        return mapping
    work = common.vector_work(demand, device.arch.constants.special_flops)
    ideal_s = work / (2.0 * device.units * device.mac_rate("matrix", setup.plan.vector))
    values_s = mapping.traffic.chip_read / setup.plan.element_bytes / (fabric.rows + fabric.columns) / fabric.clock_hz
    at_work = np.maximum(mapping.units, 1.0)
    seconds = np.maximum(ideal_s * device.units, values_s) / at_work / rates.compute[:, demand.op_class]
    quicker = reduces & (seconds < mapping.vector_s)
    return msgspec.structs.replace(
        mapping,
        vector_s=np.where(quicker, seconds, mapping.vector_s),
        vector_ideal_s=np.where(quicker[0], np.minimum(ideal_s, mapping.vector_ideal_s), mapping.vector_ideal_s),
    )


def _leave_through_banks(demand: Demand, setup: Setup, mapping: Mapping) -> Mapping:
    """Evaluate special functions of what follows a product in banks at the egress of tiles, if the device has them."""
    device, special = setup.device, demand.special
    per_clock = device.values.get("egress_functions", 0.0)
    products = demand.per_kernel(demand.macs)[demand.kernel] > 0
    if not per_clock or not (products & (special > 0)).any():
        return mapping
    work = np.maximum(common.vector_work(demand, device.arch.constants.special_flops), 1e-300)
    lanes = (demand.vector_flops - special) / work
    banks_s = special / (device.units * per_clock * device.clock_hz)
    quicker = np.minimum(mapping.vector_s, np.maximum(mapping.vector_s * lanes, banks_s))
    return msgspec.structs.replace(mapping, vector_s=np.where(products & (special > 0), quicker, mapping.vector_s))


def _choose_schedules(
    demand: Demand, setup: Setup, fabric: Fabric, mapping: Mapping, every: Tiling, which: Bools
) -> Mapping:
    """Return the mapping with the schedules with which the products `which`, (n,), and their hops end first. Beside
    them are those that take the least energy."""
    device = setup.device
    own = (mapping.traffic.chip_read, mapping.traffic.chip_write, demand.macs, demand.elements, demand.head)
    shapes, number = distinct_shapes(np.array([*demand.gemm, *own, mapping.matrix_s[0]]), which)
    ways = [mapping, mapping]
    for first in range(0, len(shapes), _SHAPES_AT_ONCE):
        distinct = shapes[first : first + _SHAPES_AT_ONCE]
        tiles = every.take(np.arange(len(every.seconds))[:, None], demand.shapes[1][distinct])
        moved = _by_tiles(fabric, demand, setup, mapping.traffic, tiles, mapping.on_matrix, distinct)
        longer, costs = _cost_schedules(setup, mapping, tiles, moved, distinct)
        (at,) = ((number > first) & (number <= first + len(distinct))).nonzero()
        shape = number[at] - 1 - first
        for i, cost in enumerate(costs):
            best = cost.argmin(axis=0)[shape], shape
            counts = {label: count[best] for label, count in moved.items()}
            ways[i] = _with_schedules(ways[i], device, at, tiles.take(*best), longer[best], counts)
    for i, way in enumerate(ways):  # links work beside the shared memory
        hops_s = way.counts[device.arch.row[_HOP]] / _hops_per_s(device)
        ways[i] = msgspec.structs.replace(way, chip_s=np.maximum(way.chip_s, hops_s))
    return msgspec.structs.replace(ways[0], least_energy=ways[1])


def _cost_schedules(
    setup: Setup, mapping: Mapping, tiles: Tiling, moved: dict[str, Floats], distinct: Ints
) -> tuple[Floats, tuple[Floats, Floats]]:
    """Return of each schedule of the operators `distinct` its cycles over those of the fastest one, and its seconds and
    the energy that depends on it, (c, u) each."""
    device, price, least_s = setup.device, setup.prices.value, mapping.tiling.seconds[distinct]
    longer = np.where(least_s > 0, tiles.seconds / np.where(least_s > 0, least_s, 1.0), 1.0)
    seconds = np.maximum(mapping.matrix_s[0, distinct] * longer, moved[_HOP] / _hops_per_s(device))
    # Not the energy at rest: the order of schedules must not depend on clock and voltage.
    clocked_w = price[device.arch.timed_rows].sum() * device.clock_hz * device.units
    moved_j: Floats | float = 0.0
    for label, count in moved.items():
        moved_j = moved_j + count * price[device.arch.row[label]]
    return longer, (seconds, seconds * clocked_w + moved_j)


def _with_schedules(
    mapping: Mapping, device: Device, at: Ints, tiles: Tiling, longer: Floats, moved: dict[str, Floats]
) -> Mapping:
    """Return the mapping with schedules at an index."""
    matrix_s, counts, units = mapping.matrix_s.copy(), mapping.counts.copy(), mapping.units.copy()
    matrix_s[:, at] *= longer
    for label, count in moved.items():
        counts[device.arch.row[label], at] = count
    units[at], tiling = np.maximum(tiles.units, 1.0), mapping.tiling.exchange(at, tiles)
    return msgspec.structs.replace(mapping, matrix_s=matrix_s, counts=counts, units=units, tiling=tiling)


class _Streams(NamedTuple):
    """Bytes of operands of operators by tiles: `operands` that enter tiles, of which the shared memory reads
    `read` and tiles stream `streamed`; `narrow` is the width of what streams over the width at which it is stored."""

    operands: Floats
    read: Floats
    streamed: Floats
    narrow: Floats
    chunks: Floats


def _stream_operands(
    fabric: Fabric, demand: Demand, setup: Setup, flow: Traffic, tiling: Tiling, on_matrix: Bools, at: Ints | slice
) -> _Streams:
    """Return the streams of operands of the operators at an index.

    Each input enters once for each block of columns, each weight once for each block of rows. Operands enter at the
    edge of the fabric and flow from tile to tile: each is fetched once per row or column of tiles, the square root of
    their number, and makes one hop per tile that uses it."""
    device, plan = setup.device, setup.plan
    on_array, chip_read = (demand.macs[at] > 0) & on_matrix[at], flow.chip_read[at]
    g, m, n, k = demand.gemm[:, at]
    left, right = plan.element_bytes, demand.right_bytes
    right = right[at] if isinstance(right, np.ndarray) else right
    inputs = g * m * k * np.ceil(n / np.maximum(tiling.tile_n, 1.0)) * on_array
    weights = g * k * n * np.ceil(m / np.maximum(tiling.tile_m, 1.0)) * on_array
    window = np.minimum(demand.windows[4, at] ** 2, np.maximum(k, 1.0))
    inputs = np.where(demand.is_depthwise[at], demand.elements[at] * window, inputs)
    operands = inputs * left + weights * right
    together, chunks = movements(demand.gemm[:, at], tiling, fabric)
    # Streamers narrow what is stored wider than it is multiplied.
    width = FORMATS[plan.matrix].bits / 8.0
    narrow = (inputs * min(left, width) + weights * np.minimum(right, width)) / np.maximum(operands, 1e-300)
    return _Streams(
        operands=operands,
        read=np.maximum(operands / np.sqrt(device.units * together), chip_read),
        streamed=np.maximum(operands / np.sqrt(device.units), chip_read),
        narrow=np.where(on_array & (operands > 0), narrow, 1.0),
        chunks=chunks,
    )


def _by_tiles(
    fabric: Fabric, demand: Demand, setup: Setup, flow: Traffic, tiling: Tiling, on_matrix: Bools, at: Ints | slice
) -> dict[str, Floats]:
    """Count the events that depend on the tiles, for the operators at an index."""
    assumed = setup.device.arch.constants
    chip_write, elements, macs = flow.chip_write[at], demand.elements[at], demand.macs[at]
    on_array = (macs > 0) & on_matrix[at]
    depth = demand.gemm[3, at] / np.maximum(tiling.split, 1.0)
    # An operator fused behind another shares its wavefronts; alone, it streams through blocks of lanes.
    lane_blocks = np.ceil(elements / assumed.elements_per_block) * demand.head[at]
    blocks = np.where(macs > 0, tiling.blocks, lane_blocks)
    streams = _stream_operands(fabric, demand, setup, flow, tiling, on_matrix, at)
    streamed, fetched = streams.streamed * streams.narrow, streams.read * streams.narrow
    sums = macs + elements * np.maximum(tiling.split, 1.0)
    is_large = np.multiply.reduce(demand.gemm[:3, at]) > setup.device.units * fabric.cells
    waits = demand.is_factor[at] & is_large
    waiting = macs / np.maximum(tiling.tile_m, 1.0) * setup.plan.element_bytes * waits
    # Cells of tiles at work that do not multiply: beyond the edge of a result, or while a tile fills and drains.
    edge = np.maximum(tiling.blocks * tiling.tile_m * tiling.tile_n * depth - macs, 0.0)
    filling = filling_cycles(demand.gemm[:, at], tiling) * fabric.macs_per_clock
    counts = {
        "tile.partial_sum": sums * assumed.accumulator_bytes * on_array,
        "tile.idle_cell": (edge + filling) * on_array,
        "tile_memory.read": streamed + waiting,
        "tile_memory.write": fetched + waiting,
        "stream_buffer.read": streamed,
        "stream_buffer.write": streamed,
        "shared_memory.read": streams.read,
        "network_on_chip.hop": np.maximum(streams.operands, flow.chip_read[at]) * streams.narrow
        + (fetched + chip_write) * fabric.latency,
        "network_on_chip.token_injection": fetched + chip_write,
        "network_on_chip.token_extraction": fetched + chip_write,
        "orchestration.mover_command": 2.0 * streams.chunks,
        "orchestration.streamer_command": 2.0 * streams.chunks + blocks,
        "domain_flow.domain_tracking": np.where(on_array, tiling.blocks * depth, blocks),
        "domain_flow.wavefront_setup": blocks,
        "synchronisation.tile_barrier": blocks,
    }
    return {label: count for label, count in counts.items() if label in setup.device.arch.row}


def _counts(
    fabric: Fabric, demand: Demand, setup: Setup, flow: Traffic, tiling: Tiling, on_matrix: Bools, units: Floats
) -> Floats:
    device, plan = setup.device, setup.plan
    (counts, row), assumed = common.empty_counts(device, demand), cast(KpuConstants, device.arch.constants)
    width, macs = plan.element_bytes, demand.macs * on_matrix
    moved, vector_operations = flow.chip_bytes, demand.vector_flops + demand.special

    for label, count in _by_tiles(fabric, demand, setup, flow, tiling, on_matrix, slice(None)).items():
        counts[row[label]] = count
    counts[row["tile.mac"]] = macs * (1.0 - device.values.get("zero_inputs", 0.0))  # zeros are gated
    counts[row["domain_flow.token_match"]] = macs * assumed.streamed_operands
    counts[row["tile.operand_stream"]] = macs * assumed.streamed_operands * FORMATS[plan.matrix].bits / 8.0
    counts[row["tile.vector_flop"]] = demand.vector_flops
    counts[row["tile.special_function"]] = demand.special
    counts[row["tile.pe_register"]] = vector_operations * assumed.vector_operands * width + demand.local_bytes
    counts[row["shared_memory.write"]] = moved
    counts[row["dram.dram_read"]] = flow.dram_read
    counts[row["dram.dram_write"]] = flow.dram_write
    counts[row["dram.streamer_descriptor"]] = np.ceil(moved / assumed.dma_bytes)
    counts[row["domain_flow.program_load"]] = demand.head
    counts[row["synchronisation.kernel_barrier"]] = demand.head
    return counts


def _sentence(demand: Demand, setup: Setup, mapping: Mapping, i: int) -> str:
    plan, tiling = setup.plan, mapping.tiling
    total = common.total_units(setup) if mapping.on_matrix[i] else setup.device.units
    units = f"{whole(mapping.units[i])}/{whole(total)} tiles"
    if mapping.on_matrix[i]:
        blocks = f"{whole(tiling.blocks[i])} blocks of {whole(tiling.tile_m[i])} x {whole(tiling.tile_n[i])}"
        if demand.op_class[i] == OpClass.FACTOR:
            m, n = demand.gemm[1:3, i]
            return (
                f"recurrence over {whole(m)} x {whole(n)} results that stay ({plan.matrix}), index (i, j, k) at cycle "
                f"i + j + k: {blocks}, {units}"
            )
        stays = KEPT[int(np.broadcast_to(tiling.stationary, demand.n)[i])]
        return (
            f"{common.product(demand, i)} as a domain flow ({plan.matrix}), {stays} stay: {blocks}"
            f"{common.split(mapping, i)}, {units}, {count_noun(tiling.waves[i], 'wavefront')}"
        )
    return f"{common.elements(demand, i, 'elements')} streamed through {units} ({plan.vector})"


def _divide_stages(stages: Stages, demand: Demand, setup: Setup, mapping: Mapping, i: int) -> Stages:
    """Divide the cycles of a schedule: results fill and drain the tiles once, other operands in each round. Both take
    the cycles in which a wavefront crosses the cells, less if all steps enter in less. The cells of a tile take the
    shape of its domain."""
    fabric, tiling = fabric_of(setup), mapping.tiling.take(np.full(1, i))
    stays, tile_m, tile_n = (int(getattr(tiling, name)[0]) for name in ("stationary", "tile_m", "tile_n"))
    rows = round((tile_m, fabric.cells / tile_n, fabric.cells / tile_m)[stays])
    times = 1.0 / tiling.units if stays == RESULTS else tiling.waves / tiling.blocks
    filling = min(float((filling_cycles(demand.gemm[:, [i]], tiling) * times)[0]), stages.stream)
    loading = 0.0 if stays == RESULTS else min(stages.rounds * stages.block[2], filling)  # of the operand that stays
    leaving = filling - loading  # once for the last wavefront, once more for the sums of parts of K
    skew = leaving / (2.0 if stays == RESULTS and tiling.split[0] > 1 else 1.0)
    filled = min(skew, stages.stream - filling)
    rounds = 1 if stays == RESULTS else stages.rounds
    return msgspec.structs.replace(
        stages, fill=loading + filled, stream=stages.stream - filling - filled, drain=leaving,
        repeated=(common.STREAM,) if stays == RESULTS else common.NAMES, cells=(rows, round(fabric.cells / rows)),
        keeps=KEPT[stays], beat=float(fabric.beat(rows, fabric.cells / rows)), loading=loading / rounds,
        skew=leaving / rounds,
    )  # fmt: skip


ARCHITECTURE = Architecture(
    id="kpu",
    name="KPU",
    unit="tile",
    levels=(
        ChipLevel("stream buffer", "stream_buffer_bytes", UNITS),
        ChipLevel("tile memory", "tile_memory_bytes", UNITS),
        ChipLevel("shared memory", "scratchpad_bytes"),
    ),
    constants_type=KpuConstants,
    is_managed=True,
    splits_batches=True,
    map_operators=map_operators,
    sentence=_sentence,
    execution="fused",
    divide_stages=_divide_stages,
    chain=lambda first, second, setup: chain_products(first, second, fabric_of(setup)),
)
