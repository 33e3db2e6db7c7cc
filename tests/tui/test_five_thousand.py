"""A tree of 5,000 rows in the whole program: nothing that a key does holds the event loop for long."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from hwexplorer.tui.prefetch import Prefetch
from tests.tui import fake
from tests.tui.opened import on_screen
from tests.waiting import CallCount

MOST_CALLS = 150_000  # of functions without a turn for others, 20 to 50 ms; with a view made anew over a million


async def test_no_key_blocks_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ("j", "pagedown", "end", "home", ".", "z", "z")
    names = [f"block{i}.attention.projection" for i in range(5000)]
    monkeypatch.setattr(fake, "subgraphs", lambda model: names)
    monkeypatch.setattr(Prefetch, "_go_on", lambda self: None)  # what the stand-in computes is not the program's time
    async with on_screen("resnet50?pane=tree", fake.Fake()) as (app, pilot):
        assert len(app.explorer.outline.visible) > 5000
        await pilot.press(*keys)  # what is made once, is made
        with CallCount() as count:
            longest = [await _longest(count, pilot.press(key)) for key in keys]
        assert max(longest) < MOST_CALLS, longest


async def _longest(count: CallCount, doing: Coroutine[Any, Any, None]) -> int:
    """Return the calls of the longest stretch without a turn for others while something is done."""
    task = asyncio.ensure_future(doing)
    worst, last = 0, count.calls
    while not task.done():
        await asyncio.sleep(0)
        now = count.calls
        worst, last = max(worst, now - last), now
    await task
    return worst
