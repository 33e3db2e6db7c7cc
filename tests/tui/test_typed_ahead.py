"""Keys typed ahead, and clicks that come late: the screen draws on, ctrl+c leaves at once, nothing ends the program."""

from __future__ import annotations

from time import monotonic

from textual import events
from textual.widgets import OptionList

from hwexplorer.provider import EngineProvider
from hwexplorer.state import State
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.screen import ExplorerScreen


async def test_keys_typed_ahead_are_drawn_meanwhile_and_ctrl_c_is_first() -> None:
    app = HwExplorer(State(model="resnet50", devices=("h100_sxm",)), EngineProvider())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        drawn: list[float] = []
        refresh = ExplorerScreen._compositor_refresh

        def counted(screen: ExplorerScreen) -> None:
            drawn.append(monotonic())
            refresh(screen)

        ExplorerScreen._compositor_refresh = counted  # type: ignore[method-assign]
        try:
            for key in "}x" * 60:
                app.explorer.post_message(events.Key(key, key))
            await pilot.pause(0.5)
            assert len(drawn) >= 2
            app.explorer.post_message(events.Key("ctrl+c", None))
            began = monotonic()
            while not app._exit and monotonic() - began < 5.0:
                await pilot.pause(0.02)
            assert app._exit
            assert monotonic() - began < 2.0
        finally:
            ExplorerScreen._compositor_refresh = refresh  # type: ignore[method-assign]


async def test_a_click_on_a_row_of_the_palette_that_is_gone_is_dropped() -> None:
    app = HwExplorer(State(model="resnet18", devices=("h100_sxm",)), EngineProvider())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("ctrl+p")
        await pilot.pause(0.3)
        found = app.screen.query_one(OptionList)
        from rich.style import Style

        late = events.Click(found, 1, 1, 0, 0, 1, False, False, False, style=Style(meta={"option": 10_000}))
        found.post_message(late)
        await pilot.pause(0.2)
        palette = app.screen
        palette.dismiss()
        palette.dismiss()
        await pilot.pause(0.2)
        assert app.screen is app.explorer
    assert app.session.failures == []
