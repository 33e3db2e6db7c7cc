"""The budget of reading a stranger's file: one count for work and memory, and progress."""

from __future__ import annotations

from collections.abc import Callable

from analysis.model.model_errors import ModelError

Progress = Callable[[str, float], None]  # receives a phase and the fraction of it that is done

# A step is about a microsecond of work, and no more memory than some fifty bytes: whoever makes an object pays for
# it. So many are twenty seconds and a gigabyte. An honest file of 50,000 nodes needs a third of them.
STEPS = 20_000_000


class TooMuchError(ModelError):
    """A file that asks for more than reading a model can take. The message is one line."""


class Budget:
    """Counted down by everything that reads one file."""

    def __init__(self, steps: int = STEPS, progress: Progress = lambda phase, fraction: None) -> None:
        self.left = steps
        self._progress = progress
        self._reached = ("", 0.0)

    def spend(self, steps: int = 1) -> None:
        """Spend steps. Raises a `TooMuchError` once none is left."""
        self.left -= steps
        if self.left < 0:
            raise TooMuchError("reading it takes more work than any known model (endless loops or lists?)")

    def report(self, phase: str, fraction: float) -> None:
        """Report the progress of a phase, once a hundredth."""
        if phase != self._reached[0] or fraction >= self._reached[1] + 0.01:
            self._reached = (phase, fraction)
            self._progress(phase, fraction)
