"""The panes of the explorer: a class NamePane for each name of hwexplorer.state.PANES, here or in NAME_pane.py."""

from importlib import import_module

from hwexplorer.state import PANES
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.panes import view_panes
from hwexplorer.tui.panes.view_panes import ViewPane
from hwexplorer.tui.session.session import Session


def load_panes(session: Session, palette: Palette) -> dict[str, ViewPane]:
    """Create all panes, by name. Heat has no number key; it is visible if there is room."""
    panes: dict[str, ViewPane] = {}
    for name in (*PANES, "heat"):
        kind = f"{name.title()}Pane"
        module = view_panes if hasattr(view_panes, kind) else import_module(f"{__name__}.{name}_pane")
        panes[name] = getattr(module, kind)(session, name, palette)
    return panes
