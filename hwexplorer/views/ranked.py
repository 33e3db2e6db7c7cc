"""The compared devices in the order asked for."""

from __future__ import annotations

import msgspec

from hwexplorer.state import State
from hwexplorer.views import compare
from hwexplorer.views.plain import Row, Table

_MORE_IS_BETTER = ("throughput",)


def view(state: State) -> Table:
    return ranked(compare.compare(state), state)


def ranked(table: Table, state: State) -> Table:
    """The best first; reversed, the worst. `given` is the order of the state."""
    if state.rank == "given":
        rows = table.rows[::-1] if state.rank_reverse else table.rows
        return table if rows is table.rows else msgspec.structs.replace(table, rows=rows)
    key = "device" if state.rank == "name" else state.rank
    index = next((i for i, column in enumerate(table.columns) if column.key == key), None)
    if index is None:
        return table

    def value(row: Row) -> tuple[bool, str | float]:
        cell = row.cells[index]
        if isinstance(cell, str):
            return False, cell.casefold()
        return cell is None, float(cell or 0)

    rows = tuple(sorted(table.rows, key=value, reverse=state.rank in _MORE_IS_BETTER))
    return msgspec.structs.replace(table, rows=rows[::-1] if state.rank_reverse else rows)
