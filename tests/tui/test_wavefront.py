"""The wavefront on screen: keys, playing, stepping and other sizes of the terminal."""

import json
from pathlib import Path
from typing import cast

import pytest
from textual.pilot import Pilot

from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.overlays import wavefront_player
from hwexplorer.tui.overlays.wavefront_player import WavefrontPlayer
from tests.tui.opened import on_screen
from tests.tui.test_app import screen_text
from tests.waiting import settle_until

STATE = "resnet18@b8,int8?at=layer1.0.conv1"
SIZES = {(80, 24): 2, (120, 40): 4, (160, 48): 4}  # size: machines that have room


async def opened(app: HwExplorer, pilot: Pilot[None], *keys: str) -> WavefrontPlayer:
    """The overlay that keys open."""
    await pilot.press(*keys)
    return cast("WavefrontPlayer", app.screen)


@pytest.mark.parametrize("size", SIZES)
async def test_keys_play_pause_and_step(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wavefront_player, "DURATION_S", 1e4)  # so that it still plays on a busy machine
    async with on_screen(STATE, size=size) as (app, pilot):
        player = await opened(app, pilot, "W")
        content = player.content
        assert player.is_playing
        await pilot.press("home")
        assert len(content.visible) == SIZES[size]
        assert "start · cycle 0 of" in screen_text(app)
        await pilot.press("right", "right", "left", "l")
        assert (content.at, player.is_playing) == (pytest.approx(0.02), False)
        await pilot.press("end", "right")
        joules = [machine.energy_j for machine in content.visible]
        assert [state.energy_j for state in content.states()] == pytest.approx(joules)
        assert "done · cycle" in screen_text(app)
        await pilot.press("space")
        assert player.is_playing, "it plays again from the beginning"
        before = content.at
        await settle_until(pilot, lambda: content.at > before)
        await pilot.press("+", "+", "-", "space")
        assert (player.speed, player.is_playing) == (2.0, False)
        assert "first done: " in screen_text(app)
        shares = [state.seconds for state in content.states()]
        assert content.one_clock
        assert max(shares) <= max(machine.latency_s for machine in content.machines) * content.at * (1 + 1e-9)
        first = content.visible[0].device
        await pilot.press("tab")
        assert (content.visible[0].device == first) == (SIZES[size] == 4)
        await pilot.resize_terminal(120, 40)
        await settle_until(pilot, lambda: len(content.visible) == 4)
        await pilot.press("escape")
        assert not app.explorer.overlay


async def test_line_opens_a_node_and_a_moment_is_exported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    async with on_screen("resnet18/kpu_t256") as (app, pilot):
        player = await opened(app, pilot, ":", *"wavefront layer2.0.conv1", "enter", "home")
        assert app.state.at == "layer2.0.conv1"
        assert {machine.architecture for machine in player.content.machines} == {"kpu", "cpu", "gpu", "tpu"}
        await pilot.press(*["right"] * 3, "e", "ctrl+u", *"moment.json", "enter")
        await settle_until(pilot, lambda: not app.session.jobs)
        document = json.loads(Path("moment.json").read_text())
        assert (document["moment"], len(document["machines"])) == (0.03, 4)
        await pilot.press("e", "ctrl+u", *"moment.json", "enter")
        assert "exists" in screen_text(app)
