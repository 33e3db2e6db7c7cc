"""One module per plot, named for it, with a function `plot(state)`. Only the chosen module is imported."""

from importlib import import_module

from hwexplorer.state import State
from hwexplorer.views.plain import Plot


def plot(state: State) -> Plot:
    """Return the plot that the state names."""
    plot_of_state: Plot = import_module(f"hwexplorer.plots.{state.plot}").plot(state)
    return plot_of_state


def is_over_batches(name: str) -> bool:
    """Return True if the points of a plot are devices at a batch, not parts of one estimate."""
    return getattr(import_module(f"hwexplorer.plots.{name}"), "IS_OVER_BATCHES", False)
