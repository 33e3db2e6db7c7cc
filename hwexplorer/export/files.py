"""Write an export to a file: the suffix names its format, and no file is overwritten by accident."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from hardware.base.errors import RequestError, unknown

SUFFIXES = {".txt": "text", ".json": "json", ".csv": "csv", ".md": "md", ".html": "html"}
FORMATS = tuple(SUFFIXES.values())
SCREEN = "screen"  # the format that the screen requests of a subprocess: export/sheet.py


def format_of(path: Path, suffixes: Mapping[str, str] = SUFFIXES) -> str:
    """Return the format that a file's suffix names. Raises RequestError for another suffix."""
    if not path.suffix:
        raise RequestError(f"{path} has no suffix that tells the format (allowed: {', '.join(suffixes)})")
    if path.suffix.lower() not in suffixes:
        raise unknown("file suffix", path.suffix, suffixes)
    return suffixes[path.suffix.lower()]


def check(path: Path, overwrite: bool) -> None:
    """Raise RequestError if this path cannot be written."""
    if "\0" in str(path):
        raise RequestError("a file name cannot contain a NUL character")
    try:
        if path.is_dir():
            raise RequestError(f"{path} is a folder")
        if path.is_file() and not overwrite:
            raise RequestError(f"{path} exists: name another file, or remove it")
        if not path.parent.is_dir():
            raise RequestError(f"folder {path.parent} does not exist")
    except OSError as error:  # as for a name that is too long, or a folder without permission
        raise RequestError(f"cannot write {str(path)[:80]}: {error.strerror or error}") from None


def write(path: Path, content: str | bytes | Iterable[str], overwrite: bool) -> None:
    """Write atomically. Raises RequestError if the folder is missing or not writable, or the file exists."""
    from hardware.base import file_access  # imported late: few commands write a file

    check(path, overwrite)
    try:
        file_access.write(path, (content,) if isinstance(content, str | bytes) else content)
    except OSError as error:
        raise RequestError(f"cannot write {path}: {error.strerror or error}") from None
