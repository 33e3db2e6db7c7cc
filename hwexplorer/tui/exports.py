"""Views and pictures of the screen to files, and what a browser downloads."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hardware import policy
from hardware.errors import RequestError
from hwexplorer.state import PANES
from hwexplorer.state import format as format_state
from hwexplorer.tui.prompt import Prompt

if TYPE_CHECKING:
    from hwexplorer.tui.app import HwExplorer

EVERYTHING = (".txt", ".json", ".csv", ".html")
PICTURE = ".svg"


def export(app: HwExplorer, name: str, overwrite: bool) -> None:
    """The focused view to a file, the screen to an .svg, or every view to a folder (`name/`, or one that exists); in
    a browser to its downloads, a folder as one archive."""
    if not name:
        app.say("no file named: nothing written", "warn")
    elif app.is_web:
        _try(app, lambda: _download(app, name))
    else:
        _write(app, name, overwrite)


def _write(app: HwExplorer, name: str, overwrite: bool) -> None:
    try:
        path = Path(name).expanduser()
        folder = _is_folder(name) or path.is_dir()
        taken = any(path.iterdir()) if folder and path.is_dir() else path.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        app.say(f"cannot write {name[:60]}: {error}", "bad")
        return
    if not overwrite and taken:
        what = "has files in it: overwrite those of the same name?" if folder else "exists: overwrite?"
        app.prompt = Prompt("overwrite", f"{name} {what}", name, len(name))
        app.show_lines(app.size.width)
        return
    _try(app, lambda: _everything(app, path, overwrite) if folder else _one(app, path, overwrite))


def _try(app: HwExplorer, work: Callable[[], str]) -> None:
    """What was done, or why it was not, in the foot."""
    try:
        app.say(work(), "good")
    except (RequestError, OSError) as error:
        app.say(str(error), "bad")
    except Exception as error:
        app.fail(error)


def _is_folder(name: str) -> bool:
    return name.endswith(("/", "\\"))


def _one(app: HwExplorer, path: Path, overwrite: bool) -> str:
    from hwexplorer.export import files

    files.write(path, _content(app, path), overwrite)
    what = "the screen" if path.suffix.lower() == PICTURE else app.state.pane
    return f"{what} written to {path}"


def _content(app: HwExplorer, path: Path) -> str:
    """The focused view, or the screen, in the format of a file's suffix."""
    from hwexplorer.export import files

    if path.suffix.lower() == PICTURE:
        return picture(app, format_state(app.state))
    return app.provider.exported(app.state, app.state.pane, files.format_of(path))


def picture(app: HwExplorer, state: str) -> str:
    """The screen as SVG. It fetches no font nor anything else: whatever the reader has that is monospaced will do."""
    svg = app.export_screenshot(title=f"hwexplorer '{state}'", simplify=True)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return svg.replace("Fira Code", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono")


def _contents(app: HwExplorer) -> dict[str, str]:
    """All views in all formats, the screen, and the state that brings it back, by file name."""
    from hwexplorer.export import files

    exports = {}
    for view in PANES:
        for suffix in EVERYTHING:
            try:
                exports[view + suffix] = app.provider.exported(app.state, view, files.SUFFIXES[suffix])
            except RequestError as error:
                if "format" not in str(error):
                    raise
    return {
        **exports,
        f"screen{PICTURE}": picture(app, format_state(app.state)),
        "state.txt": format_state(app.state) + "\n",
    }


def _everything(app: HwExplorer, folder: Path, overwrite: bool) -> str:
    from hwexplorer.export import files

    policy.require("write", f"writing {folder}")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise RequestError(f"cannot make the folder {str(folder)[:80]}: {error.strerror or error}") from None
    contents = _contents(app)
    for name, content in contents.items():
        files.write(folder / name, content, overwrite)
    return f"{len(contents)} files written to {folder}"


def _download(app: HwExplorer, name: str) -> str:
    """Nothing is written on this machine: the browser gets the file."""
    import io
    import zipfile

    from hwexplorer.tui.browser import FILE_MAX

    file = Path(name.rstrip("/\\")).name
    if _is_folder(name):
        file += ".zip"
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for part, content in _contents(app).items():
                archive.writestr(part, content)
        data = packed.getvalue()
    else:
        data = _content(app, Path(file)).encode()
    if len(data) > FILE_MAX:
        raise RequestError(f"{file[:60]} would be {len(data) >> 20} MiB: a download is at most {FILE_MAX >> 20} MiB")
    app.deliver_binary(io.BytesIO(data), save_filename=file)
    return f"{file} goes to the downloads of the browser"
