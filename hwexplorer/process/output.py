"""Write the output of a command to standard output or a file, and one line to standard error."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from hardware.base.text import safe
from hwexplorer.export import files

if TYPE_CHECKING:
    from threading import Event, Thread

_BEAT_S = 0.5
_TICK_S = 0.1  # least time between two updates of a count
WIDTH_VARIABLE = "HWEXPLORER_WIDTH"  # set by the screen for verbs that it starts: they overwrite no file


class OutputError(Exception):
    """The output cannot be written, or a check such as `--strict` fails. The exit code is 1, the message one line."""


def may_overwrite() -> bool:
    """Return True for a command line, whose user typed it for a shell."""
    return WIDTH_VARIABLE not in os.environ


def target_file(arguments: argparse.Namespace) -> Path | None:
    """Return the file of `--output`, None without one. Raises RequestError if it cannot be written."""
    if arguments.output is None:
        return None
    files.check(target := Path(arguments.output), overwrite=may_overwrite())
    return target


def emit(
    arguments: argparse.Namespace,
    make: Callable[[str], str],
    suffixes: Mapping[str, str] = files.SUFFIXES,
) -> None:
    """Make the output in the format of `--format`, else of the file's suffix. Write it to `--output` or print it."""
    target = target_file(arguments)  # fail before the work, not after it
    text = make(arguments.format or (files.format_of(target, suffixes) if target is not None else "text"))
    if target is not None:
        files.write(target, text, overwrite=may_overwrite())
        say(f"{target} is written")
    else:
        put(text)


def put(text: str) -> None:
    """Write to standard output, in ASCII if its encoding lacks a character. Raises OutputError."""
    out = sys.stdout
    if out is None:
        raise OutputError("standard output is closed")
    try:
        text.encode(out.encoding or "utf-8", out.errors or "strict")
    except UnicodeEncodeError:
        from hwexplorer.text.number_format import to_ascii  # imported late: few terminals need it

        text = to_ascii(text)
    try:
        out.write(text)
        out.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write to standard output: {error.strerror or error}") from None


def is_terminal() -> bool:
    """Return True if standard output is a terminal. The screen's stand-in has -1 for a file."""
    return sys.stdout is not None and sys.stdout.isatty() and sys.stdout.fileno() >= 0


def width() -> int:
    """Return the columns of the terminal, else the width that the screen sets for a verb, else 0 (no limit)."""
    if not is_terminal():
        width = os.environ.get(WIDTH_VARIABLE, "")
        return int(width) if width.isdecimal() and len(width) < 9 else 0
    return os.get_terminal_size(sys.stdout.fileno()).columns


def complain(message: str, code: int = 1) -> int:
    """Write an error as one line on standard error and return the exit code, which alone reports it if that fails."""
    say(f"hwexplorer: {' '.join(message.split())}")
    return code


def say(line: str) -> None:
    """Write one line on standard error, without characters that control the terminal."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(safe(line), file=sys.stderr, flush=True)


class Progress:
    """A progress line on standard error, if that is a terminal. Each update overwrites it, and the end of the block
    clears it, also after an error. If `_BEAT_S` pass without an update, it shows the elapsed time."""

    _shown_s = 0.0  # when any instance was last shown

    def __init__(self) -> None:
        self.is_shown = sys.stderr is not None and sys.stderr.isatty()
        self._line = ""
        self._beats: tuple[Event, Thread] | None = None  # the thread that shows the elapsed time, after its end event

    def __enter__(self) -> Progress:
        if self.is_shown:
            from threading import Event, Thread  # imported late: takes a millisecond

            ends = Event()
            self._beats = ends, Thread(target=self._beat, args=(ends, monotonic()), daemon=True)
            self._beats[1].start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._beats is not None:
            self._beats[0].set()
            self._beats[1].join()
        if self._line:
            self.show("")

    def _beat(self, ends: Event, started_s: float) -> None:
        while not ends.wait(_BEAT_S):
            if monotonic() - Progress._shown_s > _BEAT_S:
                self.show(f"working: {monotonic() - started_s:.0f} s")

    def show(self, line: str) -> None:
        """Show a line, cut to the width of the terminal: a wrapped line could not be overwritten."""
        if self.is_shown:
            from shutil import get_terminal_size

            Progress._shown_s = monotonic()
            self._line = safe(line)[: get_terminal_size().columns - 1]
            print(f"\r\x1b[K{self._line}", end="", file=sys.stderr, flush=True)

    def ticking(self, what: str) -> Callable[[int, int], None] | None:
        """Return a function of (done, total) that shows the count; None if no progress is shown."""

        def tick(done: int, total: int) -> None:
            """Show the count, unless one was shown a moment ago."""
            if done >= total or not self._line or monotonic() - Progress._shown_s > _TICK_S:
                self.show(f"{what}: {done:,} of {total:,}" if done < total else "")

        return tick if self.is_shown else None
