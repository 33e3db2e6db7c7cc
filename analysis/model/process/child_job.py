"""Jobs in a subprocess under limits: start, watch, cancel, collect. It answers in lines, then in one block of bytes.

No output of the subprocess makes this side hang or run out of memory: the length and number of lines, the answer and
the time are bounded. Control characters are removed from its messages. This module does not import torch.
"""

import contextlib
import importlib.util
import json
import math
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

import msgspec

from analysis.model.ir.workload import Workload, decode
from analysis.model.model_errors import CaptureCancelledError, CaptureError, ModelError, UnreadableError
from analysis.model.names import targets, zoo
from analysis.model.names.model_ref import ModelRef
from analysis.model.names.targets import Target
from analysis.model.reading_budget import READ_LIMITS, USER_LIMITS, ProcessLimits
from hardware.base.text import safe

# The folder of our outermost package: `analysis`, or `hwexplorer` in an installed wheel, which contains it.
_PACKAGES = Path(__file__).resolve().parents[__name__.count(".")]
_LIMITED_COMMAND = str(Path(__file__).with_name("limited_command.py"))
_LINE_MAX, _LINES_MAX, _ANSWER_MAX = 1 << 16, 10_000, 1 << 27
_TEXT_MAX = 2000
_POLL_S = 0.5
_PATIENCE_S = 1.0  # for the end of a command that closed its pipe


class Refusal(ModelError):
    """The subprocess refused the request; the message is its reason in one line."""


class _Message(msgspec.Struct):
    """A line of the subprocess: progress, an error, or the length of the answer that follows."""

    phase: str = ""
    fraction: float = 0.0
    error: str | None = None
    bytes: int | None = None


class Child:
    """A running command. Construction starts it, in the thread with which it ends, and raises OSError if that fails."""

    def __init__(self, command: Sequence[str], limits: ProcessLimits) -> None:
        self.limits = limits
        self.ending = ""  # why it was ended: "answered", "cancelled", "timeout", "unreadable" or "closed"
        self._lock = threading.Lock()
        self._until_s = time.monotonic() + limits.seconds
        paths = [str(_PACKAGES), *filter(None, [os.environ.get("PYTHONPATH", "")])]
        allowed = {"memory_bytes": limits.memory_bytes, "cpu_s": limits.seconds, "parent": os.getpid()}
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", _LIMITED_COMMAND, json.dumps(allowed), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if limits.show_output else subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},  # enough to trace
            start_new_session=True,
        )

    def answer(self, report: Callable[[str, float], None]) -> bytes | None:
        """Return the answer, or None without one. Afterwards its process group is dead. Raises `Refusal`."""
        over = "answered"
        try:
            answer = self._answer(report)
            if answer is None and not self.ending:
                over = "" if self._has_ended() else "closed"  # it still runs but closed its pipe
            return answer
        except Refusal:
            raise
        except (ValueError, OSError, RecursionError, msgspec.DecodeError):
            over = "unreadable"
            return None
        finally:
            self.end(over)
            self.process.wait()
            if self.process.stdout is not None:
                self.process.stdout.close()

    def end(self, why: str) -> None:
        """Kill the process group of the command now. Thread-safe; only the first reason is kept."""
        with self._lock:
            self.ending = self.ending or why
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def why(self) -> str:
        """Return why the answer is missing, as the end of a sentence whose subject is the command."""
        code = self.process.returncode
        if self.ending == "timeout":
            return f"took longer than {self.limits.seconds:g} s and was stopped"
        if self.ending == "closed":
            return "closed the pipe for its answer"
        if self.ending == "unreadable":
            return "sent something unreadable"
        if code == -signal.SIGXCPU:
            return f"took more than {self.limits.seconds:g} s of processor time and was stopped"
        if code < 0:
            hint = " (out of memory?)" if code in (-signal.SIGKILL, -signal.SIGABRT) else ""
            return f"was killed by signal {-code}{hint}"
        return f"ended with code {code}"

    def _answer(self, report: Callable[[str, float], None]) -> bytes | None:
        pipe = self.process.stdout
        assert pipe is not None
        os.set_blocking(pipe.fileno(), False)
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            got = bytearray()
            for _ in range(_LINES_MAX):
                while b"\n" not in got:
                    if len(got) > _LINE_MAX:
                        raise ValueError("a line that is too long")
                    if not self._read_more(selector, pipe, got):
                        return None
                line, _, rest = bytes(got).partition(b"\n")
                got[:] = rest
                message = msgspec.json.decode(line, type=_Message)
                if message.error is not None:
                    raise Refusal(_line(message.error))
                if message.bytes is None:
                    known = math.isfinite(message.fraction)
                    report(_line(message.phase), min(max(message.fraction, 0.0), 1.0) if known else 0.0)
                    continue
                if not 0 <= message.bytes <= _ANSWER_MAX:
                    raise ValueError("an answer that is too large")
                while len(got) < message.bytes:
                    if not self._read_more(selector, pipe, got):
                        return None
                return bytes(memoryview(got)[: message.bytes])
        raise ValueError("too many lines")

    def _read_more(self, selector: selectors.BaseSelector, pipe: IO[bytes], got: bytearray) -> bool:
        """Wait for bytes and append them. Return False at the end of the pipe or of the time."""
        while True:
            now = time.monotonic()
            if now > self._until_s:
                self.end("timeout")
            if self.ending:
                return False
            if selector.select(min(_POLL_S, max(self._until_s - now, 0.0) + 0.01)):
                data = os.read(pipe.fileno(), _LINE_MAX)
                got += data
                return bool(data)

    def _has_ended(self) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_PATIENCE_S)
        return self.process.returncode is not None


def _line(text: str) -> str:
    return " ".join(safe(text, _TEXT_MAX).split())


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


_INSTALL = "pip install torch torchvision"
_CAPTURE = f"{__name__.partition('.model.')[0]}.capture"


class WorkloadJob(ChildJob[Workload]):
    """A job whose result is a workload."""

    def _decode(self, answer: bytes) -> Workload:
        return decode(answer)


class ModelCapture(WorkloadJob):
    """One capture. Construction checks that the file of a user's model exists."""

    def __init__(
        self,
        ref: ModelRef,
        *,
        limits: ProcessLimits | None = None,
        on_done: Callable[[Workload], Any] | None = None,
    ) -> None:
        self._ref, self.name = ref, ref.label
        if isinstance(ref, Target):
            targets.source(ref)
        size = () if ref.image_size is None else ("--image-size", str(ref.image_size))
        default = USER_LIMITS if isinstance(ref, Target) else ProcessLimits()
        arguments = (*size, "--", str(ref))
        super().__init__(f"capture of {ref.label}", _CAPTURE, arguments, limits or default, on_done)

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
    """The reading of a data file (`.onnx`). None of it runs, but a malicious file could occupy its reader for long."""

    def __init__(self, target: Target) -> None:
        targets.source(target)
        self.name = target.label
        arguments = ("--", str(target))
        super().__init__(f"reading of {self.name}", f"{__package__}.answering", arguments, READ_LIMITS)

    def _explain(self, reason: str) -> ModelError:
        return UnreadableError(reason)
