"""`python -m tests.tui.fuzz [KEYS] [SEEDS]`: random keys, commands, mouse and sizes, longer than tests have time."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from time import monotonic

from hwexplorer.tui import clipboard
from tests.tui.test_fuzz import drive


def main(keys: int, seeds: int) -> None:
    clipboard.program = lambda: None  # nothing leaves
    os.chdir(tempfile.mkdtemp(prefix="hwexplorer-fuzz-"))
    for seed in range(100, 100 + seeds):
        start = monotonic()
        asyncio.run(drive(seed, keys // seeds))
        print(f"seed {seed}: {keys // seeds} events without an exception in {monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main(*(int(word) for word in [*sys.argv[1:3], *("20000", "8")[len(sys.argv) - 1 :]]))
