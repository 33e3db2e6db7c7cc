"""The tree with one metric on every device side by side, and which device wins each row."""

from __future__ import annotations

from collections import Counter

import msgspec

from hwexplorer import engine
from hwexplorer.state import State, replace
from hwexplorer.views import tree
from hwexplorer.views.plain import Column, Row, Table, Unit

UNITS: dict[str, Unit] = {"edp": "Js", "energy": "J", "latency": "s"}
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
    figures = {name: tree._by_node(replace(state, on=name), state.metric) for name in state.devices}
    kept = [i for i, column in enumerate(table.columns) if column.key in _KEPT or column.role == "delta"]
    columns = [table.columns[i] for i in kept if table.columns[i].role != "delta"]
    unit = UNITS[state.metric]
    columns += [
        Column(ON + name, name, unit, "quantity", 1 if name == state.on else 2, f"{state.metric} of the row on {name}")
        for name in state.devices
    ]
    columns.append(Column("wins", "Wins", role="text", keep=1, help="the device with the least"))
    columns += [column for column in table.columns if column.role == "delta"]
    wins: Counter[str] = Counter()
    rows = []
    for row in table.rows:
        values = [figures[name].get(row.key) for name in state.devices]
        known = [(value, name) for value, name in zip(values, state.devices, strict=True) if value is not None]
        winner = min(known)[1] if known else ""
        if row.depth == 1:
            wins[winner] += 1
        cells = [row.cells[i] for i in kept if table.columns[i].role != "delta"]
        deltas = [row.cells[i] for i in kept if table.columns[i].role == "delta"]
        rows.append(Row(row.key, (*cells, *values, winner, *deltas), row.depth, row.has_children, row.kind, row.dim))
    told = ", ".join(f"{name} wins {count}" for name, count in wins.most_common() if name)
    footer = (f"least {state.metric} of {sum(wins.values())} subgraphs: {told}",) if told else table.footer
    names = [engine.device(name).name for name in state.devices]
    title = f"{table.title.rpartition(' on ')[0]} on {', '.join(names)}"
    return msgspec.structs.replace(table, title=title, columns=tuple(columns), rows=tuple(rows), footer=footer)
