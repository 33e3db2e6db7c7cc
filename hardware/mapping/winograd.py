"""Winograd's F(4 x 4, 3 x 3): a 3 x 3 convolution with a quarter of its multiplications.

Patches of 6 x 6 and weights are transformed, 36 matrices multiplied, results transformed back (Lavin and Gray, arXiv
1509.09308), all through memory. Libraries of GPUs do it where convolutions run on the vector units in fp32; on CPUs
the runtime says whether it does."""

from __future__ import annotations

import numpy as np

from hardware.demand import READ, WRITE, Demand, Floats, Ints, OpClass, Transfers
from hardware.efficiency import Efficiency
from hardware.mapping.common import last_level_seconds, memory_seconds_of
from hardware.mapping.tiling import tile_menu
from hardware.precision import BASE, FORMATS
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
    is_allowed = is_float and unit == "vector" and (setup.runtime.winograd or not device.arch.is_host)
    if not is_allowed or setup.plan.widths.unpack_weights or not many.any():  # packed weights are not transformed ahead
        return demand, np.zeros(demand.n)
    _, _, n, depth = demand.gemm
    k = depth / 9.0
    gemm = np.stack([np.full(demand.n, PRODUCTS), many, n, k])
    spread = PRODUCTS * (many * (n + k) + n * k) * demand.element_bytes  # transformed input, weights and result
    staged_s = last_level_seconds(device, 2.0 * spread)
    # The library chooses by shape: at the clock of the device file, whatever a lock or the power limit leaves of it.
    chosen_by_s = staged_s * device.relative_clock
    if not device.arch.is_host:  # CPUs transform block by block: patches stay in the cache, weights are stored so
        bandwidth = float(rates.bandwidth[0, OpClass.MOVEMENT])
        chosen_by_s = np.maximum(2.0 * spread / (device.memory_bandwidth * bandwidth), chosen_by_s)
        staged_s = np.maximum(memory_seconds_of(device, 2.0 * spread, bandwidth), staged_s)
    saved_s = _seconds(demand, demand.gemm, setup, rates) - _seconds(demand, gemm * (many > 0), setup, rates)
    take = (many > 0) & (chosen_by_s < saved_s * device.relative_clock)
    if not take.any():
        return demand, np.zeros(demand.n)
    changed = demand.with_values(
        macs=np.where(take, np.prod(gemm, axis=0), demand.macs),
        gemm=np.where(take, gemm, demand.gemm),
        vector_flops=demand.vector_flops + take * many * (INPUT_FLOPS * k + OUTPUT_FLOPS * n),
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
