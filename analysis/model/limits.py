"""How much can be asked for, and taken, said once: the command line, states, scenarios, model names refuse the same."""

from __future__ import annotations

import msgspec

BATCH = 4096
IMAGE_SIZE = 8192  # pixels along an edge
TOKENS = 1 << 20  # new tokens, and tokens in a cache
PARAMETER = 1 << 24  # of a building block, a configuration, an input shape


class Limits(msgspec.Struct, frozen=True):
    """What a subprocess and all it starts may take together, and whether what it prints is seen (on standard error).

    `seconds` by the clock, and as many of processor time."""

    seconds: float = 300.0
    memory_bytes: int | None = None
    show_output: bool = False


# For code that is not ours: torch itself needs about 1 GiB, weights none.
USER_LIMITS = Limits(seconds=120.0, memory_bytes=8 << 30)


def outside(what: str, value: object, most: int, least: int = 1) -> str:
    """Why a value is none of a whole number's from `least` to `most`; '' where it is one."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return ""
    return f"{what} {str(value)[:40]} is out of range (allowed: {least} to {most})"
