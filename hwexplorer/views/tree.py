"""The EDP tree as rows: model, subgraphs, operators, in the order asked for."""

from __future__ import annotations

import msgspec
import numpy as np

from analysis.run.metrics import METRICS
from analysis.run.tree import Level, Tree, cumulative, find, told
from analysis.run.tree import tree as tree_figures
from analysis.workload.workload import Floats
from hwexplorer import engine
from hwexplorer.state import State, pinned
from hwexplorer.views.plain import Cell, Column, Row, Table
from hwexplorer.views.words import FLAGS, FLAGS_HELP, title

COLUMNS = (
    Column("name", "Node", role="text", keep=0),
    Column("bar", "Share", "%", role="bar", keep=0, help="share of the model: (energy share + latency share) / 2"),
    Column("share", "%", "%", keep=0),
    Column("latency", "Latency", "s", keep=1),
    Column("energy_per_inference", "Energy/inf", "J", keep=1),
    Column("bound", "B", role="flag", keep=2, help=FLAGS_HELP),
    Column("cumulative", "Cum %", "%", keep=3, help="running share with the level sorted by share"),
    Column("kind", "Kind", role="text", keep=4),
    Column("modifier", "Modifier", "x", keep=5, help="attributed over base EDP: above 1 pays, below 1 hidden"),
    Column("fused", "F", role="flag", keep=5, help="F fused with another operator, S a kernel of its own"),
    Column("utilization", "Util", "%", keep=6, help="of the peak of the format that runs"),
    Column("macs", "MAC", "MAC", keep=6),
    Column("bytes", "DRAM", "byte", keep=7, help="bytes read from and written to memory"),
    Column("benefit", "Fusion", "Js", keep=8, help="EDP that fusing takes off this node"),
)
DELTA = Column("delta", "vs pin", "%", role="delta", keep=0, help="against the pinned state, in the metric shown")
METRIC_TITLE = {"edp": "Share", "energy": "Energy share", "latency": "Latency share"}


def tree(state: State) -> Table:
    """All rows of the tree on the device under the cursor; the root's key is ''."""
    figures = tree_figures(engine.result(state))
    result = figures.estimate
    parts, ops = result.partition, result.workload.operators
    sub_share, op_share = shares(figures, state.metric)
    deltas = _deltas(state)
    joined = [result.execution == "fused" and len(members) > 1 for members in parts.members]
    sub_cells = _cells(figures.subgraphs, sub_share, figures.subgraph_bound, parts.kind, joined, result.scenario.batch)
    op_cells = _cells(
        figures.operators, op_share, figures.operator_bound, ops.kind, figures.fused.tolist(), result.scenario.batch
    )
    known = ops.has_rule.tolist()

    def row(key: str, name: str, cells: tuple[Cell, ...], depth: int, children: bool, kind: str, dim: bool) -> Row:
        end = () if deltas is None else (deltas.get(key),)
        return Row(key, (name, *cells, *end), depth=depth, has_children=children, kind=kind, dim=dim)

    rows = [row("", result.workload.name, _root(figures), 0, True, "model", False)]
    for s in _ordered(state, figures.subgraphs, sub_share, range(len(parts.id)), parts.id):
        members = parts.members[s]
        several = len(members) > 1
        rows.append(row(parts.id[s], _name(parts.id[s], len(members)), sub_cells[s], 1, several, parts.kind[s], False))
        if several:
            for i in _ordered(state, figures.operators, op_share, members, ops.path):
                key = parts.operator_id[i]
                rows.append(row(key, _leaf(key, ops.kind[i]), op_cells[i], 2, False, ops.kind[i], not known[i]))
    columns = tuple(
        msgspec.structs.replace(column, title=METRIC_TITLE[state.metric]) if column.key == "bar" else column
        for column in COLUMNS
    )
    counts = ((len(parts.id), "subgraph"), (len(ops.path), "operator"), (result.demand.n_kernels, "kernel"))
    footer = ", ".join(f"{count} {word}{'s' * (count != 1)}" for count, word in counts)
    return Table(
        "tree",
        f"{title(state)} on {result.device.label}",
        columns if deltas is None else (*columns, DELTA),
        tuple(rows),
        footer=(footer, _pareto(figures.subgraphs.share)),
        notes=result.marks,
    )


def subtree(state: State) -> Table:
    """The rows of the node in the state and below; the whole tree for the model."""
    model = tree(state)
    if not state.at:
        return model
    kind, index = find(engine.result(state), state.at)
    parts = engine.result(state).partition
    key = "" if kind == "model" else (parts.id if kind == "subgraph" else parts.operator_id)[index]
    keys = [row.key for row in model.rows]
    first = keys.index(key if key in keys else key.partition("/")[0])
    depth = model.rows[first].depth
    end = next((i for i in range(first + 1, len(keys)) if model.rows[i].depth <= depth), len(keys))
    rows = tuple(msgspec.structs.replace(row, depth=row.depth - depth) for row in model.rows[first:end])
    return msgspec.structs.replace(model, rows=rows, footer=("shares and running shares are of the whole model",))


def _name(subgraph: str, members: int) -> str:
    return subgraph if members == 1 else f"{subgraph} +{members - 1}"


def _leaf(key: str, kind: str) -> str:
    """An operator's own name; a bare number of a Sequential says nothing without its kind."""
    name = key.rpartition("/")[2]
    return f"{name} {kind}" if name.isdigit() else name


def _pareto(share: Floats) -> str:
    ordered = np.cumsum(np.sort(share)[::-1])
    half, most = (int(np.searchsorted(ordered, part - 1e-12)) + 1 for part in (0.5, 0.8))
    if len(share) == 1:
        return "one subgraph makes all of the EDP"
    verb = "makes" if half == 1 else "make"
    return f"{half} of {len(share)} subgraphs {verb} 50 % of the EDP, {most} make 80 %"


def shares(figures: Tree, metric: str) -> tuple[Floats, Floats]:
    result = figures.estimate
    if metric == "energy":
        total = result.energy_j or 1.0
        return figures.subgraphs.energy_j / total, figures.operators.energy_j / total
    if metric == "latency":
        total = result.latency_s or 1.0
        return figures.subgraphs.latency_s / total, figures.operators.latency_s / total
    return figures.subgraphs.share, figures.operators.share


def _deltas(state: State) -> dict[str, float] | None:
    """Change of each node against the pinned state, in the metric shown; nodes of another model have none."""
    other = pinned(state) if state.diff else None
    if other is None:
        return None
    now, before = _by_node(state, state.metric), _by_node(other, state.metric)
    return {key: value / before[key] - 1.0 for key, value in now.items() if before.get(key)}


def _by_node(state: State, metric: str) -> dict[str, float]:
    """Attributed figure of every node by id, in J s, J per inference or s."""
    figures = tree_figures(engine.result(state))
    result = figures.estimate
    total = METRICS[metric].of(result)
    sub_share, op_share = shares(figures, metric)
    values = dict(zip(result.partition.operator_id, (op_share * total).tolist(), strict=True))
    values.update(zip(result.partition.id, (sub_share * total).tolist(), strict=True))
    values[""] = total
    return values


def _cells(
    level: Level, share: Floats, bounds: tuple[str, ...], kinds: tuple[str, ...], fused: list[bool], batch: int
) -> list[tuple[Cell, ...]]:
    """Cells of every node of a level but its name, in the order of COLUMNS."""
    share_list = share.tolist()
    return list(
        zip(
            share_list,
            share_list,
            level.latency_s.tolist(),
            (level.energy_j / batch).tolist(),
            [FLAGS[name] for name in bounds],
            cumulative(share).tolist(),
            kinds,
            [told(modifier) for modifier in level.modifier.tolist()],
            ["F" if yes else "S" for yes in fused],
            level.utilization.tolist(),
            level.macs.tolist(),
            level.dram_bytes.tolist(),
            level.fusion_benefit_js.tolist(),
            strict=True,
        )
    )


def _root(figures: Tree) -> tuple[Cell, ...]:
    result, level = figures.estimate, figures.operators
    return (
        1.0, 1.0, result.latency_s, result.energy_j_per_inference, FLAGS[result.bound], 1.0, "model", 1.0,
        "F" if result.execution == "fused" else "S", result.utilization, float(level.macs.sum()),
        float(level.dram_bytes.sum()), figures.fusion_benefit_js,
    )  # fmt: skip


def _ordered(
    state: State, level: Level, share: Floats, members: range | tuple[int, ...], names: tuple[str, ...]
) -> list[int]:
    """Members in the order of the state; ties keep graph order."""
    if state.sort == "graph":
        return list(members) if state.descending else list(reversed(members))
    if state.sort == "name":
        return sorted(members, key=lambda i: names[i], reverse=not state.descending)
    values = {"share": share, "latency": level.latency_s, "energy": level.energy_j}[state.sort]
    return sorted(members, key=lambda i: float(values[i]), reverse=state.descending)
