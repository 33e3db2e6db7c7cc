"""The tree Model -> Subgraph -> Operator: energy, latency and EDP attributed so that every level adds up.

EDP is a product, so it is attributed, not summed: a node's share is `(e/E + t/T) / 2`, the Shapley value of the
product, which adds up to 1 over any level. `own_edp_js` is the node's own e x t, shown beside it.

For each operator, `base_edp_js` is what its part of the work alone would suggest: its subgraph's attributed EDP
by the geometric mean of its share of the arithmetic and its share of the operand bytes (by bytes where it has no
FLOPs). That is a property of the model, the same on every device and in every mode. `architectural_modifier` is
what the architecture makes of it (attributed over base): above 1 where an operator pays for a kernel and a
memory round trip of its own, below 1 where it is hidden in another's. FLOPs alone would call every element-wise
operator expensive everywhere, bytes alone cheap everywhere; EDP is a product of both axes of the roofline.
`fusion_benefit_js` is what fusing takes off a node: its attributed EDP when every operator is a kernel of its
own, less that when its subgraph is one.
"""

from __future__ import annotations

import msgspec
import numpy as np

from analysis.run import graph
from analysis.run.estimate import COMPONENTS, Estimate, estimate
from analysis.workload.workload import Floats, Ints
from hardware.demand import READ_WEIGHT
from hardware.errors import unknown
from hardware.execute import BOUNDS
from hardware.remember import remembered


class Level(msgspec.Struct, frozen=True):
    """Figures of all nodes of one level as columns, shape (k,); `component_j` (3, k), `cumulative` the running
    share with the level sorted by share; `transfers` activation tensors crossing kernel boundaries."""

    macs: Floats
    flops: Floats
    bytes: Floats
    dram_bytes: Floats
    transfers: Floats
    latency_s: Floats
    energy_j: Floats
    component_j: Floats
    share: Floats
    cumulative: Floats
    base_edp_js: Floats
    modifier: Floats
    fusion_benefit_js: Floats
    utilization: Floats


class Tree(msgspec.Struct, frozen=True):
    """The figures of an estimate by level. `fused` (n,) operators that share a kernel with another;
    `bound` names per operator and subgraph."""

    estimate: Estimate
    operators: Level
    subgraphs: Level
    fused: np.ndarray[tuple[int], np.dtype[np.bool_]]
    operator_bound: tuple[str, ...]
    subgraph_bound: tuple[str, ...]
    fusion_benefit_js: float


class Node(msgspec.Struct, frozen=True):
    """One node of the tree as exported (design, section 8). SI units; the root is the model."""

    id: str
    name: str
    kind: str
    type: str
    macs: float
    flops: float
    bytes: float
    dram_bytes: float
    boundary_transfers: int
    latency_s: float
    energy_j: float
    compute_j: float
    memory_j: float
    static_j: float
    own_edp_js: float
    edp_js: float
    share: float
    share_of_parent: float
    cumulative: float
    is_fused: bool
    base_edp_js: float
    architectural_modifier: float
    fusion_benefit_js: float
    utilization: float
    bound: str
    reason: str
    children: tuple[Node, ...] = ()


@remembered()
def tree(result: Estimate) -> Tree:
    """The tree's figures, computed once per estimate; evaluates the other execution for the fusion benefit."""
    workload, parts, run, asked = result.workload, result.partition, result.run, result.demand
    point = workload.at(batch=result.scenario.batch)
    flops, macs = workload.operators.flops @ point, asked.macs
    subgraph, count = parts.subgraph, len(parts.id)
    flow = run.mapping.traffic
    boundary = asked.per_op((asked.transfer_role != READ_WEIGHT).astype(np.float64))
    chip, dram = flow.chip_read + flow.chip_write, flow.dram_read + flow.dram_write
    component = result.component_energy_j
    benefit = fusion_benefit(result)
    share = shares(run.energy_j, run.latency_s, result)
    touched = operand_bytes(result)

    def total(values: Floats) -> Floats:
        return np.bincount(subgraph, values, minlength=count).astype(np.float64)

    operator_base = work_share(flops, touched, subgraph, count) * total(share)[subgraph] * result.edp_js
    ideal = np.maximum(run.mapping.matrix_ideal_s, run.mapping.vector_ideal_s)
    operators = Level(
        macs, flops, chip, dram, boundary, run.latency_s, run.energy_j, component, share, cumulative(share),
        operator_base, ratio(share * result.edp_js, operator_base), benefit,
        np.minimum(ratio(ideal, run.latency_s), 1.0),
    )  # fmt: skip
    whole = np.zeros(count, dtype=np.int32)
    sub_share = total(share)
    sub_base = work_share(total(flops), total(touched), whole, 1) * result.edp_js
    sub_time = total(run.latency_s)
    subgraphs = Level(
        total(macs), total(flops), total(chip), total(dram), total(boundary), sub_time,
        total(run.energy_j), np.stack([total(row) for row in component]), sub_share, cumulative(sub_share),
        sub_base, ratio(sub_share * result.edp_js, sub_base), total(benefit),
        ratio(_subgraph_ideal(result, count), sub_time),
    )  # fmt: skip
    per_kernel = np.bincount(asked.kernel, minlength=asked.n_kernels)
    bound_s = np.zeros((count, len(BOUNDS)))
    np.add.at(bound_s, (subgraph, run.bound[asked.kernel]), run.latency_s)
    return Tree(
        result,
        operators,
        subgraphs,
        per_kernel[asked.kernel] > 1,
        tuple(BOUNDS[b] for b in run.bound[asked.kernel]),
        tuple(BOUNDS[b] for b in bound_s.argmax(axis=1)),
        float(benefit.sum()),
    )


def _subgraph_ideal(result: Estimate, count: int) -> Floats:
    """Seconds at full peak of each subgraph: the sum over its kernels."""
    run, asked = result.run, result.demand
    head_kernel = np.zeros(asked.n_kernels, dtype=np.int64)
    head_kernel[asked.kernel] = result.partition.subgraph
    return np.bincount(head_kernel, run.utilization * run.kernel_s, minlength=count).astype(np.float64)


def shares(energy: Floats, latency: Floats, whole: Estimate) -> Floats:
    """Shapley shares of the whole's EDP."""
    return 0.5 * (energy / (whole.energy_j or 1.0) + latency / (whole.latency_s or 1.0))


def cumulative(share: Floats) -> Floats:
    """For each node, the sum of all shares not smaller than its own (ties in order)."""
    order = np.argsort(-share, kind="stable")
    result = np.empty_like(share)
    result[order] = np.cumsum(share[order])
    return result


def ratio(a: Floats, b: Floats) -> Floats:
    """a / b, and 0 where b is 0."""
    return np.where(b > 0, a / np.where(b > 0, b, 1.0), 0.0)


def work_share(flops: Floats, operands: Floats, group: Ints, count: int) -> Floats:
    """Each member's share of its group's work: geometric mean of FLOP and byte share, summing to 1 per group.

    A member without FLOPs counts by its bytes; a group without either is shared evenly."""

    def within(values: Floats) -> Floats:
        return ratio(values, np.bincount(group, values, minlength=count)[group].astype(np.float64))

    by_bytes = within(operands)
    weight = np.where(flops > 0, np.sqrt(within(flops) * by_bytes), by_bytes)
    size = np.bincount(group, minlength=count)[group]
    total = np.bincount(group, weight, minlength=count)[group]
    return np.where(total > 0, weight / np.where(total > 0, total, 1.0), 1.0 / size)


def operand_bytes(result: Estimate) -> Floats:
    """Bytes each operator reads and writes if it is run alone: inputs, weights and results, shape (n,)."""
    return graph.operand_bytes(result.workload, result.scenario.batch, result.plan.element_bytes)


def fusion_benefit(result: Estimate) -> Floats:
    """Attributed EDP of each operator run separately less that run fused, J s; negative where fusing costs."""
    other_mode = "fused" if result.execution == "eager" else "eager"
    other = estimate(result.workload, result.device, msgspec.structs.replace(result.scenario, execution=other_mode))
    mine = shares(result.run.energy_j, result.run.latency_s, result) * result.edp_js
    theirs = shares(other.run.energy_j, other.run.latency_s, other) * other.edp_js
    return mine - theirs if result.execution == "eager" else theirs - mine


def node(result: Estimate, with_reasons: bool = True) -> Node:
    """The whole tree as nested nodes, the model at the root."""
    from analysis.run.reason import model_reason

    figures = tree(result)
    children = tuple(subgraph_node(figures, s, with_reasons) for s in range(len(result.partition.id)))
    compute, memory, static = result.component_j.values()
    level = figures.operators
    return Node(
        "", result.workload.name, "model", result.workload.family,
        float(level.macs.sum()), float(level.flops.sum()), float(level.bytes.sum()), float(level.dram_bytes.sum()),
        int(level.transfers.sum()), result.latency_s, result.energy_j, compute, memory, static,
        result.energy_j * result.latency_s, result.edp_js, 1.0, 1.0, 1.0, result.execution == "fused",
        result.edp_js, 1.0, figures.fusion_benefit_js, result.utilization, result.bound,
        model_reason(result) if with_reasons else "", children,
    )  # fmt: skip


def subgraph_node(figures: Tree, s: int, with_reasons: bool = True) -> Node:
    """One subgraph with its operators."""
    from analysis.run.reason import subgraph_reason

    result = figures.estimate
    parts = result.partition
    children = tuple(operator_node(figures, i, with_reasons) for i in parts.members[s])
    fused = result.execution == "fused" and len(parts.members[s]) > 1
    share = float(figures.subgraphs.share[s])
    return _row(
        figures.subgraphs, s, result, parts.id[s], parts.id[s], "subgraph", parts.kind[s], share, fused,
        figures.subgraph_bound[s], subgraph_reason(figures, s) if with_reasons else "", children,
    )  # fmt: skip


def operator_node(figures: Tree, i: int, with_reasons: bool = True) -> Node:
    """One operator."""
    from analysis.run.reason import operator_reason

    result = figures.estimate
    parts, ops = result.partition, result.workload.operators
    parent = float(figures.subgraphs.share[parts.subgraph[i]])
    mine = float(figures.operators.share[i])
    return _row(
        figures.operators, i, result, parts.operator_id[i], ops.path[i], "operator", ops.kind[i],
        mine / parent if parent else 0.0, bool(figures.fused[i]), figures.operator_bound[i],
        operator_reason(figures, i) if with_reasons else "", (),
    )  # fmt: skip


def _row(
    level: Level, i: int, result: Estimate, id_: str, name: str, kind: str, type_: str, of_parent: float,
    fused: bool, bound: str, reason: str, children: tuple[Node, ...],
) -> Node:  # fmt: skip
    energy, latency = float(level.energy_j[i]), float(level.latency_s[i])
    compute, memory, static = (float(level.component_j[c, i]) for c in range(len(COMPONENTS)))
    share = float(level.share[i])
    return Node(
        id_, name, kind, type_, float(level.macs[i]), float(level.flops[i]), float(level.bytes[i]),
        float(level.dram_bytes[i]), int(level.transfers[i]), latency, energy, compute, memory, static,
        energy * latency, share * result.edp_js, share, of_parent, float(level.cumulative[i]), fused,
        float(level.base_edp_js[i]), float(level.modifier[i]), float(level.fusion_benefit_js[i]),
        float(level.utilization[i]), bound, reason, children,
    )  # fmt: skip


def find(result: Estimate, path: str) -> tuple[str, int]:
    """('model', 0), ('subgraph', s) or ('operator', i) for a node id, a module path or a unique ending.

    Raises RequestError naming the nearest match."""
    parts, names = result.partition, result.workload.operators.path
    if path in ("", "/", result.workload.name):
        return "model", 0
    for kind, ids in (("subgraph", parts.id), ("operator", parts.operator_id), ("operator", names)):
        if path in ids:
            return kind, ids.index(path)
    endings = [i for i, name in enumerate(names) if name.endswith("." + path)]
    if len(endings) == 1:
        return "operator", endings[0]
    raise unknown("node", path, [*parts.id, *parts.operator_id], listing="`hwexplorer tree` lists them")


def operators_of(result: Estimate, path: str) -> Ints:
    """Operator indices below a node."""
    kind, index = find(result, path)
    if kind == "model":
        return np.arange(result.workload.n_operators, dtype=np.int32)
    if kind == "subgraph":
        return np.array(result.partition.members[index], dtype=np.int32)
    return np.array([index], dtype=np.int32)
