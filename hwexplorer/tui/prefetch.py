"""Views that are computed ahead while nothing is typed, one at a time: for the rows around the cursor, then for the
other devices and for the next and previous batch and precision. Nothing is drawn, and a key stops it at once."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from time import monotonic

from textual.timer import Timer

from hardware.base.errors import RequestError
from hardware.base.records import Slices
from hwexplorer.state import State, replace
from hwexplorer.tui.session import state_changes
from hwexplorer.tui.session.session import Changed, Session
from hwexplorer.tui.widgets.tree_table import TreeTable

ROWS_DELAY_S = 0.03  # after a key, before the views of the rows around the cursor: two small ones each
SETTINGS_DELAY_S = 0.15  # after a key, before the views of other settings, which are larger
PAUSE_S = 0.01  # between two views, so that a key is handled first
ROWS_MAX = 6000  # of the tree on all devices, up to which views of other settings are kept beside the present ones


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
        self._key_s = 0.0
        self._work = self._steps()
        self.done: State | None = None  # that around which everything is computed

    def wake(self) -> None:
        """Start again after ROWS_DELAY_S without a key. Called for each key."""
        self._key_s, self._work = monotonic(), self._steps()
        if self._timer is None:
            self._timer = self._set_timer(ROWS_DELAY_S, self._go_on)

    def _go_on(self) -> None:
        """Do the next step, if nothing is typed or read, and wait as long as it says."""
        session, self._timer = self._session, None
        if (left_s := self._key_s + ROWS_DELAY_S - monotonic()) > 0:
            self._timer = self._set_timer(left_s, self._go_on)
            return
        is_busy = session.waiting or session.views is None or any(job.replaces_model for job in session.jobs)
        work = self._work
        if not is_busy and self._is_idle() and (delay_s := next(work, None)) is not None and work is self._work:
            self._timer = self._set_timer(delay_s, self._go_on)

    def _steps(self) -> Iterator[float]:
        """Yield after each step the seconds until the next one."""
        session = self._session
        while session.state.limits and session.limits.compute_some(session.state):
            session.emit(Changed("limits"))
            yield PAUSE_S
        if session.state == self.done:
            return
        rows, place = self._rows, self._rows.cursor
        near = *rows.visible[place + 1 : place + 2], *rows.visible[max(place - 1, 0) : place]
        yield from self._compute(replace(session.state, at=rows.table.rows[row].key) for row in near)
        yield SETTINGS_DELAY_S - ROWS_DELAY_S
        if len(self._rows.table.rows) * len(session.state.devices) <= ROWS_MAX:
            yield from self._compute(self._setting_states())
        self.done = session.state

    def _compute(self, states: Iterator[State]) -> Iterator[float]:
        """Compute the views of states that are not kept, a slice at each step."""
        session = self._session
        for state in states:
            for name in (*session.visible_views(state), *session.later_views(state)):
                slices = Slices()
                while state != session.state and not session.cache.has(name, state):
                    with suppress(Exception), slices:  # the user sees the error on going to that state
                        session.cache.view(name, state)
                    yield PAUSE_S
                    if not slices.is_paused:
                        break

    def _setting_states(self) -> Iterator[State]:
        state, past = self._session.state, self._session.history.past
        devices = (replace(state, on=device) for device in state.devices)
        batches = (state_changes.scale_batch(state, double) for double in (True, False))
        is_batch_turned = bool(past) and past[-1].batch != state.batch  # then it is turned again soon
        yield from (*batches, *devices) if is_batch_turned else (*devices, *batches)
        with suppress(RequestError):  # the user sees the error on asking for another format
            yield from (state_changes.step_format(state, step, self._session.formats) for step in (1, -1))
