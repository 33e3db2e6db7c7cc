"""Signals that end the program leave through it: the terminal is restored, children end, the exit code is 128 + n.

A verb is ended by an exception, as ctrl+c ends it; an open screen is asked to close. Either has `GRACE_S` for it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Protocol

ENDING = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)
)  # Windows has only the first
GRACE_S = 5.0  # after a signal: what hangs, or waits for a terminal that takes nothing, is ended where it stands


class EndedBySignal(SystemExit):
    """The program ends by a signal. Nothing that catches errors stops it, and an event loop lets it through."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number

    def __str__(self) -> str:
        return f"ended by {signal.Signals(self.number).name}"


class Screen(Protocol):
    """A screen that a signal closes. Both methods may be called at any time, `restore` in any thread."""

    def leave(self, number: int) -> None: ...

    def restore(self) -> None: ...


_screen: Screen | None = None
_number = 0  # of the first signal: those that follow it (a shell and the kernel both send one) change nothing


@contextmanager
def handle_signals() -> Iterator[None]:
    """From here on the signals are heard, those that whoever started us had ignored (nohup) left out. After one that
    ends the program the others mean nothing: on its way out none may change the exit code."""
    global _number
    _number = 0
    heard = [number for number in ENDING if signal.getsignal(number) == signal.SIG_DFL]
    _handle(heard, _hear)
    try:
        yield
    finally:
        _handle(heard, signal.SIG_IGN if _number else signal.SIG_DFL)


def _handle(numbers: Iterable[int], handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    """Set what signals do; only the main thread may."""
    with suppress(ValueError):
        for number in numbers:
            signal.signal(number, handler)


@contextmanager
def close_on_signal(screen: Screen) -> Iterator[None]:
    """While a screen is open the signals, ctrl+c's among them, close it. Raises `EndedBySignal` where one did."""
    global _screen
    _screen = screen
    before = signal.signal(signal.SIGINT, _hear)
    try:
        yield
    finally:
        _screen = None
        signal.signal(signal.SIGINT, signal.SIG_IGN if _number else before)
    if _number:
        raise EndedBySignal(_number)


def end(number: int) -> None:
    """End as if the signal had come, for a screen whose terminal is gone. It may be called from any thread."""
    global _number
    if _number or _screen is None:
        return
    _number = number
    _limit(number)
    _screen.leave(number)


def _hear(number: int, _frame: FrameType | None) -> None:
    global _number
    if _number:
        return
    if _screen is not None:
        end(number)
        return
    _number = number
    _limit(number)
    raise EndedBySignal(number)


def _limit(number: int) -> None:
    from threading import Timer  # half a millisecond that a program without a signal is spared

    timer = Timer(GRACE_S, _end_here, (number, _screen))
    timer.daemon = True
    timer.start()


def _end_here(number: int, screen: Screen | None) -> None:
    """The last resort, in a thread of its own: whatever the others do, this ends."""
    if screen is not None:
        screen.restore()
    with suppress(Exception):
        if "multiprocessing" in sys.modules:
            import multiprocessing

            for child in multiprocessing.active_children():
                child.kill()
    os._exit(128 + number)
