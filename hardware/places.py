"""Where the platform keeps what is the user's: captures and tables read before, settings, devices measured here."""

from __future__ import annotations

import os
from pathlib import Path

from hardware.errors import RequestError


def cache_folder() -> Path:
    return _folder("HWEXPLORER_CACHE_DIR", "cache")


def devices_folder() -> Path:
    """Where devices that were measured here are kept, and below it what was measured."""
    return _folder("HWEXPLORER_DEVICES_DIR", "data") / "devices"


def _folder(variable: str, kind: str) -> Path:
    override = os.environ.get(variable)
    if not override:
        return user_folder(kind)
    try:
        return Path(override).expanduser()
    except RuntimeError:
        raise RequestError(f"{variable}: no home for {override[:60]!r}") from None


def user_folder(kind: str) -> Path:
    """Where the platform keeps the user's `cache`, `config`, `data` or `state`; without a home a place where nothing is
    and nothing can be kept: a folder called `~nobody` where the user happens to be is none."""
    import platformdirs

    folder = Path(getattr(platformdirs, f"user_{kind}_dir")("hwexplorer", appauthor=False))
    return folder if folder.is_absolute() else Path(os.devnull, "hwexplorer")
