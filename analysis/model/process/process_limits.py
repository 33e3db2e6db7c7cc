"""Limits of a subprocess."""

from __future__ import annotations

import msgspec


class ProcessLimits(msgspec.Struct, frozen=True):
    """Limits of a subprocess and all it starts together: seconds by the clock and of processor time, memory."""

    seconds: float = 300.0
    memory_bytes: int | None = None
    show_output: bool = False


# For code that is not ours: torch itself needs about 1 GiB, weights none.
USER_LIMITS = ProcessLimits(seconds=120.0, memory_bytes=8 << 30)
# For files that are data: their readers refuse what takes a sixth of this (analysis/model/reading_budget.py).
READ_LIMITS = ProcessLimits(seconds=120.0, memory_bytes=4 << 30)
