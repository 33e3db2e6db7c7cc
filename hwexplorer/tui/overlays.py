"""What is shown over all panes: the help, a device sheet, a report, sessions, the device picker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from hardware.errors import RequestError
from hwexplorer.state import replace
from hwexplorer.tui import actions
from hwexplorer.tui.prompt import Prompt
from hwexplorer.views.plain import Text

if TYPE_CHECKING:
    from hwexplorer.tui.app import HwExplorer


def show_text(app: HwExplorer, name: str, heading: str, text: Text) -> None:
    """Prose over everything, until escape."""
    app.help.update(text)
    app.help.top = 0
    pane = app.panes["help"]
    pane.heading, pane.remark = heading, "esc closes"
    app.overlay = name
    app.show()


def help(app: HwExplorer, _: Any) -> None:
    pane = app.state.pane
    sections = tuple((name, actions.help_lines(group, pane)) for name, group in app.keymap.groups(pane))
    show_text(app, "help", "Keys", Text("help", f"help {pane}", sections))


def sheet(app: HwExplorer, name: str | None) -> None:
    """The device under the cursor, or the one named."""
    try:
        text = app.provider.device(name or app.state.on)
    except RequestError as error:
        app.say(str(error), "bad")
        return
    show_text(app, "sheet", text.title, text)


def key(app: HwExplorer, key: str, character: str | None) -> bool:
    """A key while text is over the panes."""
    action = app.keymap.find(character or key, app.state.pane) or app.keymap.find(key, app.state.pane)
    moves: dict[str, Callable[[], Any]] = {
        "down": lambda: app.help.scroll(1),
        "up": lambda: app.help.scroll(-1),
        "page_down": lambda: app.help.scroll(app.help.page()),
        "page_up": lambda: app.help.scroll(-app.help.page()),
        "first": lambda: app.help.scroll(-(10**6)),
        "last": lambda: app.help.scroll(10**6),
    }
    if action is not None and action.id in moves:
        moves[action.id]()
        app.panes["help"].redraw()
        return True
    if key == "escape" or (action is not None and action.id in ("help", "back", "quit", "sheet")):
        app.overlay = ""
        app.show()
        return True
    if action is not None and action.id == "command":
        app.overlay = ""
        app.show()
        app.perform("command")
        return True
    return False


# --- devices ----------------------------------------------------------------------------------------------


def devices(app: HwExplorer, _: Any) -> None:
    """The catalogue over everything; typing narrows it, space adds a device or takes it away."""
    app.overlay, app.picked = "picker", False
    app.prompt = Prompt("devices", "devices")
    fill_picker(app)
    app.picker.go(app.state.on)
    app.show()


def fill_picker(app: HwExplorer) -> None:
    table = app.provider.devices(app.state)
    words = app.prompt.text.casefold().split() if app.prompt is not None else []
    rows = tuple(
        row for row in table.rows if all(word in " ".join([row.key, *map(str, row.cells)]).casefold() for word in words)
    )
    app.picker.update(msgspec.structs.replace(table, rows=rows))
    if len(words) == 1 and any(row.key == words[0] for row in rows):
        app.picker.go(words[0])
    app.panes["picker"].heading = f"Devices · {len(app.state.devices)} chosen"
    app.panes["picker"].remark = f"{len(rows)}/{len(table.rows)}"


def enter_adds(app: HwExplorer) -> bool:
    """Whoever types a device and presses enter wants it; whoever has chosen with space is done."""
    row = app.picker.row
    typed = app.prompt is not None and app.prompt.kind == "devices" and bool(app.prompt.text)
    return typed and not app.picked and row is not None and row.key not in app.state.devices


def pick(app: HwExplorer) -> None:
    """Add the device under the cursor, or take it away."""
    state, row = app.state, app.picker.row
    app.picked = True
    if row is None:
        return
    if row.key in state.devices:
        rest = tuple(name for name in state.devices if name != row.key)
        if not rest:
            app.say("one device has to stay", "warn")
            return
        app.apply(replace(state, devices=rest))
    else:
        app.apply(replace(state, devices=(*state.devices, row.key), on=state.on))
    place = app.picker.cursor
    fill_picker(app)
    app.picker.move(place - app.picker.cursor)
