"""GPU, data-parallel SIMT: grids of blocks in waves over SMs, tensor cores where the format allows."""

from __future__ import annotations

import msgspec
import numpy as np

from hardware.demand import Demand, Floats, OpClass
from hardware.device import Device
from hardware.efficiency import Efficiency
from hardware.mapping.common import (
    Bools,
    Mapping,
    Tiling,
    Traffic,
    assemble,
    assumed,
    candidates,
    contraction_formats,
    empty_counts,
    fma,
    tile,
    traffic,
    vector_tiling,
)
from hardware.mapping.winograd import winograd
from hardware.plan import Plan


def map_operators(demand: Demand, device: Device, plan: Plan, layout: str, rates: Efficiency) -> Mapping:
    """Contractions as tiled products, one block per SM and wave; everything else one thread per element."""
    demand, staged_s = winograd(demand, device, plan, rates)
    on_matrix = (contraction_formats(demand, plan) == "matrix") & (demand.op_class != OpClass.DEPTHWISE)
    vector = vector_tiling(demand, device, plan, elsewhere=on_matrix)
    if on_matrix.any():
        tiles, splits = candidates("gpu")
        step = 64.0 / plan.element_bytes  # tensor-core main loops step K by at least 64 bytes
        rate = fma(device, "matrix", plan.matrix) * plan.matrix_rate
        matrix = tile(demand.gemm * on_matrix, tiles, splits, device.units, rate, step)
    else:
        matrix = vector
    flow = traffic(demand, device)
    mapping = assemble(demand, device, plan, layout, rates, flow, matrix, vector, on_matrix, _counts)
    return msgspec.structs.replace(mapping, vector_s=mapping.vector_s + staged_s, winograd=staged_s > 0)


def _counts(
    demand: Demand,
    device: Device,
    plan: Plan,
    flow: Traffic,
    tiling: Tiling,
    on_matrix: Bools,
    units: Floats,
) -> Floats:
    """Events of each operator: warp instructions from MACs, FLOPs and bytes; operand traffic from the tiles."""
    counts, row = empty_counts(device, demand)
    tensor_macs = demand.macs * on_matrix
    cuda_macs = demand.macs - tensor_macs
    kept = demand.local_bytes / 2.0  # each value kept is written once and read once
    matrix_instructions = tensor_macs / assumed("gpu", "matrix_instruction_macs")
    moved = flow.chip_read + flow.chip_write
    # Addresses are computed for what is loaded and stored; a fused kernel keeps the rest in registers.
    integer = moved / (2.0 * plan.element_bytes) * assumed("gpu", "integer_per_element")
    line = assumed("gpu", "warp_bytes")
    lane_instructions = cuda_macs + demand.vector_flops + demand.special + integer
    simt_instructions = lane_instructions / 32.0 + moved / line
    instructions = simt_instructions + matrix_instructions
    # Operand traffic is counted for the tile that software prefers: a smaller one is taken for parallelism, and the
    # reads its blocks repeat meet in the L2. It must not fall when a size grows and a larger tile is chosen.
    tile = assumed("gpu", "preferred_tile")
    g, m, n, depth = demand.gemm * (tiling.tile_m > 0)
    tiles = g * np.ceil(m / tile) * np.ceil(n / tile)
    elementwise = np.ceil(demand.elements / assumed("common", "elements_per_block"))
    blocks = np.where(tiling.tile_m > 0, tiles, elementwise)
    staged = g * depth * (m * np.ceil(n / tile) + n * np.ceil(m / tile)) * plan.element_bytes
    reuse = tile / 2.0 / assumed("gpu", "warp_tile")
    l2_read = np.maximum(staged, flow.chip_read)

    counts[row["compute.tensor_core_mac"]] = tensor_macs
    counts[row["compute.cuda_core_mac"]] = cuda_macs
    counts[row["compute.cuda_core_flop"]] = demand.vector_flops
    counts[row["compute.special_function"]] = demand.special
    counts[row["compute.integer_address"]] = integer
    counts[row["register.file_read"]] = (
        matrix_instructions * assumed("gpu", "matrix_instruction_read_bytes") + lane_instructions * 12.0 + kept
    )
    counts[row["register.file_write"]] = (
        matrix_instructions * assumed("gpu", "matrix_instruction_write_bytes") + lane_instructions * 4.0 + kept
    )
    for label in (
        "register.operand_collector",
        "pipeline.warp_fetch",
        "pipeline.warp_decode",
        "pipeline.warp_schedule",
    ):
        counts[row[label]] = instructions
    counts[row["pipeline.block_schedule"]] = blocks * demand.head
    counts[row["memory.shared_write"]] = staged
    counts[row["memory.shared_read"]] = staged * reuse
    counts[row["memory.l1_read"]] = np.where(demand.macs > 0, 0.0, flow.chip_read)
    counts[row["memory.l1_write"]] = flow.chip_write
    counts[row["memory.l2_read"]] = l2_read
    counts[row["memory.l2_write"]] = flow.chip_write
    counts[row["memory.dram_read"]] = flow.dram_read
    counts[row["memory.dram_write"]] = flow.dram_write
    counts[row["simt_control.divergence"]] = instructions * assumed("gpu", "divergent")
    counts[row["simt_control.coalescing"]] = (l2_read + flow.chip_write) / line
    counts[row["simt_control.barrier"]] = np.where(
        demand.macs > 0, blocks * np.ceil(depth / assumed("gpu", "barrier_k_step")) * 2.0 * 8.0, blocks * demand.head
    )
    counts[row["simt_control.coherence"]] = (l2_read + flow.chip_write) / line
    counts[row["launch.kernel_launch"]] = demand.head
    counts[row["launch.grid_drain"]] = np.where(demand.head, units, 0.0)
    return counts
