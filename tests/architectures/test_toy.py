"""One Python file and two TOML files are an architecture: a toy goes through every verb, pane and export."""

import json
from pathlib import Path

import numpy as np
import pytest

from analysis.estimate.estimate import estimate
from analysis.estimate.scenario import Scenario
from hardware.device_catalog import load_device, load_devices
from hardware.precision import NAMES
from hwexplorer import registry
from hwexplorer.cli import main
from hwexplorer.screen_queries import ScreenQueries
from hwexplorer.state import PANES, PLOTS, State
from hwexplorer.tui import view_export
from hwexplorer.tui.app import HwExplorer
from tests.architectures.abacus import ARCHITECTURE
from tests.models import load_once
from tests.tui.test_app import screen_text

HERE = Path(__file__).parent
ON = ("--on", "abacus")
BOTH = ("--on", "abacus,h100_sxm")
COMMANDS: dict[str, tuple[str, ...]] = {
    "compare": ("compare", "conv2d", *BOTH),
    "compare detailed": ("compare", "conv2d", *BOTH, "--level", "detailed"),
    "compare subgraph": ("compare", "resnet_block", *BOTH, "--level", "subgraph"),
    "tree": ("tree", "conv2d", *ON),
    "events": ("show", "events", "conv2d", *ON),
    "why": ("why", "conv2d", *ON, "--node", "relu"),
    **{f"plot {plot}": ("show", "plot", "conv2d", *BOTH, "--plot", plot) for plot in PLOTS},
    "kernels": ("show", "kernels", "conv2d", *ON),
    "structure": ("show", "structure", "conv2d", *ON),
    "memory": ("show", "memory", "conv2d", *ON),
    "edp": ("tree", "edp", "conv2d", *ON),
    "sweep": ("sweep", "conv2d", "--batches", "1,8", "--precisions", "fp32,int8", *BOTH, "--power-modes"),
    "two sides": ("why", "conv2d", "abacus", "h100_sxm", "--metric", "energy"),
    "sides back": ("why", "conv2d", "kpu", "abacus", "--metric", "edp"),
    "front": ("search", "conv2d", *BOTH, "--front", "--all"),
    "search": ("search", "conv2d", *BOTH, "--max-latency", "10s", "--all"),
    "rank": ("models", *ON, "resnet18", "mobilenet_v2"),
    "load": ("show", "load", "llama3_2_1b:serve,in=64,out=8,rate=0.001", *ON),
    "advise": ("advise", "conv2d", *ON),
    "check": ("check", "conv2d", *ON, "--rule", "energy(abacus) < 1000J"),
    "cost": ("compare", "conv2d", *BOTH, "--cost"),
    "report": ("report", "conv2d", *ON),
    "devices": ("devices",),
    "device": ("devices", "abacus"),
    "device mode": ("devices", "abacus:slow"),
    "tune": ("tune", "conv2d", *ON),
    "design": ("tune", "design", "--base", "abacus", "--workload", "conv2d", "--knobs", "clock_hz=1e6..4e6"),
    "itself": ("why", "conv2d", "conv2d", *ON),
    "wavefront": ("show", "wavefront", "conv2d", *ON),
    "in turn": ("why", "conv2d", "abacus", "h100_sxm", "kpu"),
}
NOT_ABOUT_DEVICES = {
    "open",
    "capture",
    "models",
    "validate",
    "trace",
    "calibrate",
    "mission",
    "fallback",
    "offload",
    "mcp",
}  # the screen is opened below


@pytest.fixture
def no_clipboard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_export, "program", lambda: None)


def test_three_files_are_all_of_it() -> None:
    named = [path for path in sorted(HERE.rglob("*abacus*")) if "__pycache__" not in path.parts]
    assert [path.name for path in named] == ["abacus.py", "abacus.toml", "abacus_one.toml"]


def test_every_verb_is_tried() -> None:
    tried = {registry.resolve(list(words))[0] for words in COMMANDS.values()}
    assert tried | NOT_ABOUT_DEVICES == set(registry.names())


@pytest.mark.usefixtures("found_once")
@pytest.mark.parametrize("name", COMMANDS)
def test_every_verb_in_every_format(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = COMMANDS[name]
    for form in ("text", "json", "csv", "md", "html"):
        code = main([*words, "--format", form])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        if form == "text" and words[0] != "check" and "plot" not in words:
            assert "bacus" in printed.out
        assert len(printed.out) > 40, form
        if form == "json":
            json.loads(printed.out)


def test_sums_and_limits_hold() -> None:
    for name in ("abacus", "abacus:slow"):
        device = load_device(name)
        for precision in NAMES:
            for batch in (1, 64):
                result = estimate(load_once("transformer_block"), device, Scenario(batch, precision))
                assert result.energy_j == pytest.approx(float(result.event_energy_j.sum()), rel=1e-9)
                assert result.latency_s == pytest.approx(float(result.run.latency_s.sum()), rel=1e-9)
                assert result.average_power_w <= device.power_limit_w * (1 + 1e-9)
                assert (result.run.utilization <= 1 + 1e-9).all()
                assert (result.run.counts.sum(axis=1) > 0).all()
                assert np.isfinite(result.run.counts).all()


def test_it_comes_after_the_others_and_goes() -> None:
    devices, errors = load_devices()
    assert not errors
    assert [device.id for device in devices if device.arch is ARCHITECTURE] == ["abacus_one"]


@pytest.mark.usefixtures("no_clipboard")
@pytest.mark.parametrize("pane", PANES)
async def test_every_pane_and_its_export(pane: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = HwExplorer(State(model="conv2d", devices=("abacus", "h100_sxm"), on="abacus", pane=pane), ScreenQueries())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert "conv2d" in screen_text(app)
        await pilot.press("j", "]", "}", "w", "tab", "v")
        for form in ("text", "json", "csv", "md", "html"):
            assert ScreenQueries().exported(app.state, pane, form)
    assert app.session.failures == []
