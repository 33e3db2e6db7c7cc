"""The asking side of a subprocess under limits, which answers in lines, then in one block of bytes.

No output of the subprocess makes this side hang or run out of memory: the length and number of lines, the answer and
the time are bounded. Control characters are removed from its messages.
"""

import contextlib
import json
import math
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

import msgspec

from analysis.model.model_errors import ModelError
from analysis.model.process.process_limits import ProcessLimits
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
