"""The palette finds everything: what is chosen there happens."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from hwexplorer.provider import EngineProvider
from hwexplorer.state import parse
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.overlays.command_palette import PaletteScreen


async def chosen(app: HwExplorer, pilot: Pilot[None], text: str) -> None:
    """Open the palette, give it a text, take the first."""
    await pilot.press("ctrl+p")
    app.screen.query_one(Input).value = text  # at once: a search after each letter takes a tenth of a second
    await pilot.pause()
    for _ in range(60):
        await pilot.pause(0.1)
        if isinstance(app.screen, PaletteScreen) and not app.screen.workers._workers:
            break
    await pilot.press("enter")
    for _ in range(20):
        await pilot.pause(0.05)
        if not isinstance(app.screen, PaletteScreen):
            break


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("model vit_b_16", "model", "vit_b_16"),
        ("on l40s", "on", "l40s"),
        ("plot pareto", "plot", "pareto"),
        ("at layer4.1.conv2", "at", "layer4.1.conv2"),
        ("precision int8", "precision", "int8"),
        ("batch 128", "batch", 128),
    ],
)
async def test_it_finds_and_does(text: str, field: str, value: object) -> None:
    app = HwExplorer(parse("resnet18"), EngineProvider())
    async with app.run_test(size=(120, 40)) as pilot:
        await chosen(app, pilot, text)
        assert getattr(app.state, field) == value
    assert app.session.failures == []


async def test_terms_and_verbs_are_found_by_their_help() -> None:
    app = HwExplorer(parse("resnet18"), EngineProvider())
    async with app.run_test(size=(120, 40)) as pilot:
        await chosen(app, pilot, "energy-delay product")
        assert app.session.message is not None
        assert app.session.message[0].startswith("EDP: ")
        await chosen(app, pilot, "roofline")
        assert app.explorer.overlay == "report" or app.state.plot == "roofline"
    assert app.session.failures == []
