"""The screen as pictures, at the two sizes everybody has and in every look."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

from hwexplorer.state import PANES, parse
from hwexplorer.tui.ahead import Ahead
from hwexplorer.tui.app import HwExplorer
from tests.tui.fake import Fake


@pytest.fixture(autouse=True)
def _nothing_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is computed while nothing is typed comes sooner or later: pictures are of what is always there."""
    monkeypatch.setattr(Ahead, "wake", lambda ahead: None)


START = "resnet50@b8,fp16?at=layer2.0.conv2/conv&open=layer2.0.conv2"


@pytest.mark.parametrize("name", PANES)
@pytest.mark.parametrize("size", [(120, 40), (80, 24), (200, 60)], ids=["120x40", "80x24", "200x60"])
def test_panes(snap_compare: Any, name: str, size: tuple[int, int]) -> None:
    app = HwExplorer(parse(f"{START}&pane={name}"), Fake())
    assert snap_compare(app, terminal_size=size)


@pytest.mark.parametrize("look", ["light", "ansi"])
def test_looks(snap_compare: Any, look: str) -> None:
    assert snap_compare(HwExplorer(parse(START), Fake(), theme=look), terminal_size=(120, 40))


def test_ascii(snap_compare: Any) -> None:
    assert snap_compare(HwExplorer(parse(START), Fake(), ascii=True), terminal_size=(120, 40))


def test_no_colour(snap_compare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(HwExplorer(parse(START), Fake()), terminal_size=(120, 40))


def test_diff(snap_compare: Any) -> None:
    app = HwExplorer(parse(f"{START}&pin=tpu_v4@b8"), Fake())
    assert snap_compare(app, terminal_size=(120, 40))


@pytest.mark.parametrize("keys", [["?"], ["/", "c", "o", "n", "v"], ["e"]], ids=["help", "find", "export"])
def test_modes(snap_compare: Any, keys: list[str]) -> None:
    async def before(pilot: Pilot[None]) -> None:
        await pilot.press(*keys)

    assert snap_compare(HwExplorer(parse(START), Fake()), terminal_size=(80, 24), run_before=before)


def test_tiny(snap_compare: Any) -> None:
    assert snap_compare(HwExplorer(parse(START), Fake()), terminal_size=(50, 12))


MODES = {
    "heat": (START + "&heat=1&zoom=1", []),
    "fold": (START + "&fold=5&sort=share&zoom=1", []),
    "rank": (START + "&pane=compare&rank=edp&rank_reverse=1", []),
    "conditions": (START, ["/", *"kind:subgraph share>5"]),
    "command": (START, [":", *"precision "]),
    "picker": (START, ["a", *"pu"]),
    "sheet": (START, ["i"]),
    "contrast": (START, [":", *"theme contrast"]),
    "dusk": (START, [":", *"theme dusk"]),
    "paper": (START, [":", *"theme paper"]),
}


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("size", [(120, 40), (80, 24)], ids=["120x40", "80x24"])
def test_more_modes(snap_compare: Any, name: str, size: tuple[int, int]) -> None:
    state, keys = MODES[name]

    async def before(pilot: Pilot[None]) -> None:
        await pilot.press(*keys)

    assert snap_compare(HwExplorer(parse(state), Fake()), terminal_size=size, run_before=before)
