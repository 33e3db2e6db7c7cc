"""Where and why two runs of one model differ in a metric: by place and cause, in parts that add up to the difference.

The difference of a product is divided by Shapley (analysis/decide/division.py).
"""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np

from analysis.decide.division import TIMES
from analysis.run.estimate import Estimate
from analysis.run.families import FAMILIES, family_of
from analysis.workload.workload import Floats
from hardware.remember import remembered

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


@remembered()
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
