"""Arrays that compute a block of results at once: a few rows and columns of an image times some channels, summed over a
few products a clock. Weights are decoded, and results scaled and written, at rates of their own.

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
    return device.results_per_clock > 0


def divide(demand: Demand, device: Device) -> Blocks:
    """Return the work of operators on an array of blocks."""
    rows, columns = device.array_rows, device.array_columns
    g, m, n, k = demand.gemm
    taps = demand.windows[2] * demand.windows[3]
    images = np.maximum(demand.batch.astype(np.float64), 1.0)
    side = np.sqrt(np.maximum(m / images, 1.0))
    blocks = images * np.ceil(side / device.block_rows) * np.ceil(side / device.block_columns)
    blocks = np.where(demand.is_convolution, blocks, np.ceil(m / (device.block_rows * device.block_columns)))
    channels = np.where(taps > 0, k / taps, k)
    along = taps * np.ceil(channels / device.depth_step) * device.depth_step
    across = np.ceil(taps / _TAPS) * _TAPS * np.ceil(channels / rows) * rows
    best = np.where(device.taps_first * taps > 1, across, np.minimum(along, across))
    deep = np.where(demand.is_convolution, best, along)
    deep = np.where(demand.is_depthwise, np.ceil(k / _TAPS) * _TAPS * rows, deep)
    beside = columns * np.where(demand.is_depthwise, np.ceil(g * n / columns), g * np.ceil(n / columns))
    cells = device.block_rows * device.block_columns
    # Cells of one column wait for its weights.
    padded = np.maximum(blocks * cells, rows * columns * cells / device.weights_per_clock) * beside * deep
    clocks = padded / (rows * columns * cells)
    is_written = demand.head & (demand.op_class != OpClass.MOVEMENT)  # parts of a joined tensor are written in place
    written = np.where(is_written, demand.elements, 0.0) / device.results_per_clock
    count = np.maximum(demand.elements / device.block_results, 1.0)
    joins = (demand.op_class == OpClass.ELEMENTWISE) & (demand.moved_bytes[READ] > 0)
    joins &= ~demand.head | (demand.moved_bytes[READ] > 1.5 * demand.elements * demand.element_bytes)
    sums = np.where(joins, demand.elements, 0.0) / device.sums_per_clock
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
    weights = traffic.weight_read / device.weight_bytes_per_clock
    # Rows under the windows of two blocks are read for both.
    again = np.maximum(demand.windows[2] / demand.windows[4], 1.0) * demand.is_convolution
    images = (traffic.dram_read - traffic.weight_read) * again / device.input_bytes_per_clock
    _, m, n, _ = demand.gemm
    channels = np.where(demand.is_depthwise, demand.gemm[0], n)
    pixels = device.block_pixels * np.where(demand.windows[2] > 1, _WINDOW_PIXELS, 1.0)
    scales = _SCALE_BYTES * channels * np.ceil(m / pixels) / device.scale_bytes_per_clock
    seconds: Floats = np.maximum(np.maximum(weights, scales), images) / device.clock_hz
    return seconds
