"""The comparison as a pane shows it: figures with their bands, then what else there is room for."""

from __future__ import annotations

from msgspec.structs import replace

from analysis.document import Column
from hwexplorer import engine
from hwexplorer.reports.compare._brief import brief_table
from hwexplorer.reports.compare.compare import by_device, sort_rows
from hwexplorer.state import State
from hwexplorer.views.captions import headline_of_state
from hwexplorer.views.plain import Table

_BESIDE = ("bound", "power", "utilization", "memory", "delta")


def pane_table(state: State) -> Table:
    """Return a row and a line for each device of a state, keyed and sorted as the state has them. Lines begin with the
    name of their device."""
    if engine.request_under_load(state) is not None:
        return _load_table(state)
    full = sort_rows(by_device(state), state)
    results = [engine.result(state, name) for name in state.devices]
    brief = brief_table(results, engine.result(state, state.baseline), state.metric)
    cells = {row.key: row.cells for row in brief.rows}
    places = [place for place, column in enumerate(full.columns) if column.key in _BESIDE]
    rows = tuple(
        replace(row, cells=(*cells[engine.device(row.key).key], *(row.cells[place] for place in places)))
        for row in full.rows
    )
    beside = (_give_way(full.columns[place]) for place in places)
    lines = brief.footer[1:-1]  # neither the legend nor what else there is
    return replace(brief, title=full.title, columns=(*brief.columns, *beside), rows=rows, footer=lines)


def _load_table(state: State) -> Table:
    """Return a row and a line for each device that serves the load of a state, the best first."""
    from hwexplorer.reports.show.load import LOADS, find_document

    table = replace(LOADS, columns=LOADS.brief["columns"])(find_document(state), state)
    rows = tuple(replace(row, key=row.key.partition("/")[0]) for row in table.rows)
    return replace(table, name="compare", title=headline_of_state(state), rows=rows)


def _give_way(column: Column) -> Column:
    """Return a column that goes before those of figures and bands do; deltas stay."""
    return column if column.role == "delta" else replace(column, keep=max(5, column.keep))
