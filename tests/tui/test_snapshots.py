"""The screen as pictures, at the two sizes everybody has and in every look."""

from typing import Any

import pytest
from textual.pilot import Pilot

from hwexplorer.state import PANES, parse
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.prefetch import Prefetch
from tests.tui.fake import Fake


@pytest.fixture(autouse=True)
def _nothing_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is computed while nothing is typed comes sooner or later: pictures are of what is always there."""
    monkeypatch.setattr(Prefetch, "wake", lambda ahead: None)


START = "resnet50@b8,fp16?at=layer2.0.conv2/conv&open=layer2.0.conv2"


@pytest.mark.parametrize("name", PANES)
def test_pane(snap_compare: Any, name: str) -> None:
    app = HwExplorer(parse(f"{START}&pane={name}"), Fake())
    assert snap_compare(app, terminal_size=(120, 40))


@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=["80x24", "200x60"])
def test_size(snap_compare: Any, size: tuple[int, int]) -> None:
    assert snap_compare(HwExplorer(parse(START), Fake()), terminal_size=size)


def test_light_theme(snap_compare: Any) -> None:
    assert snap_compare(HwExplorer(parse(START), Fake(), theme="light"), terminal_size=(120, 40))


def test_ascii(snap_compare: Any) -> None:
    assert snap_compare(HwExplorer(parse(START), Fake(), ascii=True), terminal_size=(120, 40))


def test_command_line(snap_compare: Any) -> None:
    async def type_command(pilot: Pilot[None]) -> None:
        await pilot.press(":", *"precision ")

    assert snap_compare(HwExplorer(parse(START), Fake()), terminal_size=(80, 24), run_before=type_command)
