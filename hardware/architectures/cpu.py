"""CPU, stored program: scalar, vector and matrix units of each core, cores in parallel."""

from typing import cast

import msgspec
import numpy as np

from hardware.architecture import Architecture
from hardware.architecture_facts import UNITS, ArchitectureFacts, ChipLevel, CpuConstants, Efficiency
from hardware.base.text import count_noun, whole
from hardware.demand import READ, WRITE, Bools, Demand, Floats, OpClass
from hardware.mapping import common
from hardware.mapping.common import Mapping, Tiling, Traffic, tile_menu, vector_tiling
from hardware.mapping.kernel_passes import rewrite_convolutions
from hardware.precision import BASE
from hardware.setup import Setup

_STAGES = ("pipeline.instruction_fetch", "pipeline.decode", "pipeline.rename_dispatch", "pipeline.retire")
_EVERY_INSTRUCTION = (*_STAGES, "branch.predicted", "branch.mispredicted")


def map_operators(demand: Demand, setup: Setup, rates: Efficiency) -> Mapping:
    """Map each contraction to the unit whose kernel is faster, tiled over cores; map the rest to vector lanes."""
    device, plan = setup.device, setup.plan
    demand, staged_s = rewrite_convolutions(demand, setup, rates)
    vector = vector_tiling(demand, setup)
    wants_matrix = common.on_matrix_unit(demand, plan)
    if wants_matrix.any():
        menu, rate = device.arch.data.tiles["matrix"], device.mac_rate("matrix", plan.matrix)
        matrix = tile_menu(demand, demand.gemm, menu, device, rate, plan.operand_bytes)
        beside = common.vector_beside(demand, setup, rates) * rates.compute[0, demand.op_class]
        quicker = wants_matrix & ~demand.is_depthwise & (matrix.seconds < vector.seconds + beside)
        # One row reuses no weight: libraries take lanes (llama.cpp, ggml-cpu/amx: M == 1; oneDNN: GEMV by AVX-512).
        on_matrix = quicker & (demand.gemm[1] > 1.0)
        seconds = np.where(quicker, np.minimum(matrix.seconds, vector.seconds), vector.seconds)
        vector = msgspec.structs.replace(vector, seconds=seconds)
    else:
        matrix, on_matrix = vector, wants_matrix
    # oneDNN computes in blocked layouts: frameworks rearrange weights on every call, plain NCHW activations as well;
    # a runtime that owns the whole graph packs them once.
    passes = cast(CpuConstants, device.arch.constants).reorder_passes if setup.layout != "blocked" else 0.0
    flow = common.traffic(demand, device, (passes, passes if setup.layout == "nchw" else 0.0))
    streamed = setup.runtime.streaming.get(device.software_class)
    if streamed is not None:  # weights are packed and buffers planned when a model loads: all is read in order
        rates = msgspec.structs.replace(rates, bandwidth=np.maximum(rates.bandwidth, streamed.value))
    mapping = common.assemble(demand, setup, rates, flow, matrix, vector, on_matrix, _counts)
    mapping = msgspec.structs.replace(mapping, vector_s=mapping.vector_s + staged_s, is_reduced=staged_s > 0)
    if on_matrix.any():
        # One stream of instructions: a tile's results pass through the lanes before the next tile begins.
        waits = demand.per_kernel(on_matrix.astype(np.float64))[demand.kernel] > 0
        mapping = msgspec.structs.replace(mapping, matrix_s=mapping.matrix_s + waits * mapping.vector_s)
    return _add_plain_layout(demand, setup, mapping) if setup.layout == "nchw" else mapping


def _add_plain_layout(demand: Demand, setup: Setup, mapping: Mapping) -> Mapping:
    """Add the costs of plain NCHW tensors: separate kernels rearrange the activations of a convolution, and a
    framework's pooling takes the values of a window one by one."""
    device = setup.device
    assumed, cycles_per_s = cast(CpuConstants, device.arch.constants), device.units * device.clock_hz
    moved = 2.0 * (demand.moved_bytes[READ] + demand.moved_bytes[WRITE])  # read and written
    copy_s = demand.is_convolution * moved / (assumed.plain_copy_bytes * cycles_per_s)
    is_window = demand.vector_flops <= demand.elements * assumed.plain_pool_window
    is_pool = (demand.op_class == OpClass.POOL) & is_window & (setup.runtime.mode == "eager")
    pool_s = is_pool * demand.vector_flops * assumed.plain_pool_cycles / cycles_per_s
    mapping = common.add_serial(mapping, demand, passes_s=copy_s)
    return msgspec.structs.replace(mapping, vector_s=np.maximum(mapping.vector_s, pool_s))


def _counts(demand: Demand, setup: Setup, flow: Traffic, tiling: Tiling, on_matrix: Bools, units: Floats) -> Floats:
    """Count the events of each operator. Instructions follow from MACs, FLOPs and bytes per vector register."""
    device, plan = setup.device, setup.plan
    row, assumed = device.arch.row, cast(CpuConstants, device.arch.constants)
    port_hz = device.vector_clock_hz * assumed.fma_ports
    # Dot products of the format of products, but no sums over channels.
    dotted, lanes = (device.mac_rate("vector", form) / port_hz for form in (plan.contraction[1], plan.vector_mac))
    register = 4.0 * device.mac_rate("vector", BASE) / port_hz
    matrix_instructions = _matrix_instructions(demand, setup, on_matrix)
    vector_macs = demand.macs * ~on_matrix
    moved = flow.chip_bytes  # what a fused kernel keeps stays in registers
    kept = demand.local_bytes / 2.0  # each value kept is written once and read once
    mac_instructions = vector_macs / np.where(demand.is_depthwise, lanes, dotted)
    loads = mac_instructions * np.where(demand.is_depthwise, 1.0, assumed.loads_per_vector_mac)
    # A product loads what it reads again, a tile for each instruction; what it reads first is among that.
    again = np.where(on_matrix, matrix_instructions, loads)
    moves = np.maximum(again, moved / np.where(on_matrix, assumed.matrix_tile_bytes, register))
    vector_instructions = mac_instructions + moves + demand.vector_flops / lanes
    scalar = (vector_instructions + matrix_instructions) * assumed.scalar_per_vector

    counts = np.outer(device.arch.scalar_instruction, scalar)
    every = [row[label] for label in _EVERY_INSTRUCTION]
    counts[every] += np.outer(device.arch.scalar_instruction[every], vector_instructions + matrix_instructions)
    counts[row["pipeline.thread_fork_join"]] = np.where(demand.head, units, 0.0)
    tiles = matrix_instructions * assumed.matrix_tile_bytes
    counts[row["register.vector_read"]] = (
        (vector_instructions * assumed.vector_reads + mac_instructions) * register + 3.0 * tiles + kept
    )
    counts[row["register.vector_write"]] = vector_instructions * register + tiles + kept
    counts[row["register.bypass"]] += (mac_instructions + demand.vector_flops / lanes) * register
    counts[row["memory.l1_load"]] += loads * register + tiles + flow.chip_read
    counts[row["memory.l1_store"]] += flow.chip_write
    counts[row["memory.l2_load"]] = _panel_bytes(demand, setup, tiling) + flow.chip_read
    counts[row["memory.l2_store"]] = flow.chip_write
    counts[row["memory.l3_load"]] = flow.chip_read
    counts[row["memory.l3_store"]] = flow.chip_write
    counts[row["memory.dram_read"]] = flow.dram_read
    counts[row["memory.dram_write"]] = flow.dram_write
    counts[row["memory.tlb_lookup"]] += loads + (tiles + moved) / register
    counts[row["alu.vector_mac"]] = vector_macs
    counts[row["alu.vector_flop"]] = demand.vector_flops
    counts[row["alu.matrix_mac"]] = demand.macs * on_matrix
    counts[row["alu.special_function"]] = demand.special
    return counts


def _matrix_instructions(demand: Demand, setup: Setup, on_matrix: Bools) -> Floats:
    """Return the instructions of matrix units, (n,). One multiplies a tile, a row a cycle; what a size leaves of the
    last tile takes a whole one."""
    device, assumed = setup.device, cast(CpuConstants, setup.device.arch.constants)
    rows, sums = assumed.cycles_per_matrix_instruction, assumed.matrix_tile_bytes / 4.0  # of 32 bits
    macs = max(device.mac_rate("matrix", setup.plan.matrix) / device.matrix_clock_hz * rows, sums)
    tiles = np.maximum(demand.gemm[1:], 1.0) / np.array([[rows], [sums / rows], [macs / sums]])
    instructions: Floats = demand.macs * on_matrix / macs * np.prod(np.ceil(tiles) / tiles, axis=0)
    return instructions


def _panel_bytes(demand: Demand, setup: Setup, tiling: Tiling) -> Floats:
    """Return the bytes of operands that tiles of products load from the second cache, (n,): panels of the left and the
    right operand. They are those of the tile that software prefers, not of the chosen one: they must not fall when a
    size grows, or a kernel at the power limit would be quicker for more work."""
    tile = cast(CpuConstants, setup.device.arch.constants).preferred_tile
    g, m, n, depth = demand.gemm * (tiling.tile_m > 0)
    left, right = m * np.ceil(n / tile) * setup.plan.element_bytes, n * np.ceil(m / tile) * demand.right_bytes
    panels: Floats = g * depth * (left + right)
    return panels


def _scalar_instruction(arch: ArchitectureFacts) -> Floats:
    """Return the events of one scalar instruction, (e,). It works on words of 8 bytes."""
    assumed, events = cast(CpuConstants, arch.constants), np.zeros(len(arch.events))
    events[[arch.row[label] for label in (*_STAGES, "alu.scalar_operation")]] = 1.0
    events[arch.row["branch.predicted"]] = 1.0 / assumed.instructions_per_branch
    events[arch.row["branch.mispredicted"]] = assumed.mispredicted / assumed.instructions_per_branch
    events[arch.row["register.scalar_read"]] = assumed.scalar_read_bytes
    events[arch.row["register.scalar_write"]] = events[arch.row["register.bypass"]] = assumed.scalar_write_bytes
    events[arch.row["memory.tlb_lookup"]] = assumed.loads_per_scalar
    events[arch.row["memory.l1_load"]] = 8.0 * assumed.loads_per_scalar
    return events


def _sentence(demand: Demand, setup: Setup, mapping: Mapping, i: int) -> str:
    device, plan = setup.device, setup.plan
    units = f"{whole(mapping.units[i])}/{whole(device.units)} cores"
    tiling = mapping.tiling
    if demand.macs[i] > 0 and tiling.tile_m[i] > 0:
        unit = "matrix unit" if mapping.on_matrix[i] else "vector lanes"
        return (
            f"{common.product(demand, i)} on {unit} ({common.format_run(mapping, plan, i)}): "
            f"{whole(tiling.blocks[i])} blocks of {whole(tiling.tile_m[i])} x {whole(tiling.tile_n[i])}"
            f"{common.split(mapping, i)}, {units}, {count_noun(tiling.waves[i], 'wave')}"
        )
    return f"{common.elements(demand, i, 'elements')} on vector lanes ({plan.vector}), {units}"


ARCHITECTURE = Architecture(
    id="cpu",
    name="CPU",
    unit="core",
    levels=(ChipLevel("L1", "l1_bytes_per_unit", UNITS), ChipLevel("L2", "l2_bytes"), ChipLevel("L3", "l3_bytes")),
    constants_type=CpuConstants,
    is_managed=False,
    map_operators=map_operators,
    sentence=_sentence,
    execution="eager",
    is_host=True,
    dispatch_event="pipeline.operator_dispatch",
    instruction_event="pipeline.decode",
    has_layouts=True,
    count_instruction=_scalar_instruction,
    misses={"branch_prediction_rate": ("branch.mispredicted", "branch.predicted")},
)
