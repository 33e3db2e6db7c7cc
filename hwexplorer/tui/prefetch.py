"""Views that are computed ahead while nothing is typed, one at a time: for the rows around the cursor, then for the
other devices and for the next and previous batch and precision. Nothing is drawn, and a key stops it at once."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from time import monotonic

from textual.timer import Timer

from hardware.base.errors import RequestError
from hwexplorer.state import State, replace
from hwexplorer.tui.session import state_changes
from hwexplorer.tui.session.session import Session
from hwexplorer.tui.widgets.tree_table import TreeTable

ROWS_DELAY_S = 0.03  # after a key, before the views of the rows around the cursor: two small ones each
SETTINGS_DELAY_S = 0.15  # after a key, before the views of other settings, which are larger
KNOBS_S = 0.02  # at most, in which knobs are evaluated before a key is handled
PAUSE_S = 0.01  # between two views, so that a key is handled first
ROWS_MAX = 8000  # of the tree on all devices, up to which views of other settings are kept beside the present ones
DEVICES_MAX = 8  # devices whose views are computed ahead, so that a click on one is answered as fast as a key


class Prefetch:
    """Computes views ahead. `set_timer` calls a function after some seconds, `is_idle` says that nothing is being
    typed, and `rows` is the tree as it is drawn."""

    def __init__(
        self,
        session: Session,
        rows: TreeTable,
        set_timer: Callable[[float, Callable[[], None]], Timer],
        is_idle: Callable[[], bool],
    ) -> None:
        self._session, self._rows, self._set_timer, self._is_idle = session, rows, set_timer, is_idle
        self._timer: Timer | None = None
        self._waiting: deque[tuple[str, State]] = deque()
        self._done: State | None = None

    def wake(self) -> None:
        """Start again after ROWS_DELAY_S without a key. Called for each key."""
        if self._timer is not None:
            self._timer.stop()
        self._timer = self._set_timer(ROWS_DELAY_S, self._begin)

    def is_finished(self) -> bool:
        """Return True if everything around the present state is computed."""
        return self._done == self._session.state and not self._waiting

    def _begin(self) -> None:
        session = self._session
        if any(job.replaces_model for job in session.jobs) or session.views is None or not self._is_idle():
            return
        if session.count_limits():
            self._timer = self._set_timer(PAUSE_S, self._begin)
        elif session.state != self._done:
            self._queue(self._row_states())
            self._step(is_last=False)

    def _begin_settings(self) -> None:
        """Evaluate knobs for KNOBS_S at a time. When none is left, queue the settings around the present ones."""
        session, is_new = self._session, None
        if self._is_idle() and "knobs" in session.visible_views(session.state):
            until_s = monotonic() + KNOBS_S
            with suppress(RequestError):  # the user sees the error on asking for the knobs
                is_new = session.provider.evaluate_knob(session.state)
                while is_new is False and monotonic() < until_s:
                    is_new = session.provider.evaluate_knob(session.state)
        if is_new:
            session.refresh_view("knobs")
        if is_new is not None:
            self._timer = self._set_timer(PAUSE_S, self._begin_settings)
            return
        self._done = session.state
        if len(self._rows.table.rows) * len(session.state.devices) <= ROWS_MAX:
            self._queue(self._setting_states())
        self._step(is_last=True)

    def _queue(self, states: Iterator[State]) -> None:
        session = self._session
        self._waiting = deque(
            (name, state)
            for state in states
            if state != session.state
            for name in (*session.visible_views(state), *session.later_views(state))
            if not session.cache.has(name, state)
        )

    def _row_states(self) -> Iterator[State]:
        rows, state = self._rows, self._session.state
        for place in (rows.cursor + 1, rows.cursor - 1):
            if 0 <= place < len(rows.visible):
                yield replace(state, at=rows.table.rows[rows.visible[place]].key)
        if state.fact:
            yield from self._knob_states()

    def _knob_states(self) -> Iterator[State]:
        """Yield the states one step of the knob away; without a selected knob this evaluates what sorts them."""
        for by in (1, -1) if self._session.state.pane == "knobs" else ():
            with suppress(RequestError):  # the knob is at its end
                yield self._session.provider.turn_knob(self._session.state, by)

    def _setting_states(self) -> Iterator[State]:
        state = self._session.state
        yield from self._knob_states()
        yield from (replace(state, on=device) for device in state.devices[:DEVICES_MAX])
        yield from (state_changes.scale_batch(state, double) for double in (True, False))
        with suppress(RequestError):  # the user sees the error on asking for another format
            yield from (state_changes.step_format(state, step, self._session.formats) for step in (1, -1))

    def _step(self, is_last: bool) -> None:
        """Compute the next view that is queued. After those of rows follow those of settings, which are the last."""
        if not self._waiting:
            if not is_last:
                self._timer = self._set_timer(SETTINGS_DELAY_S - ROWS_DELAY_S, self._begin_settings)
            return
        name, state = self._waiting.popleft()
        with suppress(Exception):  # the user sees the error on going to that state
            self._session.cache.view(name, state)
        self._timer = self._set_timer(PAUSE_S, partial(self._step, is_last))
