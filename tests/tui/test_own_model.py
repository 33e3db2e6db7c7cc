"""A model of the user's opened from the screen: it appears, or one line says why not and the screen lives on."""

import subprocess
from pathlib import Path

import pytest
from textual.pilot import Pilot

from hwexplorer import engine
from hwexplorer.state import State, format, replace
from hwexplorer.tui import commands
from hwexplorer.tui.app import HwExplorer
from tests.capture.onnx_files import node, save, weight
from tests.tui.opened import on_screen
from tests.tui.test_app import screen_text
from tests.waiting import settle_until

OWN = Path(__file__).parents[1] / "capture" / "own_models.py"
INPUT = "1x3x16x16"
START = State(model="resnet18")
pytestmark = pytest.mark.usefixtures("quick_captures")


@pytest.fixture(autouse=True)
def nothing_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWEXPLORER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(engine._MODELS, "allowed", {})
    engine.reset()


async def captured(app: HwExplorer, pilot: Pilot[None], line: str) -> str:
    """Do the line and wait for its capture; what the screen says in the end."""
    commands.submit(app.session, line)
    await settle_until(pilot, lambda: not app.session.jobs)
    return app.session.message[0] if app.session.message is not None else ""


async def test_functions_of_files_here_are_offered_and_large_files_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, size in (("net.py", 1), ("old.py", commands.PYTHON_MAX), ("rest.py", 1)):
        Path(name).write_text("def make(): pass\n" + "#" * size)
    async with on_screen(START) as (app, _):
        assert commands.completions(app.session, "model ")[:3] == [
            "model net.py:make",
            "model old.py:",
            "model rest.py:",
        ]


async def test_it_opens_with_its_inputs() -> None:
    async with on_screen(START) as (app, pilot):
        await captured(app, pilot, f"model {OWN}:Net {INPUT}")
        assert app.state.model == f"{OWN}:Net({INPUT})"
        assert "conv" in screen_text(app)
        await pilot.press("]")
        assert app.state.batch == 2
        await pilot.press("u", "u")
        assert app.state.model == "resnet18"


async def test_a_model_of_one_batch_comes_at_that() -> None:
    async with on_screen(START) as (app, pilot):
        await captured(app, pilot, f"model {OWN}:Fixed 4x3x8x8")
        assert (app.state.model, app.state.batch) == (f"{OWN}:Fixed(4x3x8x8)", 4)
        await pilot.press("]")
        assert app.state.batch == 4
        assert "--" not in screen_text(app).splitlines()[-1]
        assert "batch 4 is the only one it has" in screen_text(app).splitlines()[-1]


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        (f"Branch {INPUT}", "torch.where"),
        (f"Net {INPUT.replace('x3', 'x0')}", "not a shape"),
    ],
)
async def test_what_goes_wrong_is_one_line_and_the_screen_lives_on(factory: str, words: str) -> None:
    async with on_screen(START) as (app, pilot):
        said = await captured(app, pilot, f"model {OWN}:{factory}")
        assert words in said
        assert "\n" not in said
        assert app.state.model == "resnet18"
        await pilot.press("]")
        assert app.state.batch == 2


def running(name: str) -> bool:
    rows = subprocess.run(["ps", "-ewwo", "stat,args"], capture_output=True, text=True, check=True).stdout.splitlines()
    return any(name in row and not row.startswith("Z") for row in rows)


@pytest.mark.usefixtures("captures_alone")
async def test_an_endless_loop_is_stopped_by_escape_and_leaves_no_process() -> None:
    name = "forever(1x3x17x17)"  # this size is used nowhere else: tests run side by side
    async with on_screen(START) as (app, pilot):
        commands.submit(app.session, f"model '{OWN}:{name}'")
        await settle_until(pilot, lambda: running(name) or not app.session.jobs)
        assert app.session.jobs
        await pilot.press("escape")
        assert not app.session.jobs
        await settle_until(pilot, lambda: not running(name))


async def test_a_state_string_still_runs_nothing() -> None:
    async with on_screen(START) as (app, pilot):
        said = await captured(app, pilot, f"state '{format(replace(START, model=f'{OWN}:Net({INPUT})'))}'")
        assert f"runs no code: hwexplorer capture {OWN}:Net --input " in said
        assert app.state.model == "resnet18"


async def test_inputs_are_for_models_of_ones_own() -> None:
    async with on_screen(START) as (app, pilot):
        assert "takes no inputs" in await captured(app, pilot, f"model vit_b_16 {INPUT}")


NET = """
import torch
def make():
    return torch.nn.Sequential(torch.nn.Linear(8, {width}), torch.nn.ReLU())
"""


async def test_a_file_edited_while_it_is_open_is_captured_anew(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(NET.format(width=16))
    line = f"model {file}:make 1x8"
    async with on_screen(START) as (app, pilot):
        await captured(app, pilot, line)
        assert engine.workload(app.state).parameters == 8 * 16 + 16
        before = app.session.views
        commands.submit(app.session, line)
        assert not app.session.jobs  # nothing has changed
        file.write_text(NET.format(width=32))
        commands.submit(app.session, line)
        assert app.session.jobs
        commands.submit(app.session, "batch 2")  # what is shown can be used meanwhile
        assert (app.state.batch, len(app.session.jobs)) == (2, 1)
        await captured(app, pilot, "set sort share")
        assert engine.workload(app.state).parameters == 8 * 32 + 32
        assert app.session.views is not None
        assert before is not None
        assert app.session.views.tree != before.tree
        await pilot.press("[")
        assert app.session.views.tree.rows[0] != before.tree.rows[0]
        file.write_text(NET.format(width="nonsense"))
        assert "NameError" in await captured(app, pilot, line)
        assert engine.workload(app.state).parameters == 8 * 32 + 32


async def test_a_file_that_is_read_as_it_is_is_read_again(tmp_path: Path) -> None:
    path = save(tmp_path, [node("MatMul", "x w", "y")], {"x": ["b", 8]}, ["y"], [weight("w", 8, 16)])
    async with on_screen(START) as (app, pilot):
        await captured(app, pilot, f"model {path}")
        assert engine.workload(app.state).parameters == 8 * 16
        save(tmp_path, [node("MatMul", "x w", "y")], {"x": ["b", 8]}, ["y"], [weight("w", 8, 32)])
        await captured(app, pilot, f"model {path}")
        assert engine.workload(app.state).parameters == 8 * 32
        assert app.session.views is not None
