"""Views and pictures of the screen written to files, or sent to the browser that shows the screen."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.app import App

from hardware import policy
from hardware.errors import RequestError
from hwexplorer.export import files
from hwexplorer.state import PANES
from hwexplorer.state import format as format_state
from hwexplorer.tui.prompts.prompt_kinds import PICTURE, OverwritePrompt
from hwexplorer.tui.session.session import Session

FOLDER_SUFFIXES = (".txt", ".json", ".csv", ".html")


def export(app: App[Any], session: Session, name: str, ask: Callable[[OverwritePrompt], None]) -> None:
    """Write the view in focus to a file, the screen to an .svg, or every view to a folder (`name/`, or one that
    exists); a browser gets them as downloads, a folder as one archive. `ask` asks whether to overwrite."""
    if not name:
        session.say("no file named: nothing written", "warn")
        return
    if app.is_web:
        _report(session, lambda: _download(app, session, name))
        return
    try:
        path = Path(name).expanduser()
        is_folder = _names_folder(name) or path.is_dir()
        exists = any(path.iterdir()) if is_folder and path.is_dir() else path.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        session.say(f"cannot write {name[:60]}: {error}", "bad")
        return

    def write(overwrite: bool = True) -> None:
        """Write, and report what came of it."""
        write_all = _write_folder if is_folder else _write_file
        _report(session, lambda: write_all(app, session, path, overwrite))

    if exists:
        question = "has files in it: overwrite those of the same name?" if is_folder else "exists: overwrite?"
        ask(OverwritePrompt(session, f"{name} {question}", write))
    else:
        write(overwrite=False)


def _report(session: Session, work: Callable[[], str]) -> None:
    try:
        session.say(work(), "good")
    except (RequestError, OSError) as error:
        session.say(str(error), "bad")
    except Exception as error:
        session.report_failure(error)


def _names_folder(name: str) -> bool:
    return name.endswith(("/", "\\"))


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


def _folder_contents(app: App[Any], session: Session) -> dict[str, str]:
    """Return by file name all views in all formats, the screen, and the state that brings it back."""
    contents = {}
    for view in PANES:
        for suffix in FOLDER_SUFFIXES:
            try:
                contents[view + suffix] = session.provider.exported(session.state, view, files.SUFFIXES[suffix])
            except RequestError as error:
                if "format" not in str(error):
                    raise
    return {
        **contents,
        f"screen{PICTURE}": screenshot(app, session),
        "state.txt": format_state(session.state) + "\n",
    }


def _write_folder(app: App[Any], session: Session, folder: Path, overwrite: bool) -> str:
    policy.require_unserved(f"writing {folder}")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise RequestError(f"cannot make the folder {str(folder)[:80]}: {error.strerror or error}") from None
    contents = _folder_contents(app, session)
    for name, content in contents.items():
        files.write(folder / name, content, overwrite)
    return f"{len(contents)} files written to {folder}"


def _download(app: App[Any], session: Session, name: str) -> str:
    """Send a file to the browser: nothing is written on this machine."""
    file = Path(name.rstrip("/\\")).name
    if _names_folder(name):
        file += ".zip"
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for part, content in _folder_contents(app, session).items():
                archive.writestr(part, content)
        data = packed.getvalue()
    else:
        data = _content(app, session, Path(file)).encode()
    app.deliver_binary(io.BytesIO(data), save_filename=file)
    return f"{file} goes to the downloads of the browser"
