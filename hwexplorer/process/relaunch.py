"""This program started once more: what runs beside the screen, and the explorers that `serve` opens."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

_PACKAGES = Path(__file__).resolve().parents[2]  # the folder that holds `hwexplorer`


def command(words: Sequence[str]) -> list[str]:
    """The program with these words. -P: a `numpy.py` where the user happens to be must not be imported."""
    return [sys.executable, "-P", "-m", "hwexplorer", *words]


def environment() -> dict[str, str]:
    """Ours, with this package importable from anywhere."""
    paths = [str(_PACKAGES), *filter(None, [os.environ.get("PYTHONPATH", "")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def without_current_folder() -> None:
    """Before anything of others is imported: `python -m` put the current folder first, and whatever lies there under
    the name of a library would run. A checkout that is run from its own folder stays importable."""
    if not sys.flags.safe_path and sys.path and sys.path[0] != str(_PACKAGES):
        del sys.path[0]
