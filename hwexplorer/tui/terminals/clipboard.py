"""Copying: the platform's own programs first, then the terminal's OSC 52. Says which way it went."""

from __future__ import annotations

import os
import subprocess
import sys
from shutil import which

_PROGRAMS = (
    ("wl-copy", ("wl-copy",), "WAYLAND_DISPLAY"),
    ("xclip", ("xclip", "-selection", "clipboard"), "DISPLAY"),
    ("xsel", ("xsel", "--clipboard", "--input"), "DISPLAY"),
    ("clip.exe", ("clip.exe",), "WSL_DISTRO_NAME"),
)
TIMEOUT = 2.0


def program() -> tuple[str, tuple[str, ...]] | None:
    """The clipboard program of this session, if it has one. Over ssh or in a browser it would be the wrong one."""
    if os.environ.get("SSH_CONNECTION") or os.environ.get("TEXTUAL_DRIVER"):
        return None
    if sys.platform == "darwin" and which("pbcopy"):
        return "pbcopy", ("pbcopy",)
    for name, command, needs in _PROGRAMS:
        if os.environ.get(needs) and which(command[0]):
            return name, command
    return None


def copy(text: str) -> str | None:
    """Copy with a program; its name, or None when there is none that works."""
    chosen = program()
    if chosen is None:
        return None
    name, command = chosen
    try:
        subprocess.run(
            command,
            input=text.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return name
