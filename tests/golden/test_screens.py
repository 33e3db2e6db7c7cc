"""The characters of the screen in four panes and at the two sizes everybody has, against files in `screens/`."""

import os
from pathlib import Path

import pytest
from textual.pilot import Pilot

from hwexplorer.tui.prefetch import Prefetch
from tests.tui.fake import Fake
from tests.tui.opened import on_screen

FILES = Path(__file__).with_name("screens")
PANES = {"tree": "tree", "plot": "why&plot=roofline", "knobs": "knobs"}
START = "resnet50@b8,fp16?at=layer2.0.conv2/conv&open=layer2.0.conv2"
SIZES = {"80x24": (80, 24), "200x60": (200, 60)}


@pytest.fixture(autouse=True)
def _nothing_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is computed while nothing is typed comes sooner or later: pictures are of what is always there."""
    monkeypatch.setattr(Prefetch, "wake", lambda ahead: None)


def drawn(pilot: Pilot[None]) -> str:
    """Return the characters on the screen."""
    lines = pilot.app.screen._compositor.render_strips()
    return "".join(f"{line.text.rstrip()}\n" for line in lines)


def compare(pilot: Pilot[None], name: str) -> None:
    """Compare the screen with its file, which HWEXPLORER_GOLDEN rewrites."""
    kept = FILES / f"{name}.txt"
    if os.environ.get("HWEXPLORER_GOLDEN"):
        kept.write_text(drawn(pilot), encoding="utf-8")
    assert drawn(pilot) == kept.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PANES)
async def test_pane(name: str) -> None:
    async with on_screen(f"{START}&pane={PANES[name]}", Fake()) as (_, pilot):
        await pilot.pause()
        compare(pilot, name)


@pytest.mark.parametrize("name", SIZES)
async def test_size(name: str) -> None:
    async with on_screen(START, Fake(), SIZES[name]) as (_, pilot):
        await pilot.pause()
        compare(pilot, name)


async def test_light_theme_has_other_colours_only() -> None:
    screens = []
    for theme in ("dark", "light"):
        async with on_screen(START, Fake(), theme=theme) as (app, pilot):
            await pilot.pause()
            screens.append((drawn(pilot), app.screen.background_colors[1]))
    (dark, night), (light, day) = screens
    assert dark == light
    assert night.brightness < 0.5 < day.brightness


async def test_ascii() -> None:
    async with on_screen(START, Fake(), ascii=True) as (_, pilot):
        await pilot.pause()
        assert drawn(pilot).isascii()


async def test_command_line() -> None:
    async with on_screen(START, Fake(), (80, 24)) as (_, pilot):
        await pilot.press(":", *"precision ")
        compare(pilot, "command_line")


def test_no_file_is_left_over() -> None:
    assert {path.stem for path in FILES.iterdir()} == {*PANES, *SIZES, "command_line"}
