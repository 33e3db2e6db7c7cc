"""Fused attention on GPUs: a multiprocessor keeps a block of query rows and reads keys and values tile by tile.

Once per wave the matrix unit waits while a block starts, loads its queries and first keys, and stores its results. Few
rows, as in decoding, leave multiprocessors idle: then the keys are divided among blocks, and a second kernel adds up
their results (FlashDecoding)."""

from __future__ import annotations

import msgspec
import numpy as np

from hardware.demand import Demand, Floats, Ints, OpClass
from hardware.device import Device
from hardware.efficiency import Efficiency
from hardware.mapping.common import Mapping, add_serial, last_level_seconds, memory_seconds_of, usable_last_level_bytes
from hardware.precision import BASE
from hardware.setup import Setup


def time_attention(mapping: Mapping, demand: Demand, setup: Setup, rates: Efficiency) -> Mapping:
    """Return the mapping with the time of fused attention on matrix units: its tiles, its softmax, and the seconds in
    which its blocks and further kernels start."""
    device = setup.device
    is_attention = demand.is_attention & mapping.on_matrix
    if "special_per_clock" not in device.facts or not demand.is_attention.any():
        return mapping
    if setup.runtime.plain_attention:
        return _with_stored_scores(mapping, demand, setup, rates)
    if not is_attention.any():
        return mapping
    matrix_s, blocks_s = mapping.matrix_s.copy(), np.zeros(demand.n)
    is_step = demand.gemm[1] <= device.arch.data.assumed("packed_rows")
    for steps, chosen in ((True, is_attention & is_step), (False, is_attention & ~is_step)):
        if len(index := np.flatnonzero(chosen)):
            _time_blocks(matrix_s, blocks_s, index, demand, setup, rates, steps)
    more = max(setup.runtime.attention_kernels.value - 1.0, float(_has_tensor_memory(device)))
    starts_s = np.where(is_attention, more * device.kernel_start_s, 0.0)  # a kernel adds up divided keys
    mapping = msgspec.structs.replace(mapping, matrix_s=matrix_s)
    return add_serial(mapping, demand, blocks_s=blocks_s, starts_s=starts_s)


def _has_tensor_memory(device: Device) -> bool:
    return ("matrix", "fp4") in device.peaks and device.synchronous_matrix_rate < 1.0


def _time_blocks(
    matrix_s: Floats, blocks_s: Floats, index: Ints, demand: Demand, setup: Setup, rates: Efficiency, is_step: bool
) -> None:
    """Write the seconds of products with softmax, (s, n), and of starting blocks, (n,), of the operators `index`: steps
    of decoding, or prompts."""
    device, kernel = setup.device, setup.attention_kernel(is_step)
    assumed = device.arch.data.assumed_with(kernel.constants)
    g, rows, seen, width = np.maximum(demand.gemm[:, index], 1.0)
    values = np.maximum(demand.macs[index] / (g * rows * seen) - width, 0.0)  # the width of a value
    few, most, columns = assumed("instruction_rows"), assumed("attention_rows"), assumed("attention_columns")
    tile_rows = np.minimum(np.ceil(rows / few) * few, most)
    blocks = g * np.ceil(rows / most)
    # Keys are divided among idle units where the rows of one head are a single block.
    idle = np.minimum(np.floor(np.maximum(device.units / blocks, 1.0)), kernel.constants.get("parts", np.inf))
    tiles = seen / columns + assumed("attention_partial_tile")
    splits = np.where(rows <= device.arch.data.assumed("attention_rows"), np.clip(idle, 1.0, np.ceil(tiles)), 1.0)
    padding = tiles / splits * columns * tile_rows * np.ceil(blocks / device.units) * device.units / (g * rows * seen)
    rate = device.matrix_sustained * (1.0 if kernel.asynchronous else device.synchronous_matrix_rate)
    macs_per_s = device.units * device.mac_rate("matrix", setup.plan.attention) * setup.plan.matrix_rate
    reached = rates.compute[:, demand.op_class[index]] * rate * kernel.constants.get("rate", 1.0)
    products_s = demand.macs[index] / macs_per_s / reached
    special_s = demand.special[index] / (device.units * device.special_per_clock * device.vector_clock_hz)
    lanes_s = (demand.vector_flops - demand.special)[index] / (device.units * device.mac_rate("vector", BASE))
    has_tensor_memory = _has_tensor_memory(device)
    alternates = has_tensor_memory & (values <= most)  # two blocks of rows fit into tensor memory
    # From Hopper on, the rest of a softmax hides behind products that no warp waits for.
    softmax_s = special_s + (lanes_s if has_tensor_memory or device.synchronous_matrix_rate == 1.0 else 0.0)
    own_s = padding * np.where(alternates, np.maximum(products_s, softmax_s), products_s + softmax_s)
    # First keys and values, queries and results pass at the bandwidth of one multiprocessor.
    key_bytes = (width + values) * np.broadcast_to(demand.right_bytes, demand.n)[index]
    carried = 2.0 * tile_rows * width * demand.element_bytes + key_bytes * np.minimum(columns, seen)
    start_s = (assumed("attention_start_cycles") + carried / device.bytes_per_clock_per_unit) / device.clock_hz
    at_once = np.ones(len(index))
    if is_step and has_tensor_memory:
        at_once = np.floor(device.l1_bytes_per_unit * assumed("shared_part") / (key_bytes * columns))
        at_once = np.clip(at_once, 1.0, assumed("decoding_blocks"))
    rounds_s = np.ceil(blocks / (device.units * at_once)) * start_s
    # In decoding, blocks start while others read: only the first start is not hidden.
    blocks_s[index] = start_s if is_step else rounds_s
    matrix_s[:, index] = np.maximum(own_s, rounds_s - start_s) if is_step else own_s


def _with_stored_scores(mapping: Mapping, demand: Demand, setup: Setup, rates: Efficiency) -> Mapping:
    """Return the mapping with attention as two products and a softmax, each of which stores all scores for the next."""
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
