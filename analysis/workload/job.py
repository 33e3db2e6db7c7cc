"""A capture in a subprocess: start, watch, cancel, collect. No torch in this process."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import msgspec

from . import targets, zoo
from .errors import CaptureCancelledError, CaptureError, ModelError
from .workload import Workload, decode

_PACKAGES = Path(__file__).resolve().parents[2]  # the folder that holds `analysis`
_INSTALL = "pip install torch torchvision"
_MAX_BYTES = 1 << 30


class Limits(msgspec.Struct, frozen=True):
    """What a capture may take, and whether what it prints is seen (on standard error)."""

    seconds: float = 300.0
    memory_bytes: int | None = None
    show_output: bool = False


# For code that is not ours: torch itself needs about 1 GiB, weights none.
USER_LIMITS = Limits(seconds=120.0, memory_bytes=8 << 30)


class CaptureJob:
    """One capture. Construction checks the request; nothing runs before `start`."""

    def __init__(
        self,
        spec: str,
        image_size: int | None = None,
        *,
        limits: Limits | None = None,
        on_done: Callable[[Workload], Any] | None = None,
    ) -> None:
        self.spec: targets.Target | zoo.Spec
        target = targets.parse(spec)
        if target is not None:
            targets.source(target)
            self.spec, self.image_size, self.name = target, None, target.label
        else:
            self.spec, self.image_size = zoo.resolve(spec, image_size)
            self.name = str(self.spec)
        self.progress: tuple[str, float] = ("start", 0.0)
        self._limits = limits or (USER_LIMITS if target is not None else Limits())
        self._on_done = on_done
        self._process: subprocess.Popen[bytes] | None = None
        self._done = threading.Event()
        self._result: Workload | None = None
        self._error: ModelError | None = None
        self._ending: str = ""  # why we killed it: "cancelled" or "timeout"
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the subprocess. A missing torch is an error of the job, not of this call."""
        missing = [name for name in self._requires() if importlib.util.find_spec(name) is None]
        if missing:
            self._finish(error=CaptureError(f"capturing {self.name} needs {missing[0]}: {_INSTALL}"))
            return
        with self._lock:
            if self._ending or self._process is not None:
                return
            try:
                self._process = subprocess.Popen(
                    self._command(),
                    stdin=subprocess.PIPE,  # held open: its end tells the child that we are gone
                    stdout=subprocess.PIPE,
                    stderr=None if self._limits.show_output else subprocess.DEVNULL,
                    env=_environment(),
                    start_new_session=True,
                )
            except OSError as error:
                self._finish(error=CaptureError(f"cannot start a capture of {self.name}: {error.strerror}"))
                return
        threading.Thread(target=self._watch, name="capture", daemon=True).start()

    @property
    def done(self) -> bool:
        return self._done.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has ended, at most `timeout` seconds; whether it has."""
        return self._done.wait(timeout)

    def cancel(self) -> None:
        """Kill the subprocess and everything it started, now."""
        self._end("cancelled")

    def result(self, timeout: float | None = None) -> Workload:
        """The workload, once done. Raises the error the capture ended with."""
        if not self._done.wait(timeout):
            raise CaptureError(f"capture of {self.name} is still running ({self.progress[0]})")
        if self._result is None:
            raise self._error or CaptureError(f"capture of {self.name} failed")
        return self._result

    def _requires(self) -> tuple[str, ...]:
        needs_torchvision = isinstance(self.spec, zoo.Spec) and not self.spec.is_block
        return ("torch", "torchvision") if needs_torchvision else ("torch",)

    def _command(self) -> list[str]:
        # -P: a folder `analysis` where the user happens to be must not be imported.
        command = [sys.executable, "-P", "-m", "analysis.capture", "--watch", str(self.spec)]
        if self._limits.memory_bytes is not None:
            command += ["--memory", str(self._limits.memory_bytes)]
        if self.image_size is not None:
            command += ["--image-size", str(self.image_size)]
        return command

    def _end(self, why: str) -> None:
        with self._lock:
            if self._done.is_set():
                return
            self._ending = self._ending or why
            process = self._process
        if process is None:
            self._finish(error=CaptureCancelledError(f"capture of {self.name} cancelled"))
        elif process.poll() is None:
            # The child leads its own group, so whatever it started goes with it.
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)

    def _watch(self) -> None:
        process = self._process
        if process is None or process.stdout is None:
            raise RuntimeError("watching a capture that was not started")
        timer = threading.Timer(self._limits.seconds, self._end, args=("timeout",))
        timer.daemon = True
        timer.start()
        error: ModelError | None = None
        result: Workload | None = None
        try:
            result = self._read(process.stdout)
        except ModelError as found:
            error = found
        except (ValueError, KeyError, TypeError, OSError, msgspec.DecodeError):
            error = CaptureError(f"capture of {self.name} sent something unreadable")
        finally:
            timer.cancel()
            self._reap(process)
        if result is None and error is None:
            error = self._why_it_died(process.returncode)
        if self._ending == "cancelled":
            result, error = None, CaptureCancelledError(f"capture of {self.name} cancelled")
        self._finish(result, error)

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        if not self._ending and not _ended(process.pid):
            self._ending = "closed"  # it runs on, but says no more
        if process.returncode is None:  # once reaped, its number may be somebody else's
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _read(self, pipe: IO[bytes]) -> Workload | None:
        """Progress lines, then the workload; None where the stream just ends."""
        for line in pipe:
            message = json.loads(line)
            if "error" in message:
                raise CaptureError(self._explain(str(message["error"])))
            if "bytes" in message:
                size = int(message["bytes"])
                if not 0 <= size <= _MAX_BYTES:
                    raise ValueError(size)
                data = pipe.read(size)
                return decode(data) if len(data) == size else None
            self.progress = (str(message["phase"]), float(message["fraction"]))
        return None

    def _explain(self, reason: str) -> str:
        at = f" at image size {self.image_size}" if self.image_size else ""
        return f"cannot capture {self.name}{at}: {reason}"

    def _why_it_died(self, code: int) -> ModelError:
        if self._ending == "timeout":
            return CaptureError(f"capture of {self.name} took longer than {self._limits.seconds:g} s and was stopped")
        if self._ending == "closed":
            return CaptureError(f"capture of {self.name}: its code closed the pipe it answers on")
        ended = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        hint = " (out of memory?)" if code in (-signal.SIGKILL, -signal.SIGABRT) else ""
        return CaptureError(f"capture of {self.name} {ended}{hint} during {self.progress[0]}")

    def _finish(self, result: Workload | None = None, error: ModelError | None = None) -> None:
        if result is not None and self._on_done is not None:
            self._on_done(result)
        self._result, self._error = result, error
        if result is not None:
            self.progress = ("done", 1.0)
        self._done.set()


def _ended(pid: int) -> bool:
    """Whether a process that closed its pipe ends within a second. It is not reaped: while it has its number, so has
    its group, and what it started can be killed."""
    if not hasattr(os, "waitid"):
        return True
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        with contextlib.suppress(ChildProcessError):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
                return True
        time.sleep(0.005)
    return False


def _environment() -> dict[str, str]:
    """Ours, with this package importable and one thread: tracing does not need more."""
    paths = [str(_PACKAGES), *filter(None, [os.environ.get("PYTHONPATH", "")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
