"""A tree of 5,000 rows in the whole program: nothing that a key does holds the event loop for long."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from time import thread_time
from typing import Any

import pytest

from hwexplorer.state import parse
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.prefetch import Prefetch
from tests.tui import fake

MOST_S = 0.05  # of processor time of the loop: neither a loaded machine nor a thread left behind is a fault of a key


@pytest.mark.parametrize("keys", [("j", "k", "pagedown", "pageup"), ("end", "home", "."), ("z", "z"), ("3", "4", "3")])
async def test_no_key_blocks_the_loop(keys: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"block{i}.attention.projection" for i in range(5000)]
    monkeypatch.setattr(fake, "subgraphs", lambda model: names)
    monkeypatch.setattr(Prefetch, "_begin", lambda self: None)  # what the stand-in computes is not the program's time
    app = HwExplorer(parse("resnet50?pane=tree"), fake.Fake())
    async with app.run_test(size=(120, 40)) as pilot:
        assert len(app.explorer.outline.visible) > 5000
        await pilot.press(*keys)  # what is made once, is made
        rounds = [[await _longest(pilot.press(key)) for key in keys] for _ in range(3)]
        assert all(min(times) < MOST_S for times in zip(*rounds, strict=True)), rounds
    assert app.session.failures == []


async def _longest(doing: Coroutine[Any, Any, None]) -> float:
    """Processor seconds of the longest stretch without a turn for others while something is done."""
    task = asyncio.ensure_future(doing)
    worst, last = 0.0, thread_time()
    while not task.done():
        await asyncio.sleep(0.001)
        now = thread_time()
        worst, last = max(worst, now - last), now
    await task
    return worst
