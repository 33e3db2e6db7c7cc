"""Jobs that make a workload in a subprocess: start, watch, cancel, collect, several at once. No torch here."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from analysis.model.ir.validation import decode
from analysis.model.ir.workload import Workload
from analysis.model.model_errors import CaptureCancelledError, CaptureError, ModelError, UnreadableError
from analysis.model.names import targets, zoo
from analysis.model.names.model_ref import ModelRef
from analysis.model.names.targets import Target
from analysis.model.process.child_process import Child, Refusal
from analysis.model.process.process_limits import USER_LIMITS, ProcessLimits
from hardware import policy

_INSTALL = "pip install torch torchvision"

# For files that are data: their readers refuse what takes a sixth of this (see sources/budget.py).
READ_LIMITS = ProcessLimits(seconds=120.0, memory_bytes=4 << 30)


class WorkloadJob:
    """A workload that a module of ours makes in another process. `what` is the subject of its messages."""

    name = ""  # of the model, for people

    def __init__(
        self,
        what: str,
        module: str,
        arguments: tuple[str, ...],
        limits: ProcessLimits,
        on_done: Callable[[Workload], Any] | None = None,
    ) -> None:
        self.progress: tuple[str, float] = ("start", 0.0)
        self._what = what
        # -P: a folder `analysis` where the user happens to be must not be imported.
        self._words = (sys.executable, "-P", "-m", module, *arguments)
        self._limits = limits
        self._on_done = on_done
        self._child: Child | None = None
        self._is_cancelled = False
        self._done = threading.Event()
        self._result: Workload | None = None
        self._error: ModelError | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the subprocess. What it lacks is an error of the job, not of this call."""
        missing = self._missing_library()
        if missing is not None:
            self._finish(error=missing)
            return
        with self._lock:
            if self._is_cancelled or self._child is not None:
                return
            try:
                self._child = Child(self._command(), self._limits)
            except OSError as error:
                self._finish(error=CaptureError(f"cannot start a {self._what}: {error.strerror}"))
                return
        threading.Thread(target=self._watch, args=(self._child,), name="capture", daemon=True).start()

    @property
    def is_done(self) -> bool:
        """True once it has ended."""
        return self._done.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has ended, at most `timeout` seconds; whether it has."""
        return self._done.wait(timeout)

    def cancel(self) -> None:
        """Kill the subprocess and everything it started, now."""
        with self._lock:
            self._is_cancelled = True
            child = self._child
        if child is not None:
            child.end("cancelled")
        elif not self.is_done:
            self._finish(error=CaptureCancelledError(f"{self._what} cancelled"))

    def result(self, timeout: float | None = None) -> Workload:
        """Return the workload, once done. Raises the error the job ended with."""
        if not self._done.wait(timeout):
            raise CaptureError(f"{self._what} is still running ({self.progress[0]})")
        if self._result is None:
            raise self._error or CaptureError(f"{self._what} failed")
        return self._result

    def _command(self) -> tuple[str, ...]:
        return self._words

    def _missing_library(self) -> ModelError | None:
        return None

    def _explain(self, reason: str) -> ModelError:
        return CaptureError(reason)

    def _watch(self, child: Child) -> None:
        result: Workload | None = None
        error: ModelError | None = None
        try:
            answer = child.answer(self._report)
            result = decode(answer) if answer is not None else None
        except Refusal as reason:
            error = self._explain(str(reason))
        except ValueError as problem:
            error = CaptureError(f"{self._what} gave {problem}")
        if child.ending == "cancelled":
            result, error = None, CaptureCancelledError(f"{self._what} cancelled")
        elif result is None and error is None:
            error = CaptureError(f"{self._what} {child.why()} during {self.progress[0]}")
        self._finish(result, error)

    def _report(self, phase: str, fraction: float) -> None:
        self.progress = (phase, fraction)

    def _finish(self, result: Workload | None = None, error: ModelError | None = None) -> None:
        try:
            if result is not None and self._on_done is not None:
                self._on_done(result)
        except ModelError as failed:
            result, error = None, failed
        finally:  # whoever waits is not kept waiting
            self._result, self._error = result, error
            if result is not None:
                self.progress = ("done", 1.0)
            self._done.set()


class ModelCapture(WorkloadJob):
    """One capture. Construction checks that it is allowed, and that a model of the user's is there."""

    def __init__(
        self,
        ref: ModelRef,
        *,
        limits: ProcessLimits | None = None,
        on_done: Callable[[Workload], Any] | None = None,
    ) -> None:
        self._ref, self.name = ref, ref.label
        policy.require_unserved(f"capturing {ref.label}")
        if isinstance(ref, Target):
            policy.require_unserved(f"running {ref.label}")
            targets.source(ref)
        size = () if ref.image_size is None else ("--image-size", str(ref.image_size))
        default = USER_LIMITS if isinstance(ref, Target) else ProcessLimits()
        arguments = (*size, "--", str(ref))
        super().__init__(f"capture of {ref.label}", "analysis.capture", arguments, limits or default, on_done)

    def _missing_library(self) -> ModelError | None:
        needs_torchvision = isinstance(self._ref, zoo.Spec) and not self._ref.is_block
        for name in ("torch", "torchvision") if needs_torchvision else ("torch",):
            if importlib.util.find_spec(name) is None:
                return CaptureError(f"capturing {self._ref.label} needs {name}: {_INSTALL}")
        return None

    def _explain(self, reason: str) -> ModelError:
        at = f" at image size {self._ref.image_size}" if self._ref.image_size else ""
        return CaptureError(f"cannot capture {self._ref.label}{at}: {reason}")


class FileReading(WorkloadJob):
    """A file that is data (`.onnx`, `.pt2`): nothing of it runs, but it can be made to keep its reader busy."""

    def __init__(self, target: Target) -> None:
        targets.source(target)
        self.name = target.label
        arguments = ("--", str(target))
        super().__init__(f"reading of {self.name}", "analysis.annexes.readers", arguments, READ_LIMITS)

    def _explain(self, reason: str) -> ModelError:
        return UnreadableError(reason)


_POLL_S = 0.05


def run_all(
    jobs: Sequence[WorkloadJob], at_once: int, tick: Callable[[Sequence[WorkloadJob]], None] = lambda running: None
) -> None:
    """Run all jobs, `at_once` at a time. `tick` is called with those that run. An interrupt cancels them all."""
    waiting, running = list(jobs), list[WorkloadJob]()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(waiting.pop(0))
                running[-1].start()
            tick(running)
            running[0].wait(_POLL_S)
            running = [job for job in running if not job.is_done]
    except BaseException:
        for job in running:
            job.cancel()
        for job in running:
            job.wait(5.0)
        raise
