"""The platform's folders for the user's data: cached captures and tables, settings, devices measured here."""

from __future__ import annotations

import os
from pathlib import Path

from hardware.errors import RequestError


def cache_folder() -> Path:
    """Return the folder of cached captures and tables, which can be made again."""
    return _folder("HWEXPLORER_CACHE_DIR", "cache")


def devices_folder() -> Path:
    """Return the folder of devices that were measured here; the measurements are below it."""
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
    """Return the platform's folder for the user's `cache`, `config`, `data` or `state`. Without a home, return a path
    that cannot be written, never a folder called `~nobody` in the current one."""
    import platformdirs

    folder = Path(getattr(platformdirs, f"user_{kind}_dir")("hwexplorer", appauthor=False))
    return folder if folder.is_absolute() else Path(os.devnull, "hwexplorer")
