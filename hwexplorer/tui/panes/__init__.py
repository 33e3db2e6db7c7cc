"""The panes of the explorer: NAME_pane.py with a class NamePane for each name of hwexplorer.state.PANES."""

from __future__ import annotations

from importlib import import_module

from hwexplorer.state import PANES
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.panes.view_pane import ViewPane
from hwexplorer.tui.session.session import Session


def load_panes(session: Session, palette: Palette) -> dict[str, ViewPane]:
    """Create all panes, by name. Heat has no number: it is visible where there is room."""
    panes: dict[str, ViewPane] = {}
    for name in (*PANES, "heat"):
        kind = getattr(import_module(f"{__name__}.{name}_pane"), f"{name.title()}Pane")
        panes[name] = kind(session, name, palette)
    return panes
