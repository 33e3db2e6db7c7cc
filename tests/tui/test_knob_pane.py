"""The knobs of the chip under the cursor: turned by key and mouse, shown over the unchanged chip, taken back."""

import re

import pytest
from textual.pilot import Pilot

from analysis.explore.tuning import Changes, find_knee, knob_positions, knobs, step_knob
from hardware.base.errors import RequestError
from hwexplorer import engine
from hwexplorer.reports.tune.tune import estimate_unchanged
from hwexplorer.state import State, format, parse, replace
from hwexplorer.tui.app import HwExplorer
from tests.tui.opened import on_screen
from tests.tui.test_app import screen_text
from tests.waiting import settle_until

START = "mobilenet_v2@b64,fp16?pane=knobs&knob=memory_bandwidth"
SIZES = [((80, 24), False), ((120, 40), True), ((60, 16), False)]


def on(changes: Changes) -> State:
    name = f"h100_sxm{{{','.join(changes)}}}" if changes else "h100_sxm"
    return replace(parse("resnet18@b8,fp16"), devices=(name,), on=name)


async def known(app: HwExplorer, pilot: Pilot[None]) -> None:
    """Until everything around the state is computed."""
    await settle_until(pilot, lambda: app.explorer.prefetch is not None and app.explorer.prefetch.done == app.state)


def test_every_place_of_every_knob_is_a_device_that_reads_back() -> None:
    for device in ("h100_sxm", "kpu_t256"):
        state = State(model="resnet18", devices=(device,), on=device)
        before = engine.result(state)
        for knob in knobs(before, before, "", "edp").knobs:
            way = knob_positions(before, knob.name)
            assert [p.factor for p in way] == sorted({p.factor for p in way})
            assert sum(p.change == "" for p in way) == 1
            for place in (way[0], way[-1]):
                spelt = replace(state, devices=(f"{device}{{{place.change}}}",)) if place.change else state
                assert parse(format(spelt)).devices == spelt.devices


def test_up_and_down_again_is_the_device_itself() -> None:
    changes: Changes = ()
    before = engine.result(on(()))
    steps = ((1, ("units*1.25",)), (1, ("units=211",)), (-1, ("units*1.25",)), (-1, ()), (-1, ("units=106",)))
    for by, told in steps:
        changes = step_knob(engine.result(on(changes)), before, "units", by)
        assert changes == told
    assert step_knob(engine.result(on(("units*1.25", "clock_hz*0.8"))), before, "units", 0) == ("clock_hz*0.8",)


def test_a_knob_ends_where_its_range_does() -> None:
    now, before = engine.result(on(("memory_bandwidth*10",))), engine.result(on(()))
    with pytest.raises(RequestError, match="upper end"):
        step_knob(now, before, "memory_bandwidth", 1)
    off_the_steps = engine.result(on(("memory_bandwidth*20",)))
    assert step_knob(off_the_steps, before, "memory_bandwidth", -1) == ("memory_bandwidth*10",)


def test_the_curve_is_what_each_device_costs_and_keeps_the_other_changes() -> None:
    now = on(("clock_hz*0.8",))
    found = knobs(engine.result(now), estimate_unchanged(now), "memory_bandwidth", "edp")
    slow = engine.result(on(("clock_hz*0.8", "memory_bandwidth*0.5")))
    point = next(point for point in found.curve if point.factor == 0.5)
    assert (point.latency_s, point.energy_j_per_inference) == (slow.latency_s, slow.energy_j_per_inference)
    assert found.before[0].now > found.before[0].was  # a slower clock
    orders = [abs(knob.edp or 0.0) for knob in found.knobs]
    assert orders == sorted(orders, reverse=True)


def test_the_knee_is_where_a_curve_bends() -> None:
    roof = [(x, max(1.0, 4.0 / x)) for x in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)]
    assert find_knee(roof) == 4.0
    assert find_knee([(x, 1.0 / x) for x in (1.0, 2.0, 4.0)]) is None
    assert find_knee([(1.0, 2.0), (2.0, 2.0), (4.0, 2.0)]) is None


@pytest.mark.parametrize(("size", "ascii"), SIZES)
async def test_a_knob_is_turned_by_keys_and_undone(size: tuple[int, int], ascii: bool) -> None:
    async with on_screen(START, size=size, ascii=ascii) as (app, pilot):
        await known(app, pilot)
        assert app.explorer.panes["knobs"].content.key == "memory_bandwidth"
        await pilot.press("right", "l")
        assert app.state.on == "h100_sxm{memory_bandwidth*1.6}"
        assert app.state.devices[1] == app.state.baseline == app.state.on
        card = next(card for card in app.session.views.cards if card.key == app.state.on) if app.session.views else None
        assert card is not None
        unchanged = next(one for one in app.explorer.strip.cards if one.is_unchanged)
        assert unchanged.value > card.value > 0  # quicker than unchanged, which stands below it
        await known(app, pilot)
        shown = screen_text(app)
        assert "5.36 TB/s" in shown
        if ascii:
            assert shown.isascii()
        await pilot.press("u")
        assert app.state.on == "h100_sxm{memory_bandwidth*1.25}"
        await pilot.press("backspace")
        assert app.state.on == "h100_sxm"
        await pilot.press("left")
        assert app.state.on == "h100_sxm{memory_bandwidth*0.8}"
        await pilot.press("u", "u", "u", "u")
        assert app.state.on == "h100_sxm"
        await pilot.press("U")
        assert app.state.on == "h100_sxm{memory_bandwidth*1.25}"


async def test_a_click_selects_and_its_halves_and_the_wheel_turn() -> None:
    async with on_screen(START) as (app, pilot):
        await known(app, pilot)
        y = next(
            y
            for y in range(30)
            if app.explorer.panes["knobs"].content.key_at(y) not in (None, START.partition("knob=")[2])
        )
        other = app.explorer.panes["knobs"].content.key_at(y)
        await pilot.click("#knobs", offset=(4, y + 1))
        assert (app.state.fact, app.state.on) == (other, "h100_sxm")
        app._click_chain_last_time = None  # no double click with the one before
        await pilot.click("#knobs", offset=(40, y + 1))
        assert app.state.on.startswith(f"h100_sxm{{{other}")
        app._click_chain_last_time = None  # no double click with the one before
        await pilot.click("#knobs", offset=(4, y + 1))
        assert app.state.on == "h100_sxm"
        top, pane = app.explorer.panes["knobs"].content.top, app.explorer.panes["knobs"]
        pane.post_message(pane.Wheeled("knobs", y, -3))
        await pilot.pause()
        assert app.state.on.startswith(f"h100_sxm{{{other}")
        assert app.explorer.panes["knobs"].content.top == top
        pane.post_message(pane.Wheeled("knobs", y + 3, 3))
        await pilot.pause()
        assert app.explorer.panes["knobs"].content.top == top + 3


async def test_rows_stay_under_the_cursor_and_the_foot_says_the_change() -> None:
    async with on_screen(START) as (app, pilot):
        content = app.explorer.panes["knobs"].content
        await settle_until(pilot, lambda: content.table.rows)
        await pilot.press("j")
        order = [row.key for row in content.table.rows]
        await known(app, pilot)
        assert [row.key for row in content.table.rows] == order
        await pilot.press("l", "l")
        assert app.session.message is not None
        assert re.search(r"EDP \S+ % against h100_sxm", app.session.message[0])


async def test_what_is_typed_before_the_list_waits_for_it() -> None:
    async with on_screen("alexnet/l4") as (app, pilot):
        await pilot.press("6", "/", *"bandwidth", "enter", "l")
        assert app.state.on == "l4{memory_bandwidth*1.25}"
