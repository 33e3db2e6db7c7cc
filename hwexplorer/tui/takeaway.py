"""What leaves the screen: text to the clipboard, views and pictures to files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hardware.errors import RequestError
from hwexplorer.state import PANES
from hwexplorer.state import format as format_state
from hwexplorer.tui import clipboard
from hwexplorer.tui.copied import copied
from hwexplorer.tui.prompt import Prompt
from hwexplorer.tui.widgets.table import TreeTable

if TYPE_CHECKING:
    from hwexplorer.tui.app import HwExplorer

EVERYTHING = (".txt", ".json", ".csv", ".html")


def export(app: HwExplorer, name: str, overwrite: bool) -> None:
    """The focused view to a file, the screen to an .svg, or every view to a folder (`name/`, or one that exists)."""
    if not name:
        app.say("no file named: nothing written", "warn")
        return
    try:
        path = Path(name).expanduser()
        folder = name.endswith(("/", "\\")) or path.is_dir()
        taken = any(path.iterdir()) if folder and path.is_dir() else path.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        app.say(f"cannot write {name[:60]}: {error}", "bad")
        return
    if not overwrite and taken:
        what = "has files in it: overwrite those of the same name?" if folder else "exists: overwrite?"
        app.prompt = Prompt("overwrite", f"{name} {what}", name, len(name))
        app.show_lines(app.size.width)
        return
    try:
        if folder:
            app.say(_everything(app, path, overwrite), "good")
        elif path.suffix.lower() == ".svg":
            app.say(_picture(app, path, overwrite), "good")
        else:
            app.say(app.provider.export(app.state, app.state.pane, path, overwrite), "good")
    except (RequestError, OSError) as error:
        app.say(str(error), "bad")
    except Exception as error:
        app.fail(error)


def _picture(app: HwExplorer, path: Path, overwrite: bool) -> str:
    from hwexplorer.export import files
    from hwexplorer.tui.screenshots import offline

    picture = offline(app.export_screenshot(title=f"hwexplorer '{format_state(app.state)}'", simplify=True))
    files.write(path, picture, overwrite)
    return f"the screen written to {path}"


def _everything(app: HwExplorer, folder: Path, overwrite: bool) -> str:
    """All views in all formats, the screen, and the state that brings it back."""
    from hwexplorer.export import files

    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise RequestError(f"cannot make the folder {str(folder)[:80]}: {error.strerror or error}") from None
    count = 2
    for view in PANES:
        for suffix in EVERYTHING:
            try:
                app.provider.export(app.state, view, folder / f"{view}{suffix}", overwrite)
            except RequestError as error:
                if "format" in str(error):
                    continue
                raise
            count += 1
    _picture(app, folder / "screen.svg", overwrite)
    files.write(folder / "state.txt", format_state(app.state) + "\n", overwrite)
    return f"{count} files written to {folder}"


def copy(app: HwExplorer, what: str) -> None:
    """Off the event loop: a clipboard program may take its time."""
    content = app.contents[app.state.pane]
    text = copied(what, app.state, content if isinstance(content, TreeTable) else app.outline)
    if not text:
        app.say("nothing here to copy", "warn")
        return

    def work() -> None:
        route = clipboard.copy(text)
        app.call_from_thread(told, route)

    def told(route: str | None) -> None:
        if route is None:
            app.copy_to_clipboard(text)
            route = "the terminal (OSC 52)"
        short = text if len(text) <= 60 else text[:57] + "..."
        app.say(f"copied through {route}: {short}", "good")

    app.run_worker(work, thread=True, exit_on_error=False)
