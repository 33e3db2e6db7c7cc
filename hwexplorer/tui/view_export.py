"""Views and pictures of the screen written to files, or sent to the browser that shows the screen.

Copying through the platform's own clipboard program. Without one, the app uses the terminal's OSC 52.
"""

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import which
from typing import Any

from textual.app import App

from hardware.base.errors import RequestError
from hwexplorer.export import files
from hwexplorer.state import format as format_state
from hwexplorer.tui.prompts import PICTURE, OverwritePrompt
from hwexplorer.tui.session.session import Session
from hwexplorer.views import layout


def export(app: App[Any], session: Session, name: str, ask: Callable[[OverwritePrompt], None]) -> None:
    """Write the focused view to a file, or the screen to an .svg. In a browser the file is a download, and nothing is
    written on this machine. `ask` asks whether to overwrite."""
    if not name:
        session.say("no file was named: nothing is written", "warn")
        return
    try:
        path = Path(Path(name).name) if app.is_web else Path(name).expanduser()
        exists = not app.is_web and path.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        session.say(f"cannot write {name[:60]}: {error}", "bad")
        return

    def write(overwrite: bool = True) -> None:
        """Write the file and show the result as a message."""
        try:
            is_picture = path.suffix.lower() == PICTURE
            view = session.state.view
            form = "" if is_picture else files.format_of(path)
            content = screenshot(app, session) if is_picture else session.provider.exported(session.state, view, form)
            if app.is_web:
                app.deliver_binary(io.BytesIO(content.encode()), save_filename=path.name)
                session.say(f"{path} goes to the browser's downloads", "good")
            else:
                files.write(path, content, overwrite)
                session.say(f"{'the screen' if is_picture else view} written to {path}", "good")
        except (RequestError, OSError) as error:
            session.say(str(error), "bad")
        except Exception as error:
            session.report_failure(error)

    if exists:
        ask(OverwritePrompt(session, f"{name} exists: overwrite?", write))
    else:
        write(overwrite=False)


def screenshot(app: App[Any], session: Session, state: str = "") -> str:
    """Return the screen as SVG. It fetches no font, but names monospaced fonts of the reader's machine. Viewers with
    librsvg keep spaces only if asked to."""
    title = layout.shorten(
        f"hwexplorer '{state or format_state(session.state)}'", app.size.width - 12
    )  # beside the buttons
    svg = app.export_screenshot(title=title, simplify=True)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace("<svg ", '<svg xml:space="preserve" ', 1)
    return svg.replace("Fira Code", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono")


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
