"""What is shown over all panes: the help, a device sheet, a report, sessions, the device picker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from hardware.errors import RequestError
from hwexplorer import terms
from hwexplorer.state import replace
from hwexplorer.tui import actions, query
from hwexplorer.tui.prompt import Prompt
from hwexplorer.tui.widgets.heads import Headed
from hwexplorer.views.plain import Text

if TYPE_CHECKING:
    from hwexplorer.tui.app import HwExplorer


def show_text(app: HwExplorer, name: str, heading: str, text: Text) -> None:
    """Prose over everything, until escape."""
    app.told = text
    search(app, "")
    app.help.top = 0
    pane = app.panes["help"]
    pane.heading, pane.remark = heading, "/ searches · esc closes"
    app.overlay = name
    app.show()


def search(app: HwExplorer, text: str) -> None:
    """Of the prose over everything only the lines with these words, under their headings."""
    words = text.casefold().split()
    sections = (
        (head, tuple(s for s in said if all(w in s.casefold() for w in words))) for head, said in app.told.sections
    )
    kept = tuple((head, said) for head, said in sections if said) if words else app.told.sections
    app.help.update(msgspec.structs.replace(app.told, sections=kept))


def help(app: HwExplorer, _: Any) -> None:
    """What is in the focused pane, then all terms, then all keys."""
    pane = app.state.pane
    content = app.contents[pane]
    columns = content.table.columns if isinstance(content, Headed) else ()
    here = tuple(f"{column.title}\t{terms.help_of(column)}" for column in columns if terms.help_of(column))
    sections = [(f"Columns of {pane}", here)] if here else []
    keys = [(name, actions.help_lines(group, pane)) for name, group in app.keymap.groups(pane)]
    show_text(app, "help", "Terms and keys", Text("help", f"help {pane}", (*sections, *terms.sections(), *keys)))


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
    if action is not None and action.id in ("find", "filter"):
        app.prompt = Prompt("search", "search")
        app.show_lines(app.size.width)
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
    text = f"{app.state.limits} " if app.state.limits else ""
    app.prompt = Prompt("devices", "devices", text, len(text), before=text)
    fill_picker(app)
    app.picker.go(app.state.on)
    app.show()


def fill_picker(app: HwExplorer) -> None:
    table = app.cache.view("devices", app.state)
    text = asked(app)
    words = [word.casefold() for word in query.words(text)]
    is_limited = len(words) < len(text.split())
    if is_limited:
        try:
            table = app.limits.applied(app, table, text)
        except RequestError:
            is_limited = False  # half typed; the note says what is missing
    rows = tuple(
        row for row in table.rows if all(word in " ".join([row.key, *map(str, row.cells)]).casefold() for word in words)
    )
    before = app.picker.key
    app.picker.update(msgspec.structs.replace(table, rows=rows))
    keys = [row.key for row in rows]
    app.picker.go(next((key for key in (*words, before) if key in keys), keys[0] if keys else ""))
    app.panes["picker"].heading = f"Devices · {len(app.state.devices)} chosen"
    app.panes["picker"].remark = f"{len(rows)} of {len(table.rows)}"
    if is_limited and app.limits.more(app, keys):
        app.set_timer(0.01, lambda: _again(app))


def asked(app: HwExplorer) -> str:
    """What is typed: commas part it, for space adds a device."""
    return app.prompt.text.replace(",", " ") if app.prompt is not None else ""


def _again(app: HwExplorer) -> None:
    """Some more figures are known."""
    if app.overlay == "picker":
        fill_picker(app)
        app.panes["picker"].redraw()
        app.show_lines(app.size.width)


def enter_adds(app: HwExplorer) -> bool:
    """Whoever types a device and presses enter wants it; whoever has chosen with space is done."""
    row = app.picker.row
    typed = app.prompt is not None and app.prompt.kind == "devices" and bool(query.words(asked(app)))
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
