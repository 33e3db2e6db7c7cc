"""What to do next stands on the first screen, and costs the first frame nothing."""

import pytest

from hwexplorer.reports import why
from hwexplorer.screen_queries import ScreenQueries
from hwexplorer.state import parse
from hwexplorer.tui.session.session import Changed, Session, SessionEvent
from tests.tui.fake import Fake
from tests.tui.opened import on_screen
from tests.tui.test_app import screen_text
from tests.tui.test_mouse import place_of
from tests.waiting import settle_until

SMALL = (80, 24)


async def test_first_screen_says_what_to_try_and_what_colours_mean() -> None:
    async with on_screen("resnet50", size=SMALL, opens_heaviest=True) as (app, pilot):
        await pilot.pause()
        lower_edge = next(line for line in screen_text(app).splitlines() if "try batch 16" in line)
        assert "DRAM" in lower_edge


def test_views_of_the_first_frame_run_no_alternative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(why, "best_setting", lambda *_: pytest.fail("an alternative was estimated"))
    session = Session(parse("resnet50"), ScreenQueries())
    session.size = SMALL
    assert session.views is not None
    session.views.make(session.visible_views(session.state))


async def test_a_click_on_what_to_try_sets_it_and_one_on_a_row_is_drawn_once() -> None:
    async with on_screen("resnet50@b2?pane=events", Fake()) as (app, pilot):
        await pilot.pause()
        events: list[SessionEvent] = []
        app.session.subscribe(events.append)
        x, y = place_of(app, "tree", "layer1.0.conv1")
        await pilot.click("#tree", offset=(x, y))
        assert (app.state.pane, app.state.at) == ("tree", "layer1.0.conv1")
        assert events.count(Changed("state")) == 1
        app._click_chain_last_time = None
        x, y = place_of(app, "why", "batch 8: ")
        await pilot.click("#why", offset=(x, y))
        assert app.state.batch == 8


@pytest.mark.usefixtures("few_devices")
async def test_limits_put_passing_devices_first_and_name_the_best_with_its_evidence() -> None:
    async with on_screen("resnet50@b8,fp16?limits=L<5ms,E<20mJ", size=SMALL) as (app, pilot):
        await pilot.press("a")
        await settle_until(pilot, lambda: " pass; best: " in screen_text(app))
        heading, heads, first = screen_text(app).splitlines()[:3]
        assert "batch 8 · fp16" in heading
        assert "Evidence" in heads
        table = app.explorer.overlay_screen.content.table  # type: ignore[union-attr]
        passing = [row for row in table.rows if not row.dim]
        assert table.rows[: len(passing)] == tuple(passing)
        assert passing[0].key in first
        best = heading.partition("best: ")[2].split()[0].rstrip(";")
        evidence = next(row.cells[2] for row in passing if row.key == best)
        assert evidence in ("measured", "similar chips")


async def test_limits_that_no_device_shown_passes_are_the_headline_with_the_count_of_all() -> None:
    async with on_screen("resnet50@fp32?limits=L<5ms,E<10mJ") as (app, pilot):
        await settle_until(pilot, lambda: " pass; best: " in screen_text(app))
        assert app.explorer.strip.answer[0].startswith("No device shown passes; limits L<5ms E<10mJ: ")
        assert "No device shown passes" in screen_text(app).splitlines()[1]
