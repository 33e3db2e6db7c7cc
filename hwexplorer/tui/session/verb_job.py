"""A verb of the command line as a background job: in a process of its own, so that it can be stopped."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from hwexplorer.export.sheet import Sheet, decode
from hwexplorer.process import relaunch
from hwexplorer.process.output import WIDTH_VARIABLE
from hwexplorer.tui.session.background_job import BackgroundJob

OUTPUT_MAX = 2_000_000  # bytes: longer output is cut, and says so
WIDTH_MIN = 40
STOP_S = 2.0  # for the verb to end what it has started, before all of it is killed


class VerbJob(BackgroundJob):
    """`words` are those after `hwexplorer`; the output is `width` cells wide."""

    replaces_model, stop_message = False, "stopped"

    def __init__(self, words: list[str], width: int, finish: Callable[[Any], None]) -> None:
        super().__init__(words[0], finish)
        self.words, self._width = words, max(WIDTH_MIN, width)
        self._process: subprocess.Popen[bytes] | None = None
        self._out, self._err = b"", b""
        self._code: int | None = None
        self._is_cancelled = False

    def _run(self) -> None:
        try:
            self._process = subprocess.Popen(
                relaunch.command(self.words),
                env=relaunch.environment() | {WIDTH_VARIABLE: str(self._width)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            if self._is_cancelled:
                self._kill()
            self._out, self._err = self._process.communicate()
            self._code = self._process.returncode
        except OSError as error:
            self._err, self._code = str(error).encode(), 1

    def is_done(self) -> bool:
        """Return True when there is nothing more to wait for."""
        return self._code is not None

    def end(self) -> None:
        """Stop the work and wait until it is gone."""
        self._is_cancelled = True
        if self._process is not None and self._code is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_S)
            self._kill()
        self._thread.join(STOP_S)

    def _kill(self) -> None:
        # The verb leads a process group of its own.
        if self._process is not None:
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def error(self) -> str:
        """Return the last line of standard error where the verb failed and printed nothing, else ''."""
        if not self._code or self._out.strip():
            return ""
        lines = self._err.decode(errors="replace").strip().splitlines()
        return (lines[-1] if lines else f"{self.name} ended with {self._code}").removeprefix("hwexplorer: ")

    def sheet(self) -> Sheet:
        """Return what the verb printed: the sheet of a report, else the text."""
        with suppress(msgspec.MsgspecError):
            return decode(self._out)
        text = self._out[:OUTPUT_MAX].decode(errors="replace").replace("\r", "").rstrip()
        if len(self._out) > OUTPUT_MAX:
            text += "\n... and more, cut here: run it in a shell with -o FILE"
        return Sheet(" ".join(self.words), text)
