"""Pure functions that keys apply to the state and to the open branches of a tree."""

from collections.abc import Callable, Collection
from functools import lru_cache

from analysis.model.names.model_ref import phases
from analysis.model.transformer.load_spec import read_load
from hardware.precision import KEYS, runs_wider
from hwexplorer import settings
from hwexplorer import state as states
from hwexplorer.state import State, replace
from hwexplorer.tui.session import row_query
from hwexplorer.tui.session.screen_layout import TREE_EDGES, Box
from hwexplorer.views.plain import Table
from hwexplorer.views.table_tree import TreeIndex

Change = Callable[[State], State]


@lru_cache(maxsize=8)  # called with every key
def current_phase(model: str, load: str = "") -> str:
    """Return the phase that a language model runs: that of its name, `serve` under a load; '' for any other model."""
    return "serve" if load else next(iter(phases(model)), "")


def cycle(field: str, values: tuple[str, ...], step: int = 1, **others: object) -> Change:
    """Return a change that moves a field `step` places on in `values`, cyclically, and sets the fields in `others`."""

    def change(state: State) -> State:
        """Change the field."""
        value = getattr(state, field)
        # A value set by name may not be in `values`: then the next is the first, the previous the last.
        index = values.index(value) + step if value in values else min(step, 0)
        return replace(state, **{field: values[index % len(values)]}, **others)

    return change


def scale_batch(state: State, double: bool) -> State:
    """Double or halve the batch within its limits. For a load, scale its clients or take the next rate instead."""
    if state.load:
        return replace(state, load=",".join(read_load(state.load).scaled(double).words))
    batch = min(settings.BATCH_MAX, state.batch * 2) if double else max(1, state.batch // 2)
    return replace(state, batch=batch)


def step_format(state: State, step: int, formats: Callable[[State], set[str]]) -> State:
    """Return the state in the next format that a device has, or in the one before. `formats` returns what runs."""
    start = KEYS.index(state.precision) if state.precision in KEYS else min(step, 0) - step
    for count in range(1, len(KEYS) + 1):
        candidate = replace(state, precision=KEYS[(start + step * count) % len(KEYS)])
        if not all(runs_wider(candidate.precision, run) for run in formats(candidate)):
            return candidate
    return state


def find_one_format(state: State, formats: Callable[[State], set[str]]) -> State | None:
    """Return the state in the first format, its own before all others, that all devices run; None without one."""
    candidates = (replace(state, precision=precision) for precision in (state.precision, *KEYS))
    return next((candidate for candidate in candidates if len(formats(candidate)) == 1), None)


def change_model(state: State, model: str, image_size: int | None = None) -> State:
    """Return the state with another model, without cursor, open branches and search of the old one."""
    if model == state.model and image_size == state.image_size:
        return state
    return replace(states.with_model(state, model, image_size), at="", open=(), find="")


def show_pane(name: str) -> Change:
    """Return a change that goes to a pane."""
    return lambda state: replace(state, pane=name)


def flip(field: str) -> Change:
    """Return a change that inverts a flag."""
    return lambda state: replace(state, **{field: not getattr(state, field)})


def toggle_pin(state: State) -> State:
    """Pin what is on screen, or unpin it if it is pinned."""
    pin = states.pin_string(state)
    return replace(state, pin="" if state.pin == pin else pin, diff=True)


def toggle_diff(state: State) -> State:
    """Show or hide the deltas; with nothing pinned, compare with the baseline device."""
    if state.pin:
        return replace(state, diff=not state.diff)
    return replace(state, pin=states.pin_string(replace(state, on=state.baseline)), diff=True)


def swap_pin(state: State) -> State:
    """Return the pinned state, with this state as its pin. Without a pin, return the state unchanged."""
    there = states.pinned(state)
    if there is None:
        return state
    return replace(there, pin=states.pin_string(state), diff=True)


def remove_device(state: State) -> State:
    """Remove the device under the cursor; the cursor goes to the next one. The last device stays."""
    place = state.devices.index(state.on)
    rest = state.devices[:place] + state.devices[place + 1 :]
    return replace(state, devices=rest, on=rest[min(place, len(rest) - 1)]) if rest else state


def open_branches(index: TreeIndex, opened: Collection[str], at: str) -> set[str]:
    """Return the open branches: those in `opened`, and the ancestors of `at`, which keep the cursor in sight."""
    return set(opened) | index.ancestors(at)


def next_match(table: Table, text: str, start: str, step: int) -> str | None:
    """Return the key of the next row after `start`, cyclically, that matches `text` (row_query.py); None if none does.

    Step 0 may stay at `start`, -1 goes back. Raises RequestError for a wrong condition."""
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
    """Put the cursor on a node and open its ancestors."""
    return replace(state, at=key, open=(*state.open, *sorted(tree.ancestors(key) - set(state.open) - {""})))


def open_heaviest(state: State, index: TreeIndex, box: Box | None) -> State:
    """Go to the heaviest leaf. Open as many other branches, the heaviest first, as the `box` of the tree can show."""
    leaf, room = index.heaviest(""), box[3] - TREE_EDGES if box is not None else 0
    opened = {*index.ancestors(leaf), ""}
    while True:
        shown = [child for key in opened for child in index.children(key)]
        room_left = room - 1 - len(shown)
        fitting = [key for key in shown if key not in opened and 0 < len(index.children(key)) <= room_left]
        if not fitting:
            return replace(state, at=leaf, open=tuple(sorted(opened - {""})))
        opened.add(max(fitting, key=index.share))


def open_all(state: State, tree: TreeIndex) -> State:
    """Open every branch."""
    return replace(state, open=tuple(sorted(tree.branches(tree.place) - {""})))


def close_all(state: State, tree: TreeIndex) -> State:
    """Close every branch; the cursor goes to the outermost branch that it was in."""
    above = [key for key in tree.ancestors(state.at) if key]
    return replace(state, open=(), at=min(above, key=len) if above else state.at)
