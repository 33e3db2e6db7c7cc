"""What the screen asks of the engine. Nothing here imports it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hwexplorer.state import State
from hwexplorer.views.plain import Card, Cell, Page, Plot, Table, Text

if TYPE_CHECKING:
    from hwexplorer.export.sheet import Sheet


class WatchedCapture(Protocol):
    """A model being captured elsewhere; `poll` never blocks."""

    error: str

    @property
    def finished(self) -> bool: ...

    def start(self) -> None: ...

    def poll(self) -> tuple[str, float]:
        """(what it is doing, fraction done); a negative fraction where that is not known."""
        ...

    def cancel(self) -> None: ...


class Provider(Protocol):
    """Pure functions of the state, each a few milliseconds; RequestError for a request that is wrong."""

    def models(self, state: State) -> Table:
        """Rows keyed by model name."""
        ...

    def compare(self, state: State) -> Table:
        """Rows keyed by device, spelt as in `state.devices`."""
        ...

    def cards(self, state: State) -> tuple[Card, ...]:
        """What each device of the state costs, in their order."""
        ...

    def tree(self, state: State) -> Table:
        """Every row, parents before children, in the order of `state.sort`.

        The root's key is "", a subgraph's `layer1.0.conv1`, an operator's `layer1.0.conv1/bn1`. The first
        column is the name; the first column of role 'bar' is the share that `.` follows.
        """
        ...

    def events(self, state: State) -> Table:
        """Events of node `state.at` on `state.on`: categories at depth 0, events at depth 1; footer: the sum."""
        ...

    def why(self, state: State) -> Text: ...

    def plot(self, state: State) -> Plot:
        """Points are keyed by operator."""
        ...

    def knobs(self, state: State) -> Page:
        """Three tables, of what is known so far: the metrics now and unchanged, the curve of `state.fact`, the knobs of
        the device under the cursor, keyed by name."""
        ...

    def deepen(self, state: State) -> bool | None:
        """Find out one thing more of the knobs, in some milliseconds: True where there is something new to show, None
        where nothing was left."""
        ...

    def turned(self, state: State, by: int) -> State:
        """The state with its knob a step up (1), down (-1), or as the device has it (0); RequestError at the end."""
        ...

    def verdict(self, state: State) -> str:
        """The state against its pin in one line; '' without one, or with deltas off."""
        ...

    def devices(self, state: State) -> Table:
        """The catalogue, keyed by id; those of the state as they are spelt there, `chosen` where they are."""
        ...

    def device(self, name: str) -> Text:
        """The sheet of one device."""
        ...

    def figures(self, state: State, device: str) -> tuple[Cell, ...]:
        """Latency, energy per inference, power and memory of a run on a device of the catalogue, s, J, W, bytes; each
        None where it does not fit. Nothing of a device whose mappings take seconds to search, unless it is compared."""
        ...

    def below(self, state: State) -> frozenset[str]:
        """The operators that the row `state.at` stands for: those of every one of merged blocks."""
        ...

    def rate(self, state: State) -> float | None:
        """Inferences per joule on the device under the cursor; None where the model does not fit, or has no such
        batch."""
        ...

    def device_key(self, name: str) -> str:
        """The one name of a device; RequestError when there is none of this name."""
        ...

    def sheet(self, state: State, verb: str, width: int) -> Sheet | None:
        """What a verb of the command line says about a state; None: it takes a process of its own."""
        ...

    def status(self, state: State) -> str:
        """One short line: coverage and marks."""
        ...

    def named(self, model: str, inputs: tuple[str, ...]) -> str:
        """The complete name of a model that a person typed, whose code may run from now on where it is their own.
        RequestError where it is no model of one's own and has inputs, or its file is not there."""
        ...

    def edited(self, state: State) -> bool:
        """Whether the code of the state's model has changed since it was captured."""
        ...

    def revision(self) -> int:
        """Another number whenever a model is no longer what it was: views of before are of no use."""
        ...

    def ready(self, state: State) -> bool:
        """False: the model has to be captured first, which takes seconds."""
        ...

    def capture(self, state: State) -> WatchedCapture: ...

    def report(self, name: str, state: State) -> Table | Text | Page:
        """What a report says about a state, for a pane of its name."""
        ...

    def exported(self, state: State, view: str, form: str) -> str:
        """One view (a pane's name) as a file of a format holds it."""
        ...
