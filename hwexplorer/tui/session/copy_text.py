"""The text that the copy keys take away."""

from __future__ import annotations

from shlex import quote

from analysis.document import Column
from hardware.safe_text import safe
from hwexplorer import settings
from hwexplorer import state as states
from hwexplorer.state import State
from hwexplorer.text.number_format import quantity
from hwexplorer.views.plain import Row, Table


def copy_text(what: str, state: State, table: Table, row: Row | None) -> str:
    """Return the state, the command, or the name or cells of a row, '' without one. It holds nothing that steers the
    terminal it is pasted into."""
    text = _raw_text(what, state, table, row)
    return "\t".join(safe(cell, len(text)) for cell in text.split("\t"))


def _raw_text(what: str, state: State, table: Table, row: Row | None) -> str:
    if what == "state":
        return states.format(state)
    if what == "command":
        return command(state)
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


# Fields that a view reads and no option names: the state string in the place of the model says them.
_BEYOND_OPTIONS = {
    "compare": ("rank", "rank_reverse", "pin", "diff", "limits"),
    "tree": ("sort", "descending", "metric", "heat", "pin", "diff"),
    "events": ("pin", "diff"),
    "why": ("metric", "pin", "diff"),
}


def command(state: State) -> str:
    """Return the command line that prints what the pane in focus shows."""
    verb = state.pane
    if verb == "models":
        return "hwexplorer models"
    state = states.replace(state, at=states.node(state.at))
    if verb == "plot":
        text = states.format(_state_of_fields(state, (*settings.NAMES, "devices", "on", "at", "metric", "plot")))
        return f"hwexplorer plot {quote(text)}"
    beyond = _BEYOND_OPTIONS.get(verb, ())
    devices = ("devices",) if state.heat and verb == "tree" else ()
    text = states.format(_state_of_fields(state, (*devices, *beyond)))
    plain = text == states.format(_state_of_fields(state, ()))
    words = ["hwexplorer", verb, quote(state.model if plain else text)]
    if verb != "compare":
        words += ["--on", quote(state.on)]
    elif state.devices != states.DEFAULT_DEVICES:
        words += ["--on", quote(",".join(state.devices))]
    if verb == "compare" and state.baseline != states.preferred(state.devices):
        words += ["--baseline", quote(state.baseline)]
    if verb in ("events", "why") and state.at:
        words += ["--node", quote(state.at)]
    for name, value in settings.changed_settings(state, settings.defaults_of(state.model)).items():
        words += ["--" + name.replace("_", "-"), str(value)]
    return " ".join(words)


def _state_of_fields(state: State, fields: tuple[str, ...]) -> State:
    """The model and these fields, all else as it is by default."""
    kept = {"precision": settings.default_precision(state.model)} | {name: getattr(state, name) for name in fields}
    if "devices" in kept:
        kept |= {"on": state.on}
    return State(model=state.model, **kept)
