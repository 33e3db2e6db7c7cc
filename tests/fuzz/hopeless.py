"""A reader with every fault: what the runner must notice (see test_readers_fuzzed)."""

import os
import time
from collections.abc import Iterator
from random import Random

CASE_SECONDS = 0.2


def mutations(random: Random) -> Iterator[str]:
    yield from ("well", "raises", "sleeps", "raises", "dies", "well")


def survive(case: str) -> bool:
    if case == "raises":
        raise ValueError(case)
    if case == "sleeps":
        try:
            time.sleep(30)
        except Exception:
            return False
    if case == "dies":
        os._exit(3)
    return True
