"""Arrays that compute a block of results at once: a few rows and columns of an image times some channels, summed over a
few products a clock. Weights are decoded, and results scaled and written, at rates of their own.

`results_per_clock` of a device says that its arrays do so. `block_rows`, `block_columns` and `array_columns` are the
sides of a block; channels are padded to `depth_step`, or a window is taken four values at once (always with
`taps_first`). `weights_per_clock` are decoded, `sums_per_clock` of two tensors are made, `block_results` are under way.
Channels of memory read `weight_bytes_per_clock` and `scale_bytes_per_clock`, scales again for each block of
`block_pixels`, and what lies in memory again for each `block_channels`. What a device does not state is no limit.

A block of results is finished while the next is multiplied, so a layer takes the longer of both, and once the shorter
for its last block.
"""

from __future__ import annotations

import msgspec
import numpy as np

from hardware.demand import READ, Demand, Floats, OpClass
from hardware.device import Device
from hardware.mapping.common import Traffic

_TAPS = 4  # of a window, multiplied in turn by the cells that otherwise take channels
_WINDOW_PIXELS = 4.0  # times those of a product without a window: fewer channels are taken at once
_SCALE_BYTES = 10.0  # bias, scale and shift of a channel


class Blocks(msgspec.Struct, frozen=True):
    """The seconds of operators on an array of blocks, (n,) each: of its cells (with those that lack work: `padded`
    multiply-accumulates), of its output, of the last block, and of sums of two tensors that nothing hides."""

    padded: Floats
    output_s: Floats
    last_s: Floats
    sum_s: Floats


def has_blocks(device: Device) -> bool:
    """Return True if a device computes blocks of results, one layer after another."""
    return "results_per_clock" in device.values and device.layers_at_once <= 1


def divide(demand: Demand, device: Device) -> Blocks:
    """Return the work of operators on an array of blocks."""
    rows, columns, given = device.array_rows, device.array_columns, device.values.get
    high, wide, step = given("block_rows", 1.0), given("block_columns", 1.0), given("depth_step", 1.0)
    g, m, n, k = demand.gemm
    taps = demand.windows[2] * demand.windows[3]
    images = np.maximum(demand.batch.astype(np.float64), 1.0)
    side = np.sqrt(np.maximum(m / images, 1.0))
    of_images = images * np.ceil(side / high) * np.ceil(side / wide)
    blocks = np.where(demand.is_convolution, of_images, np.ceil(m / (high * wide)))
    channels = k / taps
    along = taps * np.ceil(channels / step) * step
    across = np.ceil(taps / _TAPS) * _TAPS * np.ceil(channels / rows) * rows
    best = np.where(given("taps_first", 0.0) * taps > 1, across, np.minimum(along, across))
    deep = np.where(demand.is_convolution, best, along)
    deep = np.where(demand.is_depthwise, np.ceil(k / _TAPS) * _TAPS * rows, deep)
    beside = columns * np.where(demand.is_depthwise, np.ceil(g * n / columns), g * np.ceil(n / columns))
    cells = high * wide
    # All cells wait until the weights of a step are decoded.
    waits = rows * columns * cells / given("weights_per_clock", np.inf)
    padded = np.maximum(blocks * cells, waits) * beside * deep
    clocks = padded / (rows * columns * cells)
    is_written = demand.head & (demand.op_class != OpClass.MOVEMENT)  # parts of a joined tensor are written in place
    written = np.where(is_written, demand.elements, 0.0) / device.values["results_per_clock"]
    count = np.maximum(demand.elements / given("block_results", np.inf), 1.0)
    joins = (demand.op_class == OpClass.ELEMENTWISE) & (demand.moved_bytes[READ] > 0)
    joins &= ~demand.head | (demand.moved_bytes[READ] > 1.5 * demand.elements * demand.element_bytes)
    sums = np.where(joins, demand.elements, 0.0) / given("sums_per_clock", np.inf)
    output = np.where(joins & demand.head, 0.0, written)
    each = output, np.minimum(clocks, output) / count, sums
    return Blocks(np.maximum(padded, demand.macs), *(clocks / device.clock_hz for clocks in each))


def left_to_lanes(demand: Demand) -> Floats:
    """Return 0 for operators whose arithmetic the output of a layer does in passing, else 1, (n,)."""
    passing = (demand.op_class == OpClass.ELEMENTWISE) | (demand.op_class == OpClass.NORM)
    return np.where(passing | (demand.macs > 0), 0.0, 1.0)


def read_seconds(demand: Demand, device: Device, traffic: Traffic) -> Floats:
    """Return the seconds in which the channels of memory read weights, scales (once for each block of pixels) and the
    model's input, (n,)."""
    given = device.values.get
    weights = traffic.weight_read / given("weight_bytes_per_clock", np.inf)
    # Rows under the windows of two blocks are read for both.
    _, m, n, _ = demand.gemm
    again = np.where(demand.is_convolution, np.maximum(demand.windows[2] / demand.windows[4], 1.0), demand.macs > 0)
    again = again * np.maximum(np.ceil(n / given("block_channels", np.inf)), 1.0)
    images = (traffic.dram_read - traffic.weight_read) * again / device.input_bytes_per_clock
    channels = np.where(demand.is_depthwise, demand.gemm[0], n)
    pixels = given("block_pixels", np.inf) * np.where(demand.windows[2] > 1, _WINDOW_PIXELS, 1.0)
    scales = _SCALE_BYTES * channels * np.ceil(m / pixels) / given("scale_bytes_per_clock", np.inf)
    seconds: Floats = np.maximum(np.maximum(weights, scales), images) / device.clock_hz
    return seconds
