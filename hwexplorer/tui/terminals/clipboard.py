"""Copying through the platform's own clipboard program. Without one, the app uses the terminal's OSC 52."""

import os
import subprocess
import sys
from shutil import which

# A command, and the variable of the environment that it needs.
_PROGRAMS = (
    ("wl-copy", "WAYLAND_DISPLAY"),
    ("xclip -selection clipboard", "DISPLAY"),
    ("xsel --clipboard --input", "DISPLAY"),
    ("clip.exe", "WSL_DISTRO_NAME"),
)
TIMEOUT = 2.0


def program() -> list[str] | None:
    """Return the clipboard command of this session, or None. Over ssh or in a browser it would fill the wrong
    clipboard."""
    if os.environ.get("SSH_CONNECTION") or os.environ.get("TEXTUAL_DRIVER"):
        return None
    if sys.platform == "darwin" and which("pbcopy"):
        return ["pbcopy"]
    known = (text.split() for text, needs in _PROGRAMS if os.environ.get(needs))
    return next((command for command in known if which(command[0])), None)


def copy(text: str) -> str | None:
    """Copy with a program. Return its name, or None if no program works."""
    command, quiet = program(), subprocess.DEVNULL
    if command is None:
        return None
    try:
        subprocess.run(command, input=text.encode(), stdout=quiet, stderr=quiet, timeout=TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return command[0]
