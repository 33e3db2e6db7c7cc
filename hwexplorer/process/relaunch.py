"""Start this program again, for jobs beside the screen."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

_PACKAGES = Path(__file__).resolve().parents[2]  # the folder that holds `hwexplorer`


def command(words: Sequence[str]) -> list[str]:
    """Return the command line of the program with these words. -P: import no `numpy.py` of the current folder."""
    return [sys.executable, "-P", "-m", "hwexplorer", *words]


def environment() -> dict[str, str]:
    """Return the environment of this process, with this package importable from any folder."""
    paths = [str(_PACKAGES), *filter(None, [os.environ.get("PYTHONPATH", "")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def without_current_folder() -> None:
    """Remove the current folder, which `python -m` put first in `sys.path`: a file there named like a library would be
    imported. Call this before other imports. A checkout that is the current folder stays importable."""
    if not sys.flags.safe_path and sys.path and sys.path[0] != str(_PACKAGES):
        del sys.path[0]
