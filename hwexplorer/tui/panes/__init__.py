"""The panes of the explorer, a module for each, and `load_panes`."""

from __future__ import annotations

from hwexplorer.tui.palette import Palette
from hwexplorer.tui.panes.compare_pane import ComparePane
from hwexplorer.tui.panes.events_pane import EventsPane
from hwexplorer.tui.panes.heat_pane import HeatPane
from hwexplorer.tui.panes.knobs_pane import KnobsPane
from hwexplorer.tui.panes.models_pane import ModelsPane
from hwexplorer.tui.panes.plot_pane import PlotPane
from hwexplorer.tui.panes.tree_pane import TreePane
from hwexplorer.tui.panes.view_pane import ViewPane
from hwexplorer.tui.panes.why_pane import WhyPane
from hwexplorer.tui.session.session import Session

# By the names that hwexplorer.state.PANES has for them. Heat has no number: it is visible where there is room.
KINDS: dict[str, type[ViewPane]] = {
    "models": ModelsPane,
    "compare": ComparePane,
    "tree": TreePane,
    "events": EventsPane,
    "why": WhyPane,
    "plot": PlotPane,
    "knobs": KnobsPane,
    "heat": HeatPane,
}


def load_panes(session: Session, palette: Palette) -> dict[str, ViewPane]:
    """Create all panes, by name."""
    return {name: kind(session, name, palette) for name, kind in KINDS.items()}
