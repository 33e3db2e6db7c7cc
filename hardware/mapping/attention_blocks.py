"""Fused attention on GPUs: a multiprocessor keeps a block of query rows and reads keys and values tile by tile.

Once per wave the matrix unit waits while a block starts, loads its queries and first keys, and stores its results. Few
rows, as in decoding, leave multiprocessors idle: then the keys are divided among blocks, and a second kernel adds up
their results (FlashDecoding)."""

from __future__ import annotations

from typing import NamedTuple, cast

import msgspec
import numpy as np

from hardware.base.records import memoize
from hardware.constants import GpuConstants
from hardware.demand import Demand, Floats, Ints, OpClass
from hardware.device import Device
from hardware.efficiency import Efficiency
from hardware.mapping.common import Mapping, add_serial, last_level_seconds, memory_seconds_of, usable_last_level_bytes
from hardware.mapping.tiling import Bools
from hardware.precision import BASE
from hardware.setup import Setup


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
    matrix_s, ideal_s = mapping.matrix_s.copy(), mapping.matrix_ideal_s.copy()
    ideal_s[index] /= kernels.speedup
    matrix_s[:, index] = np.maximum(blocks.padding * tiles_s, np.where(blocks.is_step, rounds_s - start_s, 0.0))
    # A kernel adds up divided keys.
    more = max(setup.runtime.attention_kernels.value - 1.0, float(_has_tensor_memory(device)))
    starts_s = np.where(is_attention, more * device.kernel_start_s, 0.0)
    mapping = msgspec.structs.replace(mapping, matrix_s=matrix_s, matrix_ideal_s=ideal_s)
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


def _divide_blocks(g: Floats, rows: Floats, seen: Floats, kernels: _Kernels, device: Device) -> _Blocks:
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
    demand: Demand, index: Ints, values: Floats, kernels: _Kernels, setup: Setup, rates: Efficiency
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
    kernels: _Kernels,
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
    architecture, the multiply-adds a second of a unit, its peak over that of the plan's format, and 0 if query heads
    that share keys decode in blocks of their own, else 1."""

    rows: Floats
    instruction_rows: Floats
    columns: Floats
    blocks_per_unit: Floats
    start_cycles: Floats
    parts: Floats
    macs_per_s: Floats
    speedup: Floats
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
    is_synchronous = library.is_synchronous or not setup.runtime.asynchronous
    computed = library.computes if ("matrix", library.computes) in device.peaks else plan.attention
    peak, planned = (device.mac_rate("matrix", form) for form in (computed, plan.attention))
    return (
        library.rows or assumed.attention_rows,
        library.instruction_rows or assumed.instruction_rows,
        library.columns or assumed.attention_columns,
        library.blocks_per_unit or assumed.decoding_blocks,
        library.start_cycles or assumed.attention_start_cycles,
        library.parts,
        peak * library.rate * (device.synchronous_matrix_rate if is_synchronous else 1.0),
        peak / planned,
        float(library.packs is not False),
    )


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
