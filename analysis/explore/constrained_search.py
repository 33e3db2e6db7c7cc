"""Search among configurations for those that keep limits, or that no other beats in several objectives.

The best comes first of those whose odds are SAFE, then of the bolder ones. Devices on paper never compete with existing
ones. If nothing keeps the limits, the verdict says which of them rules all out.
"""

from collections.abc import Sequence
from itertools import combinations
from math import prod

import msgspec

from analysis.estimate.metrics import METRICS
from analysis.explore.grid import Point, Points
from analysis.explore.odds import DOUBT, SAFE
from analysis.explore.outcome import Constraint
from hardware.base.errors import RequestError
from hardware.base.text import count_noun, percent, quantity


class ConstraintEffect(msgspec.Struct, frozen=True):
    """The effect of one constraint alone: how many configurations it leaves, and the best figure of any."""

    constraint: str
    leaves: int
    best: float
    unit: str


class ConstrainedSearch(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `hwexplorer search`. If nothing is found, `nearest` is the configuration that exceeds the limits
    least. Devices on paper that keep the limits are in `design_targets`. With `objectives`, `found` is the front of
    these, the least energy first, and `dominated` what another one beats."""

    models: tuple[str, ...]
    constraints: tuple[str, ...]
    objectives: tuple[str, ...]
    order: str
    evaluated: int
    not_fitting: int
    found: tuple[Point, ...]
    design_targets: tuple[Point, ...]
    dominated: tuple[Point, ...]
    verdict: str
    rulings: tuple[ConstraintEffect, ...]
    nearest: Point | None
    nearest_excess: float


def is_sure(point: Point, least: float = DOUBT[1]) -> bool:
    """Return True if a measurement satisfies the limits of the search with these odds, by default almost surely."""
    return point.odds is not msgspec.UNSET and point.odds >= least


def find_within(
    evaluated: Points, limits: Sequence[Constraint], order: str = "edp", objectives: Sequence[str] = ()
) -> ConstrainedSearch:
    """Return the points that fit and keep all limits, the best first of those that are SAFE, then of the bolder ones;
    with `objectives` those on their front. Raises RequestError if accuracies are missing or of different kinds."""
    if "accuracy" in objectives:
        _check_accuracies(evaluated)
    points = evaluated.distinct()
    has_silicon = any(point.silicon for point in points)
    fitting = points.where(lambda point: point.fits).order(order, "energy")
    allowed = fitting.keep(limits)
    existing, on_paper = allowed.where(lambda point: point.silicon), allowed.where(lambda point: not point.silicon)
    dominated = Points()
    if objectives:
        groups = existing.order("energy"), on_paper.order("energy")
        existing, on_paper = (group.front(objectives) for group in groups)
        kept = {id(point) for point in (*existing, *on_paper)}
        dominated = Points(point for group in groups for point in group if id(point) not in kept)
    else:
        existing, on_paper = (group.first(lambda point: is_sure(point, SAFE)) for group in (existing, on_paper))
    rivals = fitting.where(lambda point: point.silicon is has_silicon)
    keeping = existing if has_silicon else on_paper

    running = rivals.where(lambda point: point.can_win) or rivals
    nearest = None  # by the product of the factors by which a point exceeds the limits
    if not keeping:
        nearest = min(running, key=lambda p: prod(max(p.excess(limit), 1.0) for limit in limits), default=None)
    effects = tuple(
        ConstraintEffect(
            str(limit),
            sum(point.excess(limit) <= 1.0 for point in running),
            next((point.figure(limit.figure) for point in running.order(limit.figure)), 0.0),
            METRICS[limit.figure].unit,
        )
        for limit in limits
    )
    verdict = (
        _front_verdict(keeping, objectives, len(points))
        if objectives and keeping
        else _verdict(keeping, on_paper if has_silicon else Points(), rivals, limits, effects, len(points))
    )
    return ConstrainedSearch(
        models=tuple(dict.fromkeys(point.model for point in points)),
        constraints=tuple(map(str, limits)),
        objectives=tuple(objectives),
        order=order,
        evaluated=len(points),
        not_fitting=len(points) - len(fitting),
        found=tuple(existing),
        design_targets=tuple(on_paper),
        dominated=tuple(dominated),
        verdict=verdict,
        rulings=effects,
        nearest=nearest,
        nearest_excess=max((nearest.excess(limit) for limit in limits), default=1.0) if nearest is not None else 1.0,
    )


def _check_accuracies(points: Points) -> None:
    metrics = {point.model: point.accuracy_metric for point in points}
    unmeasured = [name for name, metric in metrics.items() if not metric]
    if unmeasured:
        raise RequestError(f"no published accuracy is known for {', '.join(unmeasured[:5])}: remove it from --models")
    if len(set(metrics.values())) > 1:
        kinds = ", ".join(f"{name} {metric}" for name, metric in list(metrics.items())[:5])
        raise RequestError(f"accuracies of different kinds cannot be compared: {kinds}")


def _verdict(
    within: Points,
    on_paper: Points,
    rivals: Points,
    limits: Sequence[Constraint],
    effects: Sequence[ConstraintEffect],
    evaluated: int,
) -> str:
    """Say how many configurations keep the limits, or what rules all out. Designs count if there is nothing else."""
    designs = ", ".join(dict.fromkeys(point.device for point in on_paper))
    if within:
        surely = sum(map(is_sure, within))
        count = (
            f"{surely:,} of {evaluated:,} configurations keep the limits with {percent(DOUBT[1])} odds, "
            f"{len(within):,} as estimated"
        )
        return f"{count}; on paper {len(on_paper)} more ({designs})" if on_paper else count
    if on_paper:
        words = f"{count_noun(len(on_paper), 'configuration')} of {designs} keep all limits"
        return f"Only on paper: {words}. Among chips that exist: {_why_nothing(rivals, limits, effects)}"
    return _why_nothing(rivals, limits, effects)


def _front_verdict(found: Points, objectives: Sequence[str], evaluated: int) -> str:
    """Write `7 of 56 configurations are beaten by no other in energy and latency, 2 of them not measured`."""
    figures = f"{', '.join(objectives[:-1])} and {objectives[-1]}"
    guessed = sum(not point.is_measured for point in found)
    note = f"; {guessed} of these rest on data sheets only, nothing measured" if guessed else ""
    return f"{len(found):,} of {evaluated:,} configurations are beaten by no other in {figures}{note}"


def _why_nothing(rivals: Points, limits: Sequence[Constraint], effects: Sequence[ConstraintEffect]) -> str:
    if not rivals:
        return "The model fits in the memory of none of these devices."
    if all(point.incomplete for point in rivals):
        return f"Nothing is recommended: {rivals[0].incomplete}"
    alone = [_missed_by_all(limit, r) for limit, r in zip(limits, effects, strict=True) if not r.leaves]
    if alone:
        return " ".join(alone)
    for first, second in combinations(limits, 2):
        if not any(point.excess(first) <= 1.0 and point.excess(second) <= 1.0 for point in rivals):
            return f"The limits contradict each other: no configuration keeps both {first} and {second}."
    return "The limits contradict each other: any two can be kept, all together cannot."


def _missed_by_all(limit: Constraint, ruling: ConstraintEffect) -> str:
    """Write `No configuration stays below 25.0 W (average power). The lowest is 135 W.`"""
    metric = METRICS[limit.figure]
    stays, least = ("reaches", "highest") if metric.more_is_better else ("stays below", "lowest")
    amount, best = quantity(limit.amount, limit.unit), quantity(ruling.best, ruling.unit)
    return f"No configuration {stays} {amount} ({metric.noun}). The {least} is {best}."
