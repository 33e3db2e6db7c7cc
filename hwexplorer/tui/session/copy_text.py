"""The text that the copy keys put on the clipboard."""

from analysis.document import Column
from hardware.base.text import safe
from hwexplorer import state as states
from hwexplorer.state import State
from hwexplorer.text.number_format import quantity
from hwexplorer.views.plain import Row, Table


def copy_text(what: str, state: State, table: Table, row: Row | None, command: str = "") -> str:
    """Return the state, the command, or the name or cells of a row ('' without a row). Control characters are made
    safe, since the text may be pasted into a terminal."""
    text = command if what == "command" else _raw_text(what, state, table, row)
    return "\t".join(safe(cell, len(text)) for cell in text.split("\t"))


def _raw_text(what: str, state: State, table: Table, row: Row | None) -> str:
    if what == "state":
        return states.format(state)
    if row is None:
        return ""
    return str(row.cells[0]) if what == "name" else row_text(table.columns, row)


def row_text(columns: tuple[Column, ...], row: Row) -> str:
    """Return the cells with their units, tabs between them."""
    cells = []
    for column, value in zip(columns, row.cells, strict=True):
        if value is None or isinstance(value, str | bool):
            cells.append(str(value or ""))
        else:
            cells.append(quantity(value, "%" if column.role in ("bar", "delta") else column.unit))
    return "\t".join(cells)
