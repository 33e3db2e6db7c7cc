"""What keys do to the state, and to the branches of a tree given as a flat table: pure functions."""

from __future__ import annotations

from collections.abc import Callable, Collection

from analysis.model.names.model_ref import scale_load
from hwexplorer import settings
from hwexplorer import state as states
from hwexplorer.state import EACH, State, node, replace
from hwexplorer.tui.session import row_query
from hwexplorer.views.plain import Table
from hwexplorer.views.table_tree import TreeIndex, more_key

Change = Callable[[State], State]


def cycle(field: str, values: tuple[str, ...], step: int = 1, **others: object) -> Change:
    """Return the change of a field to the value `step` places further, and of `others` to theirs."""

    def change(state: State) -> State:
        """Change the field."""
        value = getattr(state, field)
        # One that is not among them (asked for by name) is followed by the first, preceded by the last.
        index = values.index(value) + step if value in values else min(step, 0)
        return replace(state, **{field: values[index % len(values)]}, **others)

    return change


def scale_batch(state: State, double: bool) -> State:
    """Double or halve the batch, within its limits; of a load its clients, or take the next rate."""
    if (heavier := scale_load(state.model, double)) is not None:
        return replace(state, model=heavier)
    batch = min(settings.BATCH_MAX, state.batch * 2) if double else max(1, state.batch // 2)
    return replace(state, batch=batch)


def change_model(state: State, model: str, image_size: int | None = None) -> State:
    """Return the state with another model and nothing of the old one's tree."""
    if model == state.model and image_size == state.image_size:
        return state
    return replace(states.with_model(state, model, image_size), at="", open=(), find="")


def show_pane(name: str) -> Change:
    """Return the change to a pane."""
    return lambda state: replace(state, pane=name)


def flip(field: str) -> Change:
    """Return the change of a flag to its opposite."""
    return lambda state: replace(state, **{field: not getattr(state, field)})


def toggle_pin(state: State) -> State:
    """Pin what is on screen, or let go of it."""
    pin = states.pin_string(state)
    return replace(state, pin="" if state.pin == pin else pin, diff=True)


def toggle_diff(state: State) -> State:
    """Show or hide the deltas; with nothing pinned, compare with the baseline device."""
    if state.pin:
        return replace(state, diff=not state.diff)
    return replace(state, pin=states.pin_string(replace(state, on=state.baseline)), diff=True)


def swap_pin(state: State) -> State:
    """Show what was pinned and pin what was shown."""
    there = states.pinned(state)
    if there is None:
        return state
    return replace(there, pin=states.pin_string(state), diff=True)


def remove_device(state: State) -> State:
    """Remove the device under the cursor, which goes to the next one; the last device stays."""
    place = state.devices.index(state.on)
    rest = state.devices[:place] + state.devices[place + 1 :]
    return replace(state, devices=rest, on=rest[min(place, len(rest) - 1)]) if rest else state


TIMES = "×"  # in the name of a row of repeats


def open_branches(index: TreeIndex, opened: Collection[str], at: str) -> set[str]:
    """Return the open branches: what was opened, and whatever keeps the cursor in sight."""
    return set(opened) | index.ancestors(at)


def next_match(table: Table, text: str, start: str, step: int) -> str | None:
    """Return the key of the next row, from `start` on and around, that fits `text` (row_query.py); step 0 may stay.

    Raises RequestError for a condition that cannot be."""
    matches = row_query.matching_rows(table, text)
    if not matches:
        return None
    here = next((place for place, row in enumerate(table.rows) if row.key == start), 0)
    if step < 0:
        before = [m for m in matches if m < here]
        return table.rows[(before or matches)[-1]].key
    after = [m for m in matches if m > here or (step == 0 and m == here)]
    return table.rows[(after or matches)[0]].key


def folds_above(key: str, tree: TreeIndex, folded: TreeIndex) -> set[str]:
    """Return the keys of the folded rows that hide a node or what it hangs on. `folded` is the tree as shown."""
    hidden = {key, *tree.ancestors(key)} - {""} - folded.place.keys()
    return {more_key(tree.parent[each] or "") for each in hidden if each in tree.place}


def move_to(state: State, key: str, tree: TreeIndex, folded: TreeIndex) -> State:
    """Put the cursor on a node and open what hides it."""
    hiding = tree.ancestors(key) | folds_above(key, tree, folded)
    return replace(state, at=key, open=(*state.open, *sorted(hiding - set(state.open) - {""})))


def visible_ancestor(key: str, tree: TreeIndex, folded: TreeIndex) -> str:
    """Return the row of the folded tree that stands for a node: itself, its branch or the row of folded ones."""
    at = node(key)
    while at and at not in folded.place:
        parent = tree.parent.get(at) or ""
        if more_key(parent) in folded.place:
            return more_key(parent)
        at = parent
    return at


def open_all(state: State, tree: TreeIndex) -> State:
    """Open every branch."""
    return replace(state, open=tuple(sorted(tree.branches(tree.place) - {""})))


def close_all(state: State, tree: TreeIndex) -> State:
    """Close every branch; the cursor goes to the subgraph that it was in."""
    above = [key for key in tree.ancestors(state.at) if key]
    return replace(state, open=(), at=min(above, key=len) if above else state.at)


def toggle_repeats(state: State, tree: TreeIndex) -> State | None:
    """Show the blocks of a row of repeats one by one, or merged again: that of the cursor or the nearest above. Return
    None where there is none."""
    at = node(state.at)
    while at:
        row = tree.table.rows[tree.place[at]]
        if at + EACH in state.open:
            return replace(state, at=at, open=tuple(key for key in state.open if key != at + EACH))
        if row.kind == "group" and TIMES in str(row.cells[0]):
            return replace(state, at=at, open=(*state.open, *{at} - set(state.open), at + EACH))
        at = tree.parent.get(at) or ""
    return None
