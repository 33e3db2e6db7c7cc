"""Undo and redo: the earlier states, and the states that were undone."""

import msgspec

from hwexplorer.state import State, replace

NAVIGATION = frozenset({"at", "on", "pane", "zoom", "open", "find", "filter", "fact"})
MODEL_FIELDS = frozenset({"model", "image_size", "load", "trace"})  # what may have to be captured or read first
HISTORY_MAX = 500


class History(msgspec.Struct, frozen=True):
    """The present state with its past and future. Navigation is not a step: undo goes back over decisions."""

    present: State = State()
    past: tuple[State, ...] = ()
    future: tuple[State, ...] = ()


def changed_fields(old: State, new: State) -> frozenset[str]:
    """Return the names of the fields in which two states differ."""
    return frozenset(n for n in State.__struct_fields__ if getattr(old, n) != getattr(new, n))


def push(history: History, state: State) -> History:
    """Return the history with another present state. Navigation alone adds no step."""
    changed = changed_fields(history.present, state)
    if not changed:
        return history
    if changed <= NAVIGATION:
        return replace(history, present=state)
    return History(present=state, past=(*history.past, history.present)[-HISTORY_MAX:])


def undo(history: History) -> History:
    """Return the history a step back, or itself at its beginning."""
    if not history.past:
        return history
    *past, previous = history.past
    return History(_keep_pane(previous, history.present), tuple(past), (history.present, *history.future)[:HISTORY_MAX])


def redo(history: History) -> History:
    """Return the history a step forward, or itself at its end."""
    if not history.future:
        return history
    following, *future = history.future
    return History(_keep_pane(following, history.present), (*history.past, history.present), tuple(future))


def _keep_pane(state: State, now: State) -> State:
    """Keep the present pane and zoom in a state that undo or redo brings back."""
    return replace(state, pane=now.pane, zoom=now.zoom)
