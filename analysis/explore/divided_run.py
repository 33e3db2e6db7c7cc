"""A model divided between an accelerator and the rest of its module or host: seconds, joules and what crosses.

A model is cut, in its order of execution, into pieces that run on either side. One side runs at a time: the other one
waits at its idle power. A tensor that crosses is written by one side and read by the other, both at their bandwidth of
memory (of the link, for an accelerator without memory); each further piece on the unit is another call of it."""

import msgspec
import numpy as np

from analysis.estimate.estimate import Estimate
from analysis.estimate.host_work import divide_host_work
from analysis.estimate.operator_facts import operator_graph, roles, select_values
from analysis.model.ir.workload import INPUT, WEIGHT, Bools, Floats, Ints
from hardware.precision import CACHE


class DividedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A model divided between a unit and another device, for the whole batch: the seconds in all, on each side and for
    crossings, and what the rest holds: its weights and caches, and activations as of the whole model."""

    latency_s: float
    energy_j: float
    unit_s: float
    rest_s: float
    crossing_s: float
    rest_bytes: float


def divide_run(unit: Estimate, rest: Estimate, away: Bools) -> DividedRun:
    """Return the run of a model of which the operators `away`, (n,), run on the device of `rest`."""
    (unit_s, unit_j), (rest_s, rest_j) = costs_of(unit, ~away), costs_of(rest, away)
    host = divide_host_work(unit)[1]
    if host is not None:  # it starts each piece
        unit_s += max(count_pieces(~away) - 1, 0) * float(host.run.latency_s.sum())
    crossing_bytes = find_crossings(unit, away)[1]
    crossing_s = crossing_bytes * (1.0 / unit.device.memory_bandwidth + 1.0 / rest.device.memory_bandwidth)
    waiting_j = unit.static_w * (rest_s + crossing_s) + rest.static_w * (unit_s + crossing_s)
    return DividedRun(
        latency_s=unit_s + rest_s + crossing_s,
        energy_j=unit_j + rest_j + (waiting_j if away.any() else 0.0),
        unit_s=unit_s,
        rest_s=rest_s,
        crossing_s=crossing_s,
        rest_bytes=held_bytes(rest, stored_bytes(rest), away) if away.any() else 0.0,
    )


def held_bytes(result: Estimate, stored: tuple[Floats, Floats], here: Bools) -> float:
    """Return the bytes of what a device holds that runs the operators `here`, with the activations of the whole model.
    `stored` is `stored_bytes(result)`."""
    (weights, caches), memory = stored, result.memory
    activations = memory.peak_bytes - memory.weight_bytes - float(caches.sum())
    return float((weights + caches)[here].sum()) + max(activations, 0.0)


def stored_bytes(result: Estimate) -> tuple[Floats, Floats]:
    """Return the bytes of weights and of key-value caches by the first operator that reads each, (n,)."""
    workload = result.workload
    caches = (roles(workload) == CACHE) & (workload.tensors.role == INPUT)
    return _bytes_by_reader(result, workload.tensors.role == WEIGHT), _bytes_by_reader(result, caches)


def _bytes_by_reader(result: Estimate, which: Bools) -> Floats:
    workload, operators = result.workload, result.workload.operators
    reader = np.repeat(np.arange(workload.n_operators), np.diff(operators.in_ptr))
    tensors, position = np.unique(operators.in_tensor, return_index=True)
    is_asked = which[tensors]
    total: Floats = np.zeros(workload.n_operators)
    np.add.at(total, reader[position[is_asked]], tensor_bytes(result, tensors[is_asked]))
    return total


def tensor_bytes(result: Estimate, which: Ints) -> Floats:
    """Return the bytes of some tensors of an estimate."""
    values = select_values(result.workload, which)
    return values.size_bytes(result.workload.value_at(batch=result.scenario.batch), result.plan.widths)


def count_pieces(which: Bools) -> int:
    """Return the number of unbroken runs of marked operators, in their order of execution."""
    return int((which & ~np.append(False, which[:-1])).sum())


def find_crossings(result: Estimate, away: Bools) -> tuple[int, float]:
    """Return how many tensors cross between the sides, and their bytes. A tensor crosses once."""
    graph = operator_graph(result.workload)
    edges = zip(graph.source.tolist(), graph.target.tolist(), graph.tensors, strict=True)
    tensors = sorted({tensor for a, b, carried in edges if away[a] != away[b] for tensor in carried})
    return len(tensors), float(tensor_bytes(result, np.array(tensors, dtype=np.int32)).sum())


def costs_of(result: Estimate, which: Bools) -> tuple[float, float]:
    """Return the seconds and joules of some operators, for the whole batch."""
    run = result.run
    seconds, joules = float(run.latency_s.sum()), float(run.energy_j.sum())
    return (
        result.latency_s * float(run.latency_s[which].sum()) / (seconds or 1.0),
        result.energy_j * float(run.energy_j[which].sum()) / (joules or 1.0),
    )
