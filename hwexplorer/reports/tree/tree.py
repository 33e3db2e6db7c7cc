"""Show the parts of a model with their energy-delay product (EDP), the costliest first."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from analysis import wording
from analysis.estimate import tree_figures
from analysis.estimate.causes import causes, divide_host_work, values_by_cause
from analysis.estimate.estimate import COMPONENTS, Estimate
from analysis.estimate.figures import head_fields
from analysis.estimate.tree_figures import Branch, draw_outline
from analysis.model.ir.workload import Floats, Ints
from hwexplorer import declare, engine, options
from hwexplorer.state import BYS, State, replace
from hwexplorer.views import plain, tree_view
from hwexplorer.views.tables import keep_columns


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One node of the tree as exported (design, section 8). EDP is energy per inference x latency of the batch:
    `edp_js` is the part attributed to the node, `own_edp_js` its own energy per inference x its own latency. A group is
    a module, or all operators of a kind; `repeats` counts the consecutive blocks or operators that a node merges.
    `latency_by_cause_s` and `energy_by_cause_j` add up to latency and energy. The root is the model.
    `architectural_modifier` is None if it is undefined. A `format` is stated if layers have their own."""

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
    format: str | msgspec.UnsetType = msgspec.UNSET
    children: tuple["Node", ...] = ()


def node(result: Estimate, path: str = "", by: str = "subgraph") -> Node:
    """Return a node with its subtree; '' is the model. A node without a row in the tree `by` something is that of the
    tree by module, else a group of operators. Raises RequestError for an unknown node."""
    key = tree_view.node_key(result, path)
    for division in dict.fromkeys((by, "module")):
        nodes = list(_outline(result, division).walk())
        if any(branch.key == key for _, branch in nodes):
            return _node(result, nodes, key)
    members = tree_figures.operators_of(result, path)
    return _node(result, [(0, Branch(key=path, name=path, kind="group", type="", members=members))], path)


def _outline(result: Estimate, by: str) -> Branch:
    """Return the outline of a model; by subgraph, nodes have their whole paths as names, and the only operator of a
    subgraph has a node too."""
    root = draw_outline(result, by)
    if by != "subgraph":
        return root
    ids, ops = result.partition.operator_id, result.workload.operators

    def named(branch: Branch) -> Branch:
        """Return a branch below the model with the path of its node as its name."""
        if branch.kind == "operator":
            return msgspec.structs.replace(branch, name=ops.path[branch.members[0]])
        if branch.kind != "subgraph":
            return branch
        i, children = int(branch.members[0]), tuple(map(named, branch.children))
        if not children or children[0].kind == "part":
            children = (Branch(ids[i], ops.path[i], "operator", branch.members, ops.kind[i], children=children),)
        return msgspec.structs.replace(branch, name=branch.key, children=children)

    return msgspec.structs.replace(root, children=tuple(map(named, root.children)))


def _node(result: Estimate, nodes: Sequence[tuple[int, Branch]], key: str) -> Node:
    """Return the node of this key, with its subtree, among the nodes of an outline with their depths."""
    figures, depths = tree_figures.tree_without_host(result), np.array([depth for depth, _ in nodes])
    branches = [branch for _, branch in nodes]
    level, place = tree_figures.branch_figures(result, branches), {id(branch): i for i, branch in enumerate(branches)}
    running = tree_view.running_shares(depths, level.share)

    def build(branch: Branch, parent_share: float) -> Node:
        """Return a branch with its subtree; its parent has `parent_share` of the EDP."""
        i = place[id(branch)]
        share = float(level.share[i])
        children = tuple(build(child, share) for child in branch.children)
        bound, reason = _reason(figures, branch)
        is_one = branch.kind == "model" or (branch.kind == "subgraph" and branch.count == 1)
        is_fused = result.execution == "fused" and len(branch.members) > 1
        values = _columns(level, i, result.scenario.batch) | {"cumulative": float(running[i])}
        values["share_of_parent"] = share / parent_share if parent_share else 0.0
        if branch.kind == "model":
            values |= {name: getattr(result, name) for name in ("latency_s", "energy_j", "utilization")}
            values |= dict.fromkeys(("edp_js", "own_edp_js", "base_edp_js"), result.edp_js)
            values |= dict.fromkeys(("share", "share_of_parent", "cumulative", "architectural_modifier"), 1.0)
        return Node(
            id=branch.key,
            name=branch.name,
            kind=branch.kind,
            type=branch.type,
            repeats=branch.count,
            is_fused=is_fused if is_one else bool(figures.fused[branch.members].all()),
            bound=bound,
            reason=reason,
            format=tree_view.format_of(result, branch) or msgspec.UNSET,
            children=children,
            **_by_cause_of_branch(result, branch),
            **values,
        )

    top = next(i for i, branch in enumerate(branches) if branch.key == key)
    above = next((i for i in range(top, -1, -1) if depths[i] < depths[top]), None)
    return build(branches[top], 1.0 if above is None else float(level.share[above]))


def _reason(figures: tree_figures.TreeFigures, branch: Branch) -> tuple[str, str]:
    """Return what bounds a node, and why it takes its time."""
    result, first = figures.estimate, int(branch.members[0])
    if branch.kind == "host":
        return "launch", "the device waits for the host"
    if branch.kind == "model":
        return result.bound, wording.time_reason(result)
    if branch.count > 1 or branch.kind not in ("subgraph", "operator"):
        return wording.bound_of_most_time(result, branch.members), wording.time_reason(result, branch.members)
    alone = tree_figures.tree(divide_host_work(result)[0])  # without the work of the host
    if branch.kind == "operator":
        return figures.operator_bound[first], wording.operator_reason(alone, first)
    subgraph = int(result.partition.subgraph[first])
    return figures.subgraph_bound[subgraph], wording.subgraph_reason(alone, subgraph)


def _by_cause_of_branch(result: Estimate, branch: Branch) -> dict[str, Any]:
    rest, host = divide_host_work(result)
    if branch.kind == "model":
        return _by_cause(result, branch.members)
    if branch.kind == "host" and host is not None:
        return _by_cause(host, branch.members)
    weights = tree_figures.part_weights(result)[branch.part, branch.members] if branch.kind == "part" else 1.0
    return _by_cause(rest, branch.members, weights)


def _by_cause(result: Estimate, members: Ints, weights: Floats | float = 1.0) -> dict[str, Any]:
    sums = causes(result).sum_over(members, weights)
    return {"latency_by_cause_s": values_by_cause(sums.time_s), "energy_by_cause_j": values_by_cause(sums.energy_j)}


def _columns(level: tree_figures.TreeLevel, i: int, batch: int) -> dict[str, Any]:
    shared = (name for name in level.__struct_fields__ if name in Node.__struct_fields__)
    return {
        "energy_j_per_inference": float(level.energy_j[i]) / batch,
        **{name: float(getattr(level, name)[i]) for name in shared},
        **{f"{name}_j": float(level.component_j[c, i]) for c, name in enumerate(COMPONENTS)},
        "boundary_transfers": int(level.transfers[i]),
        "architectural_modifier": tree_figures.modifier_or_none(float(level.modifier[i])),
    }


_BY_HELP = "rows of the tree (default: module in text and HTML, subgraph in --all, JSON and CSV)"
FOLD, LINES = 1.0, 26  # brief text folds rows below this share in %, and has at most so many rows
DETAILS = ("cumulative", "utilization", "macs", "dram", "base", "modifier", "benefit")


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
    view_columns=(*tree_view.COLUMNS, tree_view.FORMAT, *tree_view.MEASURED),
    section=declare.Section(-10, "Subgraphs and operators"),
    examples={
        "tree": "conv2d --on h100_sxm",
        "tree_fused": "conv2d --on tpu_v4",
        "tree_module": "resnet_block --by module",
    },
)
