"""Moving about: by rows, through branches, to matches. Each takes the app and the argument of the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hardware.errors import RequestError
from hwexplorer.state import EACH, FOLDS, MORE, node, replace
from hwexplorer.tui import navigate
from hwexplorer.tui.widgets.heads import Headed

CURSORS = {"tree": "at", "compare": "on", "knobs": "fact"}  # panes whose cursor is a field of the state
TIMES = "×"  # in the name of a row of repeats

if TYPE_CHECKING:
    from hwexplorer.tui.app import HwExplorer


def move(app: HwExplorer, by: int) -> None:
    """By rows in the focused pane. In Tree, Compare, Knobs and Plot the one linked cursor moves."""
    pane = app.state.pane
    key = app.contents[pane].move(by)
    if pane == "tree" or (pane in CURSORS and key):
        if not app.apply(replace(app.state, **{CURSORS[pane]: key})):
            app.show()  # refused, or at the end: the cursor goes back to where the state has it
    elif pane != "plot" or not to_point(app, key):
        app.panes[pane].redraw()


def to_point(app: HwExplorer, key: str) -> bool:
    """To what a point of the plot stands for: a row of the tree, or a device at a batch. False where it is neither."""
    device, _, batch = key.rpartition("@b")
    if key in app.unfolded.place:
        app.move_to(key)
    elif device in app.state.devices:
        app.apply(replace(app.state, on=device, batch=int(batch)))
    else:
        return False
    return True


def turn(app: HwExplorer, by: int) -> None:
    """Turn the knob that is looked at a step, or put it back (0)."""
    try:
        wanted = app.provider.turned(app.state, by)
    except RequestError as error:
        app.say(str(error), "warn")
        return
    if not app.apply(wanted) and wanted == app.state:
        app.say(f"{wanted.fact} is as the device has it", "dim")


def page(app: HwExplorer, direction: int) -> None:
    move(app, direction * app.contents[app.state.pane].page())


def column(app: HwExplorer, by: int) -> None:
    """The column cursor of the focused table; the foot says what its column is."""
    content = app.contents[app.state.pane]
    if isinstance(content, Headed):
        content.move_column(by)
        app.panes[app.state.pane].redraw()
        app.say(content.told_of_column() or "no columns here", "text")
    else:
        app.say("no columns here", "dim")


def leave_column(app: HwExplorer) -> bool:
    content = app.contents[app.state.pane]
    if not isinstance(content, Headed) or content.column < 0:
        return False
    content.column = -1
    app.panes[app.state.pane].redraw()
    return True


def _unfold(app: HwExplorer, want: bool | None, every: bool = False) -> bool:
    """In Events, branches are the pane's own affair; False where they are the state's."""
    if app.state.pane != "events":
        return False
    if every:
        keys = (r.key for r in app.events.table.rows if r.has_children and want)
        app.events.unfold(frozenset(keys))
    else:
        app.events.toggle(want)
    app.panes["events"].redraw()
    return True


def _open_more(app: HwExplorer) -> bool:
    """On a row of folded ones: show them, and go to the first."""
    state = app.state
    if not state.at.endswith(MORE):
        return False
    before = set(app.index.place)
    if app.apply(replace(state, open=(*state.open, state.at), at=node(state.at))):
        first = next((row.key for row in app.index.table.rows if row.key not in before), node(state.at))
        app.apply(replace(app.state, at=first))
    return True


def open_branch(app: HwExplorer, _: Any) -> None:
    if _unfold(app, True) or _open_more(app):
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
    if _unfold(app, False):
        return
    state, index = app.state, app.index
    if state.at in state.open:
        app.apply(replace(state, open=tuple(k for k in state.open if k != state.at)))
    elif not state.at:
        app.apply(replace(state, open=()))
    else:
        app.apply(replace(state, at=index.parent.get(state.at) or ""))


def toggle(app: HwExplorer, _: Any) -> None:
    if app.state.pane == "why":
        app.why.toggle()
        app.panes["why"].redraw()
        return
    if _unfold(app, None) or _open_more(app):
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
    if _unfold(app, bool(opened), every=True):
        return
    state, index = app.state, app.unfolded
    branches = index.branches([state.at, *index.below(state.at)]) - {""} if state.at in index.place else set()
    gone = branches | {k for k in state.open if k.endswith(MORE) and node(k) in branches | {state.at}}
    rest = tuple(k for k in state.open if k not in (branches if opened else gone))
    app.apply(replace(state, open=(*rest, *sorted(branches)) if opened else rest))


def every(app: HwExplorer, opened: int) -> None:
    """All branches, wherever the cursor is; on closing it goes to the subgraph it was in."""
    state, index = app.state, app.unfolded
    if opened:
        app.apply(replace(state, open=tuple(sorted(index.branches(index.place) - {""}))))
    else:
        above = [key for key in index.ancestors(state.at) if key]
        app.apply(replace(state, open=(), at=min(above, key=len) if above else state.at))


def each(app: HwExplorer, _: Any) -> None:
    """The blocks of a branch of repeats one by one, or merged again: that of the cursor or the nearest above."""
    state, index = app.state, app.unfolded
    at = node(state.at)
    apart = {key for key in state.open if key.endswith(EACH)}
    while at:
        row = index.table.rows[index.place[at]]
        if at + EACH in apart:
            app.apply(replace(state, at=at, open=tuple(key for key in state.open if key != at + EACH)))
            return
        if row.kind == "group" and TIMES in str(row.cells[0]):
            app.apply(replace(state, at=at, open=(*state.open, *{at} - set(state.open), at + EACH)))
            return
        at = index.parent.get(at) or ""
    app.say("no row of repeats here: those say how many they are, as x6", "warn")


def fold(app: HwExplorer, _: Any) -> None:
    """The next threshold below which rows are folded; a row that goes takes the cursor to what stands for it."""
    state = app.state
    later = [value for value in FOLDS if value > state.fold]
    fold_at(app, later[0] if later else 0.0)


def fold_at(app: HwExplorer, percent: float) -> None:
    state = app.state
    opened = tuple(key for key in state.open if not key.endswith(MORE))
    wanted = replace(state, fold=percent, open=opened)
    app.apply(replace(wanted, at=app.standing_for(wanted)))
    rows = sum(1 for row in app.index.table.rows if row.kind == "more")
    app.say(
        f"rows below {percent:g} % folded into {rows} row{'s' * (rows != 1)}" if percent else "nothing is folded", "dim"
    )


def heaviest(app: HwExplorer, _: Any) -> None:
    app.move_to(app.unfolded.heaviest(node(app.state.at)))


def find(app: HwExplorer, step: int) -> None:
    """The next match of what was searched for; in the model list, the next row."""
    state = app.state
    if state.pane == "models":
        move(app, step)
        return
    if not state.find:
        app.perform("find")
        return
    try:
        target = navigate.find(app.unfolded.table, state.find, state.at, step)
    except RequestError as error:
        app.say(str(error), "warn")
        return
    if target is None:
        app.say(f"nothing in the tree fits {state.find!r}", "warn")
    else:
        app.move_to(target)
