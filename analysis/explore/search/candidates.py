"""Choosing among configurations: the Pareto front, a search within limits, and models ranked on one device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from analysis.document import column
from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.figures import Figures, figures
from analysis.estimate.metrics import METRICS, SEARCHED
from analysis.estimate.scenario import Scenario
from analysis.explore.constraint import Constraint
from analysis.explore.deployment_cost import CostSettings, cost_per_million
from analysis.explore.odds import DOUBT, odds_below
from analysis.explore.search.model_sweep import need
from analysis.model.ir.workload import Floats, Workload
from analysis.model.names import zoo
from hardware.device import Device
from hardware.errors import RequestError
from hardware.quantity import quantity

Tick = Callable[[int, int], None]


class Candidate(msgspec.Struct, frozen=True):
    """A configuration with what it is judged by. `accuracy` is torchvision's published figure, None where there is
    none; it holds for fp32, and lower precisions are not promised to keep it. `odds`: that what would be measured keeps
    to the limits of a search."""

    point: Figures
    cost_usd_per_million: Annotated[
        float, column("Electricity USD/1M", keep=4, help="of a million inferences; hire and purchase: cost")
    ]
    accuracy: Annotated[float | None, column("Accuracy fp32", keep=3, help="published, of the default weights in fp32")]
    accuracy_metric: Annotated[str, column("Metric", key="metric", keep=4)]
    odds: float | msgspec.UnsetType = msgspec.UNSET


class Pareto(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `hwexplorer pareto`: the front, cheapest in energy first, how many were compared, the front of
    what exists on paper only, and that of what was measured or has siblings that were."""

    models: tuple[str, ...]
    objectives: tuple[str, ...]
    evaluated: int
    not_fitting: int
    front: tuple[Candidate, ...]
    dominated: tuple[Candidate, ...]
    design_targets: tuple[Candidate, ...]
    best_known: tuple[Candidate, ...]


def candidate_figure(candidate: Candidate, name: str) -> float:
    """Return a metric of a candidate."""
    return METRICS[name].of(candidate if name == "cost" else candidate.point)


def odds_of_keeping(constraint: Constraint, candidate: Candidate) -> float:
    """Return the probability that a measurement would satisfy a constraint, by the band of the figure that it follows;
    memory and power have no band, so the estimate decides."""
    point, figure = candidate.point, candidate_figure(candidate, constraint.figure)
    bands = {"latency": (point.latency_s, point.latency_band_s), "energy": (point.energy_j, point.energy_band_j)}
    value, band = bands.get(_FOLLOWS.get(constraint.figure, ""), (0.0, (0.0, 0.0)))
    excess = constraint.excess(figure)
    if value <= 0 or figure <= 0:
        return float(excess <= 1.0)
    return odds_below(value, band, value / excess)


_FOLLOWS = {"energy": "energy", "cost": "energy", "latency": "latency", "throughput": "latency"}
ORDERS = ("edp", "energy", "latency", "throughput", "cost")


class Ruling(msgspec.Struct, frozen=True):
    """One constraint alone: how many candidates it leaves, and the best figure any candidate has."""

    constraint: str
    leaves: int
    best: float
    unit: str


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `hwexplorer search`. Where nothing is found, `verdict` says which constraint rules out
    everything, or that they contradict each other, and `nearest` is the candidate that misses by the least. What is
    within the limits on paper only stands apart."""

    model: str
    constraints: tuple[str, ...]
    order: str
    evaluated: int
    not_fitting: int
    found: tuple[Candidate, ...]
    design_targets: tuple[Candidate, ...]
    verdict: str
    rulings: tuple[Ruling, ...]
    nearest: Candidate | None
    nearest_excess: float


def candidate(result: Estimate, by: CostSettings) -> Candidate:
    """An estimate as a candidate."""
    info = zoo.table().get(result.workload.name)
    known = info is not None and info.value is not None
    return Candidate(
        figures(result),
        cost_per_million(result, by),
        info.value if info is not None and known else None,
        info.metric if info is not None and known else "",
    )


def candidates(
    workloads: Sequence[Workload],
    devices: Sequence[Device],
    batches: Sequence[int],
    precisions: Sequence[str],
    base: Scenario,
    by: CostSettings,
    tick: Tick | None = None,
) -> list[Candidate]:
    """Every combination, evaluated. Raises RequestError where a list is empty."""
    need("choose from", {"model": workloads, "device": devices, "batch": batches, "precision": precisions})
    scenarios = [
        msgspec.structs.replace(base, batch=batch, precision=precision) for batch in batches for precision in precisions
    ]
    total = len(workloads) * len(scenarios) * len(devices)
    evaluated: list[Candidate] = []
    for workload in workloads:
        for scenario in scenarios:  # the demand of a scenario serves all devices
            for device in devices:
                evaluated.append(candidate(estimate(workload, device, scenario), by))
                if tick is not None:
                    tick(len(evaluated), total)
    return evaluated


def distinct(evaluated: Sequence[Candidate]) -> list[Candidate]:
    """Each run once: formats that a device runs alike are asked for by the name of the one that it runs."""
    runs: dict[tuple[object, ...], Candidate] = {}
    for each in evaluated:
        point = each.point
        key = (point.model, point.device, point.batch, point.precision_run, point.latency_s, point.energy_j)
        if key not in runs or point.precision == point.precision_run:
            runs[key] = each
    return list(runs.values())


def beyond_doubt(c: Candidate) -> bool:
    """Whether what would be measured surely keeps to the limits of the search."""
    return c.odds is not msgspec.UNSET and c.odds >= DOUBT[1]


def known(group: Sequence[Candidate]) -> list[Candidate]:
    """Those of which anything like it was measured."""
    return [c for c in group if c.point.trust.level in ("measured", "siblings")]


# --- Pareto -----------------------------------------------------------------------------------------------


def front(values: Floats) -> NDArray[np.bool_]:
    """Which rows of `values` (n, d), all to be minimised, no other row beats: none is as good in all and better in
    one."""
    keep = np.ones(len(values), dtype=np.bool_)
    for i, row in enumerate(values):
        if keep[i]:
            beaten = (values >= row).all(axis=1) & (values > row).any(axis=1)
            keep &= ~beaten
    return keep


def pareto(evaluated: Sequence[Candidate], with_accuracy: bool) -> Pareto:
    """The front over energy per inference, latency and, over several models, published accuracy.

    Raises RequestError where accuracies are missing or of different kinds."""
    if with_accuracy:
        _check_accuracies(evaluated)
    evaluated = distinct(evaluated)
    fitting = [c for c in evaluated if c.point.can_win]
    fitting.sort(key=lambda c: c.point.energy_j_per_inference)
    best, beaten = _front([c for c in fitting if c.point.silicon], with_accuracy)
    on_paper, beaten_on_paper = _front([c for c in fitting if not c.point.silicon], with_accuracy)
    return Pareto(
        models=tuple(dict.fromkeys(c.point.model for c in evaluated)),
        objectives=("energy_j_per_inference", "latency_s", *(("accuracy",) if with_accuracy else ())),
        evaluated=len(evaluated),
        not_fitting=len(evaluated) - len(fitting),
        front=tuple(best),
        dominated=(*beaten, *beaten_on_paper),
        design_targets=tuple(on_paper),
        best_known=tuple(_front(known([c for c in fitting if c.point.silicon]), with_accuracy)[0]),
    )


def _front(group: Sequence[Candidate], with_accuracy: bool) -> tuple[list[Candidate], list[Candidate]]:
    """The candidates that no other of the group beats, and those that one does."""
    columns = [[c.point.energy_j_per_inference for c in group], [c.point.latency_s for c in group]]
    if with_accuracy:
        columns.append([-(c.accuracy or 0.0) for c in group])
    keep = front(np.array(columns).T.reshape(len(group), len(columns))).tolist()
    pairs = list(zip(keep, group, strict=True))
    return [c for kept, c in pairs if kept], [c for kept, c in pairs if not kept]


def _check_accuracies(evaluated: Sequence[Candidate]) -> None:
    metrics = {c.point.model: c.accuracy_metric for c in evaluated}
    without = [name for name, metric in metrics.items() if not metric]
    if without:
        raise RequestError(f"no published accuracy is known for {', '.join(without[:5])}: leave it out of --models")
    if len(set(metrics.values())) > 1:
        kinds = ", ".join(f"{name} {metric}" for name, metric in list(metrics.items())[:5])
        raise RequestError(f"accuracies of different kinds cannot be compared: {kinds}")


# --- search -----------------------------------------------------------------------------------------------


def search(evaluated: Sequence[Candidate], limits: Sequence[Constraint], order: str = "edp") -> Search:
    """The candidates within all limits that fit, best first; the verdict is about silicon where there is any. Raises
    RequestError without any limit."""
    if not limits:
        flags = ", ".join(f"--{'min' if METRICS[name].more_is_better else 'max'}-{name}" for name in SEARCHED)
        raise RequestError(f"search needs a limit (one or more of {flags})")
    evaluated = distinct(evaluated)
    has_silicon = any(c.point.silicon for c in evaluated)
    ordered = sorted(
        (c for c in evaluated if c.point.fits), key=lambda c: (_figure(c, order), c.point.energy_j_per_inference)
    )
    held = [
        msgspec.structs.replace(c, odds=min(odds_of_keeping(limit, c) for limit in limits))
        for c in ordered
        if c.point.can_win and all(_excess(limit, c) <= 1.0 for limit in limits)
    ]
    fitting, within = ([c for c in those if c.point.silicon is has_silicon] for those in (ordered, held))
    nearest = min(fitting, key=lambda c: _miss(c, limits), default=None) if not within else None
    rulings = tuple(_ruling(limit, fitting) for limit in limits)
    return Search(
        model=evaluated[0].point.model,
        constraints=tuple(map(str, limits)),
        order=order,
        evaluated=len(evaluated),
        not_fitting=len(evaluated) - len(ordered),
        found=tuple(c for c in held if c.point.silicon),
        design_targets=tuple(c for c in held if not c.point.silicon),
        verdict=_verdict(within, fitting, limits, rulings),
        rulings=rulings,
        nearest=nearest,
        nearest_excess=max((_excess(limit, nearest) for limit in limits), default=1.0) if nearest is not None else 1.0,
    )


def _excess(limit: Constraint, c: Candidate) -> float:
    return limit.excess(candidate_figure(c, limit.figure))


def _miss(c: Candidate, limits: Sequence[Constraint]) -> float:
    """Product of the factors by which a candidate exceeds its limits, as a logarithm."""
    return float(sum(np.log(max(_excess(limit, c), 1.0)) for limit in limits))


def _figure(c: Candidate, order: str) -> float:
    if order == "accuracy":
        return -c.accuracy if c.accuracy is not None else np.inf
    figure = candidate_figure(c, order)
    return -figure if METRICS[order].more_is_better else figure


def _ruling(limit: Constraint, fitting: Sequence[Candidate]) -> Ruling:
    metric = METRICS[limit.figure]
    best = (max if metric.more_is_better else min)((candidate_figure(c, limit.figure) for c in fitting), default=0.0)
    return Ruling(str(limit), sum(_excess(limit, c) <= 1.0 for c in fitting), best, metric.unit)


def _verdict(
    within: Sequence[Candidate], fitting: Sequence[Candidate], limits: Sequence[Constraint], rulings: Sequence[Ruling]
) -> str:
    if within:
        sure = sum(map(beyond_doubt, within))
        count = f"{len(within)} of {len(fitting)} configurations are within all limits"
        return f"{count}, {sure} of them beyond doubt"
    if not fitting:
        return "the model fits in the memory of none of these devices"
    if all(c.point.incomplete for c in fitting):
        return f"nothing is recommended: {fitting[0].point.incomplete}"
    alone = [ruling for ruling in rulings if not ruling.leaves]
    if alone:
        said = "; ".join(f"{r.constraint} (the best there is: {quantity(r.best, r.unit)})" for r in alone)
        return f"nothing is found: {said} rules out every configuration by itself"
    for i, first in enumerate(limits):
        for second in limits[i + 1 :]:
            if not any(_excess(first, c) <= 1.0 and _excess(second, c) <= 1.0 for c in fitting):
                return f"the constraints contradict each other: nothing has both {first} and {second}"
    return "the constraints contradict each other: each can be met, any two can, all together cannot"


# --- rank -------------------------------------------------------------------------------------------------


class Ranked(msgspec.Struct, frozen=True):
    """One model on the device; on the front where no other is as accurate, as frugal and as fast."""

    candidate: Candidate
    on_front: Annotated[
        bool,
        column(
            "P",
            key="front",
            role="flag",
            shown={True: "P", False: ""},
            help="P on the Pareto front of energy, latency and accuracy",
        ),
    ]
    family: Annotated[str, column("Family", keep=6)]
    parameters: Annotated[int, column("Params", "SI", role="quantity", keep=5)]
    macs: Annotated[float, column("MACs", "SI", role="quantity", keep=5)]


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `hwexplorer rank`: models on one device, in the order asked for."""

    device: str
    batch: int
    precision: str
    execution: str
    layout: str
    order: str
    rows: tuple[Ranked, ...]


def rank(results: Sequence[Estimate], by: CostSettings, order: str = "energy") -> Rank:
    """Rank models on one device. The front is taken among models whose accuracy is of the same kind."""
    if not results:
        raise RequestError("nothing to rank: no model is given")
    rows = [candidate(result, by) for result in results]
    winners = [row for row in rows if row.accuracy_metric and row.point.can_win]
    metrics = {row.accuracy_metric for row in winners}
    alike = ([row for row in winners if row.accuracy_metric == metric] for metric in metrics)
    on_front = {id(row) for group in alike for row in _front(group, with_accuracy=True)[0]}
    scenario, device = results[0].scenario, results[0].device
    ordered = sorted(zip(results, rows, strict=True), key=lambda pair: _figure(pair[1], order))
    return Rank(
        device=device.key,
        batch=scenario.batch,
        precision=scenario.precision,
        execution=scenario.execution,
        layout=scenario.layout,
        order=order,
        rows=tuple(_ranked(result, row, id(row) in on_front) for result, row in ordered),
    )


def _ranked(result: Estimate, row: Candidate, on_front: bool) -> Ranked:
    macs = float(result.demand.macs.sum()) / result.scenario.batch
    return Ranked(row, on_front, result.workload.family, result.workload.parameters, macs)
