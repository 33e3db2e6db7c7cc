"""Rows of experts as their library moves them: copied or read by index, padded, written for other devices."""

from __future__ import annotations

import numpy as np

from hardware.demand import READ, WRITE, Demand, Floats, OpClass
from hardware.kernels.library import ExpertLibrary
from hardware.mapping.common import memory_seconds_of
from hardware.setup import Setup


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
