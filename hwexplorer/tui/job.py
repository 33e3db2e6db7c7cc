"""Work beside the screen: started off the event loop, asked about from it, given up at any time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from hwexplorer.tui.session import Session


class Job(ABC):
    """What is shown stays, and can be used. Starting may take a moment (a process), so a thread does it."""

    dims: ClassVar[bool]  # what is shown is old until it is done
    stopped: ClassVar[str]  # what is said when it was given up

    def __init__(self, name: str) -> None:
        self.name = name
        self.started = monotonic()
        self._thread = Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @abstractmethod
    def _run(self) -> None: ...

    def progress(self) -> tuple[str, float]:
        """(what it is doing, fraction done); a negative fraction where that is not known."""
        return self.name, -1.0

    @abstractmethod
    def done(self) -> bool:
        """Never waits; True when there is nothing more to wait for."""

    @abstractmethod
    def error(self) -> str:
        """One line, empty when all went well."""

    @abstractmethod
    def finish(self, session: Session) -> None:
        """What becomes of it once it is done."""

    def cancel(self) -> None:
        """Stop it, without waiting."""
        Thread(target=self.end, daemon=True).start()

    @abstractmethod
    def end(self) -> None:
        """Stop it and wait until it is gone, and what it started with it."""
