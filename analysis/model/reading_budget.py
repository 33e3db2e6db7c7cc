"""The budgets for untrusted input: steps for reading a file, with progress, and limits of a subprocess."""

from collections.abc import Callable

import msgspec

from analysis.model.model_errors import ModelError

Progress = Callable[[str, float], None]  # receives a phase and the fraction of it that is done

# One step is about a microsecond of work and at most 50 bytes of memory: code that creates an object spends steps for
# it. The budget is about 20 s and 1 GB. A normal file of 50,000 nodes needs a third of it.
STEPS = 20_000_000


class TooMuchError(ModelError):
    """Reading the file takes more steps than any known model. The message is one line."""


class Budget:
    """The steps left for one file. All code that reads the file spends from the same budget."""

    def __init__(self, steps: int = STEPS, progress: Progress = lambda phase, fraction: None) -> None:
        self.left = steps
        self._progress = progress
        self._reached = ("", 0.0)

    def spend(self, steps: int = 1) -> None:
        """Spend steps. Raises `TooMuchError` if fewer are left."""
        self.left -= steps
        if self.left < 0:
            raise TooMuchError("reading it takes more work than any known model (endless loops or lists?)")

    def report(self, phase: str, fraction: float) -> None:
        """Report the progress of a phase at most once per percent."""
        if phase != self._reached[0] or fraction >= self._reached[1] + 0.01:
            self._reached = (phase, fraction)
            self._progress(phase, fraction)


class ProcessLimits(msgspec.Struct, frozen=True):
    """Limits for a subprocess: `seconds` of wall time; processor time and memory of each of its processes."""

    seconds: float = 300.0
    memory_bytes: int | None = None
    show_output: bool = False


# For the user's code: torch itself needs about 1 GiB; weights are not allocated.
USER_LIMITS = ProcessLimits(seconds=120.0, memory_bytes=8 << 30)
# For data files: their readers stop at a sixth of the time, a quarter of the memory.
READ_LIMITS = ProcessLimits(seconds=120.0, memory_bytes=4 << 30)
