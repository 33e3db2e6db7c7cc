"""What a click on a pane means: its row, its branch, the head of a column, a point of its plot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwexplorer.state import RANKS, SORTS, State, replace
from hwexplorer.tui import moves, split
from hwexplorer.tui.widgets.pane import Pane
from hwexplorer.tui.widgets.plot_area import PlotArea
from hwexplorer.tui.widgets.table import TreeTable

if TYPE_CHECKING:
    from hwexplorer.tui.app import HwExplorer

# What a double click does where it is not told by a key.
_OPENS = {"models": "choose", "compare": "to_tree", "tree": "toggle", "events": "toggle", "plot": "to_tree"}
# Columns that are sorted by another name than their own.
_ORDERS = {"device": "name", "bar": "share", "energy_per_inference": "energy"}


def turn(app: HwExplorer, at: Pane.Wheeled) -> bool:
    """The wheel over the knob that is looked at turns it; False where it scrolls."""
    if at.pane != "knobs" or not app.knobs.is_here(at.y):
        return False
    moves.turn(app, -1 if at.by > 0 else 1)
    return True


def click(app: HwExplorer, at: Pane.Clicked) -> None:
    """A click goes to the pane and its row, which stays under the pointer; a double click opens it."""
    pane, content = at.pane, app.contents[at.pane]
    app.apply(replace(app.state, pane=pane))
    if at.y < 0:
        return
    if isinstance(content, PlotArea):
        moves.to_point(app, content.at(at.x, at.y))
    elif isinstance(content, TreeTable):
        if (column := content.head_at(at.x, at.y)) is not None:
            _sort(app, pane, column)
            return
        key = content.at(at.y)
        if key is None:
            return
        if pane == "knobs" and key == app.state.fact:
            moves.turn(app, 1 if at.x >= content.width // 2 else -1)  # the halves of its row
        content.go(key, still=True)
        if pane in moves.CURSORS:
            app.apply(replace(app.state, **{moves.CURSORS[pane]: key}))
        if at.times == 1 and content.is_sign(at.x):
            app.perform("toggle")
    if at.times == 2 and pane in _OPENS:
        app.perform(_OPENS[pane])
    app.show()


def drag(app: HwExplorer, at: Pane.Dragged) -> None:
    """A border is taken, then follows the pointer."""
    boxes = app.boxes(*app.screen_stack[0].size)
    if at.is_start:
        app.grabbed = split.divide_at(boxes, at.x, at.y) or split.Divide(())
    elif app.grabbed.names and not app.overlay:
        app.split = split.dragged(app.split, boxes, app.grabbed, at.x, at.y)
        app.show()


def _sort(app: HwExplorer, pane: str, column: str) -> None:
    """By the column that was clicked; clicked again, the other way round."""
    by = _ORDERS.get(column, column)
    known = {"tree": SORTS, "compare": RANKS}.get(pane, ())
    if by not in known:
        app.say(f"{pane} can be sorted by: {', '.join(known)}" if known else f"{pane} has one order", "dim")
        return
    app.apply(_sorted(app.state, by) if pane == "tree" else _ranked(app.state, by))


def _sorted(state: State, by: str) -> State:
    return replace(state, sort=by, descending=not state.descending if state.sort == by else True)


def _ranked(state: State, by: str) -> State:
    return replace(state, rank=by, rank_reverse=not state.rank_reverse if state.rank == by else False)
