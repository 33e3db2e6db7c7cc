"""The terminal programs that the explorer is measured beside, each installed in an environment of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import msgspec
from platformdirs import user_cache_path

CACHE = user_cache_path("hwexplorer") / "bench"
PROFILED = """\
import json

def texts(count):
    return [json.dumps({"key": i, "value": "x" * (i % 97)}) for i in range(count)]

def parsed(count):
    return [json.loads(text) for text in texts(count)]

keep = [parsed(20_000) for _ in range(3)]
"""
REQUEST = "name: first request\nmethod: GET\nurl: http://127.0.0.1:9/\n"


class Peer(msgspec.Struct, frozen=True):
    """`shown` is on screen with the first content of its own; `key` moves its cursor."""

    name: str
    packages: tuple[str, ...]
    arguments: tuple[str, ...]
    shown: re.Pattern[bytes]
    key: bytes
    prepare: Callable[[Path, Path], None]  # given its programs and its folder, once

    @property
    def home(self) -> Path:
        return CACHE / self.name

    @property
    def words(self) -> list[str]:
        return [str(_programs(self.home) / self.name), *self.arguments]


def _programs(home: Path) -> Path:
    return home / "venv" / ("Scripts" if sys.platform == "win32" else "bin")


def _capture(programs: Path, folder: Path) -> None:
    """A real capture for memray: a program that parses 60,000 small texts."""
    (folder / "profiled.py").write_text(PROFILED)
    words = [str(programs / "memray"), "run", "--force", "-o", "capture.bin", "profiled.py"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True)


def _collection(programs: Path, folder: Path) -> None:
    (folder / "first.posting.yaml").write_text(REQUEST)


def _nothing(programs: Path, folder: Path) -> None:
    """Harlequin opens on a database in memory."""


PEERS = (
    Peer("memray", ("memray",), ("tree", "capture.bin"), re.compile(rb"<ROOT>"), b"\x1b[B", _capture),
    Peer("harlequin", ("harlequin",), (), re.compile(rb"memory db"), b"\x1b[B", _nothing),
    Peer(
        "posting",
        ("posting", "tree-sitter<0.26"),  # posting 2.11 dies with 0.26, which its requirements allow
        ("--collection", "."),
        re.compile(rb"first request"),
        b"\t",
        _collection,
    ),
)


def install(peer: Peer) -> str:
    """Make the peer's environment and files unless they are there; what went wrong, or ''."""
    done = peer.home / "installed"
    if done.exists():
        return ""
    try:
        venv.create(peer.home / "venv", with_pip=True, clear=True)
        pip = [str(_programs(peer.home) / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *peer.packages], check=True, capture_output=True, text=True)
        peer.prepare(_programs(peer.home), peer.home)
    except subprocess.CalledProcessError as error:
        lines = str(error.stderr or error).strip().splitlines() or [str(error)]
        return f"not installed: {lines[-1]}"
    except OSError as error:
        return f"not installed: {error}"
    done.touch()
    return ""
