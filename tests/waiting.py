"""Tests wait for a state with a long limit, or count work. They measure no time: a machine may be slow or busy."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from textual.pilot import Pilot

LIMIT_S = 120.0  # for a state that is reached in less than 10 s on a quiet machine
ENDLESS_S = 60.0  # of processor time; what a bound stops after a second would take minutes or hours without it


def wait_until(is_reached: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Return when the state is reached. AssertionError if it is not within the limit."""
    end = time.monotonic() + limit_s
    while not is_reached():
        assert time.monotonic() < end, "the state was not reached"
        time.sleep(0.01)


async def settle_until(pilot: Pilot[Any], is_reached: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Let the program run until the state is reached. AssertionError if it is not within the limit."""
    end = time.monotonic() + limit_s
    while not is_reached():
        assert time.monotonic() < end, "the state was not reached"
        await asyncio.sleep(0.01)
    await pilot.pause()


@contextmanager
def never_endless() -> Iterator[None]:
    """Assert that the work inside ends: it takes less processor time than work without its bound would."""
    start = time.process_time()
    yield
    assert time.process_time() - start < ENDLESS_S


class CallCount:
    """Counts the calls of functions in this thread, which are the same on every machine."""

    def __init__(self) -> None:
        self.calls = 0

    def __enter__(self) -> CallCount:
        sys.setprofile(self._count)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            self.calls += 1
