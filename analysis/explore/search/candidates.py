"""Candidates: configurations with cost and accuracy, their Pareto front, a search within constraints, and a ranking."""

from collections.abc import Sequence
from itertools import combinations
from typing import Annotated

import msgspec
import numpy as np

from analysis.document import column, record
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Figures, figures
from analysis.estimate.metrics import METRICS, Metric
from analysis.explore.constraint import Constraint
from analysis.explore.deployment_cost import CostSettings, cost_per_million
from analysis.explore.odds import DOUBT, SAFE, odds_below
from analysis.model.ir.workload import Bools, Floats
from analysis.model.names import zoo
from analysis.text.evidence import is_backed
from hardware.base.errors import RequestError
from hardware.base.text import count_noun, quantity


class Candidate(msgspec.Struct, frozen=True):
    """A configuration with its cost, published accuracy, and the odds that a measurement would satisfy the limits."""

    point: Figures
    cost_usd_per_million: Annotated[
        float, column("Electricity USD/1M", keep=4, help="of a million inferences; hire and purchase: see cost")
    ]
    accuracy: Annotated[
        float | None, column("Accuracy fp32", keep=3, help="published, for the default weights in fp32")
    ]
    accuracy_metric: Annotated[str, column("Metric", key="metric", keep=4)]
    odds: float | msgspec.UnsetType = msgspec.UNSET


class Pareto(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `hwexplorer pareto`. `front` is ordered by energy, the least first; `design_targets` is the front
    of devices on paper, `best_known` the front of configurations with measurements of them or of siblings."""

    models: tuple[str, ...]
    objectives: tuple[str, ...]
    evaluated: int
    not_fitting: int
    front: tuple[Candidate, ...]
    dominated: tuple[Candidate, ...]
    design_targets: tuple[Candidate, ...]
    best_known: tuple[Candidate, ...]


def limit_flags() -> dict[str, Metric]:
    """Return flag -> metric for each limit of a search: `--max-energy`, `--min-throughput`."""
    limitable = [(name, metric) for name, metric in METRICS.items() if metric.limit_example]
    return {
        f"--{'min' if metric.more_is_better else 'max'}-{name.replace('_', '-')}": metric for name, metric in limitable
    }


def candidate_figure(candidate: Candidate, name: str) -> float:
    """Return a metric of a candidate."""
    return METRICS[name].figure(candidate if name == "cost" else candidate.point)


def odds_of_keeping(constraint: Constraint, candidate: Candidate) -> float:
    """Return the probability that a measurement would satisfy a constraint; 0 or 1 for a figure without a band."""
    point, figure = candidate.point, candidate_figure(candidate, constraint.figure)
    bands = {"latency": (point.latency_s, point.latency_band_s), "energy": (point.energy_j, point.energy_band_j)}
    value, band = bands.get(METRICS[constraint.figure].band, (0.0, (0.0, 0.0)))
    excess = constraint.excess(figure)
    if value <= 0 or figure <= 0:
        return float(excess <= 1.0)
    return odds_below(value, band, value / excess)


class ConstraintEffect(msgspec.Struct, frozen=True):
    """The effect of one constraint alone: how many candidates it leaves, and the best figure of any candidate."""

    constraint: str
    leaves: int
    best: float
    unit: str


class ConstrainedSearch(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `hwexplorer search`. If nothing is found, `nearest` is the candidate that exceeds the limits
    least. Devices on paper that keep the limits are in `design_targets`."""

    model: str
    constraints: tuple[str, ...]
    order: str
    evaluated: int
    not_fitting: int
    found: tuple[Candidate, ...]
    design_targets: tuple[Candidate, ...]
    verdict: str
    rulings: tuple[ConstraintEffect, ...]
    nearest: Candidate | None
    nearest_excess: float


def make_candidate(result: Estimate, by: CostSettings) -> Candidate:
    """Return an estimate as a candidate, with its cost and published accuracy."""
    info = zoo.table().get(result.workload.name)
    accuracy, metric = (info.value, info.metric) if info is not None and info.value is not None else (None, "")
    return Candidate(figures(result), cost_per_million(result, by), accuracy, metric)


def distinct_candidates(evaluated: Sequence[Candidate]) -> list[Candidate]:
    """Drop equal runs: of formats that a device runs alike, keep the one that it runs."""
    runs: dict[tuple[object, ...], Candidate] = {}
    for candidate in evaluated:
        point = candidate.point
        key = (point.model, point.device, point.batch, point.precision_run, point.latency_s, point.energy_j)
        if key not in runs or point.precision == point.precision_run:
            runs[key] = candidate
    return list(runs.values())


def is_sure(c: Candidate, least: float = DOUBT[1]) -> bool:
    """Return True if a measurement satisfies the limits of the search with these odds, by default almost surely."""
    return c.odds is not msgspec.UNSET and c.odds >= least


def select_measured(group: Sequence[Candidate]) -> list[Candidate]:
    """Select the candidates with measurements of them or of similar devices."""
    return [c for c in group if is_backed(c.point.trust)]


# --- Pareto -----------------------------------------------------------------------------------------------


def front(values: Floats) -> Bools:
    """Return which rows of `values` (n, d), all to be minimised, are on the Pareto front."""
    keep = np.ones(len(values), dtype=np.bool_)
    for i, row in enumerate(values):
        if keep[i]:
            keep &= ~((values >= row).all(axis=1) & (values > row).any(axis=1))
    return keep


def pareto(evaluated: Sequence[Candidate], with_accuracy: bool) -> Pareto:
    """Return the front over energy per inference, latency and, over several models, published accuracy. Raises
    RequestError if accuracies are missing or of different kinds."""
    if with_accuracy:
        _check_accuracies(evaluated)
    evaluated = distinct_candidates(evaluated)
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
        best_known=tuple(_front(select_measured([c for c in fitting if c.point.silicon]), with_accuracy)[0]),
    )


def _front(group: Sequence[Candidate], with_accuracy: bool) -> tuple[list[Candidate], list[Candidate]]:
    """Divide a group into its Pareto front and the rest."""
    rows = [(c.point.energy_j_per_inference, c.point.latency_s, -(c.accuracy or 0.0)) for c in group]
    keep = front(np.array(rows).reshape(-1, 3)[:, : 2 + with_accuracy]).tolist()
    pairs = list(zip(keep, group, strict=True))
    return [c for keeps, c in pairs if keeps], [c for keeps, c in pairs if not keeps]


def _check_accuracies(evaluated: Sequence[Candidate]) -> None:
    metrics = {c.point.model: c.accuracy_metric for c in evaluated}
    unmeasured = [name for name, metric in metrics.items() if not metric]
    if unmeasured:
        raise RequestError(f"no published accuracy is known for {', '.join(unmeasured[:5])}: remove it from --models")
    if len(set(metrics.values())) > 1:
        kinds = ", ".join(f"{name} {metric}" for name, metric in list(metrics.items())[:5])
        raise RequestError(f"accuracies of different kinds cannot be compared: {kinds}")


# --- search -----------------------------------------------------------------------------------------------


def search(evaluated: Sequence[Candidate], limits: Sequence[Constraint], order: str = "edp") -> ConstrainedSearch:
    """Return the candidates that fit and keep all limits, the best first of those that are SAFE, then of the bolder
    ones. Raises RequestError without any limit."""
    if not limits:
        raise RequestError(f"search needs a limit (one or more of {', '.join(limit_flags())})")
    evaluated = distinct_candidates(evaluated)
    has_silicon = any(c.point.silicon for c in evaluated)
    ordered = sort_candidates([c for c in evaluated if c.point.fits], order)
    allowed = [
        msgspec.structs.replace(c, odds=min(odds_of_keeping(limit, c) for limit in limits))
        for c in ordered
        if c.point.can_win and all(_excess(limit, c) <= 1.0 for limit in limits)
    ]
    allowed.sort(key=lambda c: not is_sure(c, SAFE))
    fitting, keeping = ([c for c in group if c.point.silicon is has_silicon] for group in (ordered, allowed))
    on_paper = [c for c in allowed if has_silicon and not c.point.silicon]

    def distance(c: Candidate) -> float:
        """Return the logarithm of the product of the factors by which a candidate exceeds the limits."""
        return float(sum(np.log(max(_excess(limit, c), 1.0)) for limit in limits))

    nearest = min(fitting, key=distance, default=None) if not keeping else None
    running = [c for c in fitting if c.point.can_win]
    constraint_effects = tuple(_constraint_effect(limit, running or fitting) for limit in limits)
    return ConstrainedSearch(
        model=evaluated[0].point.model,
        constraints=tuple(map(str, limits)),
        order=order,
        evaluated=len(evaluated),
        not_fitting=len(evaluated) - len(ordered),
        found=tuple(c for c in allowed if c.point.silicon),
        design_targets=tuple(c for c in allowed if not c.point.silicon),
        verdict=_verdict(keeping, on_paper, fitting, limits, constraint_effects, len(evaluated)),
        rulings=constraint_effects,
        nearest=nearest,
        nearest_excess=max((_excess(limit, nearest) for limit in limits), default=1.0) if nearest is not None else 1.0,
    )


def _excess(limit: Constraint, c: Candidate) -> float:
    return limit.excess(candidate_figure(c, limit.figure))


def sort_candidates(group: Sequence[Candidate], order: str) -> list[Candidate]:
    """Sort candidates by a metric, the best first."""
    return sorted(group, key=lambda c: (_sort_key(c, order), c.point.energy_j_per_inference))


def _sort_key(c: Candidate, order: str) -> float:
    if order == "accuracy":
        return -c.accuracy if c.accuracy is not None else np.inf
    figure = candidate_figure(c, order)
    return -figure if METRICS[order].more_is_better else figure


def _constraint_effect(limit: Constraint, fitting: Sequence[Candidate]) -> ConstraintEffect:
    metric = METRICS[limit.figure]
    best = (max if metric.more_is_better else min)((candidate_figure(c, limit.figure) for c in fitting), default=0.0)
    return ConstraintEffect(str(limit), sum(_excess(limit, c) <= 1.0 for c in fitting), best, metric.unit)


def _verdict(
    within: Sequence[Candidate],
    on_paper: Sequence[Candidate],
    fitting: Sequence[Candidate],
    limits: Sequence[Constraint],
    constraint_effects: Sequence[ConstraintEffect],
    evaluated: int,
) -> str:
    """Say how many configurations keep the limits, or what rules all out. Designs count if there is nothing else."""
    designs = ", ".join(dict.fromkeys(c.point.device for c in on_paper))
    if within:
        surely = sum(map(is_sure, within))
        count = f"{len(within):,} of {evaluated:,} configurations keep all limits, {surely:,} almost surely"
        return f"{count}; on paper {len(on_paper)} more ({designs})" if on_paper else count
    if on_paper:
        words = f"{count_noun(len(on_paper), 'configuration')} of {designs} keep all limits"
        return f"Only on paper: {words}. Among chips that exist: {_why_nothing(fitting, limits, constraint_effects)}"
    return _why_nothing(fitting, limits, constraint_effects)


def _why_nothing(
    fitting: Sequence[Candidate], limits: Sequence[Constraint], constraint_effects: Sequence[ConstraintEffect]
) -> str:
    if not fitting:
        return "The model fits in the memory of none of these devices."
    if all(c.point.incomplete for c in fitting):
        return f"Nothing is recommended: {fitting[0].point.incomplete}"
    alone = [_missed_by_all(limit, r) for limit, r in zip(limits, constraint_effects, strict=True) if not r.leaves]
    if alone:
        return " ".join(alone)
    for first, second in combinations(limits, 2):
        if not any(_excess(first, c) <= 1.0 and _excess(second, c) <= 1.0 for c in fitting):
            return f"The limits contradict each other: no configuration keeps both {first} and {second}."
    return "The limits contradict each other: any two can be kept, all together cannot."


def _missed_by_all(limit: Constraint, ruling: ConstraintEffect) -> str:
    """Write `No configuration stays below 25.0 W (average power). The lowest is 135 W.`"""
    metric = METRICS[limit.figure]
    stays, least = ("reaches", "highest") if metric.more_is_better else ("stays below", "lowest")
    amount, best = quantity(limit.amount, limit.unit), quantity(ruling.best, ruling.unit)
    return f"No configuration {stays} {amount} ({metric.noun}). The {least} is {best}."


# --- rank -------------------------------------------------------------------------------------------------


class Ranked(msgspec.Struct, frozen=True):
    """One model, on the front unless another is no worse in accuracy, energy and latency, and better in one."""

    candidate: Candidate
    on_front: Annotated[
        bool,
        column(
            "Front",
            key="front",
            shown={True: "yes", False: ""},
            help="yes: no other model has less energy, less latency and more accuracy",
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
    """Rank models on one device. The front is taken among models with accuracies of the same kind."""
    if not results:
        raise RequestError("nothing to rank: no model is given")
    rows = [make_candidate(result, by) for result in results]
    winners = [row for row in rows if row.accuracy_metric and row.point.can_win]
    metrics = {row.accuracy_metric for row in winners}
    alike = ([row for row in winners if row.accuracy_metric == metric] for metric in metrics)
    on_front = {id(row) for group in alike for row in _front(group, with_accuracy=True)[0]}
    ordered = sorted(zip(results, rows, strict=True), key=lambda pair: _sort_key(pair[1], order))
    ranked_rows = tuple(
        record(
            Ranked, result.workload, candidate=row, on_front=id(row) in on_front,
            macs=float(result.demand.macs.sum()) / result.scenario.batch,
        )
        for result, row in ordered
    )  # fmt: skip
    return record(Rank, results[0].scenario, device=results[0].device.key, order=order, rows=ranked_rows)
