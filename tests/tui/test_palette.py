"""The palette finds everything: what is chosen there happens."""

from collections.abc import AsyncIterator

import pytest
from textual.pilot import Pilot

from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.overlays.command_palette import CommandPalette
from tests.tui.opened import on_screen


async def chosen(app: HwExplorer, pilot: Pilot[None], text: str) -> None:
    """Open the palette, type a text, take the first."""
    await pilot.press("ctrl+p", *text, "enter")
    await pilot.pause()


@pytest.fixture
async def palette() -> AsyncIterator[HwExplorer]:
    async with on_screen("resnet18") as (app, _):
        yield app


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("model vit_b_16", "model", "vit_b_16"),
        ("on tpu_v4", "on", "tpu_v4"),
        ("plot batch", "plot", "batch"),
        ("at layer4.1.conv2", "at", "layer4.1.conv2"),
        ("precision int8", "precision", "int8"),
        ("batch 128", "batch", 128),
    ],
)
async def test_it_finds_and_does(text: str, field: str, value: object) -> None:
    async with on_screen("resnet18") as (app, pilot):
        await chosen(app, pilot, text)
        assert getattr(app.state, field) == value


@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ("open model", "Open a model .."),
        ("add device", "Add a device .."),
        ("limit", "Set a limit .."),
        ("slow", "Why is it slow"),
        ("cheapest", "Find the cheapest within limits .."),
        ("ttft", "Time to first token: open the request phase"),
        ("first token", "Time to first token: open the request phase"),
        ("request", "Time to first token: open the request phase"),
        ("batch", "Change the batch .."),
        ("compare", "Compare the devices"),
        ("export", "Export this view .."),
        ("color", "Change the colours .."),
        ("MobileNetV2", "Open mobilenet_v2"),
        ("mobv2", "Open mobilenet_v2"),
        ("4090", "Add NVIDIA GeForce RTX 4090"),
        ("edp", "metric edp"),
    ],
)
async def test_tasks_and_names_come_before_terms(typed: str, title: str, palette: HwExplorer) -> None:
    assert CommandPalette(palette.explorer)._items.find(typed)[0].title.startswith(title)


@pytest.mark.usefixtures("few_devices")
async def test_a_limit_is_typed_where_it_is_read() -> None:
    async with on_screen("mlp") as (app, pilot):
        await chosen(app, pilot, "limit")
        await pilot.press(*"L<5ms", "enter")
        assert (app.state.limits, app.state.metric) == ("L<5ms", "edp")


async def test_terms_and_verbs_are_found_by_their_help() -> None:
    async with on_screen("resnet18") as (app, pilot):
        await chosen(app, pilot, "term: EDP")
        assert app.explorer.overlay == "help"
        await pilot.press("escape")
        await chosen(app, pilot, "roofline")
        assert app.explorer.overlay == "report" or app.state.plot == "roofline"


async def test_a_click_does_the_item_and_the_palette_opens_over_an_overlay() -> None:
    async with on_screen("resnet18") as (app, pilot):
        await pilot.press("?", "ctrl+p", *"theme light")
        assert app.explorer.overlay == "palette"
        await pilot.click("FramedPane", offset=(4, 2))
        assert (app.explorer.overlay, app.explorer.colours.theme) == ("help", "light")
        await pilot.press("ctrl+p", *"zzzz", "enter")
        assert app.explorer.overlay == "help"
