"""One module per plot, named as `hwexplorer.state.PLOTS` has it: `plot(state)` makes it. The chosen one is imported."""

from __future__ import annotations

from importlib import import_module

from hwexplorer.state import State
from hwexplorer.views.plain import Plot


def plot(state: State) -> Plot:
    """The kind of plot that the state names."""
    drawn: Plot = import_module(f"hwexplorer.plots.{state.plot}").plot(state)
    return drawn
