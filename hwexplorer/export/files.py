"""Where an export goes: the format of its suffix, and never over another by accident."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from hardware import policy
from hardware.errors import RequestError, unknown

SUFFIXES = {".txt": "text", ".json": "json", ".csv": "csv", ".md": "md", ".html": "html"}
FORMATS = tuple(SUFFIXES.values())
SCREEN = "screen"  # what the screen asks a process of its own for: export/sheet.py


def format_of(path: Path, suffixes: Mapping[str, str] = SUFFIXES) -> str:
    """The format that a file's suffix names."""
    if not path.suffix:
        raise RequestError(f"{path} has no suffix that tells the format (allowed: {', '.join(suffixes)})")
    if path.suffix.lower() not in suffixes:
        raise unknown("file suffix", path.suffix, suffixes)
    return suffixes[path.suffix.lower()]


def check(path: Path, overwrite: bool) -> None:
    """Raises RequestError where a file of this path cannot be, or nothing is written."""
    policy.require_unserved(f"writing {path}")
    if "\0" in str(path):
        raise RequestError("a file name cannot contain a NUL character")
    try:
        if path.is_dir():
            raise RequestError(f"{path} is a folder")
        if path.exists() and not overwrite:
            raise RequestError(f"{path} exists")
        if not path.parent.is_dir():
            raise RequestError(f"folder {path.parent} does not exist")
    except OSError as error:  # a name too long, a folder one may not look into
        raise RequestError(f"cannot write {str(path)[:80]}: {error.strerror or error}") from None


def write(path: Path, content: str | bytes | Iterable[str], overwrite: bool) -> None:
    """Write atomically. Raises RequestError where the folder is missing or not writable, or the file exists."""
    from hardware import file_access  # not needed where nothing is written

    check(path, overwrite)
    try:
        file_access.write(path, (content,) if isinstance(content, str | bytes) else content)
    except OSError as error:
        raise RequestError(f"cannot write {path}: {error.strerror or error}") from None
