"""The panes of the explorer: a module for each, named as `hwexplorer.state.PANES` has it, with a class of that name."""

from __future__ import annotations

from importlib import import_module

from hwexplorer.state import PANES
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.panes.view import ViewPane
from hwexplorer.tui.session import Session


def load(session: Session, palette: Palette) -> dict[str, ViewPane]:
    """All of them by name, and the one that has no number: it is in sight where there is room."""
    panes: dict[str, ViewPane] = {}
    for name in (*PANES, "heat"):
        kind = getattr(import_module(f"{__name__}.{name}"), name.title())
        panes[name] = kind(session, name, palette)
    return panes
