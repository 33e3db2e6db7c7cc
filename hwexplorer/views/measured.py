"""Measured time beside predicted in the tree, where the state names a trace."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from analysis.run.estimate import Estimate
from analysis.run.outline import Branch
from analysis.trust.traces.match import overlay
from analysis.trust.traces.read import read
from analysis.trust.traces.record import Trace
from analysis.trust.traces.tree import per_operator
from hardware.errors import RequestError
from hardware.quantity import quantity
from hwexplorer.views.plain import Cell


@lru_cache(maxsize=2)
def _trace(path: Path, stamp: tuple[int, int]) -> Trace:
    return read(path)


def trace(file: str) -> Trace:
    """The trace in a file, read anew when the file is another. Raises RequestError."""
    path = Path(file).expanduser()
    try:
        stat = path.stat()
    except (OSError, ValueError) as error:
        raise RequestError(f"{path.name[:60]}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    return _trace(path, (stat.st_mtime_ns, stat.st_size))


def beside(file: str, result: Estimate, branches: Sequence[Branch]) -> tuple[list[tuple[Cell, ...]], str]:
    """Cells of each branch, and in a line how the trace and the estimate agree. Raises RequestError."""
    measured_trace = trace(file)
    laid_over = overlay(measured_trace, result)
    measured, seen = per_operator(laid_over, result)
    predicted = np.where(seen, result.run.latency_s, 0.0)
    cells: list[tuple[Cell, ...]] = []
    for branch in branches:
        members = np.asarray(branch.members)
        spent, expected = float(measured[members].sum()), float(predicted[members].sum())
        cells.append((spent, spent / expected) if seen[members].any() and expected > 0 else (None, None))
    return cells, (
        f"{measured_trace.producer}: {quantity(measured_trace.wall_s, 's')} a run, {laid_over.coverage:.0%} of the "
        f"operators' time is on a node, nothing ran for {measured_trace.gap_s / measured_trace.wall_s:.0%}"
    )
