"""The difference of two runs of one model divided in several ways: by component, family of events, cause, subgraph,
kind of memory; or by place and cause at once. The parts of each add up to the difference.

Energy and latency are sums, so their differences are sums of differences. EDP is a product: its difference is
divided by Shapley, `de * mean(t) + dt * mean(e)`, which adds up and is the same, negated, for B against A.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from analysis.estimate.causes import STEPS, causes, steps
from analysis.estimate.estimate import COMPONENTS, Estimate
from analysis.estimate.families import FAMILIES, family_energy, family_of
from analysis.estimate.kernels import structure
from analysis.estimate.memory import allocation_bytes, lifetimes
from analysis.model.ir.workload import Floats
from hardware.execute import RESOURCES
from hardware.remember import memoize

_NOTHING = 1e-12  # relative: below this, a difference is rounding
TIMES = (*RESOURCES, "launch and dispatch", "power limit")
Groups = dict[str, tuple["Part", ...]]


class Part(msgspec.Struct, frozen=True):
    """One part of both sides, in the unit of the metric; `fraction` of the whole difference (0 without one).

    For EDP, `a` and `b` are the parts' Shapley shares of each side's own product."""

    name: str
    a: float
    b: float
    difference: float
    fraction: float


def divisions(a: Estimate, b: Estimate, metric: str, per_inference: bool) -> Groups:
    """The difference of a metric, divided in each way it can be."""
    return {
        "energy": _energy_groups,
        "latency": _latency_groups,
        "memory": _memory_groups,
        "edp": _edp_groups,
    }[metric](a, b, per_inference)


def static_power(result: Estimate) -> float:
    """Watts that the device draws whatever it does."""
    return result.component_j["static"] / result.latency_s if result.latency_s else 0.0


def parts(names: Sequence[str], a: Floats, b: Floats, ordered: bool = True) -> tuple[Part, ...]:
    """Parts by name, the largest difference first where `ordered` is asked for."""
    return _parts(names, a, b, a - b, ordered)


def _parts(names: Sequence[str], a: Floats, b: Floats, difference: Floats, ordered: bool) -> tuple[Part, ...]:
    total = float(difference.sum())
    if abs(total) < _NOTHING * float(np.abs(a).sum() + np.abs(b).sum()):
        total = np.inf  # the sides are equal: rounding has no causes
    order = np.argsort(-np.abs(difference), kind="stable") if ordered else np.arange(len(names))
    columns = (a.tolist(), b.tolist(), difference.tolist(), (difference / total).tolist())
    return tuple(Part(names[i], *(column[i] for column in columns)) for i in order.tolist())


# --- energy -----------------------------------------------------------------------------------------------


def _energies(result: Estimate, per_inference: bool) -> tuple[Floats, Floats, Floats]:
    """Energy by component (3,), family (8,) and subgraph (s,)."""
    scale = 1.0 / result.scenario.batch if per_inference else 1.0
    subgraph = result.partition.total(result.run.energy_j)
    component = np.array(list(result.component_j.values()))
    return component * scale, family_energy(result) * scale, subgraph * scale


def _energy_groups(a: Estimate, b: Estimate, per_inference: bool) -> dict[str, tuple[Part, ...]]:
    mine, theirs = _energies(a, per_inference), _energies(b, per_inference)
    names = (COMPONENTS, FAMILIES, a.partition.id)
    return {
        label: parts(name, x, y, label == "subgraph")
        for label, name, x, y in zip(("component", "family", "subgraph"), names, mine, theirs, strict=True)
    }


# --- latency ----------------------------------------------------------------------------------------------


def time_parts(result: Estimate) -> Floats:
    """The latency divided into what each kernel waits for, in the order of TIMES, shape (6,).

    A kernel's busy time belongs to the resource that bounds it; overhead is what launch and dispatch add; what
    the power limit adds comes on top."""
    run = result.run
    times = np.bincount(run.resource, run.busy_s, minlength=len(RESOURCES)).astype(np.float64)
    throttled = float((run.kernel_s - run.unthrottled_s).sum())
    return np.array([*times, float(run.overhead_s.sum()), throttled])


def _latencies(result: Estimate) -> tuple[Floats, Floats]:
    return time_parts(result), result.partition.total(result.run.latency_s)


def _steps(result: Estimate) -> Floats:
    """The latency by the steps from the roofs to what is estimated, (5,)."""
    total: Floats = steps(causes(result).of(slice(None))).sum(axis=1)
    return total


def _latency_groups(a: Estimate, b: Estimate, _per_inference: bool) -> dict[str, tuple[Part, ...]]:
    mine, theirs = _latencies(a), _latencies(b)
    return {
        "cause": parts(TIMES, mine[0], theirs[0], False),
        "step": parts(STEPS, _steps(a), _steps(b), False),
        "subgraph": parts(a.partition.id, mine[1], theirs[1]),
    }


# --- memory -----------------------------------------------------------------------------------------------


def live_at_peak(result: Estimate) -> dict[str, float]:
    """What is held when the most is: weights, workspace, and each live activation by name, in bytes."""
    workload, held = result.workload, result.memory
    batch, widths = result.scenario.batch, result.plan.widths
    held_bytes = {"weights": held.weight_bytes, "workspace": held.workspace_peak_bytes}
    if not workload.n_operators:
        return held_bytes
    kernel = int(structure(workload, result.joins).kernel[held.peak_at])
    lives = lifetimes(workload, result.joins)
    sizes = allocation_bytes(workload, lives, batch, widths)
    for row in np.flatnonzero((lives.first <= kernel) & (lives.last >= kernel)).tolist():
        name = f"activation {workload.tensors.name[int(lives.tensor[row])]}"
        held_bytes[name] = held_bytes.get(name, 0.0) + float(sizes[row])
    return held_bytes


def _memory_groups(a: Estimate, b: Estimate, _per_inference: bool) -> dict[str, tuple[Part, ...]]:
    mine, theirs = live_at_peak(a), live_at_peak(b)
    names = tuple(sorted({*mine, *theirs}))  # an order that does not depend on who is named first

    def column(held: dict[str, float]) -> Floats:
        return np.array([held.get(name, 0.0) for name in names])

    def kinds(result: Estimate) -> Floats:
        held = result.memory
        return np.array([held.weight_bytes, held.activation_peak_bytes, held.workspace_peak_bytes])

    return {
        "kind": parts(("weights", "activations", "workspace"), kinds(a), kinds(b), False),
        "live at the peak": parts(names, column(mine), column(theirs)),
    }


# --- EDP --------------------------------------------------------------------------------------------------


def _shapley(
    names: Sequence[str], energies: tuple[Floats, Floats], times: tuple[Floats, Floats], a: Estimate, b: Estimate
) -> tuple[Part, ...]:
    """Parts of the difference of e x t: each side's energy and latency parts weighed with the mean of the other."""
    energy_j = [side.energy_j_per_inference for side in (a, b)]
    latency_s = [a.latency_s, b.latency_s]
    by_energy = (energies[0] - energies[1]) * (latency_s[0] + latency_s[1]) / 2
    difference = by_energy + (times[0] - times[1]) * (energy_j[0] + energy_j[1]) / 2
    mine, theirs = (0.5 * (energies[i] * latency_s[i] + times[i] * energy_j[i]) for i in range(2))
    total = float(difference.sum())
    order = np.argsort(-np.abs(difference), kind="stable").tolist()
    return tuple(
        Part(names[i], float(mine[i]), float(theirs[i]), float(difference[i]), float(difference[i]) / (total or np.inf))
        for i in order
    )


def _edp_groups(a: Estimate, b: Estimate, _per_inference: bool) -> dict[str, tuple[Part, ...]]:
    energy, time = [_energies(side, True) for side in (a, b)], [_latencies(side) for side in (a, b)]

    def factors(side: int) -> tuple[Floats, Floats]:
        return np.array([energy[side][0].sum(), 0.0]), np.array([0.0, time[side][0].sum()])

    def padded(values: Floats, before: int, after: int) -> Floats:
        return np.concatenate([np.zeros(before), values, np.zeros(after)])

    families, causes = len(FAMILIES), len(TIMES)
    names = (*(f"energy: {name}" for name in FAMILIES), *(f"time: {name}" for name in TIMES))
    return {
        "factor": _shapley(
            ("energy", "latency"), (factors(0)[0], factors(1)[0]), (factors(0)[1], factors(1)[1]), a, b
        ),
        "cause": _shapley(
            names,
            (padded(energy[0][1], 0, causes), padded(energy[1][1], 0, causes)),
            (padded(time[0][0], families, 0), padded(time[1][0], families, 0)),
            a,
            b,
        ),
        "subgraph": _shapley(a.partition.id, (energy[0][2], energy[1][2]), (time[0][1], time[1][1]), a, b),
    }  # fmt: skip


# --- by place and cause ---------------------------------------------------------------------------------


_MOST_IN_ONE = 0.6  # of the subgraphs: a place that holds more of them says little


class Difference(msgspec.Struct, frozen=True):
    """`parts` (places, causes) in the unit of the metric."""

    parts: Floats
    places: tuple[str, ...]
    causes: tuple[str, ...]


def is_comparable(here: Estimate, there: Estimate) -> bool:
    """Whether both are of the same model, divided in the same way."""
    return here.workload.name == there.workload.name and here.partition.id == there.partition.id


def difference(here: Estimate, there: Estimate, metric: str) -> Difference:
    """The difference of two comparable runs."""
    stage = stages(here.partition.id)
    places = tuple(dict.fromkeys(stage))
    where = np.array([places.index(name) for name in stage])
    energy = _energy(here) - _energy(there)
    time = _time(here) - _time(there)
    if metric == "edp":
        mean_time = (here.latency_s + there.latency_s) / 2
        mean_energy = (here.energy_j_per_inference + there.energy_j_per_inference) / 2
        energy, time = energy * mean_time, time * mean_energy
    elif metric == "energy":
        time = time * 0.0
    else:
        energy = energy * 0.0
    each = np.concatenate([energy, time], axis=1)
    parts = np.zeros((len(places), each.shape[1]))
    np.add.at(parts, where, each)
    causes = (*(f"{name.removesuffix(' power')} energy" for name in FAMILIES), *(f"{name} time" for name in TIMES))
    return Difference(parts, places, causes)


def stages(ids: tuple[str, ...]) -> list[str]:
    """The part of the model each subgraph is in: the first level of its path where none holds most of them."""
    paths = [name.split("/")[0].split(".") for name in ids]
    for depth in range(1, max(map(len, paths), default=1) + 1):
        names = [".".join(path[:depth]) for path in paths]
        if max(Counter(names).values()) <= _MOST_IN_ONE * len(names):
            return names
    return list(ids)


@memoize()
def _energy(result: Estimate) -> Floats:
    """Joules per inference by subgraph and family, computed once per estimate: the pinned side stays."""
    price = np.zeros((len(FAMILIES), len(result.events)))  # of each event, in the row of its family
    for place, (event, each_j) in enumerate(zip(result.events, result.run.prices.value.tolist(), strict=True)):
        price[FAMILIES.index(family_of(event)), place] = each_j
    by_operator = price @ result.run.counts  # (families, operators)
    by_subgraph = np.zeros((len(result.partition.id), len(FAMILIES)))
    np.add.at(by_subgraph, result.partition.subgraph, by_operator.T)
    return np.asarray(by_subgraph / result.scenario.batch, dtype=np.float64)


def _time(result: Estimate) -> Floats:
    """Seconds by subgraph and what kernels wait for, divided among operators as their latency is."""
    run, kernel = result.run, result.demand.kernel
    per_kernel = np.zeros((result.demand.n_kernels, len(TIMES)))
    per_kernel[np.arange(len(run.busy_s)), run.resource] = run.busy_s
    per_kernel[:, -2] = run.overhead_s
    per_kernel[:, -1] = run.kernel_s - run.unthrottled_s
    total = per_kernel.sum(axis=1)
    part = per_kernel / np.where(total > 0, total, 1.0)[:, None]
    by_subgraph = np.zeros((len(result.partition.id), len(TIMES)))
    np.add.at(by_subgraph, result.partition.subgraph, run.latency_s[:, None] * part[kernel])
    return by_subgraph
