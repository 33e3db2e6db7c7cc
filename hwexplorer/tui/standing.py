"""The part of the footer that says how many devices are within the limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwexplorer.tui.cell_text import shorten

if TYPE_CHECKING:
    from hwexplorer.tui.session import Session

Part = tuple[str, str, str]  # role, text, the action of a click on it
WIDTH_MAX = 44  # cells


def standing(session: Session) -> list[Part]:
    """Return the state of the limits; nothing where none is set."""
    if session.views is None or not session.state.limits:
        return []
    return [("text", f" {shorten(session.limits.said(session), WIDTH_MAX)} ", "devices")]
