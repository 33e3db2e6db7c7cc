"""Opening the explorer: settings and sessions around the app, and the heaviest path open at the start."""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from rich.console import Console

from hardware.base.errors import RequestError, unknown
from hwexplorer.process import signals
from hwexplorer.state import State
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.palette import THEMES
from hwexplorer.tui.session.saved_sessions import LAST, SavedSessions, sessions_file
from hwexplorer.tui.user_settings import read, settings_file

if TYPE_CHECKING:
    from textual.driver import Driver

    from hwexplorer.screen_queries import ScreenQueries


def run(
    state: State,
    provider: ScreenQueries,
    ascii: bool = False,
    mouse: bool = True,
    theme: str = "",
    fresh: bool = True,
    remark: str = "",
) -> bool:
    """Open the explorer. Return True if its last state was saved. `fresh` opens a state without a node at its heaviest.
    `remark` is the first message.

    Raises RequestError before the screen opens if the state cannot be shown, EndedBySignal if a signal closed it, and
    any internal error that ended it. Collecting garbage during the start would take a sixth of its time and find none.
    """
    gc.disable()
    kept = False
    try:
        settings, wrong = read(settings_file())
        saved_sessions = SavedSessions(sessions_file())
        if theme and theme not in THEMES:
            raise unknown("theme", theme, THEMES)
        driver, takes_unicode = _driver()
        app = HwExplorer(
            state,
            provider,
            ascii=ascii or settings.ascii or not takes_unicode,
            theme=theme or theme_for_terminal(settings.theme),
            keymap=settings.keymap,
            saved_sessions=saved_sessions,
            remark=wrong or remark,
            opens_heaviest=fresh and settings.heaviest,
        )
        app.driver_class = driver or app.driver_class
        with signals.close_on_signal(app):
            try:
                app.run(mouse=mouse and settings.mouse)
            finally:
                app.session.end()
                with suppress(RequestError):
                    saved_sessions.save(LAST, app.state, app.session.figures())
                    kept = True
        if app._exception is not None:
            raise app._exception
        return kept
    finally:
        gc.enable()


def theme_for_terminal(theme: str) -> str:
    """Return the theme, or `ansi` for a terminal with 16 colours: there, two causes of other themes look alike."""
    return "ansi" if Console().color_system == "standard" else theme


def _driver() -> tuple[type[Driver] | None, bool]:
    """Return the driver class, and whether the screen takes more than ASCII. The class is None in a browser and without
    termios: then Textual chooses it."""
    if "TEXTUAL_DRIVER" in os.environ:
        return None, True
    try:
        from hwexplorer.tui.terminals.terminal_driver import Terminal, takes_unicode
    except ImportError:  # no termios
        return None, True
    return Terminal, takes_unicode()
