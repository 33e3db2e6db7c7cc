"""A pilot whose keys are handled when `press` returns, however busy the machine is."""

import asyncio
import time
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.waiting import LIMIT_S


@pytest.fixture(autouse=True)
def wait_for_typed_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The screen queues keys while it is behind, and Textual takes a program that gets no processor for an idle one."""
    wait_for_screen = Pilot._wait_for_screen

    async def wait(pilot: Pilot[Any], timeout: float = LIMIT_S) -> bool:
        is_done, end = await wait_for_screen(pilot, timeout), time.monotonic() + LIMIT_S
        explorer = getattr(pilot.app, "explorer", None)
        while getattr(explorer, "typed", None) and not pilot.app._exit and time.monotonic() < end:
            await asyncio.sleep(0.01)
            is_done = await wait_for_screen(pilot, timeout)
        return is_done

    monkeypatch.setattr(Pilot, "_wait_for_screen", wait)
