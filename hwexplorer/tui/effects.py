"""What actions do beyond changing the state, by the name in the registry. Each takes the app and an argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hardware.errors import RequestError
from hwexplorer import history as histories
from hwexplorer import state as states
from hwexplorer.state import State, replace
from hwexplorer.tui import changes, copied, jump, moves, overlays, results
from hwexplorer.tui.palette import THEMES
from hwexplorer.tui.prompt import Prompt

if TYPE_CHECKING:
    from hwexplorer.tui.app import HwExplorer


def prompt(app: HwExplorer, kind: str) -> None:
    """A line to type in the foot."""
    state = app.state
    if kind == "export":
        name = f"{state.model.rpartition('/')[2].partition(':')[0]}_{state.pane}.txt"
        app.prompt = Prompt("export", "export to", name, len(name), selected=True)
    elif kind == "command":
        app.prompt = Prompt("command", ":", before=app.look)
    else:
        text = state.filter if kind == "filter" else state.find
        app.prompt = Prompt(kind, kind, text, len(text), before=text, selected=bool(text))
    app.show_lines(app.size.width)


def with_model(state: State, model: str, image_size: int | None = None) -> State:
    """Another model: nothing of the old one's tree is left."""
    if model == state.model and image_size == state.image_size:
        return state
    return replace(state, model=model, image_size=image_size, at="", open=(), find="")


def choose(app: HwExplorer, _: Any) -> None:
    """Load the model under the cursor; where the models were a drawer it closes."""
    if app.models.row is None:
        app.say(f"no model has {app.state.filter!r} in its name", "warn")
        return
    state = with_model(app.state, app.models.key)
    in_tree = replace(state, pane="tree")
    app.apply(state if app.is_in_sight("models", in_tree) else in_tree)


def lift(app: HwExplorer, _: Any) -> None:
    """Try what Why says would lift the limit."""
    setting = app.views.why.setting if app.views is not None else ""
    if not setting:
        app.say("no setting is known that would lift this limit", "dim")
        return
    try:
        wanted = states.with_setting(app.state, setting)
    except RequestError as error:
        app.say(str(error), "warn")
        return
    if app.apply(wanted):
        app.say(f"{setting}; u undoes", "good")


def undo(app: HwExplorer, _: Any) -> None:
    history = histories.undo(app.history)
    if history is app.history:
        app.say("nothing to undo", "dim")
    else:
        app.apply(history.present, history)


def redo(app: HwExplorer, _: Any) -> None:
    history = histories.redo(app.history)
    if history is app.history:
        app.say("nothing to redo", "dim")
    else:
        app.apply(history.present, history)


def swap(app: HwExplorer, _: Any) -> None:
    if not app.state.pin:
        app.say("nothing is pinned yet: p pins what is on screen", "warn")
    else:
        app.apply(changes.swap_pin(app.state))


def plot(app: HwExplorer, step: int) -> None:
    state = app.state
    if state.pane != "plot":
        app.apply(replace(state, pane="plot"))
        return
    app.apply(replace(state, plot=states.PLOTS[(states.PLOTS.index(state.plot) + step) % len(states.PLOTS)]))


def back(app: HwExplorer, _: Any) -> None:
    state = app.state
    if app.errand is not None:
        app.errand.cancel()
        app.errand = None
        app.say("stopped", "warn")
    elif app.capture is not None:
        cancel_capture(app)
        app.say("capture cancelled", "warn")
    elif moves.leave_column(app):
        pass
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


def palette(app: HwExplorer, _: Any) -> None:
    app.action_command_palette()


def theme(app: HwExplorer, _: Any) -> None:
    if app.no_color:
        app.say("NO_COLOR is set: there is only the terminal's own look", "dim")
        return
    app.dress(THEMES[(THEMES.index(app.look) + 1) % len(THEMES)])
    app.say(f"theme: {app.look}", "dim")


def leave(app: HwExplorer, _: Any) -> None:
    app.exit()


EFFECTS: dict[str, Callable[[HwExplorer, Any], None]] = {
    "move": moves.move,
    "page": moves.page,
    "turn": moves.turn,
    "open": moves.open_branch,
    "close": moves.close_branch,
    "toggle": moves.toggle,
    "subtree": moves.subtree,
    "every": moves.every,
    "fold": moves.fold,
    "each": moves.each,
    "jump": jump.start,
    "heaviest": moves.heaviest,
    "find": moves.find,
    "prompt": prompt,
    "choose": choose,
    "lift": lift,
    "undo": undo,
    "redo": redo,
    "swap": swap,
    "plot": plot,
    "report": results.report,
    "column": moves.column,
    "back": back,
    "copy": copied.copy,
    "help": overlays.help,
    "sheet": overlays.sheet,
    "devices": overlays.devices,
    "palette": palette,
    "theme": theme,
    "quit": leave,
}
