"""What actions do beyond changing the state: moving by rows, typing, copying, writing files, the long work.

Each takes the app and the argument that the registry names.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardware.errors import RequestError
from hwexplorer import state as states
from hwexplorer.state import State, replace
from hwexplorer.tui import actions, clipboard, navigate
from hwexplorer.tui.copied import copied
from hwexplorer.tui.palette import THEMES
from hwexplorer.tui.prompt import Prompt, edit
from hwexplorer.tui.widgets.table import TreeTable
from hwexplorer.views.plain import Text

if TYPE_CHECKING:
    from hwexplorer.tui.app import HwExplorer

# --- moving -----------------------------------------------------------------------------------------------


def move(app: HwExplorer, by: int) -> None:
    """By rows in the focused pane. In Tree, Compare and Plot the one linked cursor moves."""
    pane = app.state.pane
    key = app.contents[pane].move(by)
    if pane == "tree" or (pane == "compare" and key):
        if not app.apply(replace(app.state, **{"at" if pane == "tree" else "on": key})):
            app.show()  # refused, or at the end: the cursor goes back to where the state has it
    elif pane == "plot" and key in app.index.place:
        app.move_to(key)
    else:
        app.panes[pane].refresh()


def page(app: HwExplorer, direction: int) -> None:
    move(app, direction * app.contents[app.state.pane].page())


def fold(app: HwExplorer, want: bool | None, every: bool = False) -> bool:
    """In Events, branches are the pane's own affair; False where they are the state's."""
    if app.state.pane != "events":
        return False
    if every:
        keys = (r.key for r in app.events.table.rows if r.has_children and want)
        app.events.unfold(frozenset(keys))
    else:
        app.events.toggle(want)
    app.panes["events"].refresh()
    return True


def open_branch(app: HwExplorer, _: Any) -> None:
    if fold(app, True):
        return
    state, index = app.state, app.index
    below = index.children(state.at)
    if not below:
        return
    if state.at and state.at not in navigate.shown(index, state.open, state.at):
        app.apply(replace(state, open=(*state.open, state.at)))
    else:
        app.apply(replace(state, at=below[0]))


def close_branch(app: HwExplorer, _: Any) -> None:
    if fold(app, False):
        return
    state, index = app.state, app.index
    if state.at in state.open:
        app.apply(replace(state, open=tuple(k for k in state.open if k != state.at)))
    elif not state.at:
        app.apply(replace(state, open=()))
    else:
        app.apply(replace(state, at=index.parent.get(state.at) or ""))


def toggle(app: HwExplorer, _: Any) -> None:
    if fold(app, None):
        return
    state = app.state
    if state.at in state.open or (not state.at and state.open):
        close_branch(app, None)
    elif app.index.children(state.at) and state.at:
        app.apply(replace(state, open=(*state.open, state.at)))
    elif state.at and not app.index.children(state.at):
        # On a leaf the branch it belongs to closes, and the cursor goes to it.
        parent = app.index.parent.get(state.at) or ""
        app.apply(replace(state, at=parent, open=tuple(k for k in state.open if k != parent)))
    else:
        subtree(app, 1)


def subtree(app: HwExplorer, opened: int) -> None:
    if fold(app, bool(opened), every=True):
        return
    state, index = app.state, app.index
    branches = index.branches([state.at, *index.below(state.at)]) - {""}
    rest = tuple(k for k in state.open if k not in branches)
    app.apply(replace(state, open=(*rest, *sorted(branches)) if opened else rest))


def heaviest(app: HwExplorer, _: Any) -> None:
    app.move_to(app.index.heaviest(app.state.at))


def find(app: HwExplorer, step: int) -> None:
    """The next match of what was searched for; in the model list, the next row."""
    state = app.state
    if state.pane == "models":
        move(app, step)
        return
    if not state.find:
        prompt(app, "find")
        return
    found = navigate.find(app.index.table, state.find, state.at, step)
    if found is None:
        app.say(f"nothing in the tree holds {state.find!r}", "warn")
    else:
        app.move_to(found)


def click(app: HwExplorer, pane: str, y: int) -> None:
    """A click goes to the pane and its row; on the row of the cursor it opens or loads."""
    app.apply(replace(app.state, pane=pane))
    content = app.contents[pane]
    key = content.at(y) if isinstance(content, TreeTable) and y >= 0 else None
    if key is None or not isinstance(content, TreeTable):
        return
    again = key == content.key
    if pane == "tree":
        toggle(app, None) if again else app.apply(replace(app.state, at=key))
    elif pane == "compare":
        app.apply(replace(app.state, on=key))
    elif pane == "models" and again:
        choose(app, None)
    elif pane == "events" and again:
        app.events.toggle()
    else:
        content.go(key)
    app.show()


# --- the state --------------------------------------------------------------------------------------------


def with_model(state: State, model: str, image_size: int | None = None) -> State:
    """Another model: nothing of the old one's tree is left."""
    if model == state.model and image_size == state.image_size:
        return state
    return replace(state, model=model, image_size=image_size, at="", open=(), find="")


def choose(app: HwExplorer, _: Any) -> None:
    if app.models.row is not None:
        app.apply(with_model(app.state, app.models.key))


def undo(app: HwExplorer, _: Any) -> None:
    history = states.undo(app.history)
    if history is app.history:
        app.say("nothing to undo", "dim")
    else:
        app.apply(history.present, history)


def redo(app: HwExplorer, _: Any) -> None:
    history = states.redo(app.history)
    if history is app.history:
        app.say("nothing to redo", "dim")
    else:
        app.apply(history.present, history)


def swap(app: HwExplorer, _: Any) -> None:
    if not app.state.pin:
        app.say("nothing is pinned yet: p pins what is on screen", "warn")
    else:
        app.apply(actions.swap_pin(app.state))


def plot(app: HwExplorer, _: Any) -> None:
    state = app.state
    if state.pane != "plot":
        app.apply(replace(state, pane="plot"))
        return
    following = states.PLOTS[(states.PLOTS.index(state.plot) + 1) % len(states.PLOTS)]
    if following == state.plot:
        app.say(f"{state.plot} is the only plot so far", "dim")
    app.apply(replace(state, plot=following))


def back(app: HwExplorer, _: Any) -> None:
    state = app.state
    if app.capture is not None:
        cancel_capture(app)
        app.say("capture cancelled", "warn")
    elif state.find and state.pane == "tree":
        app.apply(replace(state, find=""))
    elif state.filter and state.pane == "models":
        app.apply(replace(state, filter=""))
    elif state.zoom:
        app.apply(replace(state, zoom=False))
    else:
        app.apply(replace(state, pane="tree"))


def cancel_capture(app: HwExplorer) -> None:
    if app.capture is not None:
        app.capture.cancel()
        app.capture = None
        app.dress()


# --- typing -----------------------------------------------------------------------------------------------


def prompt(app: HwExplorer, kind: str) -> None:
    state = app.state
    if kind == "export":
        name = f"{state.model.rpartition('/')[2].partition(':')[0]}_{state.pane}.txt"
        app.prompt = Prompt("export", "export to", name, len(name))
    else:
        text = state.filter if kind == "filter" else state.find
        app.prompt = Prompt(kind, kind, text, len(text), before=text)
    app.show_lines(app.size.width)


def prompt_note(app: HwExplorer) -> str:
    """What the text does so far, on the right of the line."""
    typing = app.prompt
    if typing is None:
        return ""
    if typing.kind == "export":
        return ".txt .json .csv .md .html · enter writes, esc leaves"
    if typing.kind == "overwrite":
        return "y overwrites, n leaves it"
    if typing.kind == "filter":
        return f"{len(app.models.visible)} models · enter loads"
    rows = app.index.table.rows if typing.text else ()
    wanted = typing.text.casefold()
    return f"{sum(1 for r in rows if wanted in str(r.cells[0]).casefold() or wanted in r.key.casefold())} rows"


def prompt_key(app: HwExplorer, key: str, character: str | None) -> None:
    typing = app.prompt
    assert typing is not None
    if typing.kind == "overwrite":
        app.prompt = None
        if character in ("y", "Y"):
            export(app, typing.text, overwrite=True)
        else:
            app.say("left as it was", "dim")
        return
    if key in ("escape", "ctrl+c"):
        app.prompt = None
        _live(app, typing.kind, typing.before)
        app.show()
    elif key == "enter":
        app.prompt = None
        _submit(app, typing)
        app.show()
    elif key in ("up", "down") and typing.kind == "filter":
        app.models.move(1 if key == "down" else -1)
        app.panes["models"].refresh()
    else:
        prompt_changed(app, edit(typing, key, character))


def prompt_changed(app: HwExplorer, typing: Prompt) -> None:
    before, app.prompt = app.prompt, typing
    if before is not None and before.text != typing.text:
        _live(app, typing.kind, typing.text)
    app.show_lines(app.size.width)


def _live(app: HwExplorer, kind: str, text: str) -> None:
    """Find and filter follow every key."""
    if kind == "filter":
        app.apply(replace(app.state, filter=text))
    elif kind == "find":
        app.apply(replace(app.state, find=text))
        found = navigate.find(app.index.table, text, app.state.at, 0)
        if found is not None:
            app.move_to(found)


def _submit(app: HwExplorer, typing: Prompt) -> None:
    if typing.kind == "export":
        export(app, typing.text.strip(), overwrite=False)
    elif typing.kind == "filter":
        choose(app, None)


def export(app: HwExplorer, name: str, overwrite: bool) -> None:
    if not name:
        app.say("no file named: nothing written", "warn")
        return
    path = Path(name).expanduser()
    if not overwrite and path.is_file():
        app.prompt = Prompt("overwrite", f"{name} exists: overwrite?", name, len(name))
        app.show_lines(app.size.width)
        return
    try:
        app.say(app.provider.export(app.state, app.state.pane, path, overwrite), "good")
    except (RequestError, OSError) as error:
        app.say(str(error), "bad")
    except Exception as error:
        app.fail(error)


# --- copying ----------------------------------------------------------------------------------------------


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


# --- the program ------------------------------------------------------------------------------------------


def help(app: HwExplorer, _: Any) -> None:
    pane = app.state.pane
    sections = tuple((name, actions.help_lines(found, pane)) for name, found in actions.groups(pane))
    app.help.update(Text("help", f"help {pane}", sections))
    app.help.top = 0
    app.panes["help"].heading = "Keys"
    app.panes["help"].remark = "esc closes"
    app.helping = True
    app.show()


def help_key(app: HwExplorer, key: str, character: str | None) -> bool:
    action = actions.find(character or key, app.state.pane) or actions.find(key, app.state.pane)
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
        app.panes["help"].refresh()
        return True
    if action is not None and action.id in ("help", "back", "quit"):
        app.helping = False
        app.show()
        return True
    return False


def palette(app: HwExplorer, _: Any) -> None:
    app.action_command_palette()


def theme(app: HwExplorer, _: Any) -> None:
    if app.no_color:
        app.say("NO_COLOR is set: there is only the terminal's own look", "dim")
        return
    app.dress(THEMES[(THEMES.index(app.look) + 1) % len(THEMES)])
    app.say(f"theme: {app.look}", "dim")


def leave(app: HwExplorer, _: Any) -> None:
    cancel_capture(app)
    app.exit()


EFFECTS: dict[str, Callable[[HwExplorer, Any], None]] = {
    "move": move,
    "page": page,
    "open": open_branch,
    "close": close_branch,
    "toggle": toggle,
    "subtree": subtree,
    "heaviest": heaviest,
    "find": find,
    "prompt": prompt,
    "choose": choose,
    "undo": undo,
    "redo": redo,
    "swap": swap,
    "plot": plot,
    "back": back,
    "copy": copy,
    "help": help,
    "palette": palette,
    "theme": theme,
    "quit": leave,
}
