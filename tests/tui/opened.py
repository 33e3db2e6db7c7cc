"""The screen of a test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot

from hwexplorer.engine import ModelReading
from hwexplorer.screen_queries import ScreenQueries
from hwexplorer.state import State, parse
from hwexplorer.tui.app import HwExplorer
from tests.waiting import settle_until


@asynccontextmanager
async def on_screen(
    state: State | str, provider: Any = None, size: tuple[int, int] = (120, 40), **options: Any
) -> AsyncIterator[tuple[HwExplorer, Pilot[None]]]:
    """The program on a state, asking the engine or a stand-in, until the test is done; nothing may have failed."""
    app = HwExplorer(parse(state) if isinstance(state, str) else state, provider or ScreenQueries(), **options)
    async with app.run_test(size=size) as pilot:
        await settle_until(pilot, lambda: not app.explorer._repaint_required)  # the first frame is drawn
        while any(isinstance(vars(job).get("_capture"), ModelReading) for job in app.session.jobs):
            await pilot.pause(0.01)  # a large model is read beside the screen
        yield app, pilot
    assert app.session.failures == []
