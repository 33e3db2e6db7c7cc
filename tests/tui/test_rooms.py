"""The rooms of the screen: a session without Textual, a start without what keys open, what a new pane and plot take."""

import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

ROOT = Path(__file__).parents[2]

SESSION = """
import sys
from hwexplorer.state import State
from hwexplorer.tui.commands import submit
from hwexplorer.tui.session.session import Session
from tests.tui.fake import Fake

session = Session(State(), Fake())
session.size = (120, 40)
events = []
session.subscribe(lambda event: events.append(event.what))
for line in ("batch 32", "at fc", "on tpu_v4", "nonsense"):
    submit(session, line)
assert (session.state.batch, session.state.at, session.state.on) == (32, "fc", "tpu_v4"), session.state
assert session.message[0].startswith("unknown command 'nonsense'"), session.message
session.do_step("undo")
assert (session.state.batch, session.message[0]) == (1, 'undid "batch 32"'), (session.state, session.message)
assert session.failures == []
assert {*events} == {"state", "message"}, events
assert not [name for name in sys.modules if name.partition(".")[0] == "textual"]
"""

PLOT = '''

def toy(state: State) -> plain.Plot:
    """A line."""
    line = plain.Series("toy", (1.0, 2.0), (3.0, 4.0), line=True)
    return plain.Plot(name="toy", title="A toy", x_title="x", y_title="y", x_unit="s", y_unit="J", series=(line,))
'''

PANE = '''

class KernelsPane(ViewPane):
    """The kernels as a table."""

    cursor = "at"

    def fill(self, views: Views) -> None:
        self.content.update(views.kernels.parts[views.kernels.main])
        self.content.go(self.state.at)
'''

SCREEN = """
import asyncio
from hwexplorer.screen_queries import ScreenQueries
from hwexplorer.state import parse
from hwexplorer.tui.app import HwExplorer

async def main():
    app = HwExplorer(parse("resnet18?plot=toy"), ScreenQueries())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("5")
        assert app.explorer.panes["why"].content.plot.title == "A toy"
        await pilot.press("7")
        assert app.state.pane == "kernels"
        pane = app.explorer.panes["kernels"]
        await pilot.press("j", "j")
        assert pane.active and pane.content.row.key == app.state.at, (pane.content.row, app.state)
        app.session.do_heaviest()
        await pilot.press("tab")
        assert app.state.pane == "compare"
        assert app.session.failures == []

asyncio.run(main())
"""

FIRST = """
import sys
import hwexplorer.cli, hwexplorer.commands.open
from hwexplorer.screen_queries import ScreenQueries
from hwexplorer.state import parse
from hwexplorer.tui.app import HwExplorer

def ready(app):
    app.cards = len(app.explorer.strip.cards)
    app.early = {"prompts", "commands", "view_export", "overlay_screen"} & {
        name.rpartition(".")[2] for name in sys.modules if name.startswith("hwexplorer.tui.")
    }
    late = {"hwexplorer.configurations", "hwexplorer.reports.tune.tune", "analysis.model.process.child_job"}
    app.early |= late & sys.modules.keys()
    app.exit()

HwExplorer.on_ready = ready
app = HwExplorer(parse("resnet50@b8,fp16"), ScreenQueries())
app.run(headless=True, size=(120, 40))
assert (app.cards, app.early) == (4, set()), (app.cards, app.early)
"""


def run(root: Path, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *words], cwd=root, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_session_needs_no_screen() -> None:
    run(ROOT, "-c", SESSION)


def test_the_first_frame_waits_for_nothing_that_a_key_asks_for() -> None:
    run(ROOT, "-c", FIRST)


@pytest.fixture(scope="module")
def enlarged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with a plot more, its function and name, and with a pane more: its class and name."""
    root = tmp_path_factory.mktemp("enlarged")
    package = copytree(ROOT / "hwexplorer", root / "hwexplorer", ignore=ignore_patterns("__pycache__"))
    for file, more in ((package / "plots.py", PLOT), (package / "tui" / "panes.py", PANE)):
        file.write_text(file.read_text() + more)
    state = (package / "state.py").read_text()
    for names, name in (('"why", "knobs"', "kernels"), ('"roofline", "batch"', "toy")):
        assert state.count(f"{names})") == 1
        state = state.replace(f"{names})", f'{names}, "{name}")')
    (package / "state.py").write_text(state)
    return root


def test_a_new_plot_is_its_function_and_its_name(enlarged: Path) -> None:
    assert "A toy" in run(enlarged, "-m", "hwexplorer", "show", "plot", "conv2d", "--plot", "toy")


def test_a_new_pane_is_its_class_and_its_name(enlarged: Path) -> None:
    run(enlarged, "-c", SCREEN)
