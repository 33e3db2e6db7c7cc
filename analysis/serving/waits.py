"""The parts of a request's time in a run, and the number of requests in each over time."""

from collections.abc import Callable
from typing import Annotated

import msgspec
import numpy as np

from analysis.document import column
from analysis.model.ir.workload import Floats
from analysis.serving.simulation import Run


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the time of a request, in seconds of the median request and of the slowest percent."""

    device: Annotated[str, column("Device", role="text")]
    part: Annotated[str, column("Time of a request", role="text")]
    typical_s: Annotated[float, column("Median", "s")]
    slowest_s: Annotated[float, column("Slowest 1 %", "s")]
    slowest_fraction: Annotated[float, column("Share", role="bar", key="bar", keep=2)]


PARTS: tuple[tuple[str, Callable[[Run], Floats]], ...] = (
    ("API server and queue", lambda run: run.start_s - run.arrival_s),
    ("its prompt, until its first token", lambda run: run.first_s - run.start_s),
    ("its own decode steps", lambda run: run.end_s - run.first_s - run.others_s),
    ("prefill of others", lambda run: run.others_s),
)


def list_waits(device: str, run: Run) -> list[Wait]:
    """Return the mean time of each part, for requests around the median and for the slowest percent."""
    total_s = run.end_s - run.arrival_s
    order = np.argsort(total_s, kind="stable")
    slowest = order[-max(len(order) // 100, 1) :]
    around = order[len(order) * 45 // 100 : max(len(order) * 55 // 100, 1)]
    around = around if len(around) else order
    parts = [(name, find(run)) for name, find in PARTS]
    return [
        Wait(
            device=device,
            part=name,
            typical_s=float(seconds[around].mean()),
            slowest_s=float(seconds[slowest].mean()),
            slowest_fraction=float(seconds[slowest].mean() / total_s[slowest].mean()),
        )
        for name, seconds in parts
    ]


def timeline(run: Run, moments: int) -> Floats:
    """Return the requests that wait, that are in prefill, and that decode, (3, moments): means over equal parts of the
    run."""
    edges = np.linspace(0.0, run.end_of_run_s, moments + 1)
    marks_s = np.array([run.arrival_s, run.start_s, run.first_s, run.end_s])[..., None]
    seconds_inside = np.diff(np.clip(marks_s, edges[:-1], edges[1:]), axis=0).sum(axis=1)
    return np.asarray(seconds_inside / np.diff(edges))
