"""A model divided between an accelerator and the rest of its module or host: seconds, joules and what crosses.

A model is cut, in its order of execution, into pieces that run on either side. One side runs at a time: the other one
waits at its idle power. A tensor that crosses is written by one side and read by the other, both at their bandwidth of
memory (of the link, for an accelerator without memory); each further piece on the unit is another call of it."""

from __future__ import annotations

import msgspec
import numpy as np

from analysis.estimate.dependencies import operator_graph
from analysis.estimate.estimate import Estimate
from analysis.estimate.host_work import divide_host_work
from analysis.estimate.roles import select_values
from analysis.model.ir.workload import Bools


class DividedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A model divided between a unit and another device, for the whole batch: the `pieces` on the unit, `crossings` of
    tensors of `crossing_bytes` in all, and the seconds in all, on each side and for crossings."""

    pieces: int
    crossings: int
    crossing_bytes: float
    latency_s: float
    energy_j: float
    unit_s: float
    rest_s: float
    crossing_s: float


def divide_run(unit: Estimate, rest: Estimate, away: Bools) -> DividedRun:
    """Return the run of a model of which the operators `away`, (n,), run on the device of `rest`."""
    (unit_s, unit_j), (rest_s, rest_j) = costs_of(unit, ~away), costs_of(rest, away)
    pieces, (crossings, crossing_bytes) = count_pieces(~away), find_crossings(unit, away)
    host = divide_host_work(unit)[1]
    if host is not None:  # it starts each piece
        unit_s += max(pieces - 1, 0) * float(host.run.latency_s.sum())
    crossing_s = crossing_bytes * (1.0 / unit.device.memory_bandwidth + 1.0 / rest.device.memory_bandwidth)
    waiting_j = unit.static_w * (rest_s + crossing_s) + rest.static_w * (unit_s + crossing_s)
    return DividedRun(
        pieces=pieces,
        crossings=crossings,
        crossing_bytes=crossing_bytes,
        latency_s=unit_s + rest_s + crossing_s,
        energy_j=unit_j + rest_j + (waiting_j if away.any() else 0.0),
        unit_s=unit_s,
        rest_s=rest_s,
        crossing_s=crossing_s,
    )


def count_pieces(which: Bools) -> int:
    """Return the number of unbroken runs of marked operators, in their order of execution."""
    return int((which & ~np.append(False, which[:-1])).sum())


def find_crossings(result: Estimate, away: Bools) -> tuple[int, float]:
    """Return how many tensors cross between the sides, and their bytes. A tensor crosses once."""
    graph, workload = operator_graph(result.workload), result.workload
    edges = zip(graph.source.tolist(), graph.target.tolist(), graph.tensors, strict=True)
    tensors = sorted({tensor for a, b, carried in edges if away[a] != away[b] for tensor in carried})
    sizes = select_values(workload, np.array(tensors, dtype=np.int32)).size_bytes(
        workload.value_at(batch=result.scenario.batch), result.plan.widths
    )
    return len(tensors), float(sizes.sum())


def costs_of(result: Estimate, which: Bools) -> tuple[float, float]:
    """Return the seconds and joules of some operators, for the whole batch."""
    run = result.run
    seconds, joules = float(run.latency_s.sum()), float(run.energy_j.sum())
    return (
        result.latency_s * float(run.latency_s[which].sum()) / (seconds or 1.0),
        result.energy_j * float(run.energy_j[which].sum()) / (joules or 1.0),
    )
