"""A tree of 5,000 rows in the whole program: nothing that a key does holds the event loop for long."""

import asyncio
from collections.abc import Callable

import pytest

from hwexplorer.tui.prefetch import Prefetch
from tests.tui import fake
from tests.tui.opened import on_screen
from tests.waiting import CallCount

MOST_CALLS = 150_000  # of functions without a turn for others, 20 to 50 ms; with a view made anew over a million


async def test_no_key_blocks_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = list[int]()
    keys = ("j", "pagedown", "end", "home", ".", "z", "z")
    names = [f"block{i}.attention.projection" for i in range(5000)]
    monkeypatch.setattr(fake, "subgraphs", lambda model: names)
    monkeypatch.setattr(Prefetch, "_go_on", lambda self: None)  # what the stand-in computes is not the program's time
    async with on_screen("resnet50?pane=tree", fake.Fake()) as (app, pilot):
        assert len(app.explorer.outline.visible) > 5000
        await pilot.press(*keys)  # what is made once, is made
        with monkeypatch.context() as loop, CallCount() as count:
            loop.setattr(asyncio.Handle, "_run", counting(count, longest))
            await pilot.press(*keys)
        assert 0 < max(longest) < MOST_CALLS


def counting(count: CallCount, longest: list[int]) -> Callable[[asyncio.Handle], None]:
    """Run a callback of the event loop and note its calls in `longest`."""
    run = asyncio.Handle._run

    def run_counted(handle: asyncio.Handle) -> None:
        before = count.calls
        run(handle)
        longest.append(count.calls - before)

    return run_counted
