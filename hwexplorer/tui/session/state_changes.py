"""What keys do to the state, and to the branches of a tree given as a flat table: pure functions."""

from __future__ import annotations

from collections.abc import Callable, Collection

from analysis.model.names.model_ref import scale_load
from hwexplorer import settings
from hwexplorer import state as states
from hwexplorer.state import State, replace
from hwexplorer.tui.session import row_query
from hwexplorer.views.plain import Table
from hwexplorer.views.table_tree import TreeIndex

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


def move_to(state: State, key: str, tree: TreeIndex) -> State:
    """Put the cursor on a node and open what hides it."""
    return replace(state, at=key, open=(*state.open, *sorted(tree.ancestors(key) - set(state.open) - {""})))


def open_all(state: State, tree: TreeIndex) -> State:
    """Open every branch."""
    return replace(state, open=tuple(sorted(tree.branches(tree.place) - {""})))


def close_all(state: State, tree: TreeIndex) -> State:
    """Close every branch; the cursor goes to the subgraph that it was in."""
    above = [key for key in tree.ancestors(state.at) if key]
    return replace(state, open=(), at=min(above, key=len) if above else state.at)
