"""Demands as libraries run them, before operators are mapped: convolutions by Winograd, and the rows of experts.

Winograd's F(4 x 4, 3 x 3) has a quarter of the multiplications of a 3 x 3 convolution: patches of 6 x 6 and weights are
transformed, 36 matrices multiplied, results transformed back (Lavin and Gray, arXiv 1509.09308), all through memory.
Libraries of GPUs do it where convolutions run on the vector units in fp32; on CPUs the runtime says whether it does."""

import numpy as np

from hardware.demand import READ, WRITE, Demand, Floats, Ints, OpClass, Transfers
from hardware.efficiency import Efficiency
from hardware.kernels.library import ExpertLibrary
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
    is_allowed = is_float and unit == "vector" and (setup.products.has_winograd or not device.arch.is_host)
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


def serving_experts(demand: Demand, setup: Setup) -> ExpertLibrary:
    """Return the library of the experts of a demand, which devices divide or not."""
    return setup.kernels.experts(demand.mean_work is not None)


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
    moves = demand.transfers
    is_moved = (moves.role == READ) | (moves.role == WRITE) & ~is_sum[moves.op]
    size_bytes = moves.size_bytes * np.where(is_moved, times[moves.op], 1.0)
    return demand.with_values(vector_flops=demand.vector_flops * times).with_transfers(size_bytes=size_bytes)


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
