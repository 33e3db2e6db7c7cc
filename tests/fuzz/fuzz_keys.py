"""Raw bytes on the terminal's input, with the screen behind it: a case is one session of 100 altered inputs."""

import asyncio
from collections.abc import Iterator
from random import Random
from unittest import mock

from hwexplorer.state import State, format, parse
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.terminals import clipboard
from hwexplorer.tui.terminals.terminal_driver import Keys
from tests.fuzz import mutate
from tests.tui.fake import Fake

WEIGHT = 100
CASE_SECONDS = 120.0
SEEDS = (
    *(b"jjjjkkhl[]{}", b"gG\t\t123456", b"  .zvsmxpD", b"\x1b[A\x1b[B\x1bOP\x1b[15~\x1b[1;5C\x1b[Z"),
    b"\x1b\x1b[5~\x1bj", b"\x10theme\r\r\r", b"\x10\x1b\x1bq\x10sw\x1b\x1b", b"\x10\x10a\x1bb\r",
    *(b":batch 32\r", b":on tpu_v4\r", b"/conv\rnN", b"d h100 \r", b"?\x1b[6~\x1b", b"\x10theme\r", b":export a.txt\r"),
    *(b"\x1b[<0;30;10M\x1b[<0;30;10m\x1b[<64;5;5M\x1b[<35;60;20M", b"\x1b[M !!\x1b[M#!!", b"\x1b[I\x1b[O"),
    *(b"\x1b[97;5u\x1b[57358u\x1b[13;2u\x1b[27;;229u", b"\x1b[200~pasted \xc3\xa9 :q\r text\x1b[201~"),
    *(b"\x1b[?2026;2$y\x1b[?2048;1$y", b"\x1b[48;40;120;800;1200t", b"\x1b[12;40R", b"\x1b[?1;2c\x1b[>0;276;0c"),
    *(b"\x1b]11;rgb:0000/0000/0000\x1b\\", b"\x1bP>|XTerm(388)\x1b\\", "für 漢字 🙂 e\u0301\u202e".encode()),
    bytes(range(256)),
)  # fmt: skip


def mutations(random: Random) -> Iterator[tuple[bytes, ...]]:
    while True:
        yield tuple(mutate.flipped(random, random.choice(SEEDS)) for _ in range(WEIGHT))


def survive(inputs: tuple[bytes, ...]) -> bool:
    with mock.patch.object(clipboard, "program", return_value=None):  # nothing leaves
        left = iter(inputs)
        while asyncio.run(_session(left)):
            pass
    return True


async def _session(inputs: Iterator[bytes]) -> bool:
    """Until there is no more, or the screen was left: True, and there is another."""
    app, keys = HwExplorer(State(), Fake()), Keys()
    app.session.start = lambda job: None  # type: ignore[method-assign]  # no processes from here
    async with app.run_test(size=(100, 30)) as pilot:
        for data in inputs:
            for event in (*keys.events(data), *keys.events(b"")):
                app._driver.process_message(event)  # type: ignore[union-attr, arg-type]
            await asyncio.sleep(0)
            if not app.is_running or app._exit:
                return True
        await pilot.pause()
        assert app.session.failures == [], app.session.failures
        assert parse(format(app.state)) == app.state
    return False
