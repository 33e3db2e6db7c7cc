"""One capture under way: started off the event loop, asked about from it, given up at any time."""

from __future__ import annotations

from threading import Thread
from time import monotonic

from hwexplorer.state import State
from hwexplorer.tui.provider import WatchedCapture


class Capture:
    """A job for the state that wants it. Starting may take a moment (a process), so a thread does it."""

    def __init__(self, state: State, job: WatchedCapture) -> None:
        self.state = state
        self.job = job
        self.started = monotonic()
        self._failure = ""
        self._last = (f"capturing {state.model}", -1.0)
        self._begun = False
        self._thread = Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            self.job.start()
        except Exception as error:  # told on screen by `error`
            self._failure = str(error) or type(error).__name__
        self._begun = True

    def progress(self) -> tuple[str, float]:
        return self._last

    def done(self) -> bool:
        """Ask the job once; True when there is nothing more to wait for."""
        if self._failure:
            return True
        if not self._begun:
            return False
        try:
            phase, fraction = self.job.poll()
            self._last = (f"{self.state.model}: {phase}", fraction)
            return bool(self.job.finished or self.job.error)
        except Exception as error:
            self._failure = str(error) or type(error).__name__
            return True

    def error(self) -> str:
        """One line, empty when all went well."""
        text = self._failure or self.job.error
        return " ".join(str(text).split()) if text else ""

    def cancel(self) -> None:
        Thread(target=self.job.cancel, daemon=True).start()

    def end(self) -> None:
        """Give it up and wait until its process is gone."""
        self.job.cancel()
