"""The tree with one metric on every device side by side, and which device wins each row."""

from __future__ import annotations

from collections import Counter

import msgspec

from analysis.decide.compare_nodes import SAME
from analysis.run.metrics import METRICS
from analysis.run.outline import outline
from hwexplorer import engine
from hwexplorer.state import State, replace
from hwexplorer.views import tree
from hwexplorer.views.plain import Column, Row, Table

ON = "on:"  # begins the key of a device's column
_KEPT = ("name", "bar")


def view(state: State) -> Table:
    """The tree of the state, or with `heat` a column for each device, in the metric of the state."""
    return heat(tree.tree(state), state) if state.heat else tree.tree(state)


def subtree(state: State) -> Table:
    """The same for the node of the state and what is below it."""
    return heat(tree.subtree(state), state) if state.heat else tree.subtree(state)


def heat(table: Table, state: State) -> Table:
    """Attributed figures of each row on each device; the least wins."""
    branches = [branch for _, branch in outline(engine.result(state), state.by, state.apart).walk()]
    keys = [branch.key for branch in branches]
    figures = {
        name: dict(zip(keys, tree.by_node(replace(state, on=name), branches), strict=True)) for name in state.devices
    }
    kept = [i for i, column in enumerate(table.columns) if column.key in _KEPT or column.role == "delta"]
    columns = [table.columns[i] for i in kept if table.columns[i].role != "delta"]
    metric = METRICS[state.metric]
    columns += [
        Column(
            ON + name, name, metric.unit, role="quantity", keep=1 if name == state.on else 2,
            help=f"{metric.title} of the row",
        )
        for name in state.devices
    ]  # fmt: skip
    columns.append(Column("wins", "Wins", role="text", keep=1, help="the device with the least"))
    columns += [column for column in table.columns if column.role == "delta"]
    wins: Counter[str] = Counter()
    rows = []
    for row in table.rows:
        values = [figures[name].get(row.key) for name in state.devices]
        known = [(value, name) for value, name in zip(values, state.devices, strict=True) if value is not None]
        least = min(value for value, _ in known) if known else 0.0
        ahead = [name for value, name in known if value <= least * (1.0 + SAME)]
        winner = ahead[0] if len(ahead) == 1 else ("tie" if ahead else "")
        if row.depth == 1:
            wins[winner] += 1
        cells = [row.cells[i] for i in kept if table.columns[i].role != "delta"]
        deltas = [row.cells[i] for i in kept if table.columns[i].role == "delta"]
        rows.append(
            Row(
                row.key,
                (*cells, *values, winner, *deltas),
                depth=row.depth,
                has_children=row.has_children,
                kind=row.kind,
                dim=row.dim,
            )
        )
    subgraphs = wins.total()
    tied = f", {wins.pop('tie')} tied" if wins["tie"] else ""
    told = ", ".join(f"{name} wins {count}" for name, count in wins.most_common() if name) + tied
    footer = (f"least {state.metric} of {subgraphs} subgraphs: {told}",) if told else table.footer
    names = [engine.device(name).name for name in state.devices]
    title = f"{table.title.rpartition(' on ')[0]} on {', '.join(names)}"
    return msgspec.structs.replace(table, title=title, columns=tuple(columns), rows=tuple(rows), footer=footer)
