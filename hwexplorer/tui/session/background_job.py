"""Work beside the screen: started off the event loop, polled from it, cancelled at any time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from threading import Thread
from time import monotonic
from typing import Any, ClassVar


class BackgroundJob(ABC):
    """A job runs in a thread of its own, since starting it may take a moment. `finish` is called with the job once it
    is done, in the thread that polls it."""

    replaces_model: ClassVar[bool]  # what is on screen is old until it is done
    stop_message: ClassVar[str]

    def __init__(self, name: str, finish: Callable[[Any], None]) -> None:
        self.name, self.finish = name, finish
        self.started = monotonic()
        self._thread = Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Start the job without waiting."""
        self._thread.start()

    @abstractmethod
    def _run(self) -> None: ...

    def progress(self) -> tuple[str, float]:
        """Return (what it is doing, fraction done); the fraction is negative where it is not known."""
        return self.name, -1.0

    @abstractmethod
    def is_done(self) -> bool:
        """Return True when there is nothing more to wait for. Never waits."""

    @abstractmethod
    def error(self) -> str:
        """Return what went wrong in one line, '' when nothing did."""

    def cancel(self) -> None:
        """Stop the job without waiting."""
        Thread(target=self.end, daemon=True).start()

    @abstractmethod
    def end(self) -> None:
        """Stop the job and everything it started, and wait until it is gone."""
