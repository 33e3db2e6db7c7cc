"""While nothing is typed, the next and previous batch and precision are computed, a view at a time.

So that the key that asks for them finds them done. Nothing is drawn, and a key stops it at once.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from textual.timer import Timer

from hwexplorer.state import State
from hwexplorer.tui import actions
from hwexplorer.tui.views import READS

if TYPE_CHECKING:
    from hwexplorer.tui.app import HwExplorer

IDLE = 0.15  # seconds without a key
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
        self._timer = self._app.set_timer(IDLE, self._begin)

    def finished(self) -> bool:
        """Is all computed that hangs around the state on screen?"""
        return self._done == self._app.state and not self._waiting

    def _begin(self) -> None:
        app = self._app
        if app.capture is not None or app.prompt is not None or app.views is None or app.state == self._done:
            return
        self._done = app.state
        self._waiting = deque(
            (name, near)
            for id in NEIGHBOURS
            if (change := actions.BY_ID[id].change) is not None and (near := change(app.state)) != app.state
            for name in READS
            if not app.cache.has(name, near)
        )
        self._step()

    def _step(self) -> None:
        if not self._waiting or not self._app.is_running:
            return
        name, state = self._waiting.popleft()
        with suppress(Exception):  # a neighbour that cannot be is told when it is asked for
            self._app.cache.view(name, state)
        self._timer = self._app.set_timer(PAUSE, self._step)
