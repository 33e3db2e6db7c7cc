"""A program in a pseudo-terminal of our size: started, typed at, timed. Used by benchmarks and by the recording."""

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
from time import monotonic, sleep
from typing import Any

import msgspec

SIZE = (120, 40)
QUIET = 0.06  # no byte for so long: the repaint is over
PATIENCE = 120.0  # on a machine where much else runs
ESCAPE = re.compile(rb"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|P[^\x1b]*\x1b\\|[@-Z\\-_])")


def hear() -> None:
    """In a child, before its program runs: signals that those who run the tests ignore (`nohup`, a job of a script)."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


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
        self.written = bytearray()
        self.code: int | None = None  # of its end; below 0 the signal that killed it
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
        hear()
        os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", **environment}
        os.environ.pop("NO_COLOR", None)
        if folder is not None:
            os.chdir(folder)
        os.execv(words[0], list(words))

    def read(self, timeout: float) -> bytes:
        if not select.select([self.fd], [], [], timeout)[0]:
            return b""
        try:
            part = os.read(self.fd, 1 << 16)
        except OSError:
            return b""
        self.written += part
        return part

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

    def processor(self) -> float:
        """Seconds of processor it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def settings(self) -> list[Any]:
        """What `stty -a` shows."""
        return termios.tcgetattr(self.fd)

    def hang_up(self) -> None:
        """The window is closed."""
        os.close(self.fd)
        self.fd = -1

    def ended(self, patience: float = PATIENCE) -> int | None:
        """The exit code, once it has ended by itself; what it writes is read meanwhile. None: it has not."""
        deadline = monotonic() + patience
        while self.code is None and monotonic() < deadline:
            if self.fd < 0 or not self.read(0.02):
                sleep(0.02)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        while self.fd >= 0 and self.read(0.05):
            pass
        return self.code

    def end(self) -> None:
        if self.code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        if self.fd >= 0:
            os.close(self.fd)


# Modes of a terminal that are on before any program runs: lines wrap, the cursor is seen.
MODES = frozenset({"?7", "?25"})


def modes(written: bytes) -> frozenset[str]:
    """The private modes that are on after this was written, and `keyboard` where the keyboard protocol still is."""
    on, depth = set(MODES), 0
    for match in re.finditer(rb"\x1b\[(?:\?([\d;]+)([hl])|([<>])\d*u)", written):
        names = {f"?{number}" for number in (match[1] or b"").decode().split(";") if number}
        on = on | names if match[2] == b"h" else on - names
        depth += {b">": 1, b"<": -1}.get(match[3], 0)
    return frozenset(on | ({"keyboard"} if depth else set()))


def processes(mark: str) -> list[str]:
    """Command lines of all that run with this word in their environment, zombies left out."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found
