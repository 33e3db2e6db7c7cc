"""Keys typed ahead, and clicks that come late: the screen draws on, ctrl+c leaves at once, nothing ends the program."""

from __future__ import annotations

from random import Random
from time import monotonic, process_time

from textual import events

from hwexplorer.provider import EngineProvider
from hwexplorer.state import State, replace
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.screen import ExplorerScreen
from hwexplorer.tui.session.session import Session


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
            for key in "]j}j" * 500:
                app.explorer.post_message(events.Key(key, key))
            while len(drawn) < 3 and not app.explorer.typed:
                await pilot.pause(0.02)
            while len(drawn) < 3 and app.explorer.typed:
                await pilot.pause(0.02)
            assert app.explorer.typed  # it was drawn three times before all of them were worked off
            app.explorer.post_message(events.Key("ctrl+c", None))
            began = monotonic()
            while not app._exit and monotonic() - began < 5.0:
                await pilot.pause(0.02)
            assert app._exit
            assert monotonic() - began < 2.0
        finally:
            ExplorerScreen._compositor_refresh = refresh  # type: ignore[method-assign]


async def _typed(keys: str, is_ahead: bool) -> tuple[State, float]:
    """The state after keys, and the processor time: all at once, or each after the one before is drawn."""
    app = HwExplorer(State(model="resnet50", devices=("h100_sxm", "l4", "tpu_v4")), EngineProvider())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.3)
        began = process_time()
        for key in keys:
            if is_ahead:
                app.explorer.typed.append(events.Key(key, key))
            else:
                app.explorer.press_key(key, key)
        while app.explorer.typed:
            app.explorer.work_off()
        took = process_time() - began
        await pilot.pause(0.1)
        assert not app.session.is_behind
        assert app.session.failures == []
        return app.state, took


async def test_keys_typed_ahead_lead_where_the_same_keys_lead_one_by_one() -> None:
    random = Random(7)
    for _ in range(3):
        keys = "".join(random.choice("jkhlgG[]{}xmsSnNDvuUzF123456tT") for _ in range(60))
        at_once, one_by_one = await _typed(keys, True), await _typed(keys, False)
        assert (keys, at_once[0]) == (keys, one_by_one[0])
    moves = (await _typed("]}x[jjkm" * 40, True))[1]
    assert moves < 2.0  # 320 keys: 0.5 s, 5 s where each is drawn


def _reach_unknown_device(session: Session) -> None:
    """Change the session to a state that cannot be shown, as keys typed ahead do."""
    session.fall_behind()
    session.apply(replace(session.state, devices=("no_such_device",), on="no_such_device"))


async def test_a_state_that_cannot_be_shown_is_refused_after_keys_typed_ahead_too() -> None:
    app = HwExplorer(State(model="resnet50", devices=("h100_sxm",)), EngineProvider())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.3)
        session, before = app.session, app.state
        _reach_unknown_device(session)
        session.catch_up()
        assert app.state == before
        assert session.message is not None
        assert "no_such_device" in session.message[0]


async def test_what_is_typed_after_escape_goes_to_the_screen_below_the_palette() -> None:
    for keys in (("escape", "q"), ("alt+q",)):  # a terminal that is read late has escape and the next key as one
        app = HwExplorer(State(model="resnet18", devices=("h100_sxm",)), EngineProvider())
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.press("ctrl+p")
            for key in ("a", "a", *keys):
                app.screen.post_message(events.Key(key, key[-1]))
            began = monotonic()
            while not app._exit and monotonic() - began < 5.0:
                await pilot.pause(0.02)
            assert app._exit


async def test_quit_behind_2000_keys_leaves_at_once_and_keeps_the_state_that_was_reached() -> None:
    app = HwExplorer(State(model="resnet50", devices=("h100_sxm",)), EngineProvider())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.3)
        for key in "]]" + "j}xkmSlhjx" * 200 + "q":
            app.explorer.typed.append(events.Key(key, key))
        began = process_time()
        app.explorer.work_off()  # 3 s where all keys are handled before it
        assert app._exit
        assert process_time() - began < 1.0
        assert app.state.batch != 1


async def test_quit_behind_a_key_that_opens_a_line_is_typed_into_it() -> None:
    app = HwExplorer(State(model="resnet50", devices=("h100_sxm",)), EngineProvider())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.3)
        for key in ":q":
            app.explorer.typed.append(events.Key(key, key))
        app.explorer.work_off()
        assert not app._exit
        assert app.explorer.prompt is not None
        assert app.explorer.prompt.line.text == "q"


async def test_quit_behind_a_state_that_cannot_be_shown_keeps_the_last_one_shown() -> None:
    app = HwExplorer(State(model="resnet50", devices=("h100_sxm",)), EngineProvider())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.3)
        session, before = app.session, app.state
        _reach_unknown_device(session)
        session.settle()
        assert (app.state, session.is_behind) == (before, False)
        assert "h100_sxm latency" in session.figures()
