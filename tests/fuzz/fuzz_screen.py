"""Random keys, commands, clicks and sizes on the whole screen: a case is one session of 100 of them."""

import asyncio
from collections.abc import Iterator
from random import Random
from unittest import mock

from hwexplorer.tui.terminals import clipboard
from tests.tui.test_fuzz import drive

CASE_SECONDS = 60.0
WEIGHT = 100  # events of a case


def mutations(random: Random) -> Iterator[int]:
    while True:
        yield random.randrange(1 << 30)


def survive(seed: int) -> bool:
    with mock.patch.object(clipboard, "program", return_value=None):  # nothing leaves
        asyncio.run(drive(seed, WEIGHT))
    return True
