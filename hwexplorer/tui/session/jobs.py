"""Background jobs: started off the event loop, polled from it, cancelled at any time."""

from __future__ import annotations

import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from hwexplorer.export.sheet import Sheet, decode
from hwexplorer.process import relaunch
from hwexplorer.process.output import WIDTH_VARIABLE
from hwexplorer.state import State

if TYPE_CHECKING:
    from hwexplorer.screen_queries import ScreenQueries

OUTPUT_MAX = 2_000_000  # bytes: longer output is cut, and says so
WIDTH_MIN = 40
STOP_S = 2.0  # how long a verb may take to end its children before all of them are killed


class BackgroundJob(ABC):
    """A job beside the screen, which can be cancelled. The thread that polls it calls `finish` with it once it is done.
    `progress` is (phase, fraction done); the fraction is negative if unknown."""

    replaces_model: ClassVar[bool]  # True if the screen shows an old model until the job is done
    stop_message: ClassVar[str]

    def __init__(self, name: str, finish: Callable[[Any], None]) -> None:
        self.name, self.finish = name, finish
        self.progress = (name, -1.0)
        self.started = monotonic()

    @abstractmethod
    def start(self) -> None:
        """Start the job without waiting."""

    @abstractmethod
    def is_done(self) -> bool:
        """Return True if the job has ended. Never waits."""

    @abstractmethod
    def error(self) -> str:
        """Return what went wrong in one line, '' if nothing did."""

    def cancel(self) -> None:
        """Stop the job without waiting."""
        Thread(target=self.end, daemon=True).start()

    @abstractmethod
    def end(self) -> None:
        """Stop the job and everything it started, and wait until it is gone."""


class ModelCaptureJob(BackgroundJob):
    """Captures the model of a state, or reads the state's trace."""

    replaces_model, stop_message = True, "cancelled"

    def __init__(self, state: State, provider: ScreenQueries, finish: Callable[[Any], None]) -> None:
        self.state, self._capture, self._keep = state, provider.capture(state), provider.keep
        super().__init__(state.model, finish)
        self._failure = ""

    def start(self) -> None:
        self._capture.start()

    def is_done(self) -> bool:
        phase, fraction = self._capture.progress
        self.progress = (f"{self.state.model}: {phase}", fraction)
        if not self._capture.is_done:
            return False
        try:
            self._keep(self.state, self._capture.result())
        except Exception as error:  # shown on screen by `error`
            self._failure = str(error) or type(error).__name__
        return True

    def error(self) -> str:
        # The message names the shell's option; in a `:` line the shape follows the model's name without it.
        return " ".join(self._failure.split()).replace("--input ", "")

    def end(self) -> None:
        self._capture.cancel()


class VerbJob(BackgroundJob):
    """Runs a verb in its own process, so that it can be stopped. `words` are the command line after `hwexplorer`; the
    output is `width` cells wide."""

    replaces_model, stop_message = False, "stopped"

    def __init__(self, words: list[str], width: int, finish: Callable[[Any], None]) -> None:
        super().__init__(words[0], finish)
        self.words, self._width = words, max(WIDTH_MIN, width)
        self._process: subprocess.Popen[bytes] | None = None
        self._out, self._err = b"", b""
        self._code: int | None = None
        self._is_cancelled = False
        self._thread = Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

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
        return self._code is not None

    def end(self) -> None:
        self._is_cancelled = True
        if self._process is not None and self._code is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_S)
            self._kill()
        self._thread.join(STOP_S)

    def _kill(self) -> None:
        # The verb leads its own process group, so this kills its children too.
        if self._process is not None:
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def error(self) -> str:
        """Return the last line of standard error if the verb failed and printed nothing, else ''."""
        if not self._code or self._out.strip():
            return ""
        lines = self._err.decode(errors="replace").strip().splitlines()
        return (lines[-1] if lines else f"{self.name} ended with {self._code}").removeprefix("hwexplorer: ")

    def sheet(self) -> Sheet:
        """Return what the verb printed: the sheet if it is a report, else the text, cut at OUTPUT_MAX bytes."""
        with suppress(msgspec.MsgspecError):
            return decode(self._out)
        text = self._out[:OUTPUT_MAX].decode(errors="replace").replace("\r", "").rstrip()
        if len(self._out) > OUTPUT_MAX:
            text += "\n... and more, cut here: run it in a shell with -o FILE"
        return Sheet(" ".join(self.words), text)
