"""The trace that a state names, for every view; its readers of many formats are loaded only where one is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.estimate.estimate import Estimate
from analysis.model.ir.workload import Floats
from hwexplorer.state import State

if TYPE_CHECKING:
    from analysis.annexes.traces.tree import Beside


def beside(state: State, result: Estimate) -> Beside | None:
    """The trace beside the estimate; None where the state names none, or one that cannot be read."""
    if not state.trace:
        return None
    from hwexplorer.views import measured

    return measured.beside(state, result)


def seconds(state: State, result: Estimate) -> Floats | None:
    """Measured seconds of each operator, (n,), NaN of those that the trace has not; None without a trace."""
    found = beside(state, result)
    return found.seconds if found else None
