"""KPU, domain flow: each tile computes a block of the result as operands stream past; no instructions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hardware.architectures.architecture import Architecture
from hardware.demand import Demand, Floats, OpClass
from hardware.efficiency import Efficiency
from hardware.mapping.common import Mapping, Traffic, assemble, empty_counts, on_matrix_unit, traffic
from hardware.mapping.tiling import Bools, Tiling, by_shape, fma, tile, vector_tiling
from hardware.sentence import elements, product, split, whole

if TYPE_CHECKING:
    from hardware.device import Device
    from hardware.plan import Plan


def map_operators(demand: Demand, device: Device, plan: Plan, layout: str, rates: Efficiency) -> Mapping:
    """Contractions as domain-flow programs over tiles; depthwise and element-wise work on the tiles' lanes."""
    array = domain_flow(demand, device, fma(device, "matrix", plan.matrix))
    # Never by speed: where power or DRAM bounds the kernel, the array would only add operand traffic.
    on_array = on_matrix_unit(demand, plan) & (demand.op_class != OpClass.DEPTHWISE)
    vector = vector_tiling(demand, device, plan, elsewhere=on_array)
    flow = traffic(demand, device)
    return assemble(demand, device, plan, layout, rates, flow, array, vector, on_array, _counts)


def domain_flow(demand: Demand, device: Device, macs_per_s: float) -> Tiling:
    """Output-stationary blocks, one per tile and wavefront; the fabric may be shaped to the result.

    A block of R x C results takes R*C*K / (MACs per clock) cycles plus one fill and drain per round; K may be
    divided among idle tiles, whose partial results meet over the network.
    """
    rows, columns = device.array_rows, device.array_columns
    menu = device.arch.data.tiles["matrix"]
    shapes = np.array([[rows * stretch, columns / stretch, 1.0] for stretch in (*menu.stretches, columns)])

    def tiled(gemm: Floats) -> Tiling:
        return tile(gemm, shapes, menu.splits, device, macs_per_s, menu.k_step, fill_s=1.0 / device.clock_hz)

    return by_shape(demand, demand.gemm, tiled)


def _counts(
    demand: Demand,
    device: Device,
    plan: Plan,
    flow: Traffic,
    tiling: Tiling,
    on_matrix: Bools,
    units: Floats,
) -> Floats:
    """Events of each operator: operands enter tiles from memory tiles over the network and stream on."""
    (counts, row), assumed = empty_counts(device, demand), device.arch.data.assumed
    width = plan.element_bytes
    macs = demand.macs * on_matrix
    vector_macs = demand.macs - macs
    depth = demand.gemm[3] / np.maximum(tiling.split, 1.0)
    # An operator fused behind another rides on its wavefronts; on its own it streams through blocks of lanes.
    lane_blocks = np.ceil(demand.elements / assumed("elements_per_block")) * demand.head
    blocks = np.where(demand.macs > 0, tiling.blocks, lane_blocks)
    operands = np.where(macs > 0, tiling.blocks * (tiling.tile_m * width + tiling.tile_n * demand.right) * depth, 0.0)
    results = demand.elements * assumed("accumulator_bytes") * np.maximum(tiling.split, 1.0)
    moved = flow.chip_read + flow.chip_write
    # Operands enter at the edge of the fabric and flow from tile to tile: each is fetched once per row or column
    # of tiles, and makes one hop per tile that uses it.
    fetched = np.maximum(operands / np.sqrt(device.units), flow.chip_read)
    into_tiles = np.maximum(operands, flow.chip_read)
    vector_operations = demand.vector_flops + vector_macs + demand.special
    wavefronts = np.where(macs > 0, tiling.blocks * depth, blocks)

    counts[row["tile.mac"]] = macs
    counts[row["tile.operand_stream"]] = macs * assumed("streamed_operands") * width
    counts[row["tile.result_stream"]] = np.where(macs > 0, results, 0.0)
    counts[row["tile.vector_mac"]] = vector_macs
    counts[row["tile.vector_flop"]] = demand.vector_flops
    counts[row["tile.special_function"]] = demand.special
    counts[row["tile.pe_register"]] = vector_operations * assumed("vector_operands") * width + demand.local_bytes
    counts[row["tile_memory.read"]] = fetched
    counts[row["tile_memory.write"]] = fetched
    counts[row["shared_memory.read"]] = fetched
    counts[row["shared_memory.write"]] = flow.chip_read + flow.chip_write
    counts[row["dram.dram_read"]] = flow.dram_read
    counts[row["dram.dram_write"]] = flow.dram_write
    counts[row["dram.streamer_descriptor"]] = np.ceil(moved / assumed("dma_bytes"))
    counts[row["network_on_chip.hop"]] = into_tiles + (fetched + flow.chip_write) * assumed("hops")
    counts[row["network_on_chip.token_injection"]] = fetched + flow.chip_write
    counts[row["network_on_chip.token_extraction"]] = fetched + flow.chip_write
    counts[row["domain_flow.domain_tracking"]] = wavefronts
    counts[row["domain_flow.wavefront_setup"]] = blocks
    counts[row["domain_flow.program_load"]] = demand.head
    counts[row["domain_flow.fill_drain"]] = np.where(macs > 0, tiling.waves * (tiling.tile_m + tiling.tile_n), 0.0)
    counts[row["synchronisation.tile_barrier"]] = blocks
    counts[row["synchronisation.kernel_barrier"]] = demand.head
    return counts


def _sentence(demand: Demand, device: Device, plan: Plan, mapping: Mapping, i: int) -> str:
    tiling = mapping.tiling
    units = f"{whole(mapping.units[i])}/{whole(device.units)} tiles"
    if mapping.on_matrix[i]:
        return (
            f"{product(demand, i)} as a domain flow ({plan.matrix}): {whole(tiling.blocks[i])} blocks of "
            f"{whole(tiling.tile_m[i])} x {whole(tiling.tile_n[i])}{split(mapping, i)}, {units}, "
            f"{whole(tiling.waves[i])} wavefront{'s' if tiling.waves[i] != 1 else ''}"
        )
    return f"{elements(demand, i, 'elements')} streamed through {units} ({plan.vector})"


def _levels(device: Device) -> tuple[tuple[str, float], ...]:
    near = f"tile memory of {device.units:.0f} {device.unit_name}s"
    return (near, device.tile_memory_bytes * device.units), ("shared memory", device.scratchpad_bytes)


KPU = Architecture(
    id="kpu",
    name="KPU",
    default_device="kpu_t256",
    data_file=Path(__file__).with_suffix(".toml"),
    unit="tile",
    last_level="scratchpad_bytes",
    levels=_levels,
    is_managed=True,
    map_operators=map_operators,
    sentence=_sentence,
    execution="fused",
)
