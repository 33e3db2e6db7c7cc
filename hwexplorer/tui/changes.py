"""What keys do to the state: pure functions, each from one state to the next."""

from __future__ import annotations

from collections.abc import Callable

from hwexplorer import settings
from hwexplorer import state as states
from hwexplorer.state import State, replace

Change = Callable[[State], State]


def cycle(field: str, values: tuple[str, ...], step: int = 1) -> Change:
    def change(state: State) -> State:
        value = getattr(state, field)
        # One that is not among them (asked for by name) is followed by the first, preceded by the last.
        index = values.index(value) + step if value in values else min(step, 0)
        return replace(state, **{field: values[index % len(values)]})

    return change


def batch(state: State, double: bool) -> State:
    batch = min(settings.BATCH_MAX, state.batch * 2) if double else max(1, state.batch // 2)
    return replace(state, batch=batch)


def with_model(state: State, model: str, image_size: int | None = None) -> State:
    """Another model: nothing of the old one's tree is left."""
    if model == state.model and image_size == state.image_size:
        return state
    return replace(states.with_model(state, model, image_size), at="", open=(), find="")


def pane(name: str) -> Change:
    return lambda state: replace(state, pane=name)


def flip(field: str) -> Change:
    return lambda state: replace(state, **{field: not getattr(state, field)})


def toggle_pin(state: State) -> State:
    """Pin what is on screen; pinning it again lets go."""
    pin = states.pin_string(state)
    return replace(state, pin="" if state.pin == pin else pin, diff=True)


def toggle_diff(state: State) -> State:
    """Show or hide the deltas; with nothing pinned, compare with the baseline device."""
    if state.pin:
        return replace(state, diff=not state.diff)
    return replace(state, pin=states.pin_string(replace(state, on=state.baseline)), diff=True)


def swap_pin(state: State) -> State:
    """What was pinned comes on screen, what was on screen is pinned."""
    there = states.pinned(state)
    if there is None:
        return state
    return replace(there, pin=states.pin_string(state), diff=True)


def sort(state: State) -> State:
    return replace(cycle("sort", states.SORTS)(state), descending=True)


def rank(state: State) -> State:
    return replace(cycle("rank", states.RANKS)(state), rank_reverse=False)


def remove_device(state: State) -> State:
    """Without the device under the cursor, which goes to the one after it; the last one stays."""
    place = state.devices.index(state.on)
    rest = state.devices[:place] + state.devices[place + 1 :]
    return replace(state, devices=rest, on=rest[min(place, len(rest) - 1)]) if rest else state
