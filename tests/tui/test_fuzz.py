"""Random keys, clicks and sizes: nothing raises, and the state stays a state."""

import random

import pytest

from hwexplorer.state import State, format, parse
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.commands.command_line import submit
from hwexplorer.tui.keys.key_table import ACTIONS
from hwexplorer.tui.terminals import clipboard
from tests.sampling import first
from tests.tui.fake import Fake

KEYS = [key for action in ACTIONS for key in action.keys if action.id not in ("quit", "palette")]
KEYS += [*"abcdefABC019~", "enter", "backspace", "escape", "left", "right", "tab", "delete", "f5", "ctrl+x"]
COMMANDS = [
    *(
        "batch 32",
        "batch 0",
        "precision int8",
        "on tpu_v4",
        "remove",
        "devices h100_sxm,tpu_v4",
        "at fc/relu",
    ),
    *(
        "find share>5 kind:conv",
        "find l3c2",
        "find x>",
        "plot pareto",
        "heat",
        "theme paper",
        "model alexnet",
        "energy",
    ),
    *("state resnet50@b8?at=fc/bn&heat=1", "device", "sessions", "help", "nonsense", "'", "metric latency"),
]
SIZES = [(120, 40), (80, 24), (200, 60), (59, 15), (20, 5), (100, 30), (61, 16), (300, 100)]


@pytest.fixture(autouse=True)
def nothing_leaves(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setattr(clipboard, "program", lambda: None)
    monkeypatch.chdir(tmp_path_factory.mktemp("fuzz"))


async def drive(seed: int, count: int) -> None:
    random_ = random.Random(seed)
    app = HwExplorer(State(), Fake(hostile=seed % 2 == 1), ascii=seed % 3 == 0)
    setattr(app, "exit", lambda *_, **__: None)  # noqa: B010 - a click may be on what quits
    async with app.run_test(size=(120, 40)) as pilot:
        for step in range(count):
            key = random_.choice(KEYS)
            app.explorer.press_key(key, key if len(key) == 1 else None)
            if step % 5 == 4:
                await pilot.pause()
            if step % 15 == 14:
                submit(app.session, random_.choice(COMMANDS))
            if step % 25 == 24:
                await pilot.resize_terminal(*random_.choice(SIZES))
            if step % 40 == 39:
                width, height = app.size
                at = (random_.randrange(width), random_.randrange(height))
                await pilot.click(offset=at)
            assert parse(format(app.state)) == app.state
            if app.session.views is not None and app.explorer.outline.visible:
                assert app.explorer.outline.key == app.state.at
                # What is out of sight is made when it is looked at.
                if app.explorer.is_current and "compare" in app.session.visible_boxes(app.state):
                    assert app.explorer.panes["compare"].content.key == app.state.on
    assert app.session.failures == []


@pytest.mark.parametrize("seed", first(range(4), 2))
async def test_random_keys_end_without_an_exception(seed: int) -> None:
    """`make fuzz` has 50,000 of them."""
    await drive(seed, 200)
