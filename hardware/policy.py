"""The policy of an explorer on this machine: everything is allowed unless `hwexplorer serve` opened it to a browser. An
environment variable says so, which subprocesses inherit."""

from __future__ import annotations

import os
from collections.abc import Iterable

from hardware.errors import RequestError

VARIABLE = "HWEXPLORER_SERVED"


def encode(readable: Iterable[str]) -> str:
    """Return the value of the variable: the files and folders that the person who serves allows to be read."""
    return os.pathsep.join(readable)


def is_served() -> bool:
    """Return True if somebody in a browser uses this explorer."""
    return VARIABLE in os.environ


def require_unserved(action: str, path: str = "") -> None:
    """Raise RequestError in a served explorer, unless `path` may be read. `action` as in `reading net.onnx`."""
    if is_served() and not (path and path in os.environ[VARIABLE].split(os.pathsep)):
        raise RequestError(f"{action[:80]} is not allowed in an explorer that is served")
