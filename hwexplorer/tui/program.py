"""Opening the explorer: settings and sessions around the app, and the heaviest path open at the start."""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from hardware import policy
from hardware.errors import RequestError, unknown
from hwexplorer import signals
from hwexplorer.state import State
from hwexplorer.tui import paths
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.palette import THEMES
from hwexplorer.tui.provider import Provider
from hwexplorer.tui.sessions import LAST, Sessions
from hwexplorer.tui.settings import Settings, read

if TYPE_CHECKING:
    from textual.driver import Driver


def run(
    state: State, provider: Provider, ascii: bool = False, mouse: bool = True, theme: str = "", fresh: bool = True
) -> None:
    """Open the explorer; `fresh`: a state that names no node opens at its heaviest.

    RequestError before the screen opens when the state cannot be shown; `Ended` where a signal closed it, and what
    ended it where that was an error of ours. Collecting garbage while everything is being made costs a sixth of the
    start, and finds none.
    """
    gc.disable()
    try:
        # Whoever looks on through a browser has the keys of the manual, not those of whoever serves.
        settings, wrong = (Settings(), "") if policy.current().is_served else read(paths.settings_file())
        keeper = Sessions(paths.sessions_file())
        if theme and theme not in THEMES:
            raise unknown("theme", theme, THEMES)
        app = HwExplorer(
            state,
            provider,
            ascii=ascii or settings.ascii,
            theme=theme or settings.theme,
            keymap=settings.keymap,
            keeper=keeper,
            remark=wrong,
            heaviest=fresh and settings.heaviest,
        )
        app.driver_class = _driver() or app.driver_class
        with signals.opened(app):
            try:
                app.run(mouse=mouse and settings.mouse)
            finally:
                app.end_work()
                with suppress(RequestError):
                    keeper.save(LAST, app.state)
        if app._exception is not None:
            raise app._exception
    finally:
        gc.enable()


def _driver() -> type[Driver] | None:
    """Ours where the screen is a terminal, not a browser's; None: Textual's for this platform."""
    if "TEXTUAL_DRIVER" in os.environ:
        return None
    try:
        from hwexplorer.tui.terminal import Terminal
    except ImportError:  # no termios
        return None
    return Terminal
