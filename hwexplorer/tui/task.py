"""A verb of the command line run beside the screen: in a process of its own, to be waited for or stopped."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

import msgspec

from hwexplorer import itself
from hwexplorer.export.sheet import Sheet, decode
from hwexplorer.tui.job import Job

if TYPE_CHECKING:
    from hwexplorer.tui.session import Session

OUTPUT_MAX = 2_000_000  # bytes: what is longer is cut, and says so
LEAVE_S = 2.0  # to end what the verb itself has started, before all of it is killed


class Task(Job):
    """`words` are those after `hwexplorer`; what it prints is as wide as the screen."""

    dims, stopped = False, "stopped"

    def __init__(self, words: list[str], width: int) -> None:
        super().__init__(words[0])
        self.words, self._width = words, width
        self._process: subprocess.Popen[bytes] | None = None
        self._out, self._err = b"", b""
        self._code: int | None = None
        self._cancelled = False

    def _run(self) -> None:
        try:
            ours, theirs = _terminal(self._width)
            self._process = subprocess.Popen(
                itself.command(self.words),
                env=itself.environment(),
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            if self._cancelled:
                self._kill()
            os.close(theirs)
            errors = Thread(target=self._read_errors, daemon=True)
            errors.start()
            self._out = _all(ours)
            errors.join()
            code = self._process.wait()
        except OSError as error:
            self._err, code = str(error).encode(), 1
        self._code = code

    def _read_errors(self) -> None:
        if self._process is not None and self._process.stderr is not None:
            with self._process.stderr as stream:
                self._err = stream.read()

    def done(self) -> bool:
        return self._code is not None

    def finish(self, session: Session) -> None:
        session.stage.present(self.name, self.sheet())

    def end(self) -> None:
        self._cancelled = True
        if self._process is not None and self._code is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(LEAVE_S)
            self._kill()
        self._thread.join(LEAVE_S)

    def _kill(self) -> None:
        """It leads a group of its own."""
        if self._process is not None:
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def error(self) -> str:
        """One line where it went wrong and printed nothing, else ''."""
        if not self._code or self._out.strip():
            return ""
        said = self._err.decode(errors="replace").strip().splitlines()
        return (said[-1] if said else f"{self.name} ended with {self._code}").removeprefix("hwexplorer: ")

    def sheet(self) -> Sheet:
        """What it printed: a sheet where it was asked for one, else the text."""
        with suppress(msgspec.MsgspecError):
            return decode(self._out)
        text = self._out[:OUTPUT_MAX].decode(errors="replace").replace("\r", "").rstrip()
        if len(self._out) > OUTPUT_MAX:
            text += "\n... and more, cut here: run it in a shell with -o FILE"
        return Sheet(" ".join(self.words), text)


def _terminal(width: int) -> tuple[int, int]:
    """(end to read, end to write): a terminal of our width, or a pipe where there are none."""
    try:
        import fcntl
        import pty
        import struct
        import termios

        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, max(40, width), 0, 0))
        settings = termios.tcgetattr(theirs)
        settings[1] &= ~termios.OPOST  # lines end as they are written
        termios.tcsetattr(theirs, termios.TCSANOW, settings)
        return ours, theirs
    except (ImportError, OSError):
        return os.pipe()


def _all(descriptor: int) -> bytes:
    parts = []
    while True:
        try:
            part = os.read(descriptor, 1 << 16)
        except OSError:  # how a terminal ends
            break
        if not part:
            break
        parts.append(part)
    os.close(descriptor)
    return b"".join(parts)
