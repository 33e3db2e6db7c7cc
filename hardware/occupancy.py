"""How full a device is: units that could work, and for GPUs occupancy, resident warps over the most an SM can hold.

Rule of occupancy: blocks of 256 threads; a tiled product keeps its tile in registers (32-bit accumulators, divided
among the threads) beside its working registers, and a few K steps of both operands in shared memory; an element-wise
kernel needs few registers and no shared memory. As many blocks stay on an SM as threads, blocks, registers and shared
memory allow, at most what the grid has for each SM. Constants are those of hardware/mapping/assumptions.toml.
"""

from __future__ import annotations

import numpy as np

from hardware.demand import Demand, Floats
from hardware.device import Device
from hardware.execute import Execution
from hardware.mapping.common import Bools, assumed, total_units

_REGISTER_BYTES = 4.0
_MOST_REGISTERS = 255.0  # per thread, by the instruction encoding of every CUDA GPU since Kepler


def units_in_all(device: Device, on_matrix: Bools) -> Floats:
    """Units that each operator could use, shape (n,): a TPU's arrays, or its vector units."""
    return np.where(on_matrix, total_units(device), device.units)


def blocks(demand: Demand, run: Execution) -> Floats:
    """Thread blocks of each operator, shape (n,)."""
    elementwise = np.ceil(demand.elements / assumed("common", "elements_per_block"))
    return np.maximum(np.where(run.mapping.tiling.tile_m > 0, run.mapping.tiling.blocks, elementwise), 1.0)


def resident_limit(device: Device, run: Execution) -> Floats:
    """Blocks that fit on one SM beside each other, shape (n,), 1 at least."""
    threads = assumed("gpu", "block_threads")
    tile_m, tile_n = run.mapping.tiling.tile_m, run.mapping.tiling.tile_n
    tiled = tile_m > 0
    accumulators = tile_m * tile_n / threads
    registers = np.where(
        tiled, accumulators + assumed("gpu", "tile_registers"), assumed("gpu", "elementwise_registers")
    )
    registers = np.minimum(registers, _MOST_REGISTERS)
    shared = (tile_m + tile_n) * assumed("gpu", "tile_step_bytes") * assumed("gpu", "tile_stages")
    room = device.l1_bytes_per_unit * assumed("gpu", "shared_part")
    limits = (
        np.full(tiled.shape, device.threads_per_unit / threads),
        np.full(tiled.shape, device.blocks_per_unit),
        device.registers_bytes_per_unit / (registers * threads * _REGISTER_BYTES),
        np.where(tiled, room / np.maximum(shared, 1.0), np.inf),
    )
    limit: Floats = np.maximum(np.floor(np.minimum.reduce(limits)), 1.0)
    return limit


def occupancy(demand: Demand, device: Device, run: Execution) -> Floats:
    """Resident warps over the most there can be, mean over all SMs while the grid is full, shape (n,), 0 to 1."""
    resident = np.minimum(resident_limit(device, run), blocks(demand, run) / device.units)
    return np.minimum(resident * assumed("gpu", "block_threads") / device.threads_per_unit, 1.0)
