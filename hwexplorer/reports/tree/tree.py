"""Show the parts of a model with their energy-delay product (EDP), the costliest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from analysis import wording
from analysis.document import record
from analysis.estimate import tree_figures
from analysis.estimate.causes import causes, divide_host_work, values_by_cause
from analysis.estimate.estimate import COMPONENTS, Estimate
from analysis.estimate.figures import head_fields
from analysis.estimate.tree_figures import HOST, Branch, attention_parts, draw_outline
from analysis.model.ir.workload import Floats, Ints
from hardware.base.records import memoize
from hwexplorer import declare, engine, options
from hwexplorer.state import BYS, State, replace
from hwexplorer.views import plain, tree_view
from hwexplorer.views.tables import keep_columns


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One node of the tree as exported (design, section 8). EDP is energy per inference x latency of the batch:
    `edp_js` is the part attributed to the node, `own_edp_js` its own energy per inference x its own latency. A group is
    a module, or all operators of a kind; `repeats` counts the consecutive blocks or operators that a node merges.
    `latency_by_cause_s` and `energy_by_cause_j` add up to latency and energy. The root is the model.
    `architectural_modifier` is None if it is undefined."""

    id: str
    name: str
    kind: str
    type: str
    repeats: int = 1
    macs: float
    flops: float
    bytes: float
    dram_bytes: float
    boundary_transfers: int
    latency_s: float
    energy_j: float
    energy_j_per_inference: float
    compute_j: float
    memory_j: float
    static_j: float
    latency_by_cause_s: dict[str, float]
    energy_by_cause_j: dict[str, float]
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


def node(result: Estimate, path: str = "", by: str = "subgraph") -> Node:
    """Return a node with its subtree; '' is the model. Raises RequestError for an unknown node."""
    figures = tree_figures.tree_without_host(result)
    kind, index = tree_figures.find_node(result, path)
    if by != "subgraph" or kind == "group":
        return _branches(figures, path, by)
    if kind == "model":
        children = tuple(_subgraph(figures, s) for s in range(len(result.partition.id)))
        if divide_host_work(result)[1] is not None:
            host = _branches(figures, HOST, by)
            children += (msgspec.structs.replace(host, cumulative=float(_running_shares(result)[-1])),)
        return msgspec.structs.replace(_model(tree_figures.tree(result)), children=children)
    return _subgraph(figures, index) if kind == "subgraph" else _operator(figures, index)


@memoize()
def _running_shares(result: Estimate) -> Floats:
    """Return the cumulative shares of all subgraphs and, last, of the host's work, which has the remaining share."""
    share = tree_figures.tree_without_host(result).subgraphs.share
    return tree_figures.cumulative_share(np.append(share, 1.0 - share.sum()))


def _model(figures: tree_figures.TreeFigures) -> Node:
    result, level = figures.estimate, figures.operators
    sums = {name: float(getattr(level, name).sum()) for name in ("macs", "flops", "bytes", "dram_bytes")}
    components = {f"{name}_j": energy for name, energy in zip(COMPONENTS, result.component_j.values(), strict=True)}
    whole = dict.fromkeys(("share", "share_of_parent", "cumulative", "architectural_modifier"), 1.0)
    return record(
        Node,
        result,
        id="",
        name=result.workload.name,
        kind="model",
        type=result.workload.family,
        boundary_transfers=int(level.transfers.sum()),
        **sums | components | whole | _by_cause(result, np.arange(result.demand.n, dtype=np.int32)),
        own_edp_js=result.edp_js,
        base_edp_js=result.edp_js,
        is_fused=result.execution == "fused",
        fusion_benefit_js=figures.fusion_benefit_js,
        reason=wording.time_reason(result),
    )


def _subgraph(figures: tree_figures.TreeFigures, s: int) -> Node:
    result, parts = figures.estimate, figures.estimate.partition
    return Node(
        id=parts.id[s],
        name=parts.id[s],
        kind="subgraph",
        type=parts.kind[s],
        share_of_parent=float(figures.subgraphs.share[s]),
        is_fused=result.execution == "fused" and len(parts.members[s]) > 1,
        bound=figures.subgraph_bound[s],
        reason=wording.subgraph_reason(_reasons(result), s),
        children=tuple(_operator(figures, i) for i in parts.members[s]),
        **_by_cause(divide_host_work(result)[0], np.array(parts.members[s])),
        **_columns(figures.subgraphs, s, result.scenario.batch) | {"cumulative": float(_running_shares(result)[s])},
    )


def _operator(figures: tree_figures.TreeFigures, i: int) -> Node:
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
        reason=wording.operator_reason(_reasons(figures.estimate), i),
        children=_parts(figures, i),
        **_by_cause(divide_host_work(figures.estimate)[0], np.array([i])),
        **_columns(figures.operators, i, figures.estimate.scenario.batch),
    )


def _reasons(result: Estimate) -> tree_figures.TreeFigures:
    """Return the figures without the host's work, from which the reasons of operators and subgraphs follow."""
    return tree_figures.tree(divide_host_work(result)[0])


def _parts(figures: tree_figures.TreeFigures, i: int) -> tuple[Node, ...]:
    """Return the parts of an attention operator; empty for any other operator."""
    result, share = figures.estimate, float(figures.operators.share[i])
    if result.workload.operators.kind[i] != "attention":
        return ()
    branches = attention_parts(result.partition.operator_id[i], np.array([i], dtype=np.int32))
    return _nodes(figures, branches, branches, share)


def _branches(figures: tree_figures.TreeFigures, path: str, by: str) -> Node:
    """Return a node of the outline `by`, else of the outline by module, else a group of the operators below `path`."""
    result = figures.estimate
    nodes = [branch for _, branch in draw_outline(result, by).walk()]
    top = next((branch for branch in nodes if branch.key == path), None)
    if top is None and by != "module":
        return _branches(figures, path, "module")
    if top is None:
        top = Branch(key=path, name=path, kind="group", type="", members=tree_figures.operators_of(result, path))
        nodes = [top]
    return _nodes(figures, (top,), nodes, 1.0)[0]


def _nodes(
    figures: tree_figures.TreeFigures, tops: tuple[Branch, ...], nodes: Sequence[Branch], share_of_parent: float
) -> tuple[Node, ...]:
    """Return the nodes of `tops` with their subtrees. Cumulative shares run over all `nodes`."""
    result = figures.estimate
    level, place = tree_figures.branch_figures(result, nodes), {id(branch): i for i, branch in enumerate(nodes)}

    def build(branch: Branch, parent_share: float) -> Node:
        """Return a branch with its subtree; its parent has `parent_share` of the EDP."""
        i = place[id(branch)]
        share = float(level.share[i])
        child_nodes = tuple(build(child, share) for child in branch.children)
        if branch.kind == "model":
            return msgspec.structs.replace(_model(tree_figures.tree(result)), children=child_nodes)
        bound, reason = "launch", "the device waits for the host"
        if branch.kind != "host":
            bound = wording.bound_of_most_time(result, branch.members)
            reason = wording.time_reason(result, branch.members)
        return Node(
            id=branch.key,
            name=branch.name,
            kind=branch.kind,
            type=branch.type,
            repeats=branch.count,
            share_of_parent=share / parent_share if parent_share else 0.0,
            is_fused=bool(figures.fused[branch.members].all()),
            bound=bound,
            reason=reason,
            children=child_nodes,
            **_by_cause_of_branch(result, branch),
            **_columns(level, i, result.scenario.batch),
        )

    return tuple(build(top, share_of_parent) for top in tops)


def _by_cause_of_branch(result: Estimate, branch: Branch) -> dict[str, Any]:
    rest, host = divide_host_work(result)
    if branch.kind == "host" and host is not None:
        return _by_cause(host, branch.members)
    weights = tree_figures.part_weights(result)[branch.part, branch.members] if branch.kind == "part" else 1.0
    return _by_cause(rest, branch.members, weights)


def _by_cause(result: Estimate, members: Ints, weights: Floats | float = 1.0) -> dict[str, Any]:
    sums = causes(result).sum_over(members, weights)
    return {"latency_by_cause_s": values_by_cause(sums.time_s), "energy_by_cause_j": values_by_cause(sums.energy_j)}


# Columns of a level that a node has under the same name.
_SAME = (
    "macs", "flops", "bytes", "dram_bytes", "latency_s", "energy_j", "own_edp_js", "edp_js", "share", "cumulative",
    "base_edp_js", "fusion_benefit_js", "utilization",
)  # fmt: skip


def _columns(level: tree_figures.TreeLevel, i: int, batch: int) -> dict[str, Any]:
    return {
        "energy_j_per_inference": float(level.energy_j[i]) / batch,
        **{name: float(getattr(level, name)[i]) for name in _SAME},
        **{f"{name}_j": float(level.component_j[c, i]) for c, name in enumerate(COMPONENTS)},
        "boundary_transfers": int(level.transfers[i]),
        "architectural_modifier": tree_figures.modifier_or_none(float(level.modifier[i])),
    }


# --- the verb ---------------------------------------------------------------------------------------------------------

_BY_HELP = "rows of the tree (default: module in text and HTML, subgraph in --all, JSON and CSV)"
FOLD, LINES = 1.0, 26  # brief text folds rows below this share in %, and has at most so many rows
DETAILS = ("cumulative", "fused", "utilization", "macs", "dram", "base", "modifier", "benefit")


def _document(state: State) -> dict[str, Any]:
    """Return the nested nodes, from the state's node down. The root also has the fields of the request."""
    result = engine.result(state)
    root = msgspec.to_builtins(node(result, state.at, state.by))
    if times := tree_view.measured_times(state, result):
        tree_view.add_measured_fields(root, times, result)
    return {**head_fields(result, on_device=True), **root}


def _by_share(state: State) -> plain.Table:
    """Return the tree of the screen: repeats merged, the heaviest first."""
    outline_kind = "module" if state.by == "subgraph" else state.by
    return tree_view.subtree(replace(state, by=outline_kind, sort="share", descending=True))


def _brief(state: State) -> plain.Table:
    """Return the tree of the screen with small rows folded, and without details."""
    table = _by_share(state)
    if any(" ×" in str(row.cells[0]) for row in table.rows):
        table = replace(table, footer=("×2 and more: the figures are of all of them together", *table.footer))
    kept_columns = [place for place, column in enumerate(table.columns) if column.key not in DETAILS]
    return plain.open_heaviest_rows(plain.fold_rows(keep_columns(table, kept_columns), FOLD), LINES)


VERB = declare.Report(
    subject=declare.NODE,
    options=(options.choice("--by", BYS, metavar="BY", help=_BY_HELP),),
    document=_document,
    view=tree_view.subtree,
    brief=_brief,
    html=_by_share,
    view_columns=(*tree_view.COLUMNS, *tree_view.MEASURED),
    section=declare.Section(-10, "Subgraphs and operators"),
    examples={
        "tree": "conv2d --on h100_sxm",
        "tree_fused": "conv2d --on tpu_v4",
        "tree_module": "resnet_block --by module",
    },
)
