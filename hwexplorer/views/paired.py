"""Events of a node on the device under the cursor, and beside them on the pinned one."""

from __future__ import annotations

import msgspec

from analysis.run.tree import find
from hardware.errors import RequestError
from hwexplorer import engine
from hwexplorer.state import State, pinned
from hwexplorer.views import events
from hwexplorer.views.plain import Cell, Column, Row, Table

DELTA = Column("delta", "vs pin", "%", role="delta", keep=1, help="energy against the pinned state")


def view(state: State) -> Table:
    """The events of the state; with a pin shown, the energy there beside them. What only one side has is empty or
    zero on the other: unlike machines have unlike events, but all have memory and static power."""
    table = events.events(state)
    other = pinned(state) if state.diff else None
    if other is None:
        return table
    there = engine.result(other)
    try:
        find(there, state.at)
    except RequestError:  # another model, which has no such node
        return table
    return _beside(table, events.events(other), there.device.id)


def _beside(here: Table, there: Table, name: str) -> Table:
    place = next(i for i, column in enumerate(here.columns) if column.key == "energy")
    energy = {row.key: row.cells[place] for row in there.rows}
    known = {row.key for row in here.rows}
    missing: dict[str, list[Row]] = {}
    for row in there.rows:
        if row.key not in known:
            missing.setdefault(row.key.partition(".")[0], []).append(row)
    column = Column("there", name, "J", keep=1, help="the same on the pinned device")
    rows: list[Row] = []

    def with_other(row: Row, cells: tuple[Cell, ...]) -> Row:
        mine, other = cells[place], energy.get(row.key)
        change = None
        if isinstance(mine, float) and isinstance(other, float) and other:
            change = mine / other - 1
        both = (*cells[: place + 1], other, change, *cells[place + 1 :])
        return msgspec.structs.replace(row, cells=both)

    def only_there(row: Row) -> Row:
        """Nothing of it here; what it is called and counted in there."""
        return with_other(row, (row.cells[0], *(_empty(column) for column in here.columns[1:])))

    for index, row in enumerate(here.rows):
        rows.append(with_other(row, row.cells))
        ends = index + 1 == len(here.rows) or here.rows[index + 1].depth == 0
        if ends:
            category = row.key.partition(".")[0]
            rows += [only_there(each) for each in missing.pop(category, []) if each.depth]
    for found in missing.values():
        rows += [only_there(each) for each in found]
    footer = (here.footer[0], f"{name}: {there.footer[0]}", *here.footer[1:])
    columns = (*here.columns[: place + 1], column, DELTA, *here.columns[place + 1 :])
    return msgspec.structs.replace(here, columns=columns, rows=tuple(rows), footer=footer)


def _empty(column: Column) -> Cell:
    """A cell of a row that is not there: no text, no number, but a share and an energy of nothing."""
    if column.role == "bar" or column.key in ("fraction", "energy"):
        return 0.0
    return "" if column.role in ("text", "flag") else None
