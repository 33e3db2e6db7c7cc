"""Winograd's F(4 x 4, 3 x 3) on GPUs: a 3 x 3 convolution with a quarter of its multiplications.

Libraries transform 6 x 6 patches of the input and all weights, multiply 36 matrices, and transform back (Lavin and
Gray, arXiv 1509.09308). Between the three steps everything passes memory, so it pays where channels are many. They
do it where convolutions run on the vector units: tensor cores multiply faster than the transforms could be fed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardware.demand import READ, WRITE, Demand, Floats, OpClass
from hardware.efficiency import Efficiency
from hardware.mapping.common import memory_seconds_of
from hardware.mapping.tiling import fma, tile_menu
from hardware.precision import BASE

if TYPE_CHECKING:
    from hardware.device import Device
    from hardware.setup import Setup

PRODUCTS = 36.0  # points of a 6 x 6 patch
INPUT_FLOPS, OUTPUT_FLOPS = 144.0, 100.0  # adds and multiplies of one patch's transform, 6 x 6 in and 4 x 4 out


def winograd(demand: Demand, setup: Setup, rates: Efficiency) -> tuple[Demand, Floats]:
    """The demand as the library runs it, and the seconds (n,) its transforms take before and after the products;
    zero where a convolution stays as it is."""
    device, plan = setup.device, setup.plan
    patches = demand.winograd_tiles
    if plan.convolution != ("vector", BASE) or not patches.any():
        return demand, np.zeros(demand.n)
    _, _, n, depth = demand.gemm
    k = depth / 9.0
    gemm = np.stack([np.full(demand.n, PRODUCTS), patches, n, k])
    spread = PRODUCTS * (patches * (n + k) + n * k) * demand.element_bytes  # transformed input, weights and result
    staged_s = memory_seconds_of(device, 2.0 * spread, float(rates.bandwidth[0, OpClass.MOVEMENT]))
    take = (patches > 0) & (
        _seconds(demand, gemm * (patches > 0), device, rates) + staged_s < _seconds(demand, demand.gemm, device, rates)
    )
    if not take.any():
        return demand, np.zeros(demand.n)
    changed = demand.but(
        macs=np.where(take, np.prod(gemm, axis=0), demand.macs),
        gemm=np.where(take, gemm, demand.gemm),
        vector_flops=demand.vector_flops + take * patches * (INPUT_FLOPS * k + OUTPUT_FLOPS * n),
        **_passing(demand, np.flatnonzero(take), spread),
    )
    return changed, np.where(take, staged_s, 0.0)


def _seconds(demand: Demand, gemm: Floats, device: Device, rates: Efficiency) -> Floats:
    """Seconds of products on the vector units, at the rate that software reaches for convolutions."""
    rate = fma(device, "vector", BASE) * rates.compute[0, OpClass.CONV] * rates.vector_convolution[0]
    return tile_menu(demand, gemm, device.arch.data.tiles["vector"], device, rate, 4.0).seconds


def _passing(demand: Demand, ops: NDArray[np.int64], spread: Floats) -> dict[str, NDArray[Any]]:
    """Transfers with what the steps hand to each other: written, then read at once."""
    moved = np.tile(spread[ops], 2)
    role = np.repeat(np.array([WRITE, READ], dtype=demand.transfer_role.dtype), len(ops))
    return {
        "transfer_op": np.concatenate([demand.transfer_op, np.tile(ops, 2)]),
        "transfer_bytes": np.concatenate([demand.transfer_bytes, moved]),
        "transfer_role": np.concatenate([demand.transfer_role, role]),
        "transfer_distance": np.concatenate([demand.transfer_distance, np.zeros(len(moved))]),
    }
