"""What there is to run with here: versions, torch or not, terminal, colours, clipboard, cache and user folders."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from analysis.document import Column
from hwexplorer import __version__
from hwexplorer.declare import CATALOGUE, Report, Rows
from hwexplorer.state import State


class Finding(msgspec.Struct, frozen=True):
    """`holds`: None where it is neither well nor amiss. `says` is what follows where it is amiss."""

    topic: str
    name: str
    value: str
    holds: bool | None = None
    says: str = ""


class Doctor(msgspec.Struct, frozen=True):
    holds: bool
    findings: tuple[Finding, ...]


_VERDICT = {True: "ok", False: "LACKS", None: ""}
COLUMNS = (
    Column("topic", "", role="text", keep=0),
    Column("name", "What", role="text", keep=0),
    Column("verdict", "", role="text", keep=0, of="holds", shown=_VERDICT),
    Column("value", "Found", role="text", keep=0),
    Column("says", "", role="text", keep=1),
)


def _document(state: State) -> Doctor:
    findings = (*_versions(), *_terminal(), *_folders())
    needed = [finding for finding in findings if finding.topic != "optional"]
    return Doctor(all(finding.holds is not False for finding in needed), findings)


def _versions() -> Iterator[Finding]:
    yield Finding("program", "hwexplorer", f"{__version__} in {Path(__file__).parents[1]}", True)
    yield Finding("program", "python", f"{platform.python_version()} on {platform.platform()}", True)
    try:
        wanted = importlib.metadata.requires("hwexplorer") or []
    except importlib.metadata.PackageNotFoundError:  # a checkout that is not installed
        yield Finding("program", "libraries", "not installed as a package: what it needs is not listed")
        return
    for line in wanted:
        name = re.match(r"[\w.-]+", line)
        extra = re.search(r"""extra == ['"]([\w-]+)['"]""", line)
        if name is None or (extra is not None and extra[1] == "dev"):
            continue
        try:
            version, is_there = importlib.metadata.version(name[0]), True
        except importlib.metadata.PackageNotFoundError:
            version, is_there = "not installed", False
        says = "" if is_there else f"pip install {name[0] if extra is None else f'hwexplorer[{extra[1]}]'}"
        yield Finding("library" if extra is None else "optional", name[0], version, is_there, says)


def _terminal() -> Iterator[Finding]:
    from hwexplorer.tui import clipboard

    size, encoding = shutil.get_terminal_size(), getattr(sys.stdout, "encoding", None) or "none"
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    yield Finding("terminal", "output", "a terminal" if is_terminal else "no terminal: verbs print, no screen opens")
    yield Finding("terminal", "TERM", f"{os.environ.get('TERM', 'not set')}, {size.columns}x{size.lines}")
    is_wide = encoding.lower().replace("-", "").startswith("utf")
    yield Finding("terminal", "encoding", encoding, is_wide, "" if is_wide else "hwexplorer --ascii, or LANG=C.UTF-8")
    yield Finding("terminal", "colours", _colours())
    program = clipboard.program()
    yield Finding("terminal", "clipboard", program[0] if program else "none of its own: the terminal's (OSC 52)")


def _colours() -> str:
    if os.environ.get("NO_COLOR"):
        return "none: NO_COLOR is set"
    if os.environ.get("COLORTERM", "") in ("truecolor", "24bit"):
        return "all (COLORTERM)"
    return "256 or more" if "256" in os.environ.get("TERM", "") else "16"


def _folders() -> Iterator[Finding]:
    from hardware.places import cache_folder, user_folder
    from hwexplorer.tui import paths

    for name, folder in (("cache", cache_folder()), ("settings", paths.settings_file().parent),
                         ("sessions", paths.sessions_file().parent), ("data", user_folder("data"))):  # fmt: skip
        there = next((each for each in (folder, *folder.parents) if each.exists()), folder)
        is_writable = there.is_dir() and os.access(there, os.W_OK)
        held = f", {sum(1 for _ in folder.iterdir())} files" if folder.is_dir() else ", not made yet"
        yield Finding("folder", name, f"{folder}{held}", is_writable, "" if is_writable else "cannot be written")


VERB = Report(
    subject=CATALOGUE,
    document=_document,
    parts=(
        Rows(
            name="doctor",
            title=lambda doctor: "All is well" if doctor.holds else "Something is amiss",
            columns=COLUMNS,
            of="findings",
            key=("topic", "name"),
        ),
    ),
    on_screen=False,
    shown=("", "--format json"),
)
