"""While nothing is typed, the rows around the cursor and the next and previous batch and precision are computed, a
view at a time.

So that the key that asks for them finds them done. Nothing is drawn, and a key stops it at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from textual.timer import Timer

from hardware.errors import RequestError
from hwexplorer.state import State, replace
from hwexplorer.tui import actions

if TYPE_CHECKING:
    from hwexplorer.tui.screen import Explorer

ROWS_IDLE = 0.03  # seconds without a key before the rows around the cursor: two small views each
IDLE = 0.15  # and before the settings, whose views are larger
PAUSE = 0.01  # between two views: a key comes first
NEIGHBOURS = ("batch_up", "batch_down", "precision_up", "precision_down")


class Ahead:
    def __init__(self, explorer: Explorer) -> None:
        self._explorer, self._session = explorer, explorer.session
        self._timer: Timer | None = None
        self._waiting: deque[tuple[str, State]] = deque()
        self._done: State | None = None

    def wake(self) -> None:
        """A key: whatever was under way starts anew when it is quiet again."""
        if self._timer is not None:
            self._timer.stop()
        self._timer = self._explorer.set_timer(ROWS_IDLE, self._begin)

    def finished(self) -> bool:
        """Is all computed that hangs around the state on screen?"""
        return self._done == self._session.state and not self._waiting

    def _begin(self) -> None:
        session = self._session
        if any(job.dims for job in session.jobs) or self._explorer.prompt is not None or session.views is None:
            return
        state = session.state
        if state.limits and session.limits.more(session, [r.key for r in session.cache.view("devices", state).rows]):
            self._explorer.show_lines()
            self._timer = self._explorer.set_timer(PAUSE, self._begin)
            return
        if session.state == self._done:
            return
        self._await(self._rows())
        self._step(self._then_settings)

    def _then_settings(self) -> None:
        self._timer = self._explorer.set_timer(IDLE - ROWS_IDLE, self._begin_settings)

    def _begin_settings(self) -> None:
        """What the knobs do, one evaluation at a time, then the settings around this one."""
        session, is_new = self._session, None
        if self._explorer.is_running and "knobs" in session.wanted(session.state):
            with suppress(RequestError):  # what cannot be is told when it is asked for
                is_new = session.provider.deepen(session.state)
        if is_new:
            session.cache.forget("knobs")
            session.views = session.cache.views(session.state)
            self._explorer.show()
        if is_new is not None:
            self._timer = self._explorer.set_timer(PAUSE, self._begin_settings)
            return
        self._done = session.state
        self._await(self._settings())
        self._step(None)

    def _await(self, states: Iterator[State]) -> None:
        session = self._session
        self._waiting = deque(
            (name, near)
            for near in states
            if near != session.state
            for name in session.wanted(near)
            if not session.cache.has(name, near)
        )

    def _rows(self) -> Iterator[State]:
        """The row below the cursor, then the one above, then the knob a step further."""
        outline, state = self._explorer.outline, self._session.state
        for place in (outline.cursor + 1, outline.cursor - 1):
            if 0 <= place < len(outline.visible):
                yield replace(state, at=outline.table.rows[outline.visible[place]].key)
        for by in (1, -1) if state.pane == "knobs" else ():
            with suppress(RequestError):  # at the end of its way
                yield self._session.provider.turned(state, by)

    def _settings(self) -> Iterator[State]:
        for id in NEIGHBOURS:
            change = actions.BY_ID[id].change
            if change is not None:
                yield change(self._session.state)

    def _step(self, then: Callable[[], None] | None) -> None:
        if not self._explorer.is_running:
            return
        if not self._waiting:
            if then is not None:
                then()
            return
        name, state = self._waiting.popleft()
        with suppress(Exception):  # a neighbour that cannot be is told when it is asked for
            self._session.cache.view(name, state)
        self._timer = self._explorer.set_timer(PAUSE, partial(self._step, then))
