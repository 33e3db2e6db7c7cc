"""What keys do to the state: pure functions, each from one state to the next."""

from __future__ import annotations

from collections.abc import Callable

from analysis.model.names.model_ref import scale_load
from hwexplorer import settings
from hwexplorer import state as states
from hwexplorer.state import State, replace

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
