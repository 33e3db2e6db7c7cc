"""A job in a subprocess: start, watch, cancel, collect."""

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, Generic, TypeVar

from analysis.model.model_errors import CaptureCancelledError, CaptureError, ModelError
from analysis.model.process.child_process import Child, Refusal
from analysis.model.process.process_limits import READ_LIMITS as READ_LIMITS
from analysis.model.process.process_limits import ProcessLimits as ProcessLimits

Answer = TypeVar("Answer")


class ChildJob(ABC, Generic[Answer]):
    """A job that runs one of our modules in another process. `what` is the subject of its messages."""

    name = ""  # display name of the model

    def __init__(
        self,
        what: str,
        module: str,
        arguments: tuple[str, ...],
        limits: ProcessLimits,
        on_done: Callable[[Answer], Any] | None = None,
    ) -> None:
        self.progress: tuple[str, float] = ("start", 0.0)
        self.what = what
        # -P: a folder `analysis` in the user's working directory must not be imported.
        self._words = (sys.executable, "-P", "-m", module, *arguments)
        self._limits = limits
        self._on_done = on_done
        self._is_started = False
        self._child: Child | None = None
        self._future: Future[Answer] = Future()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the subprocess. A missing library or a failed start is raised by `result`, not here."""
        with self._lock:
            if self.is_done or self._is_started:
                return
            self._is_started = True
        threading.Thread(target=self._watch, name="capture", daemon=True).start()

    def run(self, report: Callable[[str, float], None] | None = None) -> Answer:
        """Start the job, wait for it and return its result. Raises the error of the job; an interrupt kills the job."""
        self.start()
        reported = None
        try:
            while wait([self._future], 0.05).not_done:
                if report is not None and self.progress != reported:
                    reported = self.progress
                    report(*reported)
        except BaseException:  # leave no subprocess behind
            self.cancel()
            raise
        return self.result()

    @property
    def is_done(self) -> bool:
        """True once the job has ended."""
        return self._future.done()

    def cancel(self) -> None:
        """Kill the subprocess and its process group now."""
        with self._lock:
            if self._child is not None:
                self._child.end("cancelled")
            elif not self.is_done:
                self._finish(error=CaptureCancelledError(f"{self.what} cancelled"))

    def result(self, timeout: float | None = None) -> Answer:
        """Wait for the job and return its result. Raises its error, or CaptureError after `timeout` seconds."""
        if wait([self._future], timeout).not_done:
            raise CaptureError(f"{self.what} is still running ({self.progress[0]})")
        return self._future.result()

    @abstractmethod
    def _decode(self, answer: bytes) -> Answer:
        """Return the result that the bytes of the answer encode. Raises ValueError."""

    def _command(self) -> tuple[str, ...]:
        return self._words

    def _missing_library(self) -> ModelError | None:
        return None

    def _explain(self, reason: str) -> ModelError:
        return CaptureError(reason)

    def _watch(self) -> None:
        """Start the subprocess and wait for its end, in one thread: the subprocess ends with the thread."""
        error = self._missing_library()
        with self._lock:
            if self.is_done:  # cancelled
                return
            try:
                self._child = Child(self._command(), self._limits) if error is None else None
            except OSError as problem:
                error = CaptureError(f"cannot start a {self.what}: {problem.strerror}")
            if self._child is None:
                self._finish(error=error)
                return
        self._finish(*self._collect(self._child))

    def _collect(self, child: Child) -> tuple[Answer | None, ModelError | None]:
        """Return the result of the subprocess, or the error."""
        result: Answer | None = None
        error: ModelError | None = None
        try:
            answer = child.answer(self._report)
            result = self._decode(answer) if answer is not None else None
        except Refusal as reason:
            error = self._explain(str(reason))
        except ValueError as problem:
            error = CaptureError(f"{self.what} gave {problem}")
        if child.ending == "cancelled":
            return None, CaptureCancelledError(f"{self.what} cancelled")
        if result is None and error is None:
            error = CaptureError(f"{self.what} {child.why()} during {self.progress[0]}")
        return result, error

    def _report(self, phase: str, fraction: float) -> None:
        self.progress = (phase, fraction)

    def _finish(self, result: Answer | None = None, error: ModelError | None = None) -> None:
        try:
            if result is not None and self._on_done is not None:
                self._on_done(result)
        except ModelError as failed:
            result, error = None, failed
        finally:  # wake waiting threads in every case
            if result is not None:
                self.progress = ("done", 1.0)
                self._future.set_result(result)
            else:
                self._future.set_exception(error)
