"""Keys typed ahead, and clicks that come late: the screen draws on, ctrl+c leaves at once, nothing ends the program."""

import asyncio
import itertools
from random import Random

import pytest
from textual import events

from hwexplorer.screen_queries import ScreenQueries
from hwexplorer.state import State, replace
from hwexplorer.tui import typing_screen
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.screen import ExplorerScreen
from hwexplorer.tui.session.session import Session
from hwexplorer.tui.session.view_cache import Views
from tests.tui.opened import on_screen
from tests.waiting import LIMIT_S, settle_until


async def test_keys_typed_ahead_are_drawn_meanwhile_and_ctrl_c_is_first(monkeypatch: pytest.MonkeyPatch) -> None:
    app = HwExplorer(State(model="resnet50", devices=("h100_sxm",)), ScreenQueries())
    refresh, press_key = ExplorerScreen._compositor_refresh, ExplorerScreen.press_key
    drawn: list[int] = []  # keys handled before each drawing
    handled: list[str] = []

    def draw(screen: ExplorerScreen) -> None:
        drawn.append(len(handled))
        refresh(screen)

    def handle(screen: ExplorerScreen, key: str, character: str | None) -> bool:
        handled.append(key)
        return press_key(screen, key, character)

    keys = "]j}j" * 500
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        monkeypatch.setattr(ExplorerScreen, "_compositor_refresh", draw)
        monkeypatch.setattr(ExplorerScreen, "press_key", handle)
        for key in keys:
            app.explorer.post_message(events.Key(key, key))
        end = asyncio.get_running_loop().time() + LIMIT_S
        while len({count for count in drawn if count}) < 3:
            assert asyncio.get_running_loop().time() < end
            await asyncio.sleep(0.001)
        app.explorer.post_message(events.Key("ctrl+c", None))
        await settle_until(pilot, lambda: app._exit)
        assert len(handled) < len(keys)


async def _typed(keys: str, is_ahead: bool) -> State:
    """The state after keys: all at once, or each after the one before is drawn."""
    async with on_screen(State(model="resnet50", devices=("h100_sxm", "l4", "tpu_v4"))) as (app, pilot):
        await pilot.pause()
        for key in keys:
            if is_ahead:
                app.explorer.typed.append(events.Key(key, key))
            else:
                app.explorer.press_key(key, key)
        while app.explorer.typed:
            app.explorer.work_off()
        await pilot.pause()
        assert not app.session.is_behind
        assert app.session.failures == []
        return app.state


async def test_keys_typed_ahead_lead_where_the_same_keys_lead_one_by_one() -> None:
    random = Random(7)
    for _ in range(3):
        keys = "".join(random.choice("jkhlgG[]{}xmsSnNDvuUzF123456tT") for _ in range(60))
        at_once, one_by_one = await _typed(keys, True), await _typed(keys, False)
        assert (keys, at_once) == (keys, one_by_one)


async def test_keys_handled_in_one_burst_are_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typing_screen, "monotonic", lambda: 0.0)  # the burst has no end in time
    reveal_cursor, shown = Session._reveal_cursor, list[State]()

    def reveal(session: Session, state: State, views: Views) -> tuple[State, Views]:
        shown.append(state)
        return reveal_cursor(session, state, views)

    monkeypatch.setattr(Session, "_reveal_cursor", reveal)
    await _typed("]}x[jjkm" * 40, True)
    assert len(shown) <= 2  # of 320 keys: the first state and the last one


def _reach_unknown_device(session: Session) -> None:
    """Change the session to a state that cannot be shown, as keys typed ahead do."""
    session.suspend_views()
    session.apply(replace(session.state, devices=("no_such_device",), on="no_such_device"))


async def test_a_state_that_cannot_be_shown_is_refused_after_keys_typed_ahead_too() -> None:
    async with on_screen(State(model="resnet50", devices=("h100_sxm",))) as (app, pilot):
        await pilot.pause()
        session, before = app.session, app.state
        _reach_unknown_device(session)
        session.catch_up()
        assert app.state == before
        assert session.message is not None
        assert "no_such_device" in session.message[0]


async def test_what_is_typed_after_escape_goes_to_the_screen_below_the_palette() -> None:
    for keys in (("escape", "q"), ("alt+q",)):  # a terminal that is read late has escape and the next key as one
        async with on_screen(State(model="resnet18", devices=("h100_sxm",))) as (app, pilot):
            await pilot.press("ctrl+p")
            for key in ("a", "a", *keys):
                app.screen.post_message(events.Key(key, key[-1]))
            await settle_until(pilot, lambda app=app: app._exit)  # type: ignore[misc]


async def test_quit_behind_2000_keys_leaves_at_once_and_keeps_the_state_that_was_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with on_screen(State(model="resnet50", devices=("h100_sxm",))) as (app, pilot):
        await pilot.pause()
        for key in "]]" + "j}xkmSlhjx" * 200 + "q":
            app.explorer.typed.append(events.Key(key, key))
        seconds = itertools.count(0.0, 0.001)
        monkeypatch.setattr(typing_screen, "monotonic", lambda: next(seconds))  # a key takes a millisecond
        app.explorer.work_off()
        assert app._exit
        assert next(seconds) < 1.0  # not all keys were handled before it
        assert app.state.batch != 1


async def test_quit_behind_a_key_that_opens_a_line_is_typed_into_it() -> None:
    async with on_screen(State(model="resnet50", devices=("h100_sxm",))) as (app, pilot):
        await pilot.pause()
        for key in ":q":
            app.explorer.typed.append(events.Key(key, key))
        app.explorer.work_off()
        assert not app._exit
        assert app.explorer.prompt is not None
        assert app.explorer.prompt.line.text == "q"


async def test_quit_behind_a_state_that_cannot_be_shown_keeps_the_last_one_shown() -> None:
    async with on_screen(State(model="resnet50", devices=("h100_sxm",))) as (app, pilot):
        await pilot.pause()
        session, before = app.session, app.state
        _reach_unknown_device(session)
        session.finish_without_views()
        assert (app.state, session.is_behind) == (before, False)
        assert "h100_sxm latency" in session.figures()
