"""What reports by kernel share: which kernels are below a node, the operator each was started for, its figures."""

from __future__ import annotations

import msgspec
import numpy as np

from analysis.estimate.estimate import Estimate
from analysis.estimate.tree import operators_of
from analysis.model.ir.workload import Floats, Ints
from hardware.remember import remembered


class Kernels(msgspec.Struct, frozen=True, kw_only=True):
    """All kernels of an estimate, shape (k,). `head` is the operator each was started for; `ideal_s` what the
    busiest unit needs at full peak; bytes at the memory interface and at the last on-chip level."""

    head: Ints
    size: Ints
    flops: Floats
    ideal_s: Floats
    dram_bytes: Floats
    chip_bytes: Floats
    energy_j: Floats
    static_j: Floats


@remembered()
def kernels(result: Estimate) -> Kernels:
    """The kernels of an estimate, computed once."""
    demand, run = result.demand, result.run
    flow = run.mapping.traffic
    head = np.zeros(demand.n_kernels, dtype=np.int32)
    heads = np.flatnonzero(demand.head)
    head[demand.kernel[heads]] = heads
    matrix, vector = demand.per_kernel(run.mapping.matrix_ideal_s), demand.per_kernel(run.mapping.vector_ideal_s)
    return Kernels(
        head=head,
        size=np.bincount(demand.kernel, minlength=demand.n_kernels).astype(np.int32),
        flops=demand.per_kernel(demand.flops),
        ideal_s=np.maximum(matrix, vector),
        dram_bytes=demand.per_kernel(flow.dram_read + flow.dram_write),
        chip_bytes=demand.per_kernel(flow.chip_read + flow.chip_write),
        energy_j=demand.per_kernel(run.energy_j),
        static_j=demand.per_kernel(result.component_energy_j[2]),
    )


def kernels_of(result: Estimate, path: str) -> Ints:
    """Kernels that run an operator below a node ('' is the model), in order. Raises RequestError for no node."""
    kernel: Ints = np.unique(result.demand.kernel[operators_of(result, path)]).astype(np.int32)
    return kernel


def members(result: Estimate, k: int) -> Ints:
    """The operators of a kernel, in order."""
    operator: Ints = np.flatnonzero(result.demand.kernel == k).astype(np.int32)
    return operator


def kernel_id(result: Estimate, k: int) -> str:
    """A kernel by the operator it was started for, or by its subgraph where it runs all of it."""
    parts, head = result.partition, int(kernels(result).head[k])
    subgraph = int(parts.subgraph[head])
    is_whole = int(kernels(result).size[k]) == len(parts.members[subgraph])
    return parts.id[subgraph] if is_whole else parts.operator_id[head]


def kernel_type(result: Estimate, k: int) -> str:
    """The kinds of the operators of a kernel: `conv+bias`."""
    kinds = result.workload.operators.kind
    return "+".join(kinds[i] for i in members(result, k))
