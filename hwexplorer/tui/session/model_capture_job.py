"""The capture of a model as a background job."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hwexplorer.state import State
from hwexplorer.tui.session.background_job import BackgroundJob

if TYPE_CHECKING:
    from hwexplorer.provider import EngineProvider


class ModelCaptureJob(BackgroundJob):
    """The capture of the model that a state asks for."""

    replaces_model, stop_message = True, "capture cancelled"

    def __init__(self, state: State, provider: EngineProvider, finish: Callable[[Any], None]) -> None:
        super().__init__(f"capturing {state.model}", finish)
        self.state, self._capture, self._keep = state, provider.capture(state), provider.keep
        self._failure = ""
        self._progress = super().progress()
        self._has_started = False

    def _run(self) -> None:
        try:
            self._capture.start()
        except Exception as error:  # shown on screen by `error`
            self._failure = str(error) or type(error).__name__
        self._has_started = True

    def progress(self) -> tuple[str, float]:
        """Return (what it is doing, fraction done)."""
        return self._progress

    def is_done(self) -> bool:
        """Return True when there is nothing more to wait for."""
        if self._failure or not self._has_started:
            return bool(self._failure)
        phase, fraction = self._capture.progress
        self._progress = (f"{self.state.model}: {phase}", fraction)
        if not self._capture.is_done:
            return False
        try:
            self._keep(self.state, self._capture.result())
        except Exception as error:
            self._failure = str(error) or type(error).__name__
        return True

    def error(self) -> str:
        """Return what went wrong in one line, '' when nothing did."""
        # Of the shell's option the shape is left, which in a command stands after the model's name.
        return " ".join(self._failure.split()).replace("--input ", "")

    def end(self) -> None:
        """Stop the work and wait until it is gone."""
        self._capture.cancel()
