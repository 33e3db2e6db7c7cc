"""TPU, systolic arrays: weights stay in the array, activations stream through, fill and drain cost cycles."""

import math
from typing import cast

import msgspec
import numpy as np

from hardware.architecture import Architecture
from hardware.architecture_facts import UNITS, ChipLevel, Efficiency, TpuConstants
from hardware.base.text import percent, whole
from hardware.demand import Bools, Demand, Floats, OpClass
from hardware.device import Device
from hardware.mapping import common
from hardware.mapping.common import Mapping, Stages, Tiling, Traffic
from hardware.precision import FORMATS
from hardware.setup import Setup


def map_operators(demand: Demand, setup: Setup, rates: Efficiency) -> Mapping:
    """Map contractions to the arrays unless the vector unit is faster (depthwise); map the rest to the vector unit."""
    device, plan = setup.device, setup.plan
    rate = device.mac_rate("matrix", plan.matrix)
    array = common.by_shape(demand, demand.gemm, lambda gemm: systolic(gemm, device, rate))
    wants = common.on_matrix_unit(demand, plan)
    vector = common.vector_tiling(demand, setup, elsewhere=wants & ~demand.is_depthwise)
    slow = demand.is_depthwise & (vector.seconds < array.seconds)
    flow = common.traffic(demand, device)
    program = demand.head * device.program_bytes
    flow = msgspec.structs.replace(flow, dram_read=flow.dram_read + program, chip_read=flow.chip_read + program)
    return common.assemble(demand, setup, rates, flow, array, vector, wants & ~slow, _counts)


def systolic(gemm: Floats, device: Device, macs_per_s: float) -> Tiling:
    """Return weight-stationary passes: K x N in array-sized tiles, M rows streamed through each.

    A pass takes max(M, rows) cycles while the next weights load; each round is filled and drained once. M may be
    divided among idle arrays. A format faster than one MAC per cell and clock shortens streaming and loading: a column
    takes in the same bytes per clock."""
    g, m, n, k = gemm
    rows, columns = device.array_rows, device.array_columns
    arrays = device.units * device.arrays_per_unit
    per_cell = macs_per_s / device.matrix_clock_hz / device.arrays_per_unit / (rows * columns)
    divisions = sorted({1.0, 2.0, 4.0, arrays})
    tiles_kn = g * np.ceil(k / rows) * np.ceil(n / columns)
    best: Tiling | None = None
    for division in divisions:
        passes = tiles_kn * division
        rounds = np.ceil(passes / arrays)
        rows_each = np.ceil(m / division)
        stream = _pass_cycles(rows_each, per_cell, rows)
        cycles = rounds * stream + (rows + columns) * (rounds > 0)
        sizes = np.minimum(passes, arrays), rows_each, np.full_like(m, columns), np.ones_like(m)
        tiling = Tiling(cycles / device.clock_hz, passes, rounds, *sizes)
        best = tiling if best is None else common.choose(tiling.seconds < best.seconds, tiling, best)
    assert best is not None
    return best


def _pass_cycles(streamed: Floats, per_cell: float, rows: float) -> Floats:
    """Return the cycles of a pass: its rows stream through the array while the next weights load."""
    cycles: Floats = np.maximum(streamed / per_cell, rows / max(per_cell, 1.0))
    return cycles


def _counts(demand: Demand, setup: Setup, flow: Traffic, tiling: Tiling, on_matrix: Bools, units: Floats) -> Floats:
    """Count the events of each operator: operands stream through array, vector memory and scratchpad."""
    device, plan = setup.device, setup.plan
    (counts, row), assumed = common.empty_counts(device, demand), cast(TpuConstants, device.arch.constants)
    width = FORMATS[plan.matrix].bits / 8.0  # operands are converted on their way to the array
    macs = demand.macs * on_matrix
    vector_macs = demand.macs - macs
    streamed = _count_array(counts, demand, setup, tiling, on_matrix, width)
    vector_bytes = np.where(macs > 0, 0.0, flow.chip_bytes)
    vector_operations = demand.vector_flops + vector_macs + demand.special
    operand_bytes = assumed.vector_operands * assumed.accumulator_bytes
    bundle_lanes = device.mac_rate("vector", plan.vector) / device.vector_clock_hz
    lane_bytes = vector_macs * FORMATS[plan.vector_mac].bytes  # weight and sum stay in registers

    counts[row["on_chip.scratchpad_read"]] = flow.chip_read
    counts[row["on_chip.scratchpad_write"]] = flow.chip_write
    counts[row["on_chip.vector_memory_read"]] = streamed + lane_bytes + vector_bytes * assumed.vector_memory_writes
    counts[row["on_chip.vector_memory_write"]] = flow.chip_read
    counts[row["vector.mac"]] = vector_macs
    counts[row["vector.flop"]] = demand.vector_flops
    counts[row["vector.special_function"]] = demand.special
    counts[row["vector.register_access"]] = vector_operations * operand_bytes + demand.local_bytes
    # A bundle holds operations of all lanes, and feeds rows of operands to all arrays of a core: those of a kernel
    # share bundles.
    rows_fed = device.mac_rate("matrix", plan.matrix) / device.matrix_clock_hz / device.array_columns
    slots = np.array((vector_operations / bundle_lanes, streamed / (width * rows_fed)))
    of_kernel = demand.per_kernel(slots)
    shared = of_kernel.max(axis=0) / np.maximum(of_kernel.sum(axis=0), 1e-300)
    bundles = slots.sum(axis=0) * shared[demand.kernel]
    counts[row["vector.scalar_operation"]] = bundles * assumed.scalar_per_bundle
    counts[row["hbm.dram_read"]] = flow.dram_read
    counts[row["hbm.dram_write"]] = flow.dram_write
    counts[row["control.bundle_issue"]] = bundles
    counts[row["control.dma_descriptor"]] = np.ceil(flow.chip_bytes / assumed.dma_bytes)
    counts[row["control.program_launch"]] = demand.head
    counts[row["control.barrier"]] = demand.head * device.units
    return counts


def _count_array(
    counts: Floats, demand: Demand, setup: Setup, tiling: Tiling, on_matrix: Bools, width: float
) -> Floats:
    """Count the events of the systolic arrays, and return the bytes that stream into them, (n,). Each tile of weights
    is loaded, rows of operands of so many bytes stream through it, and partial sums are accumulated over tiles of K."""
    device = setup.device
    row, assumed = device.arch.row, cast(TpuConstants, device.arch.constants)
    g, m, n, k = demand.gemm * on_matrix
    rows, columns = device.array_rows, device.array_columns
    macs = demand.macs * on_matrix
    k_tiles, n_tiles = np.ceil(k / rows), np.ceil(n / columns)
    weights = g * k * n * width * np.maximum(tiling.blocks / np.maximum(g * k_tiles * n_tiles, 1.0), 1.0)
    streamed: Floats = g * m * k * width * n_tiles
    cells, per_cell = rows * columns, device.mac_rate("matrix", setup.plan.matrix) / device.matrix_clock_hz
    per_cell /= device.arrays_per_unit * cells
    streamed_rows = tiling.blocks * _pass_cycles(tiling.tile_m, per_cell, rows)
    array_cycles = (streamed_rows + tiling.units * (rows + columns)) * on_matrix

    counts[row["systolic.mac"]] = macs
    counts[row["systolic.operand_forward"]] = macs * width
    counts[row["systolic.partial_sum_forward"]] = macs * assumed.accumulator_bytes
    # Cells of arrays at work that do not multiply: filling and draining, empty, or waiting for weights.
    counts[row["systolic.idle_cell"]] = np.maximum(array_cycles * cells - macs / per_cell, 0.0)
    counts[row["weights.fifo_write"]] = counts[row["weights.fifo_read"]] = weights
    counts[row["weights.shift_load"]] = weights * rows * assumed.shift_distance
    sums = g * m * n * assumed.accumulator_bytes * k_tiles
    counts[row["on_chip.accumulator_write"]] = counts[row["on_chip.accumulator_read"]] = sums
    return streamed


def _sentence(demand: Demand, setup: Setup, mapping: Mapping, i: int) -> str:
    device, plan = setup.device, setup.plan
    tiling = mapping.tiling
    if mapping.on_matrix[i]:
        g, _, n, k = demand.gemm[:, i]
        rows, columns = device.array_rows, device.array_columns
        cells = g * -(-k // rows) * rows * -(-n // columns) * columns
        used = g * k * n / cells if cells else 0.0
        return (
            f"{common.product(demand, i)} on {whole(tiling.units[i])}/{whole(common.total_units(setup))} arrays of "
            f"{whole(rows)} x {whole(columns)} ({plan.matrix}): {whole(tiling.blocks[i])} weight tiles in "
            f"{whole(tiling.waves[i])} rounds, {whole(tiling.tile_m[i])} rows streamed each, cells {percent(used)} full"
        )
    if demand.op_class[i] == OpClass.DEPTHWISE:
        return f"depthwise: {common.elements(demand, i, 'results')} on the vector unit, which beats nearly empty arrays"
    return f"{common.elements(demand, i, 'elements')} on the vector unit ({plan.vector})"


def _divide_stages(stages: Stages, demand: Demand, setup: Setup, mapping: Mapping, i: int) -> Stages:
    """Fill and drain the arrays once; the weights of a pass load during the pass before it."""
    rows, columns, (m, n, k) = setup.device.array_rows, setup.device.array_columns, stages.block
    cycles = float(mapping.tiling.seconds[i]) * setup.device.clock_hz
    along_n, groups = math.ceil(demand.gemm[2, i] / columns), demand.gemm[0, i]
    layers = max(round(groups * math.ceil(demand.gemm[3, i] / rows)), 1)
    blocks = max(round(float(mapping.tiling.blocks[i]) / (along_n * layers)), 1), along_n, layers
    return msgspec.structs.replace(
        stages, blocks=blocks, clock_hz=setup.device.clock_hz, fill=rows, drain=columns, stream=cycles - rows - columns,
        cells=(round(rows), round(columns)), keeps="weights", block=(m, n, min(k, rows)),
    )  # fmt: skip


ARCHITECTURE = Architecture(
    id="tpu",
    name="TPU",
    unit="core",
    array="array",
    levels=(
        ChipLevel("vector memory", "vector_memory_bytes_per_unit", UNITS),
        ChipLevel("scratchpad", "scratchpad_bytes"),
    ),
    constants_type=TpuConstants,
    is_managed=True,
    splits_batches=True,
    map_operators=map_operators,
    sentence=_sentence,
    execution="fused",
    instruction_event="control.bundle_issue",
    divide_stages=_divide_stages,
)
