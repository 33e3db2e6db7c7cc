"""Work in slices: keys are read between them, and pressed once the state that they follow is shown."""

import pytest

from hardware.base.records import Slices
from hwexplorer import engine
from hwexplorer.tui.prefetch import Prefetch
from tests.tui.opened import on_screen
from tests.tui.test_app import screen_text
from tests.waiting import settle_until


async def test_keys_that_follow_a_state_in_work_are_pressed_after_it_and_escape_stops_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Prefetch, "wake", lambda _: None)  # it would know the next batch
    async with on_screen("resnet18/h100_sxm,tpu_v4,kpu_t256?pane=compare") as (app, pilot):
        engine.reset()  # other tests may have computed the next batch
        monkeypatch.setattr(Slices, "SLICE_S", 1e-3)
        for key in "]]k:q":  # q ends the program, but not in a line
            app.explorer.press_key(key, key)
        app.explorer.paste("uit")  # into the line that is to open
        assert app.state.batch == 1
        await settle_until(pilot, lambda: "computing: esc stops it" in screen_text(app))
        await settle_until(pilot, lambda: app.explorer.prompt is not None and app.explorer.prompt.text == "quit")
        assert app.state.batch == 4
        app.explorer.press_key("escape", None)
        for key in "]]":
            app.explorer.press_key(key, key)
        app.explorer.press_key("escape", None)
        await settle_until(pilot, lambda: "stopped" in screen_text(app))
        assert app.state.batch == 4
