"""Random keys, commands, clicks, sizes and raw bytes on the screen: nothing fails, and the state stays a state."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwexplorer.state import State, format, parse
from hwexplorer.tui import view_export
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.commands import submit
from hwexplorer.tui.keys import ACTIONS
from hwexplorer.tui.terminal_driver import Keys
from tests.fuzz import strategies
from tests.fuzz.strategies import examples
from tests.tui.fake import Fake

KEYS = [key for action in ACTIONS for key in action.keys if action.id not in ("quit", "palette")]
KEYS += [*"abcdefABC019~", "enter", "backspace", "escape", "left", "right", "tab", "delete", "f5", "ctrl+x"]
COMMANDS = (
    "batch 32", "batch 0", "precision int8", "on tpu_v4", "remove", "devices h100_sxm,tpu_v4", "at fc/relu",
    "by kind", "plot batch", "theme light", "model alexnet", "edp", "device",
    "state resnet50@b8?at=fc/bn&heat=1", "sessions", "nonsense", "'", "metric latency",
)  # fmt: skip
SIZES = ((120, 40), (80, 24), (200, 60), (59, 15), (20, 5), (61, 16), (300, 100))
EVENT = (
    st.sampled_from(KEYS) | st.sampled_from(KEYS) | st.sampled_from(COMMANDS).map(lambda line: (line,))
    | st.sampled_from(SIZES) | st.tuples(st.floats(0, 0.99), st.floats(0, 0.99))
)  # fmt: skip
BYTES = (
    b"jjjjkkhl[]{}", b"gG\t\t123456", b"  .zvsmxpD", b"\x1b[A\x1b[B\x1bOP\x1b[15~\x1b[1;5C\x1b[Z", b"?\x1b[6~\x1b",
    b"\x1b\x1b[5~\x1bj", b"\x10theme\r\r\r", b"\x10\x1b\x1bq\x10sw\x1b\x1b", b":batch 32\r", b"/conv\rnN", b"d h100 \r",
    b"\x1b[<0;30;10M\x1b[<0;30;10m\x1b[<64;5;5M\x1b[<35;60;20M", b"\x1b[M !!\x1b[M#!!", b"\x1b[I\x1b[O",
    b"\x1b[97;5u\x1b[57358u\x1b[13;2u\x1b[27;;229u", b"\x1b[200~pasted \xc3\xa9 :q\r text\x1b[201~", b"\x1b[12;40R",
    b"\x1b[?2026;2$y\x1b[?2048;1$y", b"\x1b[48;40;120;800;1200t", b"\x1b[?1;2c\x1b[>0;276;0c", bytes(range(256)),
    b"\x1b]11;rgb:0000/0000/0000\x1b\\", b"\x1bP>|XTerm(388)\x1b\\", "für 漢字 🙂 e\u0301\u202e".encode(),
)  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def nothing_leaves(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view_export, "program", lambda: None)
        patch.chdir(tmp_path_factory.mktemp("fuzz"))
        yield


@examples(2)
@given(st.lists(EVENT, min_size=100, max_size=200), st.booleans(), st.booleans())
def test_random_input_ends_without_an_exception(events: list[Any], hostile: bool, ascii: bool) -> None:
    async def drive() -> None:
        app = HwExplorer(State(), Fake(hostile=hostile), ascii=ascii)
        setattr(app, "exit", lambda *_, **__: None)  # noqa: B010 - a click may be on what quits
        async with app.run_test(size=(120, 40)) as pilot:
            for step, event in enumerate(events):
                if isinstance(event, str):
                    app.explorer.press_key(event, event if len(event) == 1 else None)
                elif len(event) == 1:
                    submit(app.session, event[0])
                elif isinstance(event[0], int):
                    await pilot.resize_terminal(*event)
                else:
                    await pilot.click(offset=(int(event[0] * app.size.width), int(event[1] * app.size.height)))
                if step % 5 == 4:
                    await pilot.pause()
                assert parse(format(app.state)) == app.state
                if app.session.views is not None and app.explorer.outline.visible:
                    assert app.explorer.outline.key == app.state.at
        assert app.session.failures == []

    asyncio.run(drive())


@examples(2)
@given(st.lists(strategies.flips(BYTES), min_size=50, max_size=100))
def test_raw_bytes_end_without_an_exception(inputs: list[bytes]) -> None:
    async def drive() -> None:
        app, keys = HwExplorer(State(), Fake()), Keys()
        app.session.start = lambda job: None  # type: ignore[method-assign]  # no processes from here
        async with app.run_test(size=(100, 30)) as pilot:
            for data in inputs:
                for event in (*keys.events(data), *keys.events(b"")):
                    app._driver.process_message(event)  # type: ignore[union-attr, arg-type]
                await asyncio.sleep(0)
                if not app.is_running or app._exit:
                    return
            await pilot.pause()
            assert app.session.failures == []
            assert parse(format(app.state)) == app.state

    asyncio.run(drive())


@examples(200)
@given(strategies.flips(BYTES))
def test_bytes_are_keys_or_nothing(data: bytes) -> None:
    keys = Keys()
    for event in (*keys.events(data), *keys.events(b"")):
        assert event is not None
