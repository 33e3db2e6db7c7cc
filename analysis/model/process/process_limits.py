"""Limits of a subprocess."""

import msgspec


class ProcessLimits(msgspec.Struct, frozen=True):
    """Limits for a subprocess: `seconds` of wall time; processor time and memory of each of its processes."""

    seconds: float = 300.0
    memory_bytes: int | None = None
    show_output: bool = False


# For the user's code: torch itself needs about 1 GiB; weights are not allocated.
USER_LIMITS = ProcessLimits(seconds=120.0, memory_bytes=8 << 30)
# For data files: their readers stop at a sixth of the time, a quarter of the memory (analysis/model/reading_budget.py).
READ_LIMITS = ProcessLimits(seconds=120.0, memory_bytes=4 << 30)
