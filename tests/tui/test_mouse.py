"""What can be done by mouse alone: nothing moves under the pointer, and what is clicked is what happens."""

import pytest
from textual.geometry import Offset
from textual.pilot import Pilot

from hwexplorer.state import State
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.session.state_changes import Sizes
from tests.tui.fake import Fake
from tests.tui.opened import on_screen
from tests.tui.test_app import screen_text


def place_of(app: HwExplorer, pane: str, text: str) -> tuple[int, int]:
    """Where a text is drawn in a pane or a line."""
    widget = {**app.explorer.panes, **app.explorer.bars, "cards": app.explorer.strip}[pane]
    for y, line in enumerate(widget.drawn()):
        if text in line.text:
            return line.text.index(text), y
    raise AssertionError(f"{text!r} is not in {pane}:\n{screen_text(app)}")


async def click(app: HwExplorer, pilot: Pilot[None], pane: str, text: str, times: int = 1, right: int = 0) -> None:
    x, y = place_of(app, pane, text)
    await pilot.click(f"#{pane}", offset=(x + right, y), times=times)


async def test_a_click_on_the_line_that_names_what_is_folded_shows_it() -> None:
    async with on_screen(State()) as (app, pilot):
        await click(app, pilot, "why", "space: ")
        assert app.explorer.panes["why"].content.is_open


async def test_a_click_selects_and_the_sign_or_a_double_click_opens() -> None:
    async with on_screen(State(), Fake()) as (app, pilot):
        await click(app, pilot, "tree", "layer1.0.conv1")
        app._click_chain_last_time = None  # no double click with the one before
        await click(app, pilot, "tree", "layer1.0.conv1")
        assert (app.state.at, app.state.open) == ("layer1.0.conv1", ())
        app._click_chain_last_time = None  # no double click with the one before
        await click(app, pilot, "tree", "layer1.0.conv1", right=-2)
        assert app.state.open == ("layer1.0.conv1",)
        await click(app, pilot, "tree", "layer1.0.conv2", times=2)
        assert app.state.open == ("layer1.0.conv1", "layer1.0.conv2")
        await pilot.press("2")
        await click(app, pilot, "compare", "TPU v4", times=2)
        assert (app.state.on, app.state.pane) == ("tpu_v4", "tree")


async def test_a_click_on_the_head_of_a_column_sorts_by_it() -> None:
    async with on_screen(State(), Fake()) as (app, pilot):
        await click(app, pilot, "tree", "latency µs")
        assert (app.state.sort, app.state.descending) == ("latency", True)
        await click(app, pilot, "tree", "latency µs")
        assert (app.state.sort, app.state.descending) == ("latency", False)
        assert (app.session.message or [""])[0] == "the tree is sorted by latency reversed"
        await click(app, pilot, "tree", "cum %")
        assert app.session.message is not None
        assert "share" in app.session.message[0]
        await click(app, pilot, "cards", "Latency")
        assert (app.state.rank, app.state.rank_reverse) == ("latency", False)
        await pilot.press("2")
        await click(app, pilot, "compare", "power W")
        await click(app, pilot, "compare", "power W")
        assert (app.state.rank, app.state.rank_reverse) == ("power", True)


@pytest.mark.parametrize("line", ["head", "foot"])
async def test_the_halves_of_a_pair_go_down_and_up(line: str) -> None:
    text = "batch 8" if line == "head" else "[ ] batch"
    async with on_screen("resnet50@b8", Fake(), size=(160, 40)) as (app, pilot):
        await click(app, pilot, line, text)
        assert app.state.batch == 4
        await click(app, pilot, line, text.replace("8", "4"), right=6)
        assert app.state.batch == 8


async def test_the_chips_of_the_title_are_clickable() -> None:
    async with on_screen("resnet50@b8?pin=tpu_v4@b8", Fake(), size=(160, 40)) as (app, pilot):
        await click(app, pilot, "head", "bf16", right=3)
        assert app.state.precision != "bf16"
        await click(app, pilot, "head", "usual software")
        assert app.state.execution != "auto"
        await click(app, pilot, "head", "resnet50")
        assert app.explorer.overlay == "palette"
        await pilot.press("escape")
        await click(app, pilot, "head", "on h100", right=4)
        assert app.explorer.overlay == "picker"


async def test_the_borders_between_panes_are_dragged() -> None:
    async with on_screen(State(), Fake()) as (app, pilot):
        drags = ("tree", -1, 5, 4, 0), ("why", 0, 5, -6, 0), ("events", 5, 0, 0, -3), ("tree", 5, 0, 0, -1)
        for pane, x, y, right, down in drags:
            box = app.explorer.panes[pane].region
            start, by = box.offset + Offset(x % box.width, y), Offset(right, down)
            await pilot.mouse_down(offset=start)
            await pilot.hover(offset=start + by)
            await pilot.mouse_up(offset=start + by)
            assert app.explorer.panes[pane].size - box.size == (abs(right), abs(down))
        assert (app.state.pane, app.session.sizes) == ("tree", Sizes(-2, -3, -1))


async def test_a_point_of_a_plot_says_its_figures_and_is_selected_by_a_click() -> None:
    async with on_screen("resnet50?plot=batch&zoom=1&pane=why") as (app, pilot):
        plot = app.explorer.panes["why"].content
        clicked = next((x, y) for y in range(2, 30) for x in range(8, 110) if plot.key_at(x, y).startswith("tpu_v4@b8"))
        await pilot.hover("#why", offset=(clicked[0] + 2, clicked[1] + 1))
        assert plot.help_at(*clicked).startswith("tpu_v4@b8: Batch 8, EDP ")
        assert plot.help_at(*clicked) in screen_text(app)
        await pilot.click("#why", offset=(clicked[0] + 2, clicked[1] + 1))
        assert f"{app.state.on}@b{app.state.batch}" == plot.key_at(*clicked)
        assert app.state.on == "tpu_v4"


async def test_what_lies_over_the_panes_is_left_by_a_click_on_the_foot() -> None:
    async with on_screen(State(), Fake()) as (app, pilot):
        await click(app, pilot, "head", "h100_sxm")
        assert app.explorer.overlay == "picker"
        await pilot.click("#picker", offset=(4, 4))
        chosen = app.state.devices
        assert len(chosen) != len(State().devices)
        await pilot.click("#foot", offset=(3, 0))
        assert (app.explorer.overlay, app.explorer.prompt, app.state.devices) == ("", None, chosen)
        await pilot.press("?")
        assert app.explorer.overlay == "help"
        await pilot.click("#foot", offset=(3, 0))
        assert app.explorer.overlay == ""
