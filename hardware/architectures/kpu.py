"""KPU, domain flow: each tile computes a block of the result as operands stream past; no instructions."""

from __future__ import annotations

import numpy as np

from hardware.architecture import Architecture
from hardware.architectures import levels_of_units
from hardware.demand import Demand, Floats, Ints
from hardware.efficiency import Efficiency
from hardware.event_prices import Coefficients
from hardware.mapping import common
from hardware.mapping.common import Mapping, Traffic
from hardware.mapping.tiling import Bools, TileChoices, Tiling, by_shape, candidates, fastest_tiles, vector_tiling
from hardware.power_limit import KernelNeeds, lower_clocks
from hardware.precision import FORMATS
from hardware.sentence import count_noun, elements, product, split, whole
from hardware.setup import Setup


def map_operators(demand: Demand, setup: Setup, rates: Efficiency) -> Mapping:
    """Map contractions to domain-flow programs over tiles, depthwise and element-wise work to the tiles' lanes."""
    # Do not choose by speed: if power or DRAM bounds the kernel, the array would only add operand traffic.
    device, plan = setup.device, setup.plan
    on_array = common.on_matrix_unit(demand, plan) & ~demand.is_depthwise
    vector = vector_tiling(demand, setup, elsewhere=on_array)
    array = by_shape(demand, demand.gemm, lambda few: fastest_tiles(few, domain_flow(setup)))
    flow = common.traffic(demand, device)
    mapping = common.assemble(demand, setup, rates, flow, array, vector, on_array, _counts)
    return _within_power(demand, setup, mapping, np.flatnonzero(on_array), setup.prices)


def domain_flow(setup: Setup) -> TileChoices:
    """Return the choices of output-stationary blocks, one per tile and wavefront. The fabric may take a result's shape.

    A block of R x C results takes R*C*K / (MACs per clock) cycles. The next block follows its last operands, so a tile
    fills and drains once per kernel."""
    device, plan = setup.device, setup.plan
    rows, columns = device.array_rows, device.array_columns
    menu = device.arch.data.tiles["matrix"]
    shapes = np.array([[rows * stretch, columns / stretch, 1.0] for stretch in (*menu.stretches, columns)])
    rate = device.mac_rate("matrix", plan.matrix)
    return TileChoices(shapes, menu.splits, device, rate, menu.k_step, 1.0 / device.clock_hz)


def _within_power(demand: Demand, setup: Setup, mapping: Mapping, which: Ints, prices: Coefficients) -> Mapping:
    """Change the tiles of contractions that the power limit slows down, in place, to those with which their kernels end
    first: the shape that is fastest without a limit may stream too many operands."""
    device, price, exponent = setup.device, prices.value, setup.device.software.overlap.value
    timed_w = price[device.arch.timed_rows].sum() * device.clock_hz * device.units
    budget = device.power_budget(float(price[device.arch.static_rows].sum()))
    times = np.stack([mapping.matrix_s[0], mapping.vector_s[0], mapping.dram_s[0], mapping.chip_s])[None]
    needs_s, (on_chip, _, off_chip) = common.per_kernel(demand, times), prices.kinds
    chip_j, memory_j = (demand.per_kernel(value @ mapping.counts[rows]) for rows, value in (on_chip, off_chip))
    start_s = device.kernel_start_s + setup.call_s * demand.per_kernel(demand.calls.begins)
    busy_s = common.overlapped(needs_s, exponent)[0]
    limited = chip_j + memory_j + timed_w * busy_s > budget.watts * (busy_s + start_s)
    which = which[limited[demand.kernel[which]]]
    if not len(which):
        return mapping
    tiles = candidates(demand.gemm[:, which], domain_flow(setup))
    kernel, least_s = demand.kernel[which], mapping.tiling.seconds[which]
    longer = np.where(least_s > 0, tiles.seconds / np.where(least_s > 0, least_s, 1.0), 1.0)
    resources = np.repeat(needs_s[:, :, kernel], len(longer), axis=0)
    resources[:, 0] += mapping.matrix_s[0, which] * (longer - 1.0)
    moved = _by_tiles(demand, setup, mapping.traffic, tiles, mapping.on_matrix, which)
    rows = np.array([device.arch.row[label] for label in moved])
    moved_j = sum(count * each for count, each in zip(moved.values(), price[rows], strict=True))
    rest_j = chip_j[kernel] - price[rows] @ mapping.counts[np.ix_(rows, which)]
    busy_s, compute_s = common.overlapped(resources, exponent), resources[:, :2].max(axis=1)
    none = np.zeros(1)
    joules = rest_j + moved_j, timed_w * busy_s, none, memory_j[kernel]
    each = np.broadcast_arrays(*joules, busy_s + start_s[kernel], busy_s, compute_s, none)
    ends_s = lower_clocks(KernelNeeds(*(one.ravel() for one in each)), budget, 0.0).seconds
    best = ends_s.reshape(busy_s.shape).argmin(axis=0), np.arange(len(which))
    mapping.matrix_s[:, which] *= longer[best]
    mapping.counts[np.ix_(rows, which)] = [count[best] for count in moved.values()]
    for name in Tiling.__struct_fields__:
        getattr(mapping.tiling, name)[which] = getattr(tiles, name)[best]
    mapping.units[which] = np.maximum(tiles.units[best], 1.0)
    return mapping


def _by_tiles(
    demand: Demand, setup: Setup, flow: Traffic, tiling: Tiling, on_matrix: Bools, at: Ints | slice
) -> dict[str, Floats]:
    """Count the events that depend on the tiles, for the operators at an index."""
    device, plan = setup.device, setup.plan
    assumed = device.arch.data.assumed
    contracts, chip_read, chip_write = demand.macs[at] > 0, flow.chip_read[at], flow.chip_write[at]
    on_array, elements, macs = contracts & on_matrix[at], demand.elements[at], demand.macs[at]
    cells = device.mac_rate("matrix", plan.matrix) / device.matrix_clock_hz  # of a tile that multiply this format
    depth = demand.gemm[3, at] / np.maximum(tiling.split, 1.0)
    # An operator fused behind another shares its wavefronts; alone, it streams through blocks of lanes.
    lane_blocks = np.ceil(elements / assumed("elements_per_block")) * demand.head[at]
    blocks = np.where(contracts, tiling.blocks, lane_blocks)
    left, right = plan.element_bytes, np.broadcast_to(demand.right_bytes, demand.n)[at]
    across = tiling.tile_m * left + tiling.tile_n * right
    operands = np.where(on_array, tiling.blocks * across * depth, 0.0)
    # Operands enter at the edge of the fabric and flow from tile to tile: each is fetched once per row or column
    # of tiles, and makes one hop per tile that uses it. Streamers narrow what is stored wider than it is multiplied.
    read, width = np.maximum(operands / np.sqrt(device.units), chip_read), FORMATS[plan.matrix].bits / 8.0
    narrow = (tiling.tile_m * min(left, width) + tiling.tile_n * np.minimum(right, width)) / np.maximum(across, 1e-300)
    narrow = np.where(on_array & (across > 0), narrow, 1.0)
    fetched = read * narrow
    sums = (macs + elements * np.maximum(tiling.split, 1.0)) * assumed("accumulator_bytes")
    # Cells of tiles at work that do not multiply: beyond the edge of a result, or while a tile fills and drains.
    edge = tiling.blocks * tiling.tile_m * tiling.tile_n * depth - macs
    filling = tiling.units * (tiling.tile_m + tiling.tile_n) * np.where(tiling.split > 1, 2.0, 1.0) * cells
    return {
        "tile.partial_sum": np.where(on_array, sums, 0.0),
        "tile.idle_cell": np.where(on_array, np.maximum(edge, 0.0) + filling, 0.0),
        "tile_memory.read": fetched,
        "tile_memory.write": fetched,
        "shared_memory.read": read,
        "network_on_chip.hop": np.maximum(operands, chip_read) * narrow + (fetched + chip_write) * assumed("hops"),
        "network_on_chip.token_injection": fetched + chip_write,
        "network_on_chip.token_extraction": fetched + chip_write,
        "domain_flow.domain_tracking": np.where(on_array, tiling.blocks * depth, blocks),
        "domain_flow.wavefront_setup": blocks,
        "synchronisation.tile_barrier": blocks,
    }


def _counts(demand: Demand, setup: Setup, flow: Traffic, tiling: Tiling, on_matrix: Bools, units: Floats) -> Floats:
    device, plan = setup.device, setup.plan
    (counts, row), assumed = common.empty_counts(device, demand), device.arch.data.assumed
    width = plan.element_bytes
    macs = demand.macs * on_matrix
    vector_macs = demand.macs - macs
    moved = flow.chip_bytes
    vector_operations = demand.vector_flops + vector_macs + demand.special

    for label, count in _by_tiles(demand, setup, flow, tiling, on_matrix, slice(None)).items():
        counts[row[label]] = count
    counts[row["tile.mac"]] = macs
    counts[row["tile.operand_stream"]] = macs * assumed("streamed_operands") * FORMATS[plan.matrix].bits / 8.0
    counts[row["tile.vector_mac"]] = vector_macs
    counts[row["tile.vector_flop"]] = demand.vector_flops
    counts[row["tile.special_function"]] = demand.special
    counts[row["tile.pe_register"]] = vector_operations * assumed("vector_operands") * width + demand.local_bytes
    counts[row["shared_memory.write"]] = moved
    counts[row["dram.dram_read"]] = flow.dram_read
    counts[row["dram.dram_write"]] = flow.dram_write
    counts[row["dram.streamer_descriptor"]] = np.ceil(moved / assumed("dma_bytes"))
    counts[row["domain_flow.program_load"]] = demand.head
    counts[row["synchronisation.kernel_barrier"]] = demand.head
    return counts


def _sentence(demand: Demand, setup: Setup, mapping: Mapping, i: int) -> str:
    device, plan = setup.device, setup.plan
    tiling = mapping.tiling
    units = f"{whole(mapping.units[i])}/{whole(device.units)} tiles"
    if mapping.on_matrix[i]:
        return (
            f"{product(demand, i)} as a domain flow ({plan.matrix}): {whole(tiling.blocks[i])} blocks of "
            f"{whole(tiling.tile_m[i])} x {whole(tiling.tile_n[i])}{split(mapping, i)}, {units}, "
            f"{count_noun(tiling.waves[i], 'wavefront')}"
        )
    return f"{elements(demand, i, 'elements')} streamed through {units} ({plan.vector})"


ARCHITECTURE = Architecture(
    id="kpu",
    name="KPU",
    unit="tile",
    levels=levels_of_units("tile memory", "tile_memory_bytes", {"shared memory": "scratchpad_bytes"}),
    is_managed=True,
    map_operators=map_operators,
    sentence=_sentence,
    execution="fused",
)
