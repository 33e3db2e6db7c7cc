"""CPU, stored program: scalar, vector and matrix units of each core, cores in parallel."""

from __future__ import annotations

import numpy as np

from hardware.demand import Demand, Floats, OpClass
from hardware.device import Device
from hardware.efficiency import Efficiency, reorder_passes
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
from hardware.plan import Plan


def map_operators(demand: Demand, device: Device, plan: Plan, layout: str, rates: Efficiency) -> Mapping:
    """Each contraction on the faster of matrix and vector unit, tiled over cores; the rest on vector lanes."""
    vector = vector_tiling(demand, device, plan)
    wants_matrix = contraction_formats(demand, plan) == "matrix"
    if wants_matrix.any():
        tiles, splits = candidates("cpu")
        step = 64.0 / plan.element_bytes  # one tile row of AMX holds 64 bytes of K
        matrix = tile(demand.gemm, tiles, splits, device.units, fma(device, "matrix", plan.matrix), step)
    else:
        matrix = vector
    on_matrix = wants_matrix & (demand.op_class != OpClass.DEPTHWISE) & (matrix.seconds < vector.seconds)
    # oneDNN computes in blocked layouts: frameworks rearrange weights on every call, plain NCHW activations as well;
    # a runtime that owns the whole graph packs them once.
    passes = reorder_passes() if layout != "blocked" else 0.0
    flow = traffic(demand, device, (passes, passes if layout == "nchw" else 0.0))
    return assemble(demand, device, plan, layout, rates, flow, matrix, vector, on_matrix, _counts)


def _counts(
    demand: Demand,
    device: Device,
    plan: Plan,
    flow: Traffic,
    tiling: Tiling,
    on_matrix: Bools,
    units: Floats,
) -> Floats:
    """Events of each operator. Instructions follow from MACs, FLOPs and bytes per vector register."""
    counts, row = empty_counts(device, demand)
    register = assumed("cpu", "vector_bytes")
    lanes = fma(device, "vector", plan.vector_mac) / device.vector_clock_hz / assumed("cpu", "fma_ports")
    matrix_macs = demand.macs * on_matrix
    vector_macs = demand.macs - matrix_macs
    per_matrix = fma(device, "matrix", plan.matrix) / device.clock_hz * assumed("cpu", "cycles_per_matrix_instruction")
    moved = flow.chip_read + flow.chip_write  # what a fused kernel keeps stays in registers
    kept = demand.local_bytes / 2.0  # each value kept is written once and read once
    matrix_instructions = matrix_macs / max(per_matrix, 1.0)
    mac_instructions = vector_macs / lanes
    loads = mac_instructions * assumed("cpu", "loads_per_vector_mac")
    vector_instructions = mac_instructions + loads + demand.vector_flops / lanes + moved / register
    scalar = (vector_instructions + matrix_instructions) * assumed("cpu", "scalar_per_vector")
    instructions = vector_instructions + matrix_instructions + scalar
    branches = instructions / assumed("cpu", "instructions_per_branch")
    operand_loads = loads * register + matrix_instructions * assumed("cpu", "matrix_tile_bytes")
    panels = tiling.blocks * (tiling.tile_m + tiling.tile_n) * demand.gemm[3] * plan.element_bytes
    panels = np.where(demand.macs > 0, panels / np.maximum(tiling.split, 1.0), 0.0)

    for stage in ("instruction_fetch", "decode", "rename_dispatch", "retire"):
        counts[row[f"pipeline.{stage}"]] = instructions
    counts[row["pipeline.thread_fork_join"]] = np.where(demand.head, units, 0.0)
    counts[row["register.scalar_read"]] = scalar * 16.0
    counts[row["register.scalar_write"]] = scalar * 8.0
    counts[row["register.vector_read"]] = (vector_instructions * 2.0 + mac_instructions) * register + kept
    counts[row["register.vector_write"]] = vector_instructions * register + kept
    counts[row["register.bypass"]] = (mac_instructions + demand.vector_flops / lanes) * register
    counts[row["memory.l1_load"]] = operand_loads + flow.chip_read
    counts[row["memory.l1_store"]] = flow.chip_write
    counts[row["memory.l2_load"]] = panels + flow.chip_read
    counts[row["memory.l2_store"]] = flow.chip_write
    counts[row["memory.l3_load"]] = flow.chip_read
    counts[row["memory.l3_store"]] = flow.chip_write
    counts[row["memory.dram_read"]] = flow.dram_read
    counts[row["memory.dram_write"]] = flow.dram_write
    counts[row["memory.tlb_lookup"]] = (operand_loads + moved) / register
    counts[row["alu.scalar_operation"]] = scalar
    counts[row["alu.vector_mac"]] = vector_macs
    counts[row["alu.vector_flop"]] = demand.vector_flops
    counts[row["alu.matrix_mac"]] = matrix_macs
    counts[row["alu.special_function"]] = demand.special
    counts[row["branch.predicted"]] = branches
    counts[row["branch.mispredicted"]] = branches * assumed("cpu", "mispredicted")
    return counts
