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
from hwexplorer.tui.standing import batches

if TYPE_CHECKING:
    from hwexplorer.tui.app import HwExplorer

ROWS_IDLE = 0.03  # seconds without a key before the rows around the cursor: two small views each
IDLE = 0.15  # and before the settings, whose views are larger
PAUSE = 0.01  # between two views: a key comes first
NEIGHBOURS = ("batch_up", "batch_down", "precision_up", "precision_down")


class Ahead:
    def __init__(self, app: HwExplorer) -> None:
        self._app = app
        self._timer: Timer | None = None
        self._waiting: deque[tuple[str, State]] = deque()
        self._done: State | None = None

    def wake(self) -> None:
        """A key: whatever was under way starts anew when it is quiet again."""
        if self._timer is not None:
            self._timer.stop()
        self._timer = self._app.set_timer(ROWS_IDLE, self._begin)

    def finished(self) -> bool:
        """Is all computed that hangs around the state on screen?"""
        return self._done == self._app.state and not self._waiting

    def _begin(self) -> None:
        app = self._app
        if app.capture is not None or app.prompt is not None or app.views is None:
            return
        if app.state.limits and app.limits.more(app, [row.key for row in app.cache.view("devices", app.state).rows]):
            app.show_lines(app.size.width)
            self._timer = app.set_timer(PAUSE, self._begin)
            return
        if app.state == self._done:
            return
        self._await(self._rows())
        self._step(self._then_settings)

    def _then_settings(self) -> None:
        self._timer = self._app.set_timer(IDLE - ROWS_IDLE, self._begin_settings)

    def _begin_settings(self) -> None:
        """What the knobs do, one evaluation at a time, then the settings around this one."""
        app, is_new = self._app, None
        if app.is_running and "knobs" in app.wanted(app.state):
            with suppress(RequestError):  # what cannot be is told when it is asked for
                is_new = app.provider.deepen(app.state)
        if is_new:
            app.cache.forget("knobs")
            app.views = app.cache.views(app.state)
            app.show()
        if is_new is not None:
            self._timer = app.set_timer(PAUSE, self._begin_settings)
            return
        self._done = app.state
        self._await(self._settings())
        state = self._app.state
        self._waiting.extend(("rate", each) for each in batches(state) if not self._app.cache.has("rate", each))
        self._step(lambda: self._app.show_lines(self._app.size.width))

    def _await(self, states: Iterator[State]) -> None:
        app = self._app
        self._waiting = deque(
            (name, near)
            for near in states
            if near != app.state
            for name in app.wanted(near)
            if not app.cache.has(name, near)
        )

    def _rows(self) -> Iterator[State]:
        """The row below the cursor, then the one above, then the knob a step further."""
        outline, state = self._app.outline, self._app.state
        for place in (outline.cursor + 1, outline.cursor - 1):
            if 0 <= place < len(outline.visible):
                yield replace(state, at=outline.table.rows[outline.visible[place]].key)
        for by in (1, -1) if state.pane == "knobs" else ():
            with suppress(RequestError):  # at the end of its way
                yield self._app.provider.turned(state, by)

    def _settings(self) -> Iterator[State]:
        for id in NEIGHBOURS:
            change = actions.BY_ID[id].change
            if change is not None:
                yield change(self._app.state)

    def _step(self, then: Callable[[], None] | None) -> None:
        if not self._app.is_running:
            return
        if not self._waiting:
            if then is not None:
                then()
            return
        name, state = self._waiting.popleft()
        with suppress(Exception):  # a neighbour that cannot be is told when it is asked for
            self._app.cache.view(name, state)
        self._timer = self._app.set_timer(PAUSE, partial(self._step, then))
