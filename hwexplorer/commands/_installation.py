"""The text of `hwexplorer --version --verbose`: versions, terminal, colours, clipboard and user folders here."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from hwexplorer import __version__


def describe() -> str:
    """Return all facts as text, a line each: (name, value, what to do where something is missing)."""
    facts = (*_versions(), *_terminal(), *_folders())
    lines = (f"{name:16} {value}" + "".join(f" ({each})" for each in remedy if each) for name, value, *remedy in facts)
    return "\n".join((*lines, ""))


def _versions() -> Iterator[tuple[str, ...]]:
    yield "hwexplorer", f"{__version__} in {Path(__file__).parents[2]}"
    yield "python", f"{platform.python_version()} on {platform.platform()}"
    try:
        requirements = importlib.metadata.requires("hwexplorer") or []
    except importlib.metadata.PackageNotFoundError:  # a checkout that is not installed
        yield "libraries", "unknown: hwexplorer is not installed as a package"
        return
    for line in requirements:
        name = re.match(r"[\w.-]+", line)
        extra = re.search(r"""extra == ['"]([\w-]+)['"]""", line)
        if name is None or (extra is not None and extra[1] == "dev"):
            continue
        try:
            yield name[0], importlib.metadata.version(name[0])
        except importlib.metadata.PackageNotFoundError:
            package = name[0] if extra is None else f"hwexplorer[{extra[1]}]"
            yield name[0], "not installed", f"pip install {package}"


def _terminal() -> Iterator[tuple[str, ...]]:
    from hwexplorer.tui.terminals import clipboard

    size, encoding = shutil.get_terminal_size(), getattr(sys.stdout, "encoding", None) or "none"
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    yield "output", "a terminal" if is_terminal else "no terminal: verbs print, no screen opens"
    yield "TERM", f"{os.environ.get('TERM', 'not set')}, {size.columns}x{size.lines}"
    is_unicode = encoding.lower().replace("-", "").startswith("utf")
    yield "encoding", encoding, "" if is_unicode else "hwexplorer --ascii, or LANG=C.UTF-8"
    yield "colours", _colours()
    program = clipboard.program()
    yield "clipboard", program[0] if program else "none of its own: the terminal's (OSC 52)"


def _colours() -> str:
    if os.environ.get("NO_COLOR"):
        return "none: NO_COLOR is set"
    if os.environ.get("COLORTERM", "") in ("truecolor", "24bit"):
        return "all (COLORTERM)"
    return "256 or more" if "256" in os.environ.get("TERM", "") else "16"


def _folders() -> Iterator[tuple[str, ...]]:
    from hardware.places import cache_folder, user_folder
    from hwexplorer.tui.session.saved_sessions import sessions_file
    from hwexplorer.tui.user_settings import settings_file

    for name, folder in (("cache", cache_folder()), ("settings", settings_file().parent),
                         ("sessions", sessions_file().parent), ("data", user_folder("data"))):  # fmt: skip
        existing = next((each for each in (folder, *folder.parents) if each.exists()), folder)
        is_writable = existing.is_dir() and os.access(existing, os.W_OK)
        content = f", {sum(1 for _ in folder.iterdir())} files" if folder.is_dir() else ", not made yet"
        yield name, f"{folder}{content}", "" if is_writable else "cannot be written"
