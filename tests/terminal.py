"""A program in a pseudo-terminal of our size: started, typed at, timed. Used by benchmarks and by the recording."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic

import msgspec

SIZE = (120, 40)
QUIET = 0.06  # no byte for so long: the repaint is over
PATIENCE = 20.0
ESCAPE = re.compile(rb"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|P[^\x1b]*\x1b\\|[@-Z\\-_])")


class Repaint(msgspec.Struct, frozen=True):
    """Seconds from a key to the first and to the last byte of what it changed, and how much that was."""

    first: float
    last: float
    written: bytes


class Program:
    def __init__(
        self,
        words: Sequence[str],
        size: tuple[int, int] = SIZE,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.words = words
        self.started = monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            self._become(words, size, environment or {}, folder)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))

    @staticmethod
    def _become(
        words: Sequence[str], size: tuple[int, int], environment: Mapping[str, str], folder: Path | None
    ) -> None:
        """In the child: the terminal has its size before the program can ask for it."""
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", **environment}
        os.environ.pop("NO_COLOR", None)
        if folder is not None:
            os.chdir(folder)
        os.execv(words[0], list(words))

    def read(self, timeout: float) -> bytes:
        if not select.select([self.fd], [], [], timeout)[0]:
            return b""
        try:
            return os.read(self.fd, 1 << 16)
        except OSError:
            return b""

    def until(self, shown: re.Pattern[bytes]) -> float:
        """Seconds from the start of the process until this text is on screen. SystemExit if it never is."""
        seen = b""
        while monotonic() - self.started < PATIENCE:
            seen += self.read(0.5)
            if shown.search(ESCAPE.sub(b"", seen)):
                return monotonic() - self.started
        told = ESCAPE.sub(b"", seen)[-1000:].decode(errors="replace")
        raise SystemExit(f"{' '.join(self.words)} did not show {shown.pattern!r} in {PATIENCE:.0f} s: {told}")

    def type(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def gather(self, quiet: float) -> bytes:
        """All that is written until nothing has been for so long."""
        written = b""
        while part := self.read(quiet):
            written += part
        return written

    def settle(self, quiet: float = 0.6, patience: float = 5.0) -> None:
        """Until nothing has been written for so long, or patience ends (a cursor may blink for ever)."""
        start = monotonic()
        while self.read(quiet) and monotonic() - start < patience:
            pass

    def key(self, key: bytes) -> Repaint | None:
        """What a key does; None when it writes nothing."""
        self.type(key)
        start = first = last = monotonic()
        written = b""
        while monotonic() - last < (QUIET if written else 1.0):
            if part := self.read(QUIET):
                last = monotonic()
                first = first if written else last
                written += part
        return Repaint(first - start, last - start, written) if written else None

    def idle(self, seconds: float) -> int:
        """Bytes that come without a key."""
        end, count = monotonic() + seconds, 0
        while (left := end - monotonic()) > 0:
            count += len(self.read(left))
        return count

    def memory(self) -> float:
        """MB resident."""
        with open(f"/proc/{self.pid}/status") as status:
            return next(int(line.split()[1]) / 1e3 for line in status if line.startswith("VmRSS"))

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)
