"""Arrays that compute a block of results at once: a few rows and columns of an image times some channels, summed over a
few products a clock. Weights are decoded, and results scaled and written, at rates of their own.

`results_per_clock` of a device says that its arrays do so. `block_rows`, `block_columns` and `array_columns` are the
sides of a block; channels are padded to `depth_step`, or a window is taken four values at once (always with
`taps_first`). `weights_per_clock` are decoded, `sums_per_clock` of two tensors are made. Channels of memory read
`weight_bytes_per_clock`, `scale_bytes_per_clock` and `input_bytes_per_clock`. What a device does not state is no limit.

The compiler takes the block that fetches the least of those whose inputs fit twice into `block_bytes`, and whose sums
into `accumulator_bytes`, or into what inputs leave of it where a core has one memory for both. Weights are fetched for
each block of pixels, the input, with what windows of two blocks share, for each block of channels. A block of results
is finished while the next is multiplied, so a layer takes the longer of both, and both ends of the shorter.
"""

import math
from typing import NamedTuple

import numpy as np

from hardware.demand import READ, READ_WEIGHT, WRITE, Bools, Demand, Floats, Ints, OpClass
from hardware.device import Device
from hardware.mapping.common import Traffic

_TAPS = 4  # of a window, multiplied in turn by the cells that otherwise take channels
_WINDOW_CHANNELS = 16.0  # of the input under a block whose windows are taken by taps
_LEAST_TAPS = 2.0  # of a window, that a compiler counts which takes windows first
_SUM_BYTES = 4.0
_SCALE_BYTES = 10.0  # bias, scale and shift of a channel


class Blocks(NamedTuple):
    """Operators on an array of blocks, (n,) each: results and inputs of a block, channels of these, how often inputs
    are read, and for how many blocks of pixels weights are; multiply-accumulates of all cells, `padded`; and the
    seconds of the output, and those that nothing hides: of the first and last block, and of sums of two tensors."""

    results: Floats
    inputs: Floats
    depth: Floats
    input_reads: Floats
    weight_reads: Floats
    padded: Floats
    output_s: Floats
    unhidden_s: Floats


def has_blocks(device: Device) -> bool:
    """Return True if a device computes blocks of results, one layer after another."""
    return "results_per_clock" in device.values and device.layers_at_once <= 1


def divide(demand: Demand, device: Device) -> Blocks:
    """Return the work of operators on an array of blocks."""
    given, elements = device.values.get, demand.elements
    takes_taps, deep = _depths(demand, device)
    padded = _padded_macs(demand, device, deep)
    clocks = padded / (device.array_rows * device.array_columns * math.prod(_sides(device)))
    is_written = demand.head & (demand.op_class != OpClass.MOVEMENT)  # parts of a joined tensor are written in place
    read_bytes = demand.moved_bytes[READ]
    joins = (demand.op_class == OpClass.ELEMENTWISE) & (read_bytes > 0)
    joins &= ~demand.head | (read_bytes > 1.5 * elements * demand.element_bytes)
    sums = np.where(joins, elements, 0.0) / given("sums_per_clock", np.inf)
    written = np.where(is_written & ~joins, elements, 0.0) / device.values["results_per_clock"]
    results, inputs, *of_block = _choose_blocks(demand, device, takes_taps)
    # The first block waits for its inputs, and the last is stored when all else is done.
    first = np.where(demand.macs > 0, inputs * demand.element_bytes, device.values["block_bytes"])
    moved = np.minimum(first, read_bytes) + np.minimum(results, elements)
    ends = np.minimum(clocks, written) / np.maximum(elements / results, 1.0)
    ends = np.where(is_written, ends + moved / device.last_level_bandwidth * device.clock_hz, 0.0)
    written_s, ends_s, sum_s = (each / device.clock_hz for each in (written, ends, sums))
    return Blocks._make((results, inputs, *of_block, np.maximum(padded, demand.macs), written_s, ends_s + sum_s))


def _sides(device: Device) -> tuple[float, float]:
    """Return the rows and columns of an image that cells compute at once."""
    return device.values.get("block_rows", 1.0), device.values.get("block_columns", 1.0)


def _padded_macs(demand: Demand, device: Device, deep: Floats) -> Floats:
    """Return multiply-accumulates with those of empty cells, (n,), of results with so many products. All cells wait
    until the weights of a step are decoded."""
    rows, columns, (high, wide) = device.array_rows, device.array_columns, _sides(device)
    (g, m, n, k), (images, down, across) = demand.gemm, _images(demand)
    blocks = images * np.ceil(down / high) * np.ceil(across / wide)
    blocks = np.where(demand.is_convolution, blocks, np.ceil(m / (high * wide)))
    deep = np.where(demand.is_depthwise, np.ceil(k / _TAPS) * _TAPS * rows, deep)
    beside = columns * np.where(demand.is_depthwise, np.ceil(g * n / columns), g * np.ceil(n / columns))
    waits = rows * columns * high * wide / device.values.get("weights_per_clock", np.inf)
    padded: Floats = np.maximum(blocks * (high * wide), waits) * beside * deep
    return padded


def _images(demand: Demand) -> tuple[Floats, Floats, Floats]:
    """Return the images of a product and the rows and columns of one, (n,) each. Rows without a window are those of
    one square image."""
    images, sides = np.where(demand.is_convolution, np.maximum(demand.batch, 1), 1.0), demand.windows[:2]
    square = np.sqrt(np.maximum(demand.gemm[1] / images, 1.0))
    down, across = np.where(sides.prod(axis=0) > 1.0, sides, square)
    return images, down, across


def _depths(demand: Demand, device: Device) -> tuple[Bools, Floats]:
    """Return whether cells take a window four values at once, and the products of a result, (n,) each."""
    step, taps = device.values.get("depth_step", 1.0), demand.windows[2] * demand.windows[3]
    channels = demand.gemm[3] / taps
    along = taps * np.ceil(channels / step) * step
    across = np.ceil(taps / _TAPS) * _TAPS * np.ceil(channels / device.array_rows) * device.array_rows
    counted = across
    if device.values.get("taps_first", 0.0) > 0:  # the compiler takes a window first unless that is no use
        counted = np.maximum(taps, _LEAST_TAPS) * np.ceil(channels / _WINDOW_CHANNELS) * _WINDOW_CHANNELS - 1.0
    takes_taps: Bools = demand.is_convolution & (counted < along)
    return takes_taps, np.where(takes_taps, across, along)


def left_to_lanes(demand: Demand) -> Floats:
    """Return 0 for operators whose arithmetic the output of a layer does in passing, else 1, (n,)."""
    passing = (demand.op_class == OpClass.ELEMENTWISE) | (demand.op_class == OpClass.NORM)
    return np.where(passing | (demand.macs > 0), 0.0, 1.0)


def _distinct_layers(demand: Demand, device: Device, takes_taps: Bools) -> tuple[Floats, Ints]:
    """Return the distinct layers of a demand, (9, u), and the layer of each operator, (n,): sides of images, channels
    of results, sides of a window, stride, channels of inputs that a result reads (0: its own), how many of them a block
    holds, and images."""
    step, taps_first = device.values.get("depth_step", np.inf), device.values.get("taps_first", 0.0) > 0
    g, _, n, k = np.maximum(demand.gemm, 1.0)
    is_depthwise, window = demand.is_depthwise, demand.windows[2:4]
    channels, (images, *sides) = k / window.prod(axis=0), _images(demand)
    depth = np.where(takes_taps, _WINDOW_CHANNELS, step)
    if not taps_first:
        depth = np.minimum(depth, np.ceil(channels / device.array_rows) * device.array_rows)
    results, channels = np.where(is_depthwise, g, n), np.where(is_depthwise, 0.0, channels)
    sizes = np.stack([*np.ceil(sides), results, *window, demand.windows[4], channels, depth, images])
    return np.unique(sizes, axis=1, return_inverse=True)


def _try_blocks(layers: Floats, device: Device) -> tuple[list[Floats], Floats]:
    """Return the first five of Blocks for each block that is tried, (c, u) each, and the values that it fetches. Blocks
    divide the sides of an image and take channels in steps."""
    rows, columns, results, height, width, stride, inputs, depth, images = layers
    menu, (high, wide) = device.arch.data.tiles["results"], _sides(device)
    down, across, step = (
        each.reshape(-1, 1)
        for each in np.meshgrid(menu.splits, menu.splits, menu.k_step * np.array(menu.stretches), indexing="ij")
    )
    h, w = np.ceil(rows / down / high) * high, np.ceil(columns / across / wide) * wide
    channels = np.minimum(step, np.ceil(results / menu.k_step) * menu.k_step)
    under = ((h - 1.0) * stride + height) * ((w - 1.0) * stride + width)
    of_depth = inputs <= 0  # each channel of a block reads one of the input
    passes, blocks = np.ceil(results / channels), np.ceil(rows / h) * np.ceil(columns / w)
    fetched = under * rows * columns / (h * w) * np.where(of_depth, results, inputs * passes)
    fetched += height * width * np.maximum(inputs, 1.0) * results * blocks
    reads = np.maximum(under * blocks / (rows * columns * stride**2) * np.where(of_depth, 1.0, passes), 1.0)
    depth = np.broadcast_to(depth, fetched.shape)
    return [h * w * channels, under * np.where(of_depth, channels, depth), depth, reads, images * blocks], fetched


def _choose_blocks(demand: Demand, device: Device, takes_taps: Bools) -> list[Floats]:
    """Return the first five of Blocks for those that fetch the least of what the memory of the core holds twice."""
    layers, which = _distinct_layers(demand, device, takes_taps)
    tried, fetched = _try_blocks(layers, device)
    sum_bytes, input_bytes = 2.0 * tried[0] * _SUM_BYTES, 2.0 * tried[1] * demand.element_bytes
    room, apart = device.values["block_bytes"], device.values.get("accumulator_bytes")
    held = input_bytes + sum_bytes
    fits = held <= room if apart is None else (input_bytes <= room) & (sum_bytes <= apart)
    best = np.where(fits, fetched, 1e30 * held).argmin(axis=0), np.arange(held.shape[1])
    return [each[best][which] for each in tried]


def memory_seconds(demand: Demand, device: Device, traffic: Traffic, block: Blocks) -> tuple[Floats, Floats]:
    """Return the seconds, (n,) each, in which the channels of memory read weights, scales and what lies there of the
    input, and in which the memory of the chip hands on inputs and weights, as often as blocks read them."""
    given, is_product = device.values.get, demand.macs > 0
    again, blocks = (np.where(is_product, each, 1.0) for each in (block.input_reads, block.weight_reads))
    # A burst reads the channels of a block of one pixel of the model's input, whose layout is not the compiler's.
    wasted = np.maximum(given("burst_bytes", 1.0) / (block.depth * demand.element_bytes), 1.0) - 1.0
    is_input = (demand.transfers.previous < 0) & (demand.transfers.role == READ)
    image = demand.per_op(demand.transfers.size_bytes * is_input)
    images = (traffic.dram_read - traffic.weight_read + image * wasted) * again / device.input_bytes_per_clock
    weights = traffic.weight_read / given("weight_bytes_per_clock", np.inf)
    channels = np.where(demand.is_depthwise, demand.gemm[0], demand.gemm[2])
    scales = _SCALE_BYTES * channels * blocks / given("scale_bytes_per_clock", np.inf)
    held = np.where(is_product, demand.moved_bytes[READ_WEIGHT], 0.0)
    moved = np.where(demand.op_class == OpClass.MOVEMENT, 0.0, traffic.chip_bytes)  # tensors are joined in place
    chip = moved + (traffic.chip_read - held) * (again - 1.0) + held * (blocks - 1.0)
    return np.maximum(np.maximum(weights, scales), images) / device.clock_hz, chip / device.last_level_bandwidth


def spilled(demand: Demand, device: Device) -> Floats:
    """Return the bytes of transfers that go to memory, (t,): of tensors whose last reader comes after more traffic than
    the chip holds, or that several layers write and that leave no room, image by image. Stripes of others pass on."""
    moves, is_joined = demand.transfers, np.zeros(demand.n_kernels + 1, dtype=np.bool_)
    is_joined[demand.kernel[demand.op_class == OpClass.MOVEMENT]] = True
    writer = np.where(moves.role == WRITE, demand.kernel[moves.op], moves.previous)
    held = np.where(is_joined[writer], 2.0 * moves.size_bytes, moves.distance) / demand.batch[moves.op]
    is_far = (moves.role != READ_WEIGHT) & (moves.previous >= 0) & (held > device.scratchpad_bytes)
    away, leaves = np.zeros(demand.n_kernels + 1), is_far & (moves.role == WRITE)
    away[writer[leaves]] = moves.size_bytes[leaves]
    is_far |= (moves.role == READ) & (away[moves.previous] == moves.size_bytes)
    return np.where(is_far, moves.size_bytes, 0.0)
