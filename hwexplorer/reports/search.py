"""Find devices, batches and precisions within limits such as --max-power 20W, or those that no other beats."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any

import msgspec
import numpy as np

from analysis.estimate.metrics import METRICS, Metric, select_metrics
from analysis.explore.grid import Point, Points, evaluate, point_columns
from analysis.explore.odds import DOUBT, SAFE, describe_odds
from analysis.explore.outcome import Constraint
from analysis.wording import describe_evidence
from hardware.base.errors import RequestError
from hardware.base.text import count_noun, percent, quantity
from hardware.precision import SWEEP
from hwexplorer import configurations, declare, engine
from hwexplorer.options import LOAD_LIMITS, choice, name_list, option, whole
from hwexplorer.reports._under_load import under_load
from hwexplorer.state import State, replace
from hwexplorer.views import plain
from hwexplorer.views.captions import figures_lead, headline_of_state, list_names
from hwexplorer.views.tables import row_key

_Names = tuple[str, ...] | None
FRONT = ("energy", "latency")
KEY = ("model", "device", "batch", "precision")
COLUMNS = point_columns(
    "model device batch precision precision_run energy_per_inference latency throughput edp power memory "
    "electricity_usd hire_usd purchase_usd carbon_kg accuracy odds known bound",
    device={"shown": engine.marked_key},
)


class ConstraintEffect(msgspec.Struct, frozen=True):
    """The effect of one constraint alone: how many configurations it leaves, and the best figure of any."""

    constraint: str
    leaves: int
    best: float
    unit: str


class ConstrainedSearch(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `hwexplorer search`. If nothing is found, `nearest` is the configuration that exceeds the limits
    least. Devices on paper that keep the limits are in `design_targets`. With `objectives`, `found` is the front of
    these, the least energy first; `best_known` is the front of configurations with measurements of them or of similar
    chips, `dominated` what another one beats."""

    models: tuple[str, ...]
    constraints: tuple[str, ...]
    objectives: tuple[str, ...]
    order: str
    evaluated: int
    not_fitting: int
    found: tuple[Point, ...]
    design_targets: tuple[Point, ...]
    best_known: tuple[Point, ...]
    dominated: tuple[Point, ...]
    verdict: str
    rulings: tuple[ConstraintEffect, ...]
    nearest: Point | None
    nearest_excess: float


def limit_flags() -> dict[str, Metric]:
    """Return flag -> metric for each limit of a search: `--max-energy`, `--min-throughput`."""
    limitable = [(name, metric) for name, metric in METRICS.items() if metric.limit_example]
    return {
        f"--{'min' if metric.more_is_better else 'max'}-{name.replace('_', '-')}": metric for name, metric in limitable
    }


def is_sure(point: Point, least: float = DOUBT[1]) -> bool:
    """Return True if a measurement satisfies the limits of the search with these odds, by default almost surely."""
    return point.odds is not msgspec.UNSET and point.odds >= least


def find_within(
    evaluated: Points, limits: Sequence[Constraint], order: str = "edp", objectives: Sequence[str] = ()
) -> ConstrainedSearch:
    """Return the points that fit and keep all limits, the best first of those that are SAFE, then of the bolder ones;
    with `objectives` those on their front. Raises RequestError without a limit or an objective, or if accuracies are
    missing or of different kinds."""
    if not limits and not objectives:
        raise RequestError(f"search needs a limit (one or more of {', '.join(limit_flags())}), or --front")
    if "accuracy" in objectives:
        _check_accuracies(evaluated)
    points = evaluated.distinct()
    has_silicon = any(point.silicon for point in points)
    fitting = points.where(lambda point: point.fits).order(order, "energy")
    allowed = fitting.keep(limits)
    existing, on_paper = allowed.where(lambda point: point.silicon), allowed.where(lambda point: not point.silicon)
    best_known = dominated = Points()
    if objectives:
        groups = existing.order("energy"), on_paper.order("energy")
        existing, on_paper = (group.front(objectives) for group in groups)
        best_known = groups[0].where(lambda point: point.is_measured).front(objectives)
        kept = {id(point) for point in (*existing, *on_paper)}
        dominated = Points(point for group in groups for point in group if id(point) not in kept)
    else:
        existing, on_paper = (group.first(lambda point: is_sure(point, SAFE)) for group in (existing, on_paper))
    rivals = fitting.where(lambda point: point.silicon is has_silicon)
    keeping = existing if has_silicon else on_paper

    def distance(point: Point) -> float:
        """Return the logarithm of the product of the factors by which a point exceeds the limits."""
        return float(sum(np.log(max(point.excess(limit), 1.0)) for limit in limits))

    nearest = min(rivals, key=distance, default=None) if not keeping else None
    running = rivals.where(lambda point: point.can_win)
    effects = tuple(_constraint_effect(limit, running or rivals) for limit in limits)
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
        best_known=tuple(best_known),
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


def _constraint_effect(limit: Constraint, rivals: Points) -> ConstraintEffect:
    metric = METRICS[limit.figure]
    best = (max if metric.more_is_better else min)((point.figure(limit.figure) for point in rivals), default=0.0)
    return ConstraintEffect(str(limit), sum(point.excess(limit) <= 1.0 for point in rivals), best, metric.unit)


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
    return f"{len(found)} of {evaluated} configurations are beaten by no other in {figures}{note}"


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


# --- the verb ---------------------------------------------------------------------------------------------------------


def _states(state: State, models: _Names, **_: object) -> tuple[State, ...]:
    return tuple(replace(state, model=name) for name in dict.fromkeys((state.model, *(models or ()))))


def _document(
    state: State,
    order: str,
    front: bool,
    models: _Names,
    batches: tuple[int, ...] | None,
    precisions: _Names,
    power_modes: bool,
    on_paper: bool,
    caps: bool,
    tick: Callable[[int, int], None] | None = None,
    **given: float | None,
) -> ConstrainedSearch:
    limits = [
        Constraint(figure := name.partition("_")[2], ">=" if METRICS[figure].more_is_better else "<=", value)
        for name, value in given.items()
        if value is not None
    ]
    points = list[Point]()
    for member in _states(state, models) if limits or front else ():
        axes = configurations.axes_of(member, batches, precisions or SWEEP, power_modes, caps)
        points += sorted(evaluate(axes, tick, keeps=configurations.draws_its_cap), key=lambda point: point.batch)
    return find_within(Points(points), limits, order, (*FRONT, *("accuracy",) * bool(models)) if front else ())


def _title(search: ConstrainedSearch, state: State) -> str:
    models = f"{list_names(search.models)}: " if len(search.models) > 1 else ""
    subject = f"{models}{headline_of_state(state, f'{search.evaluated:,} configurations')}"
    left_out = len(configurations.catalogue(True)) - len(state.devices)
    if state.devices == configurations.catalogue():
        subject += f" ({count_noun(left_out, 'design')} on paper left out)"
    limits = f": {', '.join(search.constraints)}" if search.constraints else ""
    return subject + limits + ("" if search.objectives else f", sorted by {METRICS[search.order].noun}")


def _answer(search: ConstrainedSearch, state: State) -> Iterator[str]:
    """Yield the best configuration that is likely to keep the limits, a bolder one, and the best measured one."""
    yield search.verdict
    best = next(iter(search.found), None)
    if best is None:
        return
    if search.objectives:
        for metric in FRONT if search.best_known and len(search.best_known) < len(search.found) else ():
            known = min(search.best_known, key=METRICS[metric].figure)
            yield f"least {metric} with measurements behind it: {_describe(known)}"
        return
    least = {"throughput": "most throughput", "edp": "least EDP"}.get(search.order, f"least {search.order}")
    yield f"{least}: {_describe(best)}"
    if engine.device(best.device).power_cap:
        yield _against_uncapped(best, state)
    bolder = next(iter(Points(search.found).order(search.order, "energy")), best)
    backed = next((point for point in search.found if point.is_measured), None)
    if bolder is not best:
        yield f"bolder: {_describe(bolder)}"
    if backed not in (best, bolder):
        yield f"{least} with measurements behind it: {_describe(backed) if backed else 'none'}"


def _describe(point: Point) -> str:
    """Write `hailo10h at batch 1, fp32 run as int8 (measured on it: 60 measurements ..; 98 % sure)`."""
    form = point.precision + f" run as {point.precision_run}" * (point.precision_run != point.precision)
    odds = f"; {describe_odds(point.odds)} to keep the limits" if isinstance(point.odds, float) else ""
    return f"{engine.marked_key(point.device)} at batch {point.batch}, {form} ({describe_evidence(point.trust)}{odds})"


def _words(search: ConstrainedSearch, state: State) -> plain.Text:
    lines = [f"{r.constraint}: {r.leaves:,} keep it; the best has {quantity(r.best, r.unit)}" for r in search.rulings]
    if search.not_fitting:
        lines.append(f"{search.not_fitting:,} of {search.evaluated:,} do not fit in device memory")
    if search.nearest is not None and search.constraints:
        excess = search.nearest_excess
        amount = f"by {percent(excess - 1)}" if excess < 10 else f"{quantity(excess, 'SI')} times"
        lines.append(f"nearest miss: {_describe_figures(search.nearest)}; exceeds a limit {amount}")
    return plain.Text("limits", "", (("Limits", tuple(lines)),) if lines else ())


def _against_uncapped(best: Point, state: State) -> str:
    """Write `at 400 W 5.34 mJ and 1.72 ms; without a cap 7.74 mJ and 1.53 ms (-31 % energy, +12 % latency)`."""
    device = engine.device(best.device)
    key = device.key.replace(f"@{device.power_cap}", "", 1)
    uncapped = engine.result(replace(state, batch=best.batch, precision=best.precision), key)
    capped, free = ((run.energy_j_per_inference, run.latency_s) for run in (best, uncapped))
    energy, latency = (f"{new / old * 100 - 100:+.0f} %" for new, old in zip(capped, free, strict=True))
    now, before_cap = (f"{quantity(joules, 'J')} and {quantity(seconds, 's')}" for joules, seconds in (capped, free))
    return f"{device.operating_words.strip()} {now}; without a cap {before_cap} ({energy} energy, {latency} latency)"


def _describe_figures(point: Point) -> str:
    names = select_metrics(lambda metric: metric.limit_example)
    figures = ", ".join(f"{name} {quantity(point.figure(name), METRICS[name].unit)}" for name in names)
    return f"{point.device} at batch {point.batch}, {point.precision} ({figures})"


def _plot(search: ConstrainedSearch, state: State) -> plain.Plot | plain.Text:
    """Return the picture of the front; nothing for a search within limits alone."""
    if not search.objectives:
        return plain.Text("front", "", ())
    series = []
    for name, members in (("front", search.found), ("beaten", search.dominated), ("on paper", search.design_targets)):
        keys = tuple(row_key(member, KEY) for member in members)
        x, y = (tuple(map(METRICS[metric].figure, members)) for metric in ("latency", "energy"))
        if members:
            series.append(plain.Series(name, x, y, keys=keys, labels=keys))
    return plain.Plot(
        name="front", title="Energy and latency", x_title="Latency of the batch", y_title="Energy per inference",
        x_unit="s", y_unit="J", series=tuple(series),
    )  # fmt: skip


def _limit(flag: str, metric: Metric) -> Any:
    says = f"{metric.title[0].lower()}{metric.title[1:]}: {metric.limit_example}"
    return option(flag, unit=metric.unit or "USD", metavar="X", help=says)


def _without(search: ConstrainedSearch) -> tuple[str, ...]:
    """Return the columns that a search leaves out: odds without limits, accuracies without several models, and all
    costs but electricity unless it is about costs."""
    is_about_cost = search.order == "cost" or any(limit.startswith("cost") for limit in search.constraints)
    costs = () if is_about_cost else ("hire_usd", "purchase_usd", "carbon_kg")
    return (*costs, *("odds",) * (not search.constraints), *("accuracy",) * ("accuracy" not in search.objectives))


def _rows(name: str, title: str, of: str, first: int, **others: Any) -> declare.Rows:
    return declare.Rows(name, title, COLUMNS, of=of, key=KEY, kind="architecture", leads=figures_lead, without=_without,
                first=first, **others)  # fmt: skip


VERB = declare.Report(
    subject=declare.EVERYWHERE,
    served=lambda _: under_load().SEARCH,
    options=(
        *(_limit(flag, metric) for flag, metric in limit_flags().items()),
        option("--front", action="store_true", help="those that no other beats in both energy and latency"),
        option("--models", type=name_list("model"), metavar="M,..",
               help="other models as well; accuracy becomes an objective of --front"),
        choice("--sort", select_metrics(lambda metric: metric.is_order), default="edp", metavar="BY", dest="order"),
        *configurations.GRID,
        configurations.CAP,
        configurations.INCLUDE_PAPER,
        *LOAD_LIMITS,
        option("--devices", type=whole(1, 64), default=8, dest="most", metavar="N", applies_to="load",
               help="for a load: most devices of a kind (default 8)"),
    ),
    document=_document,
    title=_title,
    parts=(
        declare.summary_text(_answer),
        _rows("search", "", "found", 15),
        # Designs on paper do not compete with existing devices, so they have a table of their own.
        _rows("on_paper", "On paper only", "design_targets", 5, optional=True),
        _words,
        _plot,
    ),
    brief_parts=("summary", "search", "on_paper", "limits"),
    main="search",
    states=_states,
    ticks="configurations",
    on_screen=False,
    examples={
        "search": "conv2d --on h100_sxm,tpu_v4 --max-latency 1ms",
        "search_front": "conv2d --on h100_sxm,tpu_v4 --front",
    },
)  # fmt: skip
