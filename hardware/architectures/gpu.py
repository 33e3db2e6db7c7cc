"""GPU, data-parallel SIMT: grids of blocks in waves over SMs, tensor cores where the format allows."""

from typing import NamedTuple, cast

import msgspec
import numpy as np

from hardware.architecture import Architecture
from hardware.architecture_facts import UNITS, ChipLevel, Efficiency, GpuConstants
from hardware.base.text import count_noun, whole
from hardware.demand import Bools, Demand, Floats, OpClass, distinct_shapes
from hardware.device import Device
from hardware.mapping import common
from hardware.mapping.common import Mapping, Tiling, Traffic, choose, tile_menu, vector_tiling
from hardware.mapping.kernel_passes import move_expert_rows, rewrite_convolutions, serving_experts, zero_rows_s
from hardware.precision import BASE, FORMATS, WIDE
from hardware.setup import Setup


def map_operators(demand: Demand, setup: Setup, rates: Efficiency) -> Mapping:
    """Map contractions to tiled products, one block per SM and wave; map the rest to one thread per element."""
    device = setup.device
    demand, staged_s = rewrite_convolutions(move_expert_rows(demand, setup), setup, rates)
    exact = device.arch.data.tiles["exact"]  # products whose weights the model keeps in fp32
    is_exact = (demand.op_class == OpClass.GEMM) & (demand.right_bytes >= FORMATS[BASE].bytes)
    is_exact &= setup.is_narrow and device.vendor == exact.vendor
    on_matrix = common.on_matrix_unit(demand, setup.plan) & ~demand.is_depthwise & ~is_exact
    vector = vector_tiling(demand, setup, elsewhere=on_matrix)
    if is_exact.any():
        rate = device.mac_rate("vector", BASE)
        timing = {"split_s": device.light_start_s, "ruled_side": exact.sizes[0][0]}
        tiles = tile_menu(demand, demand.gemm * is_exact, exact, device, rate, FORMATS[BASE].bytes, **timing)
        vector = choose(is_exact, tiles, vector)
    is_wide = common.wide_products(demand, setup.plan) & on_matrix
    matrix, demand = _tile_products(demand, setup, on_matrix & ~is_wide) if on_matrix.any() else (vector, demand)
    if is_wide.any():
        wide, demand = _tile_products(demand, setup.wide_setup, is_wide)
        matrix = choose(is_wide, wide, matrix)
    flow = common.traffic(demand, device)
    mapping = common.assemble(demand, setup, rates, flow, matrix, vector, on_matrix, _counts)
    mapping = msgspec.structs.replace(
        mapping, vector_s=mapping.vector_s + staged_s, staged_s=staged_s, is_reduced=staged_s > 0
    )
    if not setup.runtime.is_llm_engine:
        return mapping
    assumed, is_served = cast(GpuConstants, device.arch.constants), is_wide | (setup.plan.operand == setup.plan.stored)
    sorting_kernels = 0.0 if serving_experts(demand, setup).is_fused else assumed.routing_kernels
    # The start of a kernel holds the mean fill of a product's pipeline: replace it by the first steps of K.
    fill_s = assumed.fill_steps * _step_s(device) + device.light_start_s - device.kernel_start_s
    is_product = demand.head & on_matrix & (demand.op_class == OpClass.GEMM)
    starts_s = np.where(demand.is_expert, sorting_kernels * device.kernel_start_s, fill_s * is_served) * is_product
    zeros_s = zero_rows_s(demand, setup, float(rates.bandwidth[0, OpClass.ELEMENTWISE]))
    return common.add_serial(mapping, demand, passes_s=zeros_s, starts_s=starts_s)


def _tile_products(demand: Demand, setup: Setup, on_matrix: Bools) -> tuple[Tiling, Demand]:
    """Return the tiles of products on tensor cores, and the demand, with weights unpacked as often as they need."""
    device, plan, is_engine = setup.device, setup.plan, setup.runtime.is_llm_engine
    tiles, is_product = device.arch.data.tiles, on_matrix & (demand.op_class == OpClass.GEMM)
    rate = device.mac_rate("matrix", plan.matrix) * plan.matrix_rate * device.matrix_sustained
    rate *= setup.product_share
    is_narrow = is_engine and plan.operand != plan.stored
    is_packed = demand.unpack_ops is not None and plan.widths.unpack_weights > 0
    kind = "packed" if is_engine and is_packed else "matrix"
    if is_narrow:
        kind = "block_scaled" if FORMATS[plan.operand].bits == FORMATS["fp4"].bits else "quantised"
    has_own = tiles[kind].vendor == device.vendor
    menu = tiles[kind if has_own else "matrix"]
    sizes, times, whole = _kernel_sizes(demand, setup, on_matrix, is_product)
    timing, fed_s = _tile_timing(demand, setup, has_own)
    if not is_narrow and device.vendor == "NVIDIA":
        is_paired = ("matrix", "fp4") in device.peaks  # two units share their operands
        sizes, timing["operand_s"] = np.concatenate((sizes, [is_product])), fed_s / 2.0 if is_paired else fed_s
    matrix = tile_menu(whole, sizes, menu, device, rate, plan.operand_bytes, **timing)
    matrix = msgspec.structs.replace(matrix, seconds=matrix.seconds * times)
    grouped = is_product & demand.is_expert & (demand.gemm[0] > 1.0) & is_engine
    if grouped.any():
        matrix, demand = _group_experts(demand, setup, grouped, matrix, rate)
    rows, assumed = demand.gemm[1], cast(GpuConstants, device.arch.constants)
    if demand.unpack_ops is not None:
        few = (demand.unpack_ops > 0) & ~grouped & (rows <= assumed.packed_rows)
        matrix = _few_rows(demand, few, device, matrix, rate)
    elif is_narrow and setup.is_synchronous:
        matrix = _few_rows(demand, is_product & ~grouped & (rows <= assumed.vector_rows), device, matrix, rate)
    return matrix, demand


def _kernel_sizes(demand: Demand, setup: Setup, on_matrix: Bools, is_product: Bools) -> tuple[Floats, Floats, Demand]:
    """Return the sizes (G, M, N, K) of the products that kernels execute, (4, n), how many kernels' time each operator
    takes, (n,) or (1,), and the demand with these sizes. An engine may divide the rows among micro-batches; products
    of one input are one product with the columns of all, whose time they share."""
    sizes, times, whole = demand.gemm * on_matrix, np.array([1.0]), demand
    if at_once := setup.runtime.micro_batch.get(setup.device.software_class):
        times = np.where(is_product, np.maximum(np.ceil(sizes[1] / at_once.value), 1.0), 1.0)
        sizes[1] = np.ceil(sizes[1] / times)
    if (is_product & ~demand.head).any():
        columns = sizes[2] * (sizes[0] == 1.0) * is_product
        sizes[2] = np.where(columns > 0.0, demand.per_kernel(columns)[demand.kernel], sizes[2])
        times = times * np.where(columns > 0.0, columns / np.maximum(sizes[2], 1.0), 1.0)
        whole = msgspec.structs.replace(demand, gemm=sizes)
        vars(whole)["shapes"] = distinct_shapes(np.array((demand.shapes[1], sizes[2])), sizes[0] > 0.0)
    return sizes, times, whole


def _tile_timing(demand: Demand, setup: Setup, has_own: bool) -> tuple[dict[str, float], float]:
    """Return the fields of TileChoices that say what a tile takes beside its products, and the seconds in which a value
    of an operand comes to a unit.

    With small tiles, narrow operands are multiplied only as fast as a multiprocessor reads them. Loads of others are
    hidden in part, except in convolutions, whose windows overlap. Synchronous sums pass shared memory."""
    device, plan, is_engine = setup.device, setup.plan, setup.runtime.is_llm_engine
    is_served = is_engine and plan.operand == plan.stored
    is_narrow = is_engine and not is_served
    fed_bytes = plan.operand_bytes if is_narrow else min(plan.operand_bytes, FORMATS[plan.matrix].bytes)
    fed_s = fed_bytes / (device.operand_bytes_per_clock * device.clock_hz)
    is_staged = setup.is_synchronous and not setup.products.scaling_ops
    stored_bytes = demand.element_bytes * (is_staged or is_served or has_own) + FORMATS[BASE].bytes * is_staged
    step_s = _step_s(device, setup.is_synchronous)
    timing = {"operand_s": fed_s * is_narrow, "store_s": _store_s(device, stored_bytes)}
    if is_served:
        fill_s = cast(GpuConstants, device.arch.constants).fill_steps * step_s
        timing |= {"step_s": step_s, "split_s": device.light_start_s, "refill_s": fill_s}
    elif not is_engine:  # parts are written and read again
        timing |= {"step_s": step_s, "part_s": _store_s(device, 2.0 * FORMATS[BASE].bytes)}
    return timing, fed_s


def _group_experts(
    demand: Demand, setup: Setup, grouped: Bools, matrix: Tiling, macs_per_s: float
) -> tuple[Tiling, Demand]:
    """Return the tiles and the demand with products of experts, `grouped` in one kernel by the engine's library."""
    library = serving_experts(demand, setup)
    if setup.device.vendor == "NVIDIA":
        return _group(demand, setup, grouped, matrix, macs_per_s)
    share = np.where(grouped & (demand.gemm[1] > 1.0), library.rate, 1.0)
    return matrix, demand.with_values(product_rate=demand.product_rate * share)


def _group(demand: Demand, setup: Setup, grouped: Bools, matrix: Tiling, macs_per_s: float) -> tuple[Tiling, Demand]:
    """Return the tiles, with `grouped` products (of experts) in one kernel with K undivided, and the demand. Packed
    weights are unpacked between products, once per block of rows, for instructions that warps wait for by default."""
    device, plan, library = setup.device, setup.plan, serving_experts(demand, setup)
    assumed, unpack = cast(GpuConstants, device.arch.constants), demand.unpack_ops
    is_packed = plan.widths.unpack_weights > 0 and unpack is not None
    is_apart = is_packed and not library.is_fused  # else products hide the unpacking
    fed_s = plan.operand_bytes / (library.feed * device.clock_hz) if library.feed > 0 and not is_apart else 0.0
    peak = device.synchronous_matrix_rate if is_apart and not library.instruction else 1.0
    step_s, store_s = library.step_cycles / device.clock_hz, _store_s(device, demand.element_bytes)
    timing = {"operand_s": fed_s, "step_s": step_s, "store_s": store_s, "partly_full": 0.5}
    room = device.l1_bytes_per_unit * assumed.shared_part / assumed.tile_stages
    menu = library.menu(device.kernel_generation, device.mac_rate("matrix", WIDE) / device.matrix_clock_hz, peak, room)
    tiled = tile_menu(demand, demand.gemm * grouped, menu, device, macs_per_s, plan.operand_bytes, **timing)
    if unpack is not None and is_packed:
        rows = np.maximum(demand.gemm[1] / assumed.grouped_unpack_rows + 0.5, 1.0)
        again = rows / np.maximum(np.ceil(demand.gemm[1] / assumed.unpack_rows), 1.0)
        demand = demand.with_values(unpack_ops=np.where(grouped, unpack * again, unpack))
        if is_apart:
            tiled = msgspec.structs.replace(tiled, seconds=tiled.seconds + common.unpack_seconds(demand, setup))
    return choose(grouped, tiled, matrix), demand


def _step_s(device: Device, is_synchronous: bool = False) -> float:
    """Return the seconds in which a block of a product that waits for memory advances by a step of K."""
    assumed, is_bulk = cast(GpuConstants, device.arch.constants), device.has_bulk_instructions and not is_synchronous
    return (assumed.bulk_step_cycles if is_bulk else assumed.step_cycles) / device.clock_hz


def _store_s(device: Device, value_bytes: float) -> float:
    """Return the seconds in which a multiprocessor stores a value."""
    return value_bytes / (device.bytes_per_clock_per_unit * device.clock_hz)


def _few_rows(demand: Demand, few: Bools, device: Device, matrix: Tiling, macs_per_s: float) -> Tiling:
    """Return the tiles with faster products of `few` rows, padded only to one instruction: at full rate, with weights
    unpacked in registers."""
    g, m, n, k = demand.gemm
    rows = cast(GpuConstants, device.arch.constants).instruction_rows
    seconds = g * np.ceil(m / rows) * rows * n * k / (device.units * macs_per_s)
    return msgspec.structs.replace(matrix, seconds=np.where(few, np.minimum(seconds, matrix.seconds), matrix.seconds))


class _Delivery(msgspec.Struct, frozen=True):
    """Operands of 16 bits reach a tensor core this way: multiply-adds of a warp's instruction, bytes that an
    instruction of `macs` reads and writes in registers, results that share an operand read from shared memory in each
    direction, and the sides of the blocks that are staged in shared memory."""

    issued_macs: float
    macs: float
    read_bytes: float
    write_bytes: float
    sharing: tuple[float, float]
    tile: float


def _delivery(device: Device) -> _Delivery:
    """Return the delivery of the device's generation: before Hopper warps fill registers with operands; from Hopper on
    products read shared memory and registers hold sums; Blackwell keeps sums in tensor memory and pairs its blocks."""
    assumed = cast(GpuConstants, device.arch.constants)
    macs, sums = assumed.matrix_instruction_macs, assumed.matrix_instruction_write_bytes
    tile, warp = assumed.preferred_tile, assumed.matrix_warp_tile
    if not device.has_bulk_instructions:
        reads = assumed.matrix_instruction_read_bytes
        return _Delivery(macs, macs, reads, sums, (warp, warp), tile)
    sides = assumed.bulk_tile_rows, assumed.bulk_tile_columns
    issued = assumed.bulk_instruction_macs
    if ("matrix", "fp4") in device.peaks:
        return _Delivery(issued, macs, 0.0, 0.0, (2.0 * sides[0], 2.0 * sides[1]), 2.0 * tile)
    return _Delivery(issued, macs, sums, sums, sides, tile)


class _Instructions(NamedTuple):
    """The instructions of each operator, (n,): multiply-adds of tensor cores and of CUDA cores, operations on
    addresses, instructions of single lanes and of warps, and tensor-core operands in units of two bytes."""

    tensor_macs: Floats
    cuda_macs: Floats
    addresses: Floats
    lanes: Floats
    warps: Floats
    halves: Floats


def _count_instructions(demand: Demand, setup: Setup, flow: Traffic, on_matrix: Bools, issued: float) -> _Instructions:
    """Count instructions: a lane takes one for each FLOP, special function and address, a warp one for 32 lanes,
    `load_bytes` of data, or `issued` multiply-adds of two-byte operands on a tensor core."""
    plan, assumed = setup.plan, cast(GpuConstants, setup.device.arch.constants)
    tensor_macs = demand.macs * on_matrix
    cuda_macs = demand.macs - tensor_macs
    # An instruction takes as many bytes of operands in any format.
    is_wide = common.wide_products(demand, plan)
    operands = tensor_macs * np.where(is_wide, setup.wide_setup.plan.operand_bytes, plan.operand_bytes)
    halves = operands / FORMATS[WIDE].bytes
    moved = flow.chip_bytes
    # Addresses are computed for what is loaded and stored; a fused kernel keeps the rest in registers.
    addresses = moved / (2.0 * plan.element_bytes) * assumed.integer_per_element + demand.address_ops
    per_mac = np.where(demand.is_depthwise, assumed.depthwise_instructions, 1.0)
    lanes = cuda_macs * per_mac + demand.vector_flops + demand.special * assumed.special_flops + addresses
    warps = lanes / assumed.warp_threads + moved / assumed.load_bytes + halves / issued
    return _Instructions(tensor_macs, cuda_macs, addresses, lanes, warps, halves)


class _Panels(NamedTuple):
    """The thread blocks of each operator and its sizes along K, (n,), and the bytes of its operands: written to shared
    memory once for each block that uses them, and read from the L2 once for each panel of blocks."""

    blocks: Floats
    depth: Floats
    staged: Floats
    l2_read: Floats


def _count_panels(demand: Demand, setup: Setup, flow: Traffic, is_tiled: Bools, tile: float) -> _Panels:
    """Count operand traffic for the `tile` that software prefers: a smaller one is for parallelism, and the L2 serves
    its repeated reads. The count must not fall when a size grows and a larger tile is chosen."""
    device, assumed = setup.device, cast(GpuConstants, setup.device.arch.constants)
    panel = assumed.bulk_panel_tile if device.has_bulk_instructions else assumed.panel_tile
    g, m, n, depth = demand.gemm * is_tiled
    tiles_m, tiles_n = np.ceil(m / tile), np.ceil(n / tile)
    elementwise = np.ceil(demand.elements / assumed.elements_per_block)
    blocks = np.where(is_tiled, g * tiles_m * tiles_n, elementwise)
    left, right = g * depth * m * setup.plan.element_bytes, g * depth * n * demand.right_bytes
    l2_read = np.maximum(left * np.ceil(n / panel) + right * np.ceil(m / panel), flow.chip_read)
    return _Panels(blocks, depth, left * tiles_n + right * tiles_m, l2_read)


def _counts(demand: Demand, setup: Setup, flow: Traffic, tiling: Tiling, on_matrix: Bools, units: Floats) -> Floats:
    """Count the events of each operator, (e, n): warp instructions from MACs, FLOPs and bytes; operand traffic from
    tiles; what the memory levels move from `flow`."""
    device, element_bytes = setup.device, setup.plan.element_bytes
    (counts, row), assumed = common.empty_counts(device, demand), cast(GpuConstants, device.arch.constants)
    delivery = _delivery(device)
    issued = _count_instructions(demand, setup, flow, on_matrix, delivery.issued_macs)
    panels = _count_panels(demand, setup, flow, tiling.tile_m > 0, delivery.tile)
    kept = demand.local_bytes / 2.0  # each value kept is written once and read once
    # Of shared memory, a tensor core reads each operand once for the side of the tile that shares it.
    multiplied = issued.halves * FORMATS[WIDE].bytes * sum(1.0 / side for side in delivery.sharing)
    in_lanes = issued.cuda_macs * ~demand.is_depthwise * element_bytes * 2.0 / assumed.vector_register_tile
    lines = (panels.l2_read + flow.chip_write) / assumed.warp_bytes

    counts[row["compute.tensor_core_mac"]] = issued.tensor_macs
    counts[row["compute.tensor_core_padding"]] = issued.tensor_macs * _padding(demand, device)
    counts[row["compute.cuda_core_mac"]] = issued.cuda_macs
    counts[row["compute.cuda_core_flop"]] = demand.vector_flops
    counts[row["compute.special_function"]] = demand.special
    counts[row["compute.integer_address"]] = issued.addresses
    products = issued.halves / delivery.macs
    counts[row["register.file_read"]] = products * delivery.read_bytes + issued.lanes * assumed.lane_read_bytes + kept
    counts[row["register.file_write"]] = (
        products * delivery.write_bytes + issued.lanes * assumed.lane_write_bytes + kept
    )
    counts[row["register.operand_collector"]] = issued.warps
    for stage in ("fetch", "decode", "schedule"):
        counts[row[f"pipeline.warp_{stage}"]] = issued.warps
    counts[row["pipeline.block_schedule"]] = panels.blocks * demand.head
    counts[row["memory.shared_write"]] = panels.staged
    counts[row["memory.shared_read"]] = multiplied + in_lanes
    counts[row["memory.l1_read"]] = np.where(demand.macs > 0, 0.0, flow.chip_read)
    counts[row["memory.l1_write"]] = flow.chip_write
    counts[row["memory.l2_read"]] = panels.l2_read
    counts[row["memory.l2_write"]] = flow.chip_write
    counts[row["memory.dram_read"]] = flow.dram_read
    counts[row["memory.dram_write"]] = flow.dram_write
    counts[row["memory.dram_controller"]] = flow.dram_bytes
    counts[row["memory.sampling"]] = demand.calls.sequences * setup.runtime.sequence_s.value * assumed.sampled_bytes
    counts[row["memory.l2_far"]] = flow.dram_bytes * (1.0 - 1.0 / device.l2_partitions)
    counts[row["simt_control.divergence"]] = issued.warps * assumed.divergent
    counts[row["simt_control.coalescing"]] = lines
    barriers = np.ceil(panels.depth / assumed.barrier_k_step) * assumed.barriers_per_k_step
    counts[row["simt_control.barrier"]] = panels.blocks * np.where(demand.macs > 0, barriers, demand.head)
    counts[row["simt_control.coherence"]] = lines
    counts[row["launch.kernel_launch"]] = demand.head * demand.calls.parts
    counts[row["launch.grid_drain"]] = np.where(demand.head, units, 0.0)
    return counts


def _padding(demand: Demand, device: Device) -> Floats:
    """Return the multiply-adds on rows without data over those on rows with data, (n,): instructions have a least
    number of rows, and so have blocks of one expert's tokens and of queries."""
    assumed = cast(GpuConstants, device.arch.constants)
    queries = assumed.bulk_decoding_rows if device.has_bulk_instructions else assumed.decoding_rows
    least = np.where(demand.is_expert, assumed.expert_rows, assumed.instruction_rows)
    least = np.where(demand.is_attention, queries, least)
    rows = np.maximum(np.minimum(demand.gemm[1], demand.gemm[2]), 1.0)
    share: Floats = np.ceil(rows / least) * least / rows - 1.0
    return share


def blocks(demand: Demand, device: Device, mapping: Mapping) -> Floats:
    """Return the thread blocks of each operator, (n,)."""
    elementwise = np.ceil(demand.elements / device.arch.constants.elements_per_block)
    return np.maximum(np.where(mapping.tiling.tile_m > 0, mapping.tiling.blocks, elementwise), 1.0)


def resident_limit(device: Device, mapping: Mapping) -> Floats:
    """Return the blocks that fit on one SM at once, (n,), at least 1. The limits are threads, blocks, registers (tile
    accumulators of 32 bits and working registers) and shared memory (a few K steps of both operands)."""
    assumed = cast(GpuConstants, device.arch.constants)
    threads = assumed.block_threads
    tile_m, tile_n = mapping.tiling.tile_m, mapping.tiling.tile_n
    tiled = tile_m > 0
    accumulators = tile_m * tile_n / threads
    registers = np.where(tiled, accumulators + assumed.tile_registers, assumed.elementwise_registers)
    registers = np.minimum(registers, assumed.most_registers)
    shared = (tile_m + tile_n) * assumed.tile_step_bytes * assumed.tile_stages
    room = device.l1_bytes_per_unit * assumed.shared_part
    limits = (
        np.full(tiled.shape, device.threads_per_unit / threads),
        np.full(tiled.shape, device.blocks_per_unit),
        device.registers_bytes_per_unit / (registers * threads * assumed.register_bytes),
        np.where(tiled, room / np.maximum(shared, 1.0), np.inf),
    )
    limit: Floats = np.maximum(np.floor(np.minimum.reduce(limits)), 1.0)
    return limit


def occupancy(demand: Demand, device: Device, mapping: Mapping) -> Floats:
    """Return resident warps over the most possible, 0 to 1, (n,): the mean over all SMs while the grid is full."""
    resident = np.minimum(resident_limit(device, mapping), blocks(demand, device, mapping) / device.units)
    return np.minimum(resident * cast(GpuConstants, device.arch.constants).block_threads / device.threads_per_unit, 1.0)


def _sentence(demand: Demand, setup: Setup, mapping: Mapping, i: int) -> str:
    device, plan = setup.device, setup.plan
    units = f"{whole(mapping.units[i])}/{whole(device.units)} SMs"
    tiling = mapping.tiling
    if demand.macs[i] > 0 and tiling.tile_m[i] > 0:
        rewritten = " as 36 products by Winograd's F(4 x 4, 3 x 3)" if mapping.is_reduced[i] else ""
        unit = "tensor cores" if mapping.on_matrix[i] else "CUDA cores"
        return (
            f"{common.product(demand, i)}{rewritten} on {unit} ({common.format_run(mapping, plan, i)}): "
            f"{whole(tiling.blocks[i])} blocks of {whole(tiling.tile_m[i])} x {whole(tiling.tile_n[i])}"
            f"{common.split(mapping, i)}, {units}, {count_noun(tiling.waves[i], 'wave')}"
        )
    grid = -(-demand.elements[i] // device.arch.constants.elements_per_block)
    kind = "depthwise, no reduction for tensor cores: " if demand.op_class[i] == OpClass.DEPTHWISE else ""
    return (
        f"{kind}{common.elements(demand, i, 'elements')}, {whole(grid)} blocks of 256 threads x 4 on CUDA cores "
        f"({plan.vector}), {units}, {count_noun(max(-(-grid // device.units), 1), 'wave')}"
    )


ARCHITECTURE = Architecture(
    id="gpu",
    name="GPU",
    unit="SM",
    levels=(ChipLevel("L1 / shared memory", "l1_bytes_per_unit", UNITS), ChipLevel("L2", "l2_bytes")),
    constants_type=GpuConstants,
    is_managed=False,
    map_operators=map_operators,
    sentence=_sentence,
    execution="eager",
    dispatch_event="launch.host_dispatch",
    sampling_event="memory.sampling",
    instruction_event="pipeline.warp_decode",
    has_layouts=True,
    # Few SMs at low clocks cannot keep a wide memory busy.
    unit_bandwidth="bytes_per_clock_per_unit",
    occupancy=occupancy,
)
