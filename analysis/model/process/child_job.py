"""Jobs in a subprocess under limits: start, watch, cancel, collect. `child.py` is the side that works.

Nothing that the subprocess sends makes this side hang or run out of memory: the length and number of messages and the
time are bounded, and nothing is unpickled. Control characters are removed from its texts. This module does not import
torch. `multiprocessing` would import the user's main module again: a script without a guard, or standard input.
"""

import contextlib
import importlib.util
import math
import os
import signal
import socket
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, wait
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from analysis.model.ir.workload import Workload, decode
from analysis.model.model_errors import CaptureCancelledError, CaptureError, ModelError, UnreadableError
from analysis.model.names import targets, zoo
from analysis.model.names.model_ref import ModelRef
from analysis.model.names.targets import Target
from analysis.model.process import child
from analysis.model.reading_budget import READ_LIMITS, USER_LIMITS, ProcessLimits
from hardware.base.text import safe

# The folder of our outermost package: `analysis`, or `hwexplorer` in an installed wheel, which contains it.
_PACKAGES = Path(__file__).resolve().parents[__name__.count(".")]
_MODEL = __name__.partition(".process.")[0]
_MESSAGES_MAX, _BYTES_MAX = 10_000, 1 << 27
_PATIENCE_S = 1.0  # for the end of a subprocess that closed its pipe

Answer = TypeVar("Answer")


class ChildJob(ABC, Generic[Answer]):
    """A job that calls `work` (`module:function`) in another process. `what` is the subject of its messages."""

    # -P: a folder `analysis` in the user's working directory must not be imported.
    command: tuple[str, ...] = (sys.executable, "-P", "-m", child.__name__)
    name = ""  # display name of the model

    def __init__(
        self,
        what: str,
        work: str,
        arguments: tuple[str, ...],
        limits: ProcessLimits,
        on_done: Callable[[Answer], Any] | None = None,
    ) -> None:
        self.progress: tuple[str, float] = ("start", 0.0)
        self.what = what
        self.process: subprocess.Popen[bytes] | None = None
        self._words = (work, *arguments)
        self._limits = limits
        self._on_done = on_done
        self._ending = ""  # why it ended: "answered", "cancelled", "timeout", "unreadable" or "closed"
        self._is_started = False
        self._future: Future[Answer] = Future()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the subprocess. A missing library or a failed start is raised by `result`, not here."""
        with self._lock:
            is_first, self._is_started = not self._is_started, True
        if is_first:
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
            is_unstarted, self._is_started = not self._is_started, True
        self._end("cancelled")
        if is_unstarted:
            self._watch()

    def result(self, timeout: float | None = None) -> Answer:
        """Wait for the job and return its result. Raises its error, or CaptureError after `timeout` seconds."""
        if wait([self._future], timeout).not_done:
            raise CaptureError(f"{self.what} is still running ({self.progress[0]})")
        return self._future.result()

    @abstractmethod
    def _decode(self, answer: bytes) -> Answer:
        """Return the result that the bytes of the answer encode. Raises ValueError."""

    def _missing_library(self) -> str:
        """Return what to say about a library that the work needs and this machine lacks, else ''."""
        return ""

    def _explain(self, reason: str) -> ModelError:
        return CaptureError(reason)

    def _watch(self) -> None:
        """Run the subprocess from start to end, in one thread: on Linux it ends with the thread."""
        result: Answer | None = None
        error: ModelError | None = None
        try:
            result = self._collect()
        except ModelError as problem:
            error = problem
        except OSError as problem:
            error = CaptureError(f"cannot start a {self.what}: {problem.strerror}")
        if self._ending == "cancelled":
            result, error = None, CaptureCancelledError(f"{self.what} cancelled")
        self._finish(result, error)

    def _collect(self) -> Answer:
        """Return the result of the subprocess. Afterwards its process group is dead. Raises ModelError."""
        if missing := self._missing_library():
            raise CaptureError(missing)
        self._ours, theirs = socket.socketpair()
        with self._ours, theirs, Connection(os.dup(self._ours.fileno())) as pipe:
            process = self._start_process(theirs)
            theirs.close()
            timer = threading.Timer(self._limits.seconds, self._end, ("timeout",))
            timer.daemon = True
            timer.start()
            ending = "unreadable"
            try:
                for _ in range(_MESSAGES_MAX):
                    message = msgspec.msgpack.decode(pipe.recv_bytes(_BYTES_MAX), type=child.Message)
                    if message.error is not None:
                        raise self._explain(_line(message.error))
                    if message.answer is not None:
                        return self._decode(message.answer)
                    fraction = min(max(message.fraction, 0.0), 1.0) if math.isfinite(message.fraction) else 0.0
                    self.progress = (_line(message.phase), fraction)
            except EOFError:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_PATIENCE_S)
                ending = "" if process.returncode is not None else "closed"
            except ModelError:  # a ValueError as well
                raise
            except (OSError, RecursionError, msgspec.MsgspecError):
                pass
            except ValueError as problem:
                raise CaptureError(f"{self.what} gave {problem}") from None
            finally:
                timer.cancel()
                self._end(ending)
                process.wait()
        raise CaptureError(f"{self.what} {self._why(process.returncode)} during {self.progress[0]}")

    def _start_process(self, pipe: socket.socket) -> subprocess.Popen[bytes]:
        allowed = msgspec.json.encode(self._limits).decode()
        paths = [str(_PACKAGES), *filter(None, [os.environ.get("PYTHONPATH", "")])]
        output = 2 if self._limits.show_output else subprocess.DEVNULL
        with self._lock:
            if self._ending:
                raise CaptureCancelledError
            self.process = subprocess.Popen(
                [*self.command, str(pipe.fileno()), str(os.getpid()), allowed, *self._words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[pipe.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},  # enough to trace
                start_new_session=True,
            )
        return self.process

    def _end(self, why: str) -> None:
        """Kill the process group of the subprocess and end the pipe now. Only the first reason is kept."""
        with self._lock, contextlib.suppress(OSError):
            self._ending = self._ending or why
            if self.process is not None:
                self._ours.shutdown(socket.SHUT_RD)  # a process that left the group may hold the other end
                os.killpg(self.process.pid, signal.SIGKILL)

    def _why(self, code: int) -> str:
        """Return why the answer is missing, as the end of a sentence whose subject is the work."""
        if self._ending == "timeout":
            return f"took longer than {self._limits.seconds:g} s and was stopped"
        if self._ending == "closed":
            return "closed the pipe for its answer"
        if self._ending == "unreadable":
            return "sent something unreadable"
        if code == -signal.SIGXCPU:
            return f"took more than {self._limits.seconds:g} s of processor time and was stopped"
        if code < 0:
            hint = " (out of memory?)" if code in (-signal.SIGKILL, -signal.SIGABRT) else ""
            return f"was killed by signal {-code}{hint}"
        if code == 127:  # of the dynamic loader
            return "could not load its libraries (out of memory?)"
        return f"ended with code {code}"

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


def _line(text: str) -> str:
    return " ".join(safe(text, child.TEXT_MAX).split())


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
        default = USER_LIMITS if isinstance(ref, Target) else ProcessLimits()
        work = f"{_MODEL.removesuffix('.model')}.capture.capture:encoded_capture"
        words = (str(ref), str(ref.image_size or ""))
        super().__init__(f"capture of {ref.label}", work, words, limits or default, on_done)

    def _missing_library(self) -> str:
        for name in ("torch", "torchvision") if isinstance(self._ref, zoo.Spec) else ("torch",):
            if importlib.util.find_spec(name) is None:
                return f"capturing {self._ref.label} needs {name}: pip install torch torchvision"
        return ""

    def _explain(self, reason: str) -> ModelError:
        at = f" at image size {self._ref.image_size}" if self._ref.image_size else ""
        return CaptureError(f"cannot capture {self._ref.label}{at}: {reason}")


class FileReading(WorkloadJob):
    """The reading of a data file (`.onnx`). None of it runs, but a malicious file could occupy its reader for long."""

    def __init__(self, target: Target, limits: ProcessLimits = READ_LIMITS) -> None:
        targets.source(target)
        self.name = target.label
        super().__init__(f"reading of {self.name}", f"{_MODEL}.store:encoded_file", (str(target),), limits)

    def _explain(self, reason: str) -> ModelError:
        return UnreadableError(reason)
