"""Views and pictures of the screen written to files, or sent to the browser that shows the screen."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.app import App

from hardware.errors import RequestError
from hwexplorer.export import files
from hwexplorer.state import format as format_state
from hwexplorer.tui.prompts.prompt_kinds import PICTURE, OverwritePrompt
from hwexplorer.tui.session.session import Session


def export(app: App[Any], session: Session, name: str, ask: Callable[[OverwritePrompt], None]) -> None:
    """Write the view in focus to a file, or the screen to an .svg; a browser gets a download. `ask` asks whether to
    overwrite."""
    if not name:
        session.say("no file named: nothing written", "warn")
        return
    if app.is_web:
        _report(session, lambda: _download(app, session, name))
        return
    try:
        path = Path(name).expanduser()
        exists = path.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        session.say(f"cannot write {name[:60]}: {error}", "bad")
        return

    def write(overwrite: bool = True) -> None:
        """Write, and report what came of it."""
        _report(session, lambda: _write_file(app, session, path, overwrite))

    if exists:
        ask(OverwritePrompt(session, f"{name} exists: overwrite?", write))
    else:
        write(overwrite=False)


def _report(session: Session, work: Callable[[], str]) -> None:
    try:
        session.say(work(), "good")
    except (RequestError, OSError) as error:
        session.say(str(error), "bad")
    except Exception as error:
        session.report_failure(error)


def _write_file(app: App[Any], session: Session, path: Path, overwrite: bool) -> str:
    files.write(path, _content(app, session, path), overwrite)
    content = "the screen" if path.suffix.lower() == PICTURE else session.state.pane
    return f"{content} written to {path}"


def _content(app: App[Any], session: Session, path: Path) -> str:
    if path.suffix.lower() == PICTURE:
        return screenshot(app, session)
    return session.provider.exported(session.state, session.state.pane, files.format_of(path))


def screenshot(app: App[Any], session: Session, state: str = "") -> str:
    """Return the screen as SVG. It fetches no font: whatever the reader has that is monospaced will do."""
    svg = app.export_screenshot(title=f"hwexplorer '{state or format_state(session.state)}'", simplify=True)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return svg.replace("Fira Code", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono")


def _download(app: App[Any], session: Session, name: str) -> str:
    """Send a file to the browser: nothing is written on this machine."""
    file = Path(name).name
    app.deliver_binary(io.BytesIO(_content(app, session, Path(file)).encode()), save_filename=file)
    return f"{file} goes to the downloads of the browser"
