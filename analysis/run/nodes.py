"""The tree as nested nodes with their reasons: the document of `hwexplorer tree`."""

from __future__ import annotations

from typing import Any

import msgspec

from analysis.run.estimate import COMPONENTS, Estimate
from analysis.run.reason import model_reason, operator_reason, subgraph_reason
from analysis.run.tree import Level, Tree, find, told, tree


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One node of the tree as exported (design, section 8). SI units, energy of the batch. EDP is energy per inference
    x latency of the batch: of the node its attributed part, and beside it `own_edp_js`, its own energy per inference x
    its own latency. The root is the model. `architectural_modifier` is None where it would say nothing."""

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
    architectural_modifier: float | None
    fusion_benefit_js: float
    utilization: float
    bound: str
    reason: str
    children: tuple[Node, ...] = ()


def node(result: Estimate, path: str = "") -> Node:
    """A node with all below it; '' is the model. Raises RequestError for an unknown one."""
    figures = tree(result)
    kind, index = find(result, path)
    if kind == "model":
        return _model(figures)
    return _subgraph(figures, index) if kind == "subgraph" else _operator(figures, index)


def _model(figures: Tree) -> Node:
    result, level = figures.estimate, figures.operators
    compute, memory, static = result.component_j.values()
    return Node(
        id="",
        name=result.workload.name,
        kind="model",
        type=result.workload.family,
        **{name: float(getattr(level, name).sum()) for name in ("macs", "flops", "bytes", "dram_bytes")},
        boundary_transfers=int(level.transfers.sum()),
        latency_s=result.latency_s,
        energy_j=result.energy_j,
        compute_j=compute,
        memory_j=memory,
        static_j=static,
        own_edp_js=result.edp_js,
        edp_js=result.edp_js,
        share=1.0,
        share_of_parent=1.0,
        cumulative=1.0,
        is_fused=result.execution == "fused",
        base_edp_js=result.edp_js,
        architectural_modifier=1.0,
        fusion_benefit_js=figures.fusion_benefit_js,
        utilization=result.utilization,
        bound=result.bound,
        reason=model_reason(result),
        children=tuple(_subgraph(figures, s) for s in range(len(result.partition.id))),
    )


def _subgraph(figures: Tree, s: int) -> Node:
    result, parts = figures.estimate, figures.estimate.partition
    return Node(
        id=parts.id[s],
        name=parts.id[s],
        kind="subgraph",
        type=parts.kind[s],
        share_of_parent=float(figures.subgraphs.share[s]),
        is_fused=result.execution == "fused" and len(parts.members[s]) > 1,
        bound=figures.subgraph_bound[s],
        reason=subgraph_reason(figures, s),
        children=tuple(_operator(figures, i) for i in parts.members[s]),
        **_columns(figures.subgraphs, s),
    )


def _operator(figures: Tree, i: int) -> Node:
    parts, ops = figures.estimate.partition, figures.estimate.workload.operators
    parent, share = figures.subgraphs.share[parts.subgraph[i]], figures.operators.share[i]
    return Node(
        id=parts.operator_id[i],
        name=ops.path[i],
        kind="operator",
        type=ops.kind[i],
        share_of_parent=float(share / parent) if parent else 0.0,
        is_fused=bool(figures.fused[i]),
        bound=figures.operator_bound[i],
        reason=operator_reason(figures, i),
        **_columns(figures.operators, i),
    )


# Columns of a level that a node has under the same name.
_SAME = (
    "macs", "flops", "bytes", "dram_bytes", "latency_s", "energy_j", "own_edp_js", "edp_js", "share", "cumulative",
    "base_edp_js", "fusion_benefit_js", "utilization",
)  # fmt: skip


def _columns(level: Level, i: int) -> dict[str, Any]:
    """The figures of row i of a level."""
    return {
        **{name: float(getattr(level, name)[i]) for name in _SAME},
        **{f"{name}_j": float(level.component_j[c, i]) for c, name in enumerate(COMPONENTS)},
        "boundary_transfers": int(level.transfers[i]),
        "architectural_modifier": told(float(level.modifier[i])),
    }
