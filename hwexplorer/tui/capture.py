"""One capture of a model under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwexplorer.history import History
from hwexplorer.state import State
from hwexplorer.tui.job import Job

if TYPE_CHECKING:
    from hwexplorer.provider import Watched
    from hwexplorer.tui.session import Session


class Capture(Job):
    """A job for the state that wants it."""

    dims, stopped = True, "capture cancelled"

    def __init__(self, state: State, job: Watched) -> None:
        super().__init__(f"capturing {state.model}")
        self.state, self._job = state, job
        self._failure = ""
        self._last = super().progress()
        self._begun = False

    def _run(self) -> None:
        try:
            self._job.start()
        except Exception as error:  # told on screen by `error`
            self._failure = str(error) or type(error).__name__
        self._begun = True

    def progress(self) -> tuple[str, float]:
        return self._last

    def done(self) -> bool:
        if self._failure:
            return True
        if not self._begun:
            return False
        try:
            phase, fraction = self._job.poll()
            self._last = (f"{self.state.model}: {phase}", fraction)
            return bool(self._job.finished or self._job.error)
        except Exception as error:
            self._failure = str(error) or type(error).__name__
            return True

    def error(self) -> str:
        """In one line; of the shell's option the shape is left, which here stands after the model's name."""
        return " ".join((self._failure or self._job.error).split()).replace("--input ", "")

    def finish(self, session: Session) -> None:
        """The model comes on screen, in the state as it is by now."""
        if session.views is None:
            session.history = History(present=session.provider.at_its_batch(self.state))
            session.apply(session.state, session.history)
        else:
            state = session.with_model(self.state.model, self.state.image_size)
            session.apply(state, session.history if state == session.state else None)  # the same one, captured anew

    def end(self) -> None:
        self._job.cancel()
