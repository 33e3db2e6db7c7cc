"""Measured times next to predicted times, if a state names a trace. An annex reads traces."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from analysis.document import Cell
from analysis.estimate.causes import CAUSES
from analysis.estimate.estimate import Estimate
from analysis.estimate.tree_figures import operators_of
from analysis.model.ir.workload import Floats, Ints
from analysis.text.headline import SAME, describe_change
from hardware.base import plugins
from hardware.base.errors import RequestError
from hardware.base.text import quantity
from hwexplorer.state import State
from hwexplorer.views.cause_looks import LOOKS
from hwexplorer.views.plain import Stack, WaterfallStep

RATIO_MAX = 1000.0  # measured over predicted; a larger one is of an operator that takes no time of its own
TERMS = {"": "", **{cause: look.name for cause, look in zip(CAUSES, LOOKS, strict=True)}}


class NodeTime(Protocol):
    """The measured time of some operators. `ratio` is measured over predicted time, None if the trace has none of them;
    `term` is the cause of most of the difference; `missing_s` is the predicted time of operators not in the trace."""

    measured_s: float
    predicted_s: float
    ratio: float | None
    share: float
    term: str
    missing_s: float


class MeasuredTimes(Protocol):
    """A trace aligned with an estimate."""

    @property
    def seconds(self) -> Floats:
        """The measured seconds of each operator, (n,); NaN for an operator that is not in the trace."""

    def time(self, members: Sequence[int] | Ints) -> NodeTime:
        """Return the measured time of these operators."""


def measured_times(state: State, result: Estimate) -> MeasuredTimes | None:
    """Return the state's trace, aligned with the estimate. Return None if there is no trace or it cannot be read."""
    with suppress(RequestError):
        times: MeasuredTimes | None = trace_annex().measured_operators(state, result) if state.trace else None
        return times
    return None


def trace_notes(state: State, result: Estimate) -> tuple[str, ...]:
    """Return lines on how the trace and the estimate agree, or why the trace cannot be read; empty without a trace."""
    try:
        notes: tuple[str, ...] = trace_annex().trace_notes(state, result) if state.trace else ()
    except RequestError as error:
        return (str(error),)
    return notes


def trace_warning(state: State, result: Estimate) -> str:
    """Return the warning that the trace is of another model, batch or device; '' without a warning."""
    return next((note for note in trace_notes(state, result) if note.startswith("Warning")), "")


def is_read(file: str) -> bool:
    """Return True if no trace is named, or the named file does not have to be read first."""
    with suppress(RequestError):
        return not file or bool(trace_annex().is_read(file))
    return True


def trace_annex() -> Any:
    """Return the reader of traces. Raises RequestError if it is not installed."""
    return plugins.load("readers", "trace")


def compare_times(measured_s: float, predicted_s: float) -> str:
    """Write `1.3x slower than the predicted 4.00 ms`."""
    if not predicted_s or 1 / SAME < measured_s / predicted_s < SAME:
        return f"as predicted ({quantity(predicted_s, 's')})"
    change = describe_change(measured_s / predicted_s, "faster", "slower")
    return f"{change} than the predicted {quantity(predicted_s, 's')}"


def measured_cells(times: MeasuredTimes, members: Sequence[int] | Ints) -> tuple[Cell, ...]:
    """Return the measured seconds, their ratio to the predicted seconds, and the term; empty if not in the trace."""
    time = times.time(members)
    if time.ratio is None:
        return None, None, ""
    return time.measured_s, time.ratio if time.ratio < RATIO_MAX else None, TERMS[time.term]


def add_measured_step(
    times: MeasuredTimes, members: Ints, predicted: Sequence[WaterfallStep]
) -> tuple[WaterfallStep, ...]:
    """Return the waterfall with the measured time as its last bar, in the colour of the cause of most of the
    difference. All bars have one scale."""
    time, total_s = times.time(members), sum(step.seconds for step in predicted)
    if time.ratio is None or total_s <= 0:
        return tuple(predicted)
    shrunk = total_s / max(total_s, time.measured_s)
    scaled = [
        WaterfallStep(step.name, step.seconds, step.start * shrunk, Stack([part * shrunk for part in step.bar.parts]))
        for step in predicted
    ]
    bar = Stack([time.measured_s / total_s * shrunk * (cause == time.term) for cause in CAUSES])
    return (*scaled, WaterfallStep("measured", time.measured_s, 0.0, bar))


def add_measured_fields(node: dict[str, Any], times: MeasuredTimes, result: Estimate) -> None:
    """Add measured fields to a nested node of the tree's document, and to those below it."""
    time = times.time(operators_of(result, node["id"]))
    if time.ratio is not None and node["kind"] not in ("host", "part"):  # not in a trace
        node.update(measured_s=time.measured_s, ratio=time.ratio, term=time.term)
    for child in node.get("children", ()):
        add_measured_fields(child, times, result)
