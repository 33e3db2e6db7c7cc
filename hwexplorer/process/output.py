"""Where the output of a command goes: standard output or a file, and one line on standard error."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from hardware.safe_text import safe
from hwexplorer.export import files

if TYPE_CHECKING:
    from threading import Event, Thread

_BEAT_S = 0.5
_TICK_S = 0.1  # between two lines of one count
WIDTH_VARIABLE = "HWEXPLORER_WIDTH"  # set by the screen for verbs that it runs


class OutputError(Exception):
    """Standard output does not take the output, which is complete. The message is one line."""


def emit(
    arguments: argparse.Namespace,
    make: Callable[[str], str],
    suffixes: Mapping[str, str] = files.SUFFIXES,
    default: str = "text",
) -> None:
    """Make the output in the format asked for, or that of the file's suffix, and put it where it was asked for."""
    target = Path(arguments.output) if arguments.output is not None else None
    if target is not None:
        files.check(target, overwrite=True)  # said before the work, not after
    text = make(arguments.format or (files.format_of(target, suffixes) if target is not None else default))
    if target is not None:
        files.write(target, text, overwrite=True)
    else:
        put(text)


def put(text: str) -> None:
    """Write to standard output, in ASCII where its encoding lacks a character. Raises OutputError."""
    out = sys.stdout
    if out is None:
        raise OutputError("standard output is closed")
    try:
        text.encode(out.encoding or "utf-8", out.errors or "strict")
    except UnicodeEncodeError:
        from hwexplorer.text.number_format import to_ascii  # not needed by a terminal of today

        text = to_ascii(text)
    try:
        out.write(text)
        out.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write to standard output: {error.strerror or error}") from None


def width() -> int:
    """Return the columns of the terminal, or those that the screen has for a verb; 0 (no limit) for another output."""
    if sys.stdout is None or not sys.stdout.isatty() or sys.stdout.fileno() < 0:  # which the screen stands in for
        return int(os.environ.get(WIDTH_VARIABLE, "0"))
    return os.get_terminal_size(sys.stdout.fileno()).columns


def complain(message: str) -> None:
    """One line that cannot steer the terminal; where even that cannot be written, the exit code tells."""
    say(f"hwexplorer: {' '.join(message.split())}")


def say(line: str) -> None:
    """One line on standard error, as it is but for what would steer the terminal."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(safe(line), file=sys.stderr, flush=True)


class Progress:
    """One line on standard error that is written over, where that is a terminal; gone when the block ends, however it
    ends, so that what follows starts on a line of its own. A second without a line shows how long it works."""

    _shown_s = 0.0  # when any of them was shown

    def __init__(self) -> None:
        self.is_shown = sys.stderr is not None and sys.stderr.isatty()
        self._line = ""
        self._beats: tuple[Event, Thread] | None = None  # the thread that shows how long it works, and its end

    def __enter__(self) -> Progress:
        if self.is_shown:
            from threading import Event, Thread  # a millisecond that what shows no progress is spared

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
        """At most as wide as the terminal: what wraps could not be written over."""
        if self.is_shown:
            from shutil import get_terminal_size

            Progress._shown_s = monotonic()
            self._line = safe(line)[: get_terminal_size().columns - 1]
            print(f"\r\x1b[K{self._line}", end="", file=sys.stderr, flush=True)

    def ticking(self, what: str) -> Callable[[int, int], None] | None:
        """Shows how many of all are done; None where nobody would see."""

        def tick(done: int, total: int) -> None:
            if done >= total or not self._line or monotonic() - Progress._shown_s > _TICK_S:
                self.show(f"{what}: {done:,} of {total:,}" if done < total else "")

        return tick if self.is_shown else None
