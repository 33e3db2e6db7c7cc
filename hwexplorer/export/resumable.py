"""A long output that is made in pieces: what is made is kept when it is broken off, and the rest follows later.

It grows in `FILE.KEY.part`, which is renamed when it is whole: nothing else is ever there, whatever ends the program.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from hardware import files
from hardware.errors import RequestError


class Busy(RequestError):
    """Another process writes the same output."""


def part(target: Path, key: str) -> Path:
    """Where the output grows. Another key is another output."""
    place = Path(os.path.realpath(target))
    return place.with_name(f"{place.name[:200]}.{key}.part")


def takes(target: Path) -> bool:
    """Whether it is a file, or none yet: a FIFO or a device is written into."""
    return not target.exists() or stat.S_ISREG(target.stat().st_mode)


def write(target: Path, key: str, kept_bytes: int, pieces: Iterable[str]) -> None:
    """Keep so many bytes of what is there and append the pieces. Raises OSError, and `Busy`."""
    place, growing = Path(os.path.realpath(target)), part(target, key)
    with os.fdopen(os.open(growing, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as file:
        if not files.lock(file.fileno(), wait=False):
            raise Busy(f"another sweep writes {target}")
        file.truncate(kept_bytes)
        file.seek(kept_bytes)
        for piece in pieces:
            file.write(piece.encode())
            file.flush()
    if place.exists():
        os.chmod(growing, stat.S_IMODE(place.stat().st_mode))
    os.replace(growing, place)
    for other in place.parent.glob("*.part"):
        if re.fullmatch(re.escape(place.name[:200]) + r"\.[0-9a-f]{12}\.part", other.name):
            other.unlink(missing_ok=True)
