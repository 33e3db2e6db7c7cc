"""The screen on the real engine: numbers appear, add up, and random keys find no hole."""

import re
import shlex
from pathlib import Path

import pytest

from hwexplorer.cli import main
from hwexplorer.screen_queries import ScreenQueries
from hwexplorer.state import PANES, State, parse
from hwexplorer.tui import view_export
from tests.sampling import slow
from tests.tui.opened import on_screen
from tests.tui.test_app import screen_text
from tests.waiting import settle_until


@pytest.fixture(autouse=True)
def nothing_leaves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(view_export, "program", lambda: None)
    monkeypatch.chdir(tmp_path)


async def test_the_main_job() -> None:
    """A model by typing, a device by moving, the heaviest operator, a batch, a pin, a file read back."""
    async with on_screen(State()) as (app, pilot):
        await pilot.press("1", *"resnet18", "enter")
        assert app.state.model == "resnet18"
        await pilot.press("2", "k", "enter", ".")  # the device of the rank above
        assert app.state.on == "tpu_v4"
        assert app.state.at in app.session.index.place
        assert "operand delivery" in screen_text(app)
        await pilot.press("p", "]", "]", "{")
        assert (app.state.batch, app.state.precision) == (4, "fp16")
        assert any(column.role == "delta" for column in app.explorer.outline.table.columns)
        await pilot.press("e", "enter")
        assert app.session.message is not None
        written = Path("resnet18_tree.txt").read_text()
        assert "resnet18" in written


@pytest.mark.parametrize("size", [(120, 40), pytest.param((80, 24), marks=slow)])
async def test_a_trace_stands_beside_what_is_predicted(size: tuple[int, int], tmp_path: Path) -> None:
    """`:trace FILE`, then the tree, Why and the plot have what was measured."""
    layer = "{};EXECUTED;{};x;{};0"
    rows = [layer.format("conv1", "Convolution", 1.5), layer.format("maxpool", "MaxPool", 0.5)]
    file = tmp_path / "counters.csv"
    file.write_text("\n".join(["layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)", *rows]))
    async with on_screen("resnet18/xeon_8490h", size=size) as (app, pilot):
        await pilot.press(*":trace nothing.csv", "enter")
        assert app.session.message is not None
        assert "cannot be read" in app.session.message[0]
        await pilot.press(*f":trace {file}", "enter")
        await settle_until(pilot, lambda: not app.session.jobs)
        assert app.state.execution == "openvino"  # the runtime of the trace, as in the verb
        assert "vs predicted" in screen_text(app)
        await pilot.press(*":sort measured", "enter")
        assert app.session.views is not None
        assert [row.key for row in app.session.views.tree.rows if row.depth == 1][:2] == ["conv1", "maxpool"]
        await pilot.press("5", "z")
        text = screen_text(app)
        assert re.search(r"measured +.*2.00 ms", text)
        assert "predicted" in text
        await pilot.press("v", "z")
        assert "measured" in screen_text(app)


@pytest.mark.parametrize("pane", PANES)
def test_the_copied_command_prints_what_the_export_writes(pane: str, capsys: pytest.CaptureFixture[str]) -> None:
    state = parse(f"resnet18@b8,fp16,fused/tpu_v4,h100_sxm?at=layer1.0.conv1&baseline=tpu_v4&pane={pane}")
    assert main(shlex.split(ScreenQueries().command(state, state.pane))[1:]) == 0
    printed = capsys.readouterr().out
    assert ScreenQueries().exported(state, pane, "text") == printed


async def test_several_devices_stand_side_by_side() -> None:
    """Pane 4 alone has the families of all devices; `:why a b` names devices; 80 columns show all."""
    async with on_screen("resnet18@b8,int8/xeon_8490h,h100_sxm,kpu_t256?at=layer1.0.conv1") as (app, pilot):
        await pilot.press("4", "z")
        columns = app.explorer.panes["events"].content.table.columns
        assert [c.key for c in columns[1:]] == [*app.state.devices]
        await pilot.press("e", "ctrl+u", *"families.csv", "enter")
        assert Path("families.csv").read_text().startswith("key,depth,family,xeon_8490h_j")
        await pilot.press("z")
        assert app.explorer.panes["events"].content.table.columns[0].key == "event"
        await pilot.press(":", *"why kpu_t256 h100_sxm", "enter")
        await settle_until(pilot, lambda: not app.session.jobs)
        assert re.search("kpu_t256 -> .*h100_sxm", screen_text(app))
        await pilot.press("escape", "3", "H")
        await pilot.resize_terminal(80, 24)
        await settle_until(pilot, lambda: all(name in screen_text(app).split("Tree")[1] for name in app.state.devices))
        assert app.explorer.outline.table.columns[2].key == "on:h100_sxm"
