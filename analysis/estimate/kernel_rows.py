"""The kernels of an estimate as columns, named as in documents."""

from functools import cached_property

import msgspec
import numpy as np

from analysis.estimate.causes import LIMITS, limits
from analysis.estimate.estimate import Estimate
from analysis.estimate.tree_figures import operators_of
from analysis.model.ir.workload import Floats, Ints
from hardware.base.records import memoize
from hardware.execute import RESOURCES


class Kernels(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All kernels of an estimate, shape (k,). `head` is the operator that starts the kernel, `operators` the number of
    its operators, `ideal_s` the time of its busiest unit at full peak. `dram_bytes` cross the memory interface,
    `chip_bytes` the last on-chip level."""

    estimate: Estimate
    head: Ints
    operators: Ints
    flops: Floats
    ideal_s: Floats
    dram_bytes: Floats
    chip_bytes: Floats
    energy_j: Floats
    latency_s: Floats
    compute_s: Floats
    memory_s: Floats
    overhead_s: Floats

    @cached_property
    def members(self) -> list[Ints]:
        """The operators of each kernel, in order."""
        order = np.argsort(self.estimate.demand.kernel, kind="stable").astype(np.int32)
        return np.split(order, np.cumsum(self.operators)[:-1])

    @cached_property
    def id(self) -> list[str]:
        """The id of each kernel: its subgraph's if it executes all of the subgraph, else its head operator's."""
        parts = self.estimate.partition
        return [
            parts.id[s] if size == len(parts.members[s]) else parts.operator_id[head]
            for head, size, s in zip(self.head, self.operators, parts.subgraph[self.head], strict=True)
        ]

    @cached_property
    def type(self) -> list[str]:
        """The kinds of the operators of a kernel: `conv+bias`."""
        kinds = self.estimate.workload.operators.kind
        return ["+".join(kinds[i] for i in members) for members in self.members]

    @cached_property
    def bound(self) -> list[str]:
        """The bound of each kernel, one of LIMITS."""
        return [LIMITS[limit] for limit in limits(self.estimate)]

    @cached_property
    def resource(self) -> list[str]:
        """The resource that each kernel uses most, one of RESOURCES."""
        return [RESOURCES[resource] for resource in self.estimate.run.resource]


@memoize()
def kernels(result: Estimate) -> Kernels:
    """Return the kernels of an estimate, computed once."""
    demand, run = result.demand, result.run
    flow = run.mapping.traffic
    head = np.zeros(demand.n_kernels, dtype=np.int32)
    heads = np.flatnonzero(demand.head)
    head[demand.kernel[heads]] = heads
    matrix, vector = demand.per_kernel(run.mapping.matrix_ideal_s), demand.per_kernel(run.mapping.vector_ideal_s)
    return Kernels(
        estimate=result,
        head=head,
        operators=np.bincount(demand.kernel, minlength=demand.n_kernels).astype(np.int32),
        flops=demand.per_kernel(demand.flops),
        ideal_s=np.maximum(matrix, vector),
        dram_bytes=demand.per_kernel(flow.dram_bytes),
        chip_bytes=demand.per_kernel(flow.chip_bytes),
        energy_j=demand.per_kernel(run.energy_j),
        latency_s=run.kernel_s,
        compute_s=run.kernel_compute_s,
        memory_s=run.kernel_memory_s,
        overhead_s=run.overhead_s,
    )


def kernels_of(result: Estimate, path: str) -> Ints:
    """Return the kernels that execute an operator below a node ('' is the model), in order. Raises RequestError for an
    unknown node."""
    kernel: Ints = np.unique(result.demand.kernel[operators_of(result, path)]).astype(np.int32)
    return kernel
