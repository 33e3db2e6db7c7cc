"""Count the Python calls of the first frame, of keys, and of one estimate: they vary less than times on a busy machine.

python -m lab.calls            80x24, 120x40, 160x48, 200x60, and the keys j ] s at each; the second run is warm
"""

from __future__ import annotations

import asyncio
import cProfile
import gc
import subprocess
import sys
from unittest.mock import patch

from textual.events import Key

from analysis.estimate.estimate import estimate
from hwexplorer import engine
from hwexplorer.screen_queries import ScreenQueries
from hwexplorer.state import parse
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.prefetch import Prefetch

SIZES = ((80, 24), (120, 40), (160, 48), (200, 60))
KEYS = {"j": "j", "right_square_bracket": "]", "s": "s"}
SETTLED_S, QUIET = 0.25, 120  # fewer calls than this in that time are Textual's own timers


def count(profile: cProfile.Profile) -> int:
    """Return the calls of Python functions, without those of imports."""
    codes = [(entry.code, entry.callcount) for entry in profile.getstats()]
    # A list, since each step of a generator would be counted itself.
    return sum([calls for code, calls in codes if not isinstance(code, str) and "importlib" not in code.co_filename])


async def settle(profile: cProfile.Profile) -> int:
    """Wait until the screen has nothing left to do. Return the calls so far."""
    before, now = -QUIET, 0
    while now - before >= QUIET:
        await asyncio.sleep(SETTLED_S)
        before, now = now, count(profile)
    return now


async def count_screen(size: tuple[int, int]) -> dict[str, int]:
    """Return the calls of the first frame, and then of each key."""
    profile = cProfile.Profile(builtins=False)
    profile.enable()
    app = HwExplorer(parse("resnet50"), ScreenQueries(), opens_heaviest=True)
    running = asyncio.ensure_future(app.run_async(headless=True, size=size))
    while app.explorer.prefetch is None:  # until the program is ready
        await asyncio.sleep(0.02)
    calls = {"first frame": await settle(profile)}
    for name, sign in KEYS.items():
        before = count(profile)
        app.post_message(Key(name, sign))
        calls[sign] = await settle(profile) - before
    profile.disable()
    app.exit()
    await running
    return calls


def count_estimate(device: str) -> int:
    """Return the calls of one estimate of which nothing is kept but what its device and model share."""
    state = parse("resnet50")
    request = engine.workload(state), engine.device(device), engine.scenario(state)
    estimate(*request)
    profile = cProfile.Profile(builtins=False)
    profile.enable()
    estimate(*request)
    profile.disable()
    return count(profile)


def main() -> None:
    """Print the counts of one size or, in a process for each, of all."""
    gc.disable()
    if len(sys.argv) > 1:
        width, _, height = sys.argv[1].partition("x")
        with patch.object(Prefetch, "wake", lambda prefetch: None):
            print(sys.argv[1], asyncio.run(count_screen((int(width), int(height)))))
        return

    for columns, rows in SIZES:
        subprocess.run([sys.executable, "-m", "lab.calls", f"{columns}x{rows}"], check=True)
    print("estimate", {device: count_estimate(device) for device in ("h100_sxm", "xeon_8490h")})


if __name__ == "__main__":
    main()
