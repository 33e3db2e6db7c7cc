"""Kernels of libraries: what they change in a demand before its operators are mapped, and the times that they add.

Winograd's F(4 x 4, 3 x 3) has a quarter of the multiplications of a 3 x 3 convolution: patches of 6 x 6 and weights are
transformed, 36 matrices multiplied, results transformed back (Lavin and Gray, arXiv 1509.09308), all through memory.
Libraries of GPUs do it where convolutions run on the vector units in fp32; on CPUs the runtime says whether it does.

On matrix units, kernels of convolutions want channels last: others rearrange the tensors of a model in NCHW before and
after, but not those of a product (1 x 1) in TF32. On Blackwell, a library that times its kernels has no others either.
An engine that takes images in NCHW packs their few channels first. The rest holds for a framework that does not time
the kernels of its library against each other. Rules choose the kernel: fewer shapes have a good one where instructions
are new. With few input channels, as in the first layer, each value is loaded alone. Pools and batch norms in 16 bits
spend most instructions on addresses, as do softmax, copies to another order and operations on tensors of different
shapes. Where neighbours of a copy lie far apart, each value takes a sector of the last level. Two kernels widen the
parameters of such a norm. Norms of rows take time for the operations of each row, however short, and wait for memory
twice. Groups of a convolution in TF32 take tiles of one width, without rearranging tensors.

In fused attention a multiprocessor keeps a block of query rows and reads keys and values tile by tile.
Once per wave the matrix unit waits while a block starts, loads its queries and first keys, and stores its results. Few
rows, as in decoding, leave multiprocessors idle: then the keys are divided among blocks, and a second kernel adds up
their results (FlashDecoding).
"""

from typing import NamedTuple, cast

import msgspec
import numpy as np

from hardware.architecture_facts import Efficiency, GpuConstants
from hardware.base.records import memoize
from hardware.demand import READ, READ_WEIGHT, WRITE, Bools, Demand, Floats, Ints, KernelStarts, OpClass, Transfers
from hardware.device import Device
from hardware.engines.runtime import ExpertLibrary
from hardware.mapping.common import (
    Mapping,
    add_serial,
    last_level_seconds,
    memory_seconds_of,
    tile_menu,
    usable_last_level_bytes,
    vector_seconds,
)
from hardware.precision import BASE, FORMATS, WIDE
from hardware.setup import Setup

PRODUCTS = 36.0  # points of a 6 x 6 patch
INPUT_FLOPS, OUTPUT_FLOPS = 144.0, 100.0  # adds and multiplies of one patch's transform, 6 x 6 in and 4 x 4 out


def rewrite_convolutions(demand: Demand, setup: Setup, rates: Efficiency) -> tuple[Demand, Floats]:
    """Return the demand as the library runs it, and the seconds (n,) that its transforms take before and after the
    products; zero where a convolution stays as it is."""
    device, (unit, stored) = setup.device, setup.plan.convolution
    many = demand.patches
    # Where lanes multiply in another format, such as int8 for packed weights, so they do in convolutions.
    is_float = FORMATS[stored].kind == "float" if device.arch.is_host else stored == BASE == setup.plan.vector_mac
    is_allowed = is_float and unit == "vector" and (setup.products.has_winograd or not device.arch.is_host)
    if not is_allowed or setup.plan.widths.unpack_weights or not many.any():  # packed weights are not transformed ahead
        return demand, np.zeros(demand.n)
    _, _, n, depth = demand.gemm
    k = depth / 9.0
    gemm = np.stack([np.full(demand.n, PRODUCTS), many, n, k])
    spread = PRODUCTS * (many * (n + k) + n * k) * demand.element_bytes  # transformed input, weights and result
    staged_s = last_level_seconds(device, 2.0 * spread)
    if not device.arch.is_host:  # CPUs transform block by block: patches stay in the cache, weights are stored so
        bandwidth = float(rates.bandwidth[0, OpClass.MOVEMENT])
        staged_s = np.maximum(memory_seconds_of(device, 2.0 * spread, bandwidth), staged_s)
    saved_s = _seconds(demand, demand.gemm, setup, rates) - _seconds(demand, gemm * (many > 0), setup, rates)
    transforms = many * (INPUT_FLOPS * k + OUTPUT_FLOPS * n)
    transforms_s = vector_seconds(demand, device, transforms, setup.vector_flops)[0]
    transforms_s = transforms_s / rates.compute[0, demand.vector_class]
    take = (many > 0) & (staged_s + transforms_s < saved_s)
    if not take.any():
        return demand, np.zeros(demand.n)
    changed = demand.with_values(
        macs=np.where(take, np.prod(gemm, axis=0), demand.macs),
        gemm=np.where(take, gemm, demand.gemm),
        vector_flops=demand.vector_flops + take * transforms,
        transfers=demand.transfers
        if device.arch.is_host
        else _with_steps(demand.transfers, np.flatnonzero(take), spread),
    )
    return changed, np.where(take, staged_s, 0.0)


def _seconds(demand: Demand, gemm: Floats, setup: Setup, rates: Efficiency) -> Floats:
    """Return the seconds of products on the vector units, at the rate that software reaches for convolutions."""
    device = setup.device
    rate = (
        device.mac_rate("vector", setup.plan.convolution[1])
        * rates.compute[0, OpClass.CONV]
        * rates.vector_convolution[0]
    )
    return tile_menu(demand, gemm, device.arch.data.tiles["vector"], device, rate, demand.element_bytes).seconds


def _with_steps(transfers: Transfers, ops: Ints, spread: Floats) -> Transfers:
    """Add the transfers between the steps of some operators: `spread` bytes are written, then read at once."""
    moved = np.tile(spread[ops], 2)
    role = np.repeat(np.array([WRITE, READ], dtype=transfers.role.dtype), len(ops))
    return Transfers(
        op=np.concatenate([transfers.op, np.tile(ops, 2)]),
        size_bytes=np.concatenate([transfers.size_bytes, moved]),
        role=np.concatenate([transfers.role, role]),
        distance=np.concatenate([transfers.distance, np.zeros(len(moved))]),
        previous=np.concatenate([transfers.previous, np.full(len(moved), -1)]),
    )


def serving_experts(demand: Demand, setup: Setup) -> ExpertLibrary:
    """Return the library of the experts of a demand, which devices divide or not."""
    return setup.kernels.experts(demand.mean_work is not None)


def engine_starts(demand: Demand, setup: Setup) -> KernelStarts:
    """Return the starts of each kernel. Fused experts are one call, which an interpreter starts as any other."""
    if not setup.runtime.is_llm_engine or demand.expert_rows is None or not serving_experts(demand, setup).is_fused:
        return demand.starts
    interpreted = demand.per_kernel(demand.head * demand.calls.interpreted * ~demand.is_expert)
    return demand.starts._replace(interpreted=interpreted)


def move_expert_rows(demand: Demand, setup: Setup) -> Demand:
    """Return the demand with the rows of experts as the library of an engine moves them."""
    if not setup.runtime.is_llm_engine or demand.expert_rows is None or not demand.is_expert.any():
        return demand
    (experts, own, others), library = demand.expert_rows, serving_experts(demand, setup)
    demand = _pad_widths(demand, library.widens)
    is_gather, is_product = demand.op_class == OpClass.GATHER, demand.op_class == OpClass.GEMM
    is_sum = is_gather & (demand.vector_flops > 0.0)
    pads, zeros = library.pads, others * library.writes_all
    copied = np.maximum(own, experts * np.ceil(own / np.maximum(experts * pads, 1.0)) * pads) if pads else own
    gathered = np.where(is_sum, own + others * library.adds_all, copied * library.copies)
    rows = np.where(is_gather, gathered, copied + zeros)
    times = np.where(demand.is_expert & ~is_product, rows / np.maximum(own, 1.0), 1.0)
    gemm, is_grouped = demand.gemm.copy(), demand.is_expert & is_product & library.reads_all
    gemm[:2] = np.maximum(gemm[:2], np.array((experts, np.full(demand.n, pads))) * is_grouped)
    read = np.where(is_grouped, gemm[0] / np.maximum(demand.gemm[0], 1.0), 1.0)
    moves = demand.transfers
    is_moved = (moves.role == READ) | (moves.role == WRITE) & ~is_sum[moves.op]
    size_bytes = moves.size_bytes * np.where(is_moved, times[moves.op], 1.0)
    size_bytes *= np.where(moves.role == READ_WEIGHT, read[moves.op], 1.0)
    values = {"vector_flops": demand.vector_flops * times, "gemm": gemm}
    return demand.with_values(**values).with_transfers(size_bytes=size_bytes)


def zero_rows_s(demand: Demand, setup: Setup, share: float) -> Floats:
    """Return the seconds, (n,), in which products write rows of experts of other devices as zeros, at a `share` of the
    bandwidth."""
    if demand.expert_rows is None or not serving_experts(demand, setup).writes_all:
        return np.zeros(demand.n)
    _, own, others = demand.expert_rows
    is_product = demand.is_expert & (demand.op_class == OpClass.GEMM)
    zero_bytes = np.where(is_product, demand.written_bytes * others / np.maximum(own, 1.0), 0.0)
    return memory_seconds_of(setup.device, zero_bytes, share)


def _pad_widths(demand: Demand, part: float) -> Demand:
    """Return the demand with the widths of experts padded to multiples of `part`."""
    if part == 1.0:
        return demand
    is_padded = demand.is_expert & (demand.op_class == OpClass.GEMM)
    widths = np.where(is_padded, np.ceil(demand.gemm[2:] / part) * part, demand.gemm[2:])
    outputs, inputs = np.where(is_padded, widths / np.maximum(demand.gemm[2:], 1.0), 1.0)
    moves, more, unpack = demand.transfers, outputs * inputs, demand.unpack_ops
    values = {"gemm": np.vstack([demand.gemm[:2], widths]), "macs": demand.macs * more}
    values["unpack_ops"] = None if unpack is None else unpack * more
    size_bytes = moves.size_bytes * np.choose(moves.role, (inputs[moves.op], more[moves.op], outputs[moves.op]))
    return demand.with_values(**values).with_transfers(size_bytes=size_bytes)


class LibraryTimes(NamedTuple):
    """Seconds of each operator, (n,): the least of its vector work, those that its rows add, and the starts of
    auxiliary kernels."""

    least_s: Floats
    rows_s: Floats
    starts_s: Floats


def library_kernels(demand: Demand, setup: Setup) -> tuple[Demand, LibraryTimes | None]:
    """Return the demand with the rates, address operations and bytes of these kernels, and their times, None if they
    add none."""
    if setup.products.is_untuned:
        return _untuned_kernels(demand, setup)
    if setup.device.vendor != "NVIDIA" or not setup.device.arch.has_layouts or setup.device.arch.is_host:
        return demand, None
    if setup.products.packs_images:
        return _pack_images(demand, setup)
    if setup.layout == "channels_last" and setup.is_narrow:
        suited = cast(GpuConstants, setup.device.arch.constants).grouped_suited_columns
        columns = np.ceil(np.maximum(demand.gemm[2], 1.0) / suited) * suited
        share = np.minimum(columns / cast(GpuConstants, setup.device.arch.constants).preferred_tile, 1.0)
        is_general = _is_dense(demand, setup) & (demand.gemm[0] > 1.0) & ~_is_suited(demand, setup)
        demand = demand.with_values(product_rate=demand.product_rate * np.where(is_general, share, 1.0))
    elif setup.layout == "nchw" and (demand.training_devices or ("matrix", "fp4") in setup.device.peaks):
        demand, _ = _rearrange(demand, setup)
    return demand, None


def _untuned_kernels(demand: Demand, setup: Setup) -> tuple[Demand, LibraryTimes]:
    device, assumed = setup.device, cast(GpuConstants, setup.device.arch.constants)
    cycles = device.units * device.clock_hz
    is_norm = (demand.op_class == OpClass.NORM) & (demand.element_bytes < FORMATS[BASE].bytes)
    is_indexed = is_norm | _strided(demand) | (demand.op_class == OpClass.SOFTMAX)
    is_alone = demand.vector_flops <= assumed.pool_window * demand.elements
    values = np.where(is_indexed, demand.elements, demand.vector_flops * (demand.op_class == OpClass.POOL))
    rate = np.select((is_indexed, is_alone), (assumed.indexed_rate, assumed.pool_rate), assumed.reduce_rate)
    sectors_s = demand.elements * demand.sectors * assumed.slice_bytes / device.last_level_bandwidth
    rows = np.where(demand.op_class == OpClass.ROW_NORM, demand.special, 0.0)  # a root for each
    operations = demand.vector_flops / np.maximum(demand.elements, 1.0)
    row_cycles = assumed.norm_latency_cycles + assumed.norm_value_cycles * demand.elements / np.maximum(rows, 1.0)
    demand, rearranged = _choose_convolutions(demand, setup)
    times = LibraryTimes(
        least_s=np.where(rows > 0.0, row_cycles / device.clock_hz, np.maximum(values / rate / cycles, sectors_s)),
        rows_s=rows * operations * assumed.norm_row_cycles / cycles,
        starts_s=(assumed.norm_casts * is_norm + 2.0 * rearranged) * device.light_start_s,
    )
    # A warp keeps a row of 32 values a lane of a softmax, and reads it as other operators do; blocks wait.
    sums = (demand.special - demand.elements) * (demand.op_class == OpClass.SOFTMAX)
    in_warp = (sums > 0.0) & (demand.elements <= sums * assumed.warp_threads**2)
    op_class = np.where(in_warp, OpClass.ELEMENTWISE, demand.op_class)
    address_ops = assumed.address_ops * np.where(rows > 0.0, demand.elements, values)
    return demand.with_values(op_class=op_class, address_ops=address_ops), times


def _pack_images(demand: Demand, setup: Setup) -> tuple[Demand, LibraryTimes]:
    """Return the demand with the bytes of the kernel that packs the channels of an image, and its start."""
    channel_bytes, moves = _channel_bytes(demand, setup), demand.transfers
    group = cast(GpuConstants, setup.device.arch.constants).few_channels_bytes
    is_thin = _is_dense(demand, setup) & (channel_bytes > 0.0) & (channel_bytes < group)
    padded = group / np.where(is_thin, channel_bytes, group)
    is_image = is_thin[moves.op] & (moves.previous < 0) & (moves.role == READ)
    packed = FORMATS[BASE].bytes / demand.element_bytes + 2.0 * padded[moves.op]  # read as given, written, read again
    demand = demand.with_transfers(size_bytes=moves.size_bytes * np.where(is_image, packed, 1.0))
    starts_s = np.where(is_thin, setup.device.light_start_s, 0.0)
    return demand, LibraryTimes(np.zeros(demand.n), np.zeros(demand.n), starts_s)


def _channel_bytes(demand: Demand, setup: Setup) -> Floats:
    """Return the bytes of the input channels of each convolution in one place of a window, (n,)."""
    window = np.maximum(np.prod(demand.windows[2:4], axis=0), 1.0)
    channel_bytes: Floats = demand.gemm[3] / window * setup.plan.operand_bytes
    return channel_bytes


def _strided(demand: Demand) -> Bools:
    """Return where a kernel copies a tensor to another order, or operates on tensors of different shapes, (n,)."""
    is_read = (demand.transfers.role != WRITE) & (demand.transfers.size_bytes > 0.0)
    operands = np.bincount(demand.transfers.op[is_read], minlength=demand.n)
    read, weights, written = demand.moved_bytes
    is_smaller: Bools = (operands > 1) & (read + weights < operands * written)
    is_strided: Bools = np.where(demand.op_class == OpClass.MOVEMENT, operands == 1, is_smaller)
    return is_strided & np.isin(demand.op_class, (OpClass.MOVEMENT, OpClass.ELEMENTWISE))


def _choose_convolutions(demand: Demand, setup: Setup) -> tuple[Demand, Bools]:
    """Return the demand with the rates and bytes of convolutions, and where kernels rearrange their tensors, (n,)."""
    device, assumed = setup.device, cast(GpuConstants, setup.device.arch.constants)
    is_dense = _is_dense(demand, setup)
    columns = np.maximum(demand.gemm[2], 1.0)
    rate = np.minimum(columns / assumed.rule_columns, 1.0)
    is_thin = _channel_bytes(demand, setup) < assumed.few_channels_bytes
    rate = np.where(is_thin, assumed.few_channels_rate, rate)
    if device.has_bulk_instructions:
        rate = rate * assumed.rule_kernels_rate
    is_suited = _is_suited(demand, setup) & (setup.plan.operand_bytes <= FORMATS[WIDE].bytes)
    of_tile = assumed.grouped_tf32_rate * np.maximum(columns, assumed.matrix_warp_tile)
    grouped = np.where(is_suited, assumed.grouped_suited_rate, assumed.grouped_rate if setup.is_narrow else of_tile)
    grouped = grouped * device.matrix_clock_hz / device.mac_rate(*setup.plan.convolution)
    rate = np.where(demand.gemm[0] > 1.0, np.minimum(grouped, 1.0), rate)
    rate = np.where(is_dense, rate, 1.0)
    if setup.layout != "nchw":
        return demand.with_values(product_rate=demand.product_rate * rate), np.zeros(demand.n, dtype=np.bool_)
    rate = np.where(demand.is_depthwise, assumed.depthwise_nchw_rate, rate)
    demand, rearranged = _rearrange(demand, setup)
    # A product in NCHW is one for each image, by instructions that warps wait for.
    rows, tile = np.prod(demand.windows[:2], axis=0), assumed.bulk_tile_rows
    product_rate = device.synchronous_matrix_rate * rows / (np.ceil(rows / tile) * tile)
    rate = np.where(is_dense & ~rearranged & (demand.gemm[0] == 1.0), product_rate, rate)
    return demand.with_values(product_rate=demand.product_rate * rate), rearranged


def _is_dense(demand: Demand, setup: Setup) -> Bools:
    """Return where a convolution runs on matrix units, (n,)."""
    is_dense: Bools = (demand.op_class == OpClass.CONV) & (setup.plan.convolution[0] == "matrix")
    return is_dense


def _is_suited(demand: Demand, setup: Setup) -> Bools:
    """Return where groups have kernels of their own in 16 bits: of 4 to 32 channels, powers of two, (n,)."""
    suited = cast(GpuConstants, setup.device.arch.constants).grouped_suited_columns
    is_suited: Bools = suited % np.maximum(demand.gemm[2], 1.0) == 0.0
    return is_suited


def _rearrange(demand: Demand, setup: Setup) -> tuple[Demand, Bools]:
    """Return the demand with the bytes of kernels that rearrange the tensors of convolutions, and where, (n,)."""
    is_narrow = demand.element_bytes <= FORMATS[WIDE].bytes
    rearranged = _is_dense(demand, setup) & ((np.prod(demand.windows[2:4], axis=0) > 1.0) | is_narrow)
    rearranged &= is_narrow | (demand.gemm[0] == 1.0)  # grouped convolutions in TF32 have kernels for NCHW
    is_moved = rearranged[demand.transfers.op] & (demand.transfers.role != READ_WEIGHT)
    passes = cast(GpuConstants, setup.device.arch.constants).rearranged_passes
    size_bytes = demand.transfers.size_bytes * np.where(is_moved, passes, 1.0)
    return demand.with_transfers(size_bytes=size_bytes), rearranged


def time_attention(mapping: Mapping, demand: Demand, setup: Setup, rates: Efficiency) -> Mapping:
    """Return the mapping with the time of fused attention on matrix units: its tiles, its softmax, and the seconds in
    which its blocks and further kernels start."""
    if "special_per_clock" not in setup.device.facts or not demand.is_attention.any():
        return mapping
    if setup.runtime.plain_attention:
        return _store_scores(mapping, demand, setup, rates)
    return _time_blocks(mapping, demand, setup, rates) if (demand.is_attention & mapping.on_matrix).any() else mapping


def _time_blocks(mapping: Mapping, demand: Demand, setup: Setup, rates: Efficiency) -> Mapping:
    """Time fused attention, block by block."""
    device, is_attention = setup.device, demand.is_attention & mapping.on_matrix
    index = np.flatnonzero(is_attention)
    g, rows, seen, width = np.maximum(demand.gemm[:, index], 1.0)
    values = np.maximum(demand.macs[index] / (g * rows * seen) - width, 0.0)  # the width of a value
    is_prompt = demand.calls.prompts[index] > 0.0
    kernels = _choose_kernels(setup, is_prompt, rows, width, values)
    is_apart = (kernels.is_packed == 0.0) & ~is_prompt  # each query head has blocks of its own
    g, rows = np.where(is_apart, g * rows, g), np.where(is_apart, 1.0, rows)
    blocks = _divide_blocks(g, rows, seen, kernels, device)
    tiles_s = _tile_seconds(demand, index, values, kernels, setup, rates)
    start_s, rounds_s = _start_seconds(demand, index, (seen, width, values), blocks, kernels, setup)
    # In decoding, blocks start while others read: only the first start is not hidden.
    blocks_s = np.zeros(demand.n)
    blocks_s[index] = np.where(blocks.is_step, start_s, rounds_s)
    matrix_s = mapping.matrix_s.copy()
    matrix_s[:, index] = np.maximum(blocks.padding * tiles_s, np.where(blocks.is_step, rounds_s - start_s, 0.0))
    # A kernel adds up divided keys.
    more = max(setup.runtime.attention_kernels.value - 1.0, float(_has_tensor_memory(device)))
    starts_s = np.where(is_attention, more * device.kernel_start_s, 0.0)
    mapping = msgspec.structs.replace(mapping, matrix_s=matrix_s)
    return add_serial(mapping, demand, blocks_s=blocks_s, starts_s=starts_s)


def _has_tensor_memory(device: Device) -> bool:
    return ("matrix", "fp4") in device.peaks and device.has_bulk_instructions


class _Blocks(NamedTuple):
    """The blocks of operators, (a,): their number, the rows of queries of each, the products of whole tiles on all
    units over those asked for, and True for the few rows of a step of decoding."""

    number: Floats
    tile_rows: Floats
    padding: Floats
    is_step: Bools


def _divide_blocks(g: Floats, rows: Floats, seen: Floats, kernels: "_Kernels", device: Device) -> _Blocks:
    """Divide `g` products of so many rows, which see so many keys, into blocks, (a,) each."""
    assumed = cast(GpuConstants, device.arch.constants)
    tile_rows = np.minimum(np.ceil(rows / kernels.instruction_rows) * kernels.instruction_rows, kernels.rows)
    blocks = g * np.ceil(rows / kernels.rows)
    # Keys are divided among idle units where the rows of one head are a single block.
    idle = np.minimum(np.floor(np.maximum(device.units / blocks, 1.0)), kernels.parts)
    tiles = seen / kernels.columns + assumed.attention_partial_tile
    splits = np.where(rows <= assumed.attention_rows, np.minimum(np.maximum(idle, 1.0), np.ceil(tiles)), 1.0)
    # A block reads one tile at least, if there are so many keys.
    tiles_each = np.maximum(tiles / splits, np.minimum(tiles, 1.0))
    padding = tiles_each * kernels.columns * tile_rows * np.ceil(blocks / device.units) * device.units
    return _Blocks(blocks, tile_rows, padding / (g * rows * seen), rows <= assumed.packed_rows)


def _tile_seconds(
    demand: Demand, index: Ints, values: Floats, kernels: "_Kernels", setup: Setup, rates: Efficiency
) -> Floats:
    """Return the seconds of products and softmax on all units without padding, (s, a)."""
    device = setup.device
    macs_per_s = device.units * device.matrix_sustained * setup.plan.matrix_rate * kernels.macs_per_s
    products_s: Floats = demand.macs[index] / macs_per_s / rates.compute[:, demand.op_class[index]]
    softmax_s = demand.special[index] / (device.units * device.special_per_clock * device.vector_clock_hz)
    # From Hopper on, the rest of a softmax hides behind products that no warp waits for.
    if _has_tensor_memory(device) or not device.has_bulk_instructions:
        lane_flops = (demand.vector_flops - demand.special)[index]
        softmax_s = softmax_s + lane_flops / (device.units * device.mac_rate("vector", BASE))
    alternates = _has_tensor_memory(device) & (values <= kernels.rows)  # two blocks of rows fit into tensor memory
    return np.where(alternates, np.maximum(products_s, softmax_s), products_s + softmax_s)


def _start_seconds(
    demand: Demand,
    index: Ints,
    lengths: tuple[Floats, Floats, Floats],
    blocks: _Blocks,
    kernels: "_Kernels",
    setup: Setup,
) -> tuple[Floats, Floats]:
    """Return the seconds in which a block starts and in which all start, (a,) each. `lengths` are the keys that a row
    sees, and the widths of a key and of a value. First keys and values, queries and results pass at the bandwidth of
    one multiprocessor."""
    device, (seen, width, values), assumed = setup.device, lengths, cast(GpuConstants, setup.device.arch.constants)
    key_bytes = (width + values) * (np.zeros(demand.n) + demand.right_bytes)[index]
    carried = 2.0 * blocks.tile_rows * width * demand.element_bytes + key_bytes * np.minimum(kernels.columns, seen)
    reads_pages = blocks.is_step | setup.runtime.is_llm_engine
    cycles = np.where(reads_pages, kernels.start_cycles, assumed.unpaged_start_cycles)
    start_s = (cycles + carried / device.bytes_per_clock_per_unit) / device.clock_hz
    most = np.floor(device.l1_bytes_per_unit * assumed.shared_part / (key_bytes * kernels.columns))
    is_shared = blocks.is_step & _has_tensor_memory(device)
    blocks_per_unit = np.where(is_shared, np.minimum(np.maximum(most, 1.0), kernels.blocks_per_unit), 1.0)
    return start_s, np.ceil(blocks.number / (device.units * blocks_per_unit)) * start_s


class _Kernels(NamedTuple):
    """Constants of the libraries of operators, (a,): the fields of AttentionLibrary with those of the
    architecture, the multiply-adds a second of a unit, and 0 if query heads that share keys decode in blocks of their
    own, else 1."""

    rows: Floats
    instruction_rows: Floats
    columns: Floats
    blocks_per_unit: Floats
    start_cycles: Floats
    parts: Floats
    macs_per_s: Floats
    is_packed: Floats


def _choose_kernels(setup: Setup, is_prompt: Bools, rows: Floats, width: Floats, values: Floats) -> _Kernels:
    """Return the constants of the libraries that the engine uses for operators of `rows`, heads of a `width`, and
    `values` of a width, (a,) each."""
    if not setup.kernels.uses:  # all have the same
        return _Kernels(*np.array([_constants(setup, False, False, 0.0, 0.0)]).T)
    is_latent = np.abs(values - width) > 0.5  # keys and values differ in width
    columns = (is_latent.tolist(), is_prompt.tolist(), width.tolist(), (rows * ~is_prompt).tolist())
    kinds = list(zip(*columns, strict=True))
    distinct = list(set(kinds))  # most layers are alike
    constants = np.array([_constants(setup, *kind) for kind in distinct])
    return _Kernels(*constants.T[:, [distinct.index(kind) for kind in kinds]])


@memoize(keep=64)
def _constants(setup: Setup, is_latent: bool, is_prompt: bool, width: float, group: float) -> tuple[float, ...]:
    device, plan, assumed = setup.device, setup.plan, cast(GpuConstants, setup.device.arch.constants)
    operator = f"{'mla' if is_latent else 'attention'}_{'prefill' if is_prompt else 'decode'}"
    library = setup.kernels.attention(operator, width, group)
    peak = device.mac_rate("matrix", plan.attention)
    rows, columns = library.rows or assumed.attention_rows, library.columns or assumed.attention_columns
    rate = library.rate * (1.0 if setup.runtime.asynchronous else device.synchronous_matrix_rate)
    if not (library.rows or library.columns or device.has_bulk_instructions):
        rows, columns, overlapped = _fit_tiles(device, rows, columns, width, peak / device.matrix_clock_hz)
        rate *= overlapped
    return (
        rows,
        library.instruction_rows or assumed.instruction_rows,
        columns,
        library.blocks_per_unit or assumed.decoding_blocks,
        library.start_cycles or assumed.attention_start_cycles,
        library.parts,
        peak * rate,
        float(library.packs is not False),
    )


def _fit_tiles(
    device: Device, rows: float, columns: float, width: float, macs_per_clock: float
) -> tuple[float, float, float]:
    """Return the rows of queries and the keys of a block by mma.sync, halved until the shared memory of a unit holds
    queries, keys and values in 16 bits, and the share of its time in which it multiplies: smaller ones have room for
    one tile at a time, whose loads nothing hides."""
    room = device.l1_bytes_per_unit * cast(GpuConstants, device.arch.constants).shared_part
    usual = rows, columns
    while (rows + 2.0 * columns) * width * FORMATS[WIDE].bytes > room and rows > 16.0:
        rows, columns = (rows / 2.0, columns) if rows > columns else (rows, columns / 2.0)
    if (rows, columns) == usual:
        return rows, columns, 1.0
    return rows, columns, 1.0 / (1.0 + 2.0 * macs_per_clock / (rows * device.bytes_per_clock_per_unit))


def _store_scores(mapping: Mapping, demand: Demand, setup: Setup, rates: Efficiency) -> Mapping:
    """Time attention as two products and a softmax, each of which stores all scores for the next."""
    device = setup.device
    g, rows, seen, _ = demand.gemm
    scores = np.where(demand.is_attention, g * rows * seen * demand.element_bytes, 0.0)
    far = np.maximum(scores - usable_last_level_bytes(device), 0.0)
    # Written and read before the softmax, and again after it.
    passing_s = memory_seconds_of(device, 4.0 * far, rates.bandwidth[:, OpClass.SOFTMAX, None])
    passing_s = passing_s + last_level_seconds(device, 4.0 * (scores - far))
    starts_s = np.where(demand.is_attention, 2.0 * device.kernel_start_s, 0.0)
    mapping = msgspec.structs.replace(mapping, dram_s=mapping.dram_s + passing_s)
    return add_serial(mapping, demand, starts_s=starts_s)
