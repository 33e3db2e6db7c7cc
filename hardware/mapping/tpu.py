"""TPU, systolic arrays: weights stay in the array, activations stream through, fill and drain cost cycles."""

from __future__ import annotations

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
    choose,
    contraction_formats,
    empty_counts,
    fma,
    traffic,
    vector_tiling,
)
from hardware.plan import Plan


def map_operators(demand: Demand, device: Device, plan: Plan, layout: str, rates: Efficiency) -> Mapping:
    """Contractions on the arrays unless the vector unit is faster (depthwise); the rest on the vector unit."""
    array = systolic(demand, device, fma(device, "matrix", plan.matrix))
    wants = contraction_formats(demand, plan) == "matrix"
    vector = vector_tiling(demand, device, plan, elsewhere=wants & (demand.op_class != OpClass.DEPTHWISE))
    slow = (demand.op_class == OpClass.DEPTHWISE) & (vector.seconds < array.seconds)
    flow = traffic(demand, device)
    return assemble(demand, device, plan, layout, rates, flow, array, vector, wants & ~slow, _counts)


def systolic(demand: Demand, device: Device, macs_per_s: float) -> Tiling:
    """Weight-stationary passes: K x N in array-sized tiles, M rows streamed through each.

    A pass takes max(M, rows) cycles (the next weights load behind it) and each round of passes is filled and
    drained once. M may be divided among arrays that would otherwise idle. A format faster than one MAC per
    cell and clock (int8 on some generations) shortens the streaming.
    """
    g, m, n, k = demand.gemm
    rows, columns = device.array_rows, device.array_columns
    arrays = device.units * device.arrays_per_unit
    per_cell = macs_per_s / device.clock_hz / device.arrays_per_unit / (rows * columns)
    divisions = sorted({1.0, 2.0, 4.0, arrays})
    tiles_kn = g * np.ceil(k / rows) * np.ceil(n / columns)
    best: Tiling | None = None
    for division in divisions:
        passes = tiles_kn * division
        rounds = np.ceil(passes / arrays)
        stream = np.maximum(np.ceil(m / division) / per_cell, rows)
        cycles = rounds * stream + (rows + columns) * (rounds > 0)
        tiling = Tiling(
            cycles / device.clock_hz,
            passes,
            rounds,
            np.minimum(passes, arrays),
            np.ceil(m / division),
            np.full_like(m, columns),
            np.ones_like(m),
        )
        best = tiling if best is None else choose(tiling.seconds < best.seconds, tiling, best)
    assert best is not None
    return best


def _counts(
    demand: Demand,
    device: Device,
    plan: Plan,
    flow: Traffic,
    tiling: Tiling,
    on_matrix: Bools,
    units: Floats,
) -> Floats:
    """Events of each operator: operands stream through array, vector memory and scratchpad."""
    counts, row = empty_counts(device, demand)
    g, m, n, k = demand.gemm * on_matrix
    rows, columns = device.array_rows, device.array_columns
    width = plan.element_bytes
    macs = demand.macs * on_matrix
    vector_macs = demand.macs - macs
    k_tiles, n_tiles = np.ceil(k / rows), np.ceil(n / columns)
    weights = g * k * n * width * np.maximum(tiling.blocks / np.maximum(g * k_tiles * n_tiles, 1.0), 1.0)
    streamed = g * m * k * width * n_tiles
    partial = g * m * n * assumed("tpu", "accumulator_bytes") * k_tiles
    moved = flow.chip_read + flow.chip_write
    vector_bytes = np.where(macs > 0, 0.0, moved)
    vector_operations = demand.vector_flops + vector_macs + demand.special
    register_bytes = vector_operations * 3.0 * assumed("tpu", "accumulator_bytes") + demand.local_bytes
    bundle_lanes = fma(device, "vector", plan.vector) / device.vector_clock_hz
    bubbles = tiling.waves * (rows + columns) * on_matrix

    counts[row["systolic.mac"]] = macs
    counts[row["systolic.operand_forward"]] = macs * width
    counts[row["systolic.partial_sum_forward"]] = macs * assumed("tpu", "accumulator_bytes")
    counts[row["systolic.fill_drain"]] = bubbles
    counts[row["weights.fifo_write"]] = weights
    counts[row["weights.fifo_read"]] = weights
    counts[row["weights.shift_load"]] = weights * rows / 2.0
    counts[row["on_chip.scratchpad_read"]] = flow.chip_read
    counts[row["on_chip.scratchpad_write"]] = flow.chip_write
    counts[row["on_chip.vector_memory_read"]] = streamed + vector_bytes / 2.0
    counts[row["on_chip.vector_memory_write"]] = flow.chip_read
    counts[row["on_chip.accumulator_write"]] = partial
    counts[row["on_chip.accumulator_read"]] = partial
    counts[row["vector.mac"]] = vector_macs
    counts[row["vector.flop"]] = demand.vector_flops
    counts[row["vector.special_function"]] = demand.special
    counts[row["vector.register_access"]] = register_bytes
    counts[row["vector.scalar_operation"]] = (vector_operations / bundle_lanes + bubbles / rows) * 2.0
    counts[row["hbm.dram_read"]] = flow.dram_read
    counts[row["hbm.dram_write"]] = flow.dram_write
    counts[row["control.bundle_issue"]] = vector_operations / bundle_lanes + streamed / (rows * width)
    counts[row["control.dma_descriptor"]] = np.ceil(moved / assumed("tpu", "dma_bytes"))
    counts[row["control.program_launch"]] = demand.head
    counts[row["control.barrier"]] = demand.head * device.units
    return counts
