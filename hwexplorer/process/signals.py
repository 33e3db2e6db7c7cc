"""Signals end the program in order: the terminal is restored, children end, and the exit code is 128 + n.

A signal raises an exception in a verb, as ctrl+c does, and asks an open screen to close. Each has `GRACE_S` to end.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Protocol

# Windows has only the first two.
ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name))
GRACE_S = 5.0  # after a signal: then the process is killed, since it may hang or wait for its terminal


class EndedBySignal(SystemExit):
    """The program ends by a signal. As a SystemExit it passes `except Exception` and event loops."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number

    def __str__(self) -> str:
        return "interrupted" if self.number == signal.SIGINT else f"ended by {signal.Signals(self.number).name}"


class Screen(Protocol):
    """A screen that a signal closes. Both methods may be called at any time, `restore` in any thread."""

    def leave(self, number: int) -> None:
        """Close the screen, since a signal came."""

    def restore(self) -> None:
        """Give the terminal back at once."""


_screen: Screen | None = None
_number = 0  # the first signal: later ones (a shell and the kernel both send one) change nothing


@contextmanager
def handle_signals() -> Iterator[None]:
    """Handle the ENDING signals in the context, except those that the parent process ignored (nohup). After the first
    signal the others are ignored, so that none changes the exit code while the program ends."""
    global _number
    _number = 0
    heard = [number for number in ENDING if signal.getsignal(number) == signal.SIG_DFL]
    _handle(heard, _hear)
    report, sys.unraisablehook = sys.unraisablehook, _raise_again
    try:
        yield
    finally:
        sys.unraisablehook = report
        _handle(heard, signal.SIG_IGN if _number else signal.SIG_DFL)


def _handle(numbers: Iterable[int], handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    """Set the handler of signals. Outside the main thread this does nothing."""
    with suppress(ValueError):
        for number in numbers:
            signal.signal(number, handler)


@contextmanager
def close_on_signal(screen: Screen) -> Iterator[None]:
    """Let signals close the open screen. Raises `EndedBySignal` at the end if one did."""
    global _screen
    _screen = screen
    try:
        yield
    finally:
        _screen = None
    if _number:
        raise EndedBySignal(_number)


def end(number: int) -> None:
    """End as if the signal had come, for a screen whose terminal is gone. It may be called from any thread."""
    if _screen is not None:
        _hear(number)


def _hear(number: int, _frame: FrameType | None = None) -> None:
    global _number
    if _number:
        return
    _number, screen = number, _screen
    _call_later(GRACE_S, _end_here, number, screen)
    if screen is None:
        raise EndedBySignal(number)
    screen.leave(number)


def _raise_again(lost: "sys.UnraisableHookArgs") -> None:
    """Send a signal again whose exception was lost: Python raises none out of a finalizer, nor out of a callback of a
    weak reference, as imports have."""
    global _number
    if not isinstance(lost.exc_value, EndedBySignal):
        sys.__unraisablehook__(lost)
        return
    _number = 0
    _call_later(0.01, signal.raise_signal, lost.exc_value.number)


def _call_later(delay_s: float, function: Callable[..., object], *arguments: object) -> None:
    from threading import Timer  # imported late: takes half a millisecond

    timer = Timer(delay_s, function, arguments)
    timer.daemon = True
    timer.start()


def _end_here(number: int, screen: Screen | None) -> None:
    """End the process from a timer's thread, whatever the other threads do: restore the terminal and kill children."""
    if screen is not None:
        screen.restore()
    with suppress(Exception):
        if pools := sys.modules.get("multiprocessing"):
            for child in pools.active_children():
                child.kill()
    os._exit(128 + number)
