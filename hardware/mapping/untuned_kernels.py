"""Time kernels of a GPU library other than its products, and convolutions for which it has no suitable kernel.

On matrix units, kernels of convolutions want channels last: others rearrange the tensors of a model in NCHW before and
after, but not those of a product (1 x 1) in TF32. On Blackwell, a library that times its kernels has no others either.
An engine that takes images in NCHW packs their few channels first. The rest holds for a framework that does not time
the kernels of its library against each other. Rules choose the kernel: fewer shapes have a good one where instructions
are new. With few input channels, as in the first layer, each value is loaded alone. Pools and batch norms in 16 bits
spend most instructions on addresses, as do copies to another order and operations on tensors of different shapes. Two
kernels widen the parameters of such a norm. Norms of rows take time for the operations of each row, however short, and
wait for memory twice. Softmax takes time for each value, however narrow."""

from typing import NamedTuple, cast

import numpy as np

from hardware.constants import GpuConstants
from hardware.demand import READ, READ_WEIGHT, WRITE, Demand, Floats, OpClass
from hardware.mapping.tiling import Bools
from hardware.precision import BASE, FORMATS, WIDE
from hardware.setup import Setup


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
    elif setup.layout == "nchw" and ("matrix", "fp4") in setup.device.peaks:
        demand, _ = _rearrange(demand, setup)
    return demand, None


def _untuned_kernels(demand: Demand, setup: Setup) -> tuple[Demand, LibraryTimes]:
    device, assumed = setup.device, cast(GpuConstants, setup.device.arch.constants)
    cycles = device.units * device.clock_hz
    is_norm = (demand.op_class == OpClass.NORM) & (demand.element_bytes < FORMATS[BASE].bytes)
    is_pool = demand.op_class == OpClass.POOL
    is_alone = demand.vector_flops <= assumed.pool_window * demand.elements
    is_strided = _strided(demand)
    values = np.where(is_norm | is_strided, demand.elements, demand.vector_flops * is_pool)
    rates = [assumed.norm_rate, assumed.strided_rate, assumed.pool_rate]
    rate = np.select((is_norm, is_strided, is_alone), rates, assumed.reduce_rate)
    rows = np.where(demand.op_class == OpClass.ROW_NORM, demand.special, 0.0)  # a root for each
    operations = demand.vector_flops / np.maximum(demand.elements, 1.0)
    row_cycles = assumed.norm_latency_cycles + assumed.norm_value_cycles * demand.elements / np.maximum(rows, 1.0)
    casts = np.where(is_norm, assumed.norm_casts, 0.0)
    demand, rearranged = _choose_convolutions(demand, setup)
    raised = np.where(demand.op_class == OpClass.SOFTMAX, demand.elements, 0.0)
    least_s = np.maximum(values / rate, raised / assumed.softmax_rate) / cycles
    times = LibraryTimes(
        least_s=np.where(rows > 0.0, row_cycles / device.clock_hz, least_s),
        rows_s=rows * operations * assumed.norm_row_cycles / cycles,
        starts_s=(casts + 2.0 * rearranged) * device.light_start_s,
    )
    elements = np.where(np.isin(demand.op_class, (OpClass.ROW_NORM, OpClass.SOFTMAX)), demand.elements, values)
    return demand.with_values(address_ops=elements * assumed.address_ops), times


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
    grouped = np.where(is_suited, assumed.grouped_suited_rate, assumed.grouped_rate)
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
    is_moved = rearranged[demand.transfers.op] & (demand.transfers.role != READ_WEIGHT)
    passes = cast(GpuConstants, setup.device.arch.constants).rearranged_passes
    size_bytes = demand.transfers.size_bytes * np.where(is_moved, passes, 1.0)
    return demand.with_transfers(size_bytes=size_bytes), rearranged
