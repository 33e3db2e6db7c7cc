"""The Textual application: one session on one screen, everything that needs the terminal, and its start (`run`)."""

from __future__ import annotations

import asyncio
import gc
import os
from contextlib import suppress
from os import environ
from typing import TYPE_CHECKING

from rich.console import Console
from textual import events
from textual.app import App
from textual.screen import Screen

from hardware.base.errors import RequestError, unknown
from hardware.base.records import map_arrays_apart
from hardware.base.text import safe
from hwexplorer.process import signals
from hwexplorer.state import State
from hwexplorer.tui import palette
from hwexplorer.tui.keys import DEFAULT, Keymap
from hwexplorer.tui.prefetch import Prefetch
from hwexplorer.tui.screen import ExplorerScreen
from hwexplorer.tui.session.saved_sessions import LAST, SavedSessions, sessions_file
from hwexplorer.tui.session.session import Session
from hwexplorer.tui.user_settings import read, settings_file
from hwexplorer.tui.widgets.tree_table import TreeTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.driver import Driver
    from textual.filter import LineFilter

    from hwexplorer.screen_queries import ScreenQueries


class HwExplorer(App[None], inherit_css=False):
    """The explorer on a provider."""

    ENABLE_COMMAND_PALETTE = False  # overlays/command_palette.py is the palette
    ALLOW_SELECT = False
    TITLE = "hwexplorer"

    def __init__(
        self,
        state: State,
        provider: ScreenQueries,
        ascii: bool = False,
        theme: str = "dark",
        keymap: Keymap = DEFAULT,
        saved_sessions: SavedSessions | None = None,
        remark: str = "",
        opens_heaviest: bool = False,
    ) -> None:
        # https://no-color.org: use the terminal's own colours, with only bold and reversed text.
        plain = bool(environ.get("NO_COLOR"))
        theme = "ansi" if plain else theme
        super().__init__(ansi_color=True if plain else None)
        self._disable_tooltips = self._disable_notifications = True  # the footer shows messages
        self.ascii = ascii
        self.keymap = keymap
        self.session = Session(state, provider, saved_sessions, opens_heaviest)
        self.explorer = ExplorerScreen(self.session, keymap, theme, ascii, remark)
        self._loop_running: asyncio.AbstractEventLoop | None = None
        self._leaving = 0  # the number of the signal that closes the screen

    @property
    def state(self) -> State:
        """The present state."""
        return self.session.state

    def get_default_screen(self) -> Screen[None]:
        """Return the explorer."""
        return self.explorer

    def get_css_variables(self) -> dict[str, str]:
        """Return none: Textual's themes are not used."""
        return {}

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return Textual's filters for NO_COLOR, else none: palettes have no colours that need to be converted."""
        return super().get_line_filters() if self.no_color else ()

    def refresh_css(self, animate: bool = True) -> None:
        """Do nothing, since styles follow from no theme: Textual would read them again at the start."""

    def on_load(self) -> None:
        """Keep the event loop. Exit if a signal came before the loop ran."""
        self._loop_running = asyncio.get_running_loop()
        if self._leaving:
            self.exit()

    def leave(self, number: int) -> None:
        """Close the screen after a signal or if the terminal is gone. May be called at any time, from any thread."""
        self._leaving = number
        if self._loop_running is not None:
            with suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop_running.call_soon_threadsafe(self.exit)

    def restore(self) -> None:
        """Restore the terminal at once. Called when there is no time to leave."""
        restore = getattr(self._driver, "restore", None)
        if restore is not None:
            restore()

    def _fatal_error(self) -> None:
        """Print no traceback over the restored screen: `program.run` raises the exception."""
        self._close_messages_no_wait()

    def on_ready(self) -> None:
        """Prefetch from the first frame on, and give back memory of arrays and of garbage that is made later."""
        explorer = self.explorer
        explorer.prefetch = Prefetch(
            self.session, explorer.outline, explorer.set_timer, lambda: explorer.is_running and explorer.prompt is None
        )
        explorer.prefetch.wake()
        map_arrays_apart()
        if not gc.isenabled():
            gc.freeze()
            gc.enable()

    def on_resize(self, event: events.Resize) -> None:
        """Hand the size to the screen. The driver is told that a text of no letters means a new size."""
        if self._driver is not None:
            self._driver.write("")
        self.explorer.resized(*event.size)

    async def on_event(self, event: events.Event) -> None:
        """Drop keys, pastes and focus changes that arrive after the screen was left."""
        late = events.InputEvent | events.Paste | events.AppFocus | events.AppBlur
        if (self.screen_stack and not self._exit) or not isinstance(event, late):
            await super().on_event(event)

    def do_leave(self) -> None:
        """Leave the program."""
        self.exit()

    def do_copy(self, what: str) -> None:
        """Copy `what` (command or name) in a thread, since a clipboard program may be slow."""
        from hwexplorer.tui import view_export  # not needed to start the screen

        content = self.explorer.panes[self.state.pane].content
        table = content if isinstance(content, TreeTable) else self.explorer.outline
        name = str(table.row.cells[0]) if table.row is not None else ""
        text = self.session.provider.command(self.state, self.state.view) if what == "command" else name
        text = safe(text, len(text))  # it may be pasted into a terminal
        if not text:
            self.session.say("nothing here to copy", "warn")
            return

        def work() -> None:
            """Copy in a thread."""
            route = view_export.copy(text)
            self.call_from_thread(report, route)

        def report(route: str | None) -> None:
            """Say where the text went."""
            if route is None:
                self.copy_to_clipboard(text)
                route = "the terminal (OSC 52)"
            short = text if len(text) <= 60 else text[:57] + "..."
            self.session.say(f"copied through {route}: {short}", "good")

        self.run_worker(work, thread=True, exit_on_error=False)


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
    any internal error that ended it.
    """
    kept = False
    settings, wrong = read(settings_file())
    saved_sessions = SavedSessions(sessions_file())
    if theme and theme not in palette.THEMES:
        raise unknown("theme", theme, palette.THEMES)
    driver, takes_unicode = _driver()
    app = HwExplorer(
        state,
        provider,
        ascii=ascii or settings.ascii or not takes_unicode,
        # In 16 colours two causes of other themes look alike.
        theme=theme or ("ansi" if Console().color_system == "standard" else settings.theme),
        keymap=settings.keymap,
        saved_sessions=saved_sessions,
        remark=wrong or remark,
        opens_heaviest=fresh and settings.heaviest,
    )
    app.driver_class = driver or app.driver_class
    with suppress(RequestError, KeyError):  # panes are as large as the user left them
        last = saved_sessions.all()[LAST]
        app.session.sizes, app.session.recent = last.sizes, list(last.recent)
    with signals.close_on_signal(app):
        try:
            app.run(mouse=mouse and settings.mouse)
        finally:
            app.session.end()
            with suppress(RequestError):
                session = app.session
                saved_sessions.save(LAST, app.state, session.figures(), session.sizes, tuple(session.recent))
                kept = True
    if app._exception is not None:
        raise app._exception
    return kept


def _driver() -> tuple[type[Driver] | None, bool]:
    """Return the driver class, and whether the screen takes more than ASCII. The class is None without
    termios: then Textual chooses it."""
    if "TEXTUAL_DRIVER" in os.environ:
        from hwexplorer.tui.browser_driver import Browser

        return Browser, True
    try:
        from hwexplorer.tui.terminal_driver import Terminal, takes_unicode
    except ImportError:  # no termios
        return None, True
    return Terminal, takes_unicode()
