"""What the copy keys take away, as text."""

from __future__ import annotations

from shlex import quote

from hwexplorer import state as states
from hwexplorer.format import quantity
from hwexplorer.state import State
from hwexplorer.tui.widgets.table import TreeTable
from hwexplorer.views.plain import Column, Row


def copied(what: str, state: State, table: TreeTable) -> str:
    """The state, the command, or the name or cells of the row under the cursor; empty when there is none."""
    if what == "state":
        return states.format(state)
    if what == "command":
        return command(state)
    if table.row is None:
        return ""
    return str(table.row.cells[0]) if what == "name" else row_text(table.table.columns, table.row)


def row_text(columns: tuple[Column, ...], row: Row) -> str:
    """The cells with their units, tabs between them."""
    cells = []
    for column, value in zip(columns, row.cells, strict=True):
        if value is None or isinstance(value, str | bool):
            cells.append(str(value or ""))
        else:
            cells.append(quantity(value, "%" if column.role in ("bar", "delta") else column.unit))
    return "\t".join(cells)


def command(state: State) -> str:
    """The headless command that prints what the focused pane shows; a plot is only to be seen on the screen."""
    verb = state.pane
    if verb == "models":
        return "hwexplorer models"
    if verb == "plot":
        return f"hwexplorer {quote(states.format(state))}"
    words = ["hwexplorer", verb, quote(state.model)]
    if verb != "compare":
        words += ["--on", quote(state.on)]
    elif state.devices != states.DEFAULT_DEVICES:
        words += ["--on", quote(",".join(state.devices))]
    if verb == "compare" and state.baseline != states.preferred(state.devices):
        words += ["--baseline", quote(state.baseline)]
    if verb in ("events", "why") and state.at:
        words += ["--node", quote(state.at)]
    plain = State()
    for name in ("batch", "precision", "execution", "layout", "image_size", "sequence", "kv"):
        if getattr(state, name) != getattr(plain, name):
            words += ["--" + name.replace("_", "-"), str(getattr(state, name))]
    return " ".join(words)
