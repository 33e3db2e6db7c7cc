"""The tree Model -> Subgraph -> Operator: energy, latency and EDP attributed so that every level adds up.

A node's share of the EDP is `(e/E + t/T) / 2`, the Shapley value of the product. `own_edp_js` is the node's own energy
per inference times its own latency. `base_edp_js` is what an operator's part of the work suggests on any device: its
subgraph's EDP by the geometric mean of its shares of arithmetic and operand bytes (of bytes if it has no FLOPs).
`architectural_modifier` is attributed EDP over base: above 1 where an operator pays for a kernel and a round trip of
its own, below 1 where it is hidden in another's. `fusion_benefit_js` is the EDP of a node run operator by operator,
less its EDP with each subgraph run as one kernel.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from analysis.estimate import operator_facts, outline
from analysis.estimate.causes import LIMITS, limits
from analysis.estimate.estimate import Estimate, ratio
from analysis.estimate.host_work import divide_host_work
from analysis.model.ir.workload import Floats, Ints
from hardware.base.errors import unknown
from hardware.base.records import memoize
from hardware.demand import READ_WEIGHT

TELLING_WORK = 0.01  # of an even share of the parent's work: a modifier of a smaller node has no meaning


def modifier_or_none(modifier: float) -> float | None:
    """Return a modifier of a TreeLevel for a document: None if it has no meaning (NaN)."""
    return None if math.isnan(modifier) else modifier


class TreeLevel(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of all nodes of one level as columns, shape (k,). `component_j` is (3, k); `cumulative` is the running
    share with the level sorted by share; `transfers` counts activation tensors that cross kernel boundaries; `modifier`
    is NaN where it has no meaning."""

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
    edp_js: Floats
    own_edp_js: Floats
    base_edp_js: Floats
    modifier: Floats
    fusion_benefit_js: Floats
    utilization: Floats


class TreeFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of an estimate by level. `fused` (n,) marks operators that share a kernel with another; the bounds
    are names per operator and subgraph."""

    estimate: Estimate
    operators: TreeLevel
    subgraphs: TreeLevel
    fused: np.ndarray[tuple[int], np.dtype[np.bool_]]
    operator_bound: tuple[str, ...]
    subgraph_bound: tuple[str, ...]
    fusion_benefit_js: float


@memoize()
def tree(result: Estimate) -> TreeFigures:
    """Return the figures of the tree, computed once per estimate. The fusion benefit takes a second estimate."""
    return _figures(result, result)


@memoize()
def tree_without_host(result: Estimate) -> TreeFigures:
    """Return the figures of a tree in which the host's work has a row, and is not part of other rows."""
    rest, host = divide_host_work(result)
    return tree(result) if host is None else _figures(result, rest)


def _figures(whole: Estimate, result: Estimate) -> TreeFigures:
    """Return the figures of `result`, which is the `whole` or a part of it."""
    parts, run, demand = result.partition, result.run, result.demand
    subgraph, count = parts.subgraph, len(parts.id)
    flow = run.mapping.traffic
    ideal = np.maximum(run.mapping.matrix_ideal_s, run.mapping.vector_ideal_s)
    # Figures of operators that add up to those of their subgraph.
    sums = {
        "macs": demand.macs,
        "flops": demand.flops,
        "bytes": flow.chip_bytes,
        "dram_bytes": flow.dram_bytes,
        "transfers": demand.per_op((demand.transfers.role != READ_WEIGHT).astype(np.float64)),
        "latency_s": run.latency_s,
        "energy_j": run.energy_j,
        "share": shares(run.energy_j, run.latency_s, result),
        "fusion_benefit_js": fusion_benefit(whole),
    }
    component = result.component_energy_j
    operands = operator_facts.operand_bytes(result.workload, result.scenario.batch, result.plan.widths)
    of_subgraphs = {name: parts.total(values) for name, values in sums.items()}
    one_group = np.zeros(count, dtype=np.int32)
    operator_work = work_share(demand.flops, operands, subgraph, count)
    subgraph_work = work_share(of_subgraphs["flops"], parts.total(operands), one_group, 1)
    operators = _level(
        result, sums, component, operator_work, of_subgraphs["share"][subgraph] * operator_work,
        np.bincount(subgraph, minlength=count)[subgraph], np.minimum(ratio(ideal, run.latency_s), 1.0),
    )  # fmt: skip
    subgraphs = _level(
        result, of_subgraphs, np.stack([parts.total(row) for row in component]), subgraph_work, subgraph_work,
        np.full(count, count), ratio(sum_of_kernels(result, run.utilization * run.kernel_s), of_subgraphs["latency_s"]),
    )  # fmt: skip
    per_kernel = np.bincount(demand.kernel, minlength=demand.n_kernels)
    limit, bound_s = limits(result)[demand.kernel], np.zeros((count, len(LIMITS)))
    # Where no operator takes time, each counts the same.
    time_s = np.maximum(divide_host_work(whole)[0].run.latency_s, np.finfo(float).tiny)
    np.add.at(bound_s, (subgraph, limit), time_s)
    return TreeFigures(
        estimate=whole,
        operators=operators,
        subgraphs=subgraphs,
        fused=per_kernel[demand.kernel] > 1,
        operator_bound=tuple(np.array(LIMITS)[limit].tolist()),
        subgraph_bound=tuple(np.array(LIMITS)[bound_s.argmax(axis=1)].tolist()),
        fusion_benefit_js=float(sums["fusion_benefit_js"].sum()),
    )


def _level(
    result: Estimate, sums: dict[str, Floats], component_j: Floats, work: Floats, base_share: Floats,
    siblings: NDArray[np.integer[Any]], utilization: Floats,
) -> TreeLevel:  # fmt: skip
    """Return a level of the tree. `work` (k,) is each node's share of its parent's work, `base_share` its share of the
    model's, and `siblings` the number of nodes that the parent has."""
    modifier = np.where(work * siblings >= TELLING_WORK, ratio(sums["share"], base_share), np.nan)
    return _complete_level(result, sums, component_j, base_share * result.edp_js, modifier, utilization)


def _complete_level(
    result: Estimate, sums: dict[str, Floats], component_j: Floats, base_edp_js: Floats, modifier: Floats, used: Floats
) -> TreeLevel:
    """Return a level: its sums, and the figures that follow from them. `used` is the utilisation of each node."""
    return TreeLevel(
        **sums,
        component_j=component_j,
        cumulative=cumulative_share(sums["share"]),
        edp_js=sums["share"] * result.edp_js,
        own_edp_js=sums["energy_j"] / result.scenario.batch * sums["latency_s"],
        base_edp_js=base_edp_js,
        modifier=modifier,
        utilization=used,
    )


def sum_of_kernels(result: Estimate, values: Floats) -> Floats:
    """Return values of kernels (k,) summed by subgraph, (s,). A kernel counts for its last operator's subgraph."""
    subgraph = np.zeros(result.demand.n_kernels, dtype=np.int64)
    subgraph[result.demand.kernel] = result.partition.subgraph
    return np.bincount(subgraph, values, minlength=len(result.partition.id)).astype(np.float64)


def shares(energy: Floats, latency: Floats, model: Estimate) -> Floats:
    """Return Shapley shares of the model's EDP."""
    return 0.5 * (energy / (model.energy_j or 1.0) + latency / (model.latency_s or 1.0))


def cumulative_share(share: Floats) -> Floats:
    """Return for each node the sum of all shares not smaller than its own; ties, also after rounding, stay in order."""
    order = np.argsort(-share.round(12), kind="stable")
    result = np.empty_like(share)
    result[order] = np.cumsum(share[order])
    return result


def count_making(share: Floats, fraction: float) -> int:
    """Return the smallest number of members whose shares sum to `fraction`."""
    running = np.cumsum(np.sort(share)[::-1])
    return min(int(np.searchsorted(running, fraction - 1e-12)) + 1, len(share)) if len(share) else 0


def work_share(flops: Floats, operands: Floats, group: Ints, count: int) -> Floats:
    """Return each member's share of its group's work: geometric mean of FLOP and byte share, summing to 1 per group.

    A member without FLOPs counts by its bytes; a group without either is shared evenly."""

    def share_in_group(values: Floats) -> Floats:
        """Divide each value by the sum over its group."""
        return ratio(values, np.bincount(group, values, minlength=count)[group].astype(np.float64))

    by_bytes = share_in_group(operands)
    weight = np.where(flops > 0, np.sqrt(share_in_group(flops) * by_bytes), by_bytes)
    size = np.bincount(group, minlength=count)[group]
    total = np.bincount(group, weight, minlength=count)[group].astype(np.float64)
    return ratio(weight, total, 1.0 / size)


def fusion_benefit(result: Estimate) -> Floats:
    """Return the attributed EDP of each operator run separately less its attributed EDP run fused, J s. It is negative
    where fusion costs."""
    other = result.in_mode("fused" if result.execution == "eager" else "eager")
    own_js = shares(result.run.energy_j, result.run.latency_s, result) * result.edp_js
    other_js = shares(other.run.energy_j, other.run.latency_s, other) * other.edp_js
    return own_js - other_js if result.execution == "eager" else other_js - own_js


def sum_over_branches(result: Estimate, branches: Sequence[outline.Branch]) -> Callable[..., Floats]:
    """Return a function that sums values of operators without the host's work, (.., n), over the members of each
    branch, (.., k). It adds the host's own values, (.., n), to the rows of the host and of the model. Parts of
    operators get the share in `weights` (.., 3, n), by default their share of the time."""
    index = np.concatenate([branch.members for branch in branches])
    sizes = np.array([len(branch.members) for branch in branches])
    starts = np.cumsum([0, *sizes[:-1]])
    kind = [branch.kind for branch in branches]
    parts = np.flatnonzero(np.repeat([each == "part" for each in kind], sizes))
    place = np.repeat([branch.part for branch in branches], sizes)[parts]
    is_model, is_host = (np.array([each == what for each in kind]) for what in ("model", "host"))

    def add(values: Floats, host: Floats | None = None, weights: Floats | None = None) -> Floats:
        """Sum figures of operators over each branch."""
        chosen = values.take(index, axis=-1)
        if len(parts):
            chosen[..., parts] *= (part_weights(result) if weights is None else weights)[..., place, index[parts]]
        total: Floats = np.add.reduceat(chosen, starts, axis=-1)
        if is_host.any():
            beside = 0.0 if host is None else host.sum(axis=-1, keepdims=True)
            total = np.where(is_host, beside, total + np.where(is_model, beside, 0.0))
        return total

    return add


@memoize()
def part_weights(result: Estimate) -> Floats:
    """Return the share of each part of attention (outline.PARTS) in its operator's time, (3, n), by what each asks of
    the units or of DRAM. From DRAM the first product reads the keys, and the second the values."""
    mapping, demand = result.run.mapping, result.demand
    products, exponentials = mapping.matrix_s[0] / 2, mapping.vector_s[0]
    on_lanes = ~(products > 0)
    products = np.where(on_lanes, demand.macs, products)
    exponentials = np.where(on_lanes, demand.vector_flops, exponentials)
    read = np.where(on_lanes, 0.0, mapping.dram_s[0] / 2)
    needs = np.stack([np.maximum(products, read), exponentials, np.maximum(products, read)])
    total = needs.sum(axis=0)
    return ratio(needs, total, 1 / len(needs))


def _work_weights(result: Estimate) -> Floats:
    """Return the share of each part of attention in the MACs and FLOPs of its operator, (2, 3, n)."""
    demand = result.demand
    half, none = np.full(demand.n, 0.5), np.zeros(demand.n)
    softmax = ratio(demand.vector_flops, demand.flops)
    product = (1.0 - softmax) / 2
    return np.array([[half, none, half], [product, softmax, product]])


def branch_figures(
    result: Estimate, branches: Sequence[outline.Branch], add: Callable[..., Floats] | None = None
) -> TreeLevel:
    """Return the figures of nodes of an outline, shape (k,): sums over their operators, and figures that follow from
    the sums. One subgraph or operator has the modifier of its own level; `cumulative` runs over all nodes. `add` is the
    result of sum_over_branches, if the caller has it."""
    figures, host = tree_without_host(result), divide_host_work(result)[1]
    subgraphs, operators = figures.subgraphs, figures.operators
    of, size = result.partition.subgraph, np.bincount(result.partition.subgraph)[result.partition.subgraph]
    total = add or sum_over_branches(result, branches)
    of_host = np.zeros((len(_SUMMED), result.demand.n))
    if host is not None:
        energy_j, latency_s = host.run.energy_j, host.run.latency_s
        of_host[:3] = latency_s, energy_j, shares(energy_j, latency_s, result)
    columns = total(np.stack([getattr(operators, name) for name in _SUMMED]), of_host)
    sums = dict(zip(_SUMMED, columns, strict=True))
    sums["macs"], sums["flops"] = total(np.stack([operators.macs, operators.flops]), None, _work_weights(result))
    # Nodes of whole subgraphs sum the figures of subgraphs; other nodes, and kinds of operators, those of operators.
    wholes = ("model", "group", "subgraph")
    is_whole = np.array([branch.kind in wholes and not branch.key.startswith(outline.KIND) for branch in branches])
    own = total(np.stack([_modifier_parts(subgraphs)[:, of] / size, _modifier_parts(operators)]))
    base_j, ideal, telling = np.where(is_whole, own[0], own[1])
    modifier = np.where((telling > 0) & (base_j > 0), ratio(sums["share"] * result.edp_js, base_j), np.nan)
    used = ratio(ideal, sums["latency_s"])
    component_j = total(operators.component_j, None if host is None else host.component_energy_j)
    level = _complete_level(result, sums, component_j, base_j, modifier, used)
    for place, branch in enumerate(branches):
        first = branch.members[0]
        if branch.count == 1 and branch.kind in ("subgraph", "operator"):
            is_subgraph = branch.kind == "subgraph"
            level.modifier[place] = subgraphs.modifier[of[first]] if is_subgraph else operators.modifier[first]
        elif branch.kind in ("host", "part"):
            level.modifier[place] = np.nan
    return level


# The figures that a node of an outline sums; the host has the first three too.
_SUMMED = ("latency_s", "energy_j", "share", "bytes", "dram_bytes", "transfers", "fusion_benefit_js")


def _modifier_parts(level: TreeLevel) -> Floats:
    """Return base EDP, seconds at full peak, and 1 where a modifier has a meaning, (3, k)."""
    return np.stack([level.base_edp_js, level.utilization * level.latency_s, ~np.isnan(level.modifier)])


def _blocks(ids: Sequence[str]) -> Iterator[str]:
    """Yield the path of each block above some nodes."""
    for name in ids:
        words = name.split(".")
        yield from (".".join(words[:count]) for count in range(1, len(words)))


@memoize(keep=64)
def find_node(result: Estimate, path: str) -> tuple[str, int]:
    """Return ('model', 0), ('subgraph', s) or ('operator', i) for a node id, a module path or a unique ending. Return
    ('group', 0) for a branch of analysis/estimate/outline.py, whose operators `operators_of` returns.

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
    if outline.members(result, path) is not None:
        return "group", 0
    raise unknown(
        "node", path, [*_blocks(parts.id), *parts.id, *parts.operator_id], listing="`hwexplorer tree` lists them"
    )


def estimate_of_node(result: Estimate, path: str) -> Estimate:
    """Return the estimate whose operators have the figures of a row of the tree: for the host's row, its work alone;
    for the model, everything; for other rows, everything without the host's work."""
    rest, host = divide_host_work(result)
    if path in ("", "/", result.workload.name):
        return result
    return host if path == outline.HOST and host is not None else rest


def operators_of(result: Estimate, path: str) -> Ints:
    """Return the indices of the operators below a node."""
    kind, index = find_node(result, path)
    if kind == "group" and (members := outline.members(result, path)) is not None:
        return members
    if kind == "model":
        return np.arange(result.workload.n_operators, dtype=np.int32)
    if kind == "subgraph":
        return np.array(result.partition.members[index], dtype=np.int32)
    return np.array([index], dtype=np.int32)
