"""Views and pictures of the screen to files, and what a browser downloads."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path, PurePath

from hardware import policy
from hardware.errors import RequestError
from hwexplorer.export import files
from hwexplorer.state import PANES
from hwexplorer.state import format as format_state
from hwexplorer.tui.prompts import Prompt
from hwexplorer.tui.session import Session

EVERYTHING = (".txt", ".json", ".csv", ".html")
PICTURE = ".svg"
SUFFIXES = (*files.SUFFIXES, PICTURE)


class Export(Prompt):
    """A name is proposed, which gives way to what is typed."""

    label = "export to"

    def __init__(self, session: Session) -> None:
        state = session.state
        name = f"{state.model.rpartition('/')[2].partition(':')[0]}_{state.pane}.txt"
        super().__init__(session, name, selected=True)

    def note(self) -> str:
        return f"{' '.join(SUFFIXES)} or a folder/ · enter writes, esc leaves"

    def offers(self) -> dict[str, str]:
        path = PurePath(self.text)
        stem = str(path.with_suffix("")) if path.name else self.text
        return {suffix: stem + suffix for suffix in SUFFIXES} | {"folder/": f"{stem}/"}

    def enter(self) -> None:
        export(self.session, self.text.strip())


class Overwrite(Prompt):
    """One key decides."""

    def __init__(self, session: Session, name: str, question: str) -> None:
        super().__init__(session, name)
        self.label = question

    def note(self) -> str:
        return "y overwrites, n leaves it"

    def offers(self) -> dict[str, str]:
        return {"y": "y", "n": "n"}

    def click(self, word: str) -> None:
        self.press(word, word or None)

    def press(self, key: str, character: str | None) -> None:
        self.session.stage.ask(None)
        if character in ("y", "Y"):
            export(self.session, self.text, overwrite=True)
        else:
            self.session.say("left as it was", "dim")


def export(session: Session, name: str, overwrite: bool = False) -> None:
    """The focused view to a file, the screen to an .svg, or every view to a folder (`name/`, or one that exists); in
    a browser to its downloads, a folder as one archive."""
    if not name:
        session.say("no file named: nothing written", "warn")
    elif session.stage.app.is_web:
        _try(session, lambda: _download(session, name))
    else:
        _write(session, name, overwrite)


def _write(session: Session, name: str, overwrite: bool) -> None:
    try:
        path = Path(name).expanduser()
        folder = _is_folder(name) or path.is_dir()
        taken = any(path.iterdir()) if folder and path.is_dir() else path.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        session.say(f"cannot write {name[:60]}: {error}", "bad")
        return
    if not overwrite and taken:
        what = "has files in it: overwrite those of the same name?" if folder else "exists: overwrite?"
        session.stage.ask(Overwrite(session, name, f"{name} {what}"))
        return
    _try(session, lambda: _everything(session, path, overwrite) if folder else _one(session, path, overwrite))


def _try(session: Session, work: Callable[[], str]) -> None:
    """What was done, or why it was not, in the foot."""
    try:
        session.say(work(), "good")
    except (RequestError, OSError) as error:
        session.say(str(error), "bad")
    except Exception as error:
        session.fail(error)


def _is_folder(name: str) -> bool:
    return name.endswith(("/", "\\"))


def _one(session: Session, path: Path, overwrite: bool) -> str:
    files.write(path, _content(session, path), overwrite)
    what = "the screen" if path.suffix.lower() == PICTURE else session.state.pane
    return f"{what} written to {path}"


def _content(session: Session, path: Path) -> str:
    """The focused view, or the screen, in the format of a file's suffix."""
    if path.suffix.lower() == PICTURE:
        return picture(session)
    return session.provider.exported(session.state, session.state.pane, files.format_of(path))


def picture(session: Session, state: str = "") -> str:
    """The screen as SVG. It fetches no font nor anything else: whatever the reader has that is monospaced will do."""
    title = f"hwexplorer '{state or format_state(session.state)}'"
    svg = session.stage.app.export_screenshot(title=title, simplify=True)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return svg.replace("Fira Code", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono")


def _contents(session: Session) -> dict[str, str]:
    """All views in all formats, the screen, and the state that brings it back, by file name."""
    exports = {}
    for view in PANES:
        for suffix in EVERYTHING:
            try:
                exports[view + suffix] = session.provider.exported(session.state, view, files.SUFFIXES[suffix])
            except RequestError as error:
                if "format" not in str(error):
                    raise
    return {
        **exports,
        f"screen{PICTURE}": picture(session),
        "state.txt": format_state(session.state) + "\n",
    }


def _everything(session: Session, folder: Path, overwrite: bool) -> str:
    policy.require_unserved(f"writing {folder}")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise RequestError(f"cannot make the folder {str(folder)[:80]}: {error.strerror or error}") from None
    contents = _contents(session)
    for name, content in contents.items():
        files.write(folder / name, content, overwrite)
    return f"{len(contents)} files written to {folder}"


def _download(session: Session, name: str) -> str:
    """Nothing is written on this machine: the browser gets the file."""
    import io
    import zipfile

    file = Path(name.rstrip("/\\")).name
    if _is_folder(name):
        file += ".zip"
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for part, content in _contents(session).items():
                archive.writestr(part, content)
        data = packed.getvalue()
    else:
        data = _content(session, Path(file)).encode()
    session.stage.app.deliver_binary(io.BytesIO(data), save_filename=file)
    return f"{file} goes to the downloads of the browser"
