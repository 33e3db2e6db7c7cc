"""One module per plot, found by its name: `plot(state)` makes it. The chosen one is imported."""

from __future__ import annotations

from importlib import import_module

from hwexplorer.state import State
from hwexplorer.views.plain import Plot


def plot(state: State) -> Plot:
    """The kind of plot that the state names."""
    drawn: Plot = import_module(f"hwexplorer.plots.{state.plot}").plot(state)
    return drawn


def reads(name: str) -> tuple[str, ...]:
    """The fields of the state that a kind of plot hangs on; () where it shows the run of the state itself."""
    fields: tuple[str, ...] = getattr(import_module(f"hwexplorer.plots.{name}"), "READS", ())
    return fields
