"""Find devices, batches and precisions within limits such as --max-power 20W, or those that no other beats."""

from collections.abc import Iterator
from typing import Any

from analysis.estimate.metrics import METRICS, Metric, select_metrics
from analysis.explore import constrained_search, grid
from analysis.explore.odds import describe_odds
from analysis.explore.outcome import Constraint
from analysis.wording import describe_evidence
from hardware.base.errors import RequestError
from hardware.base.text import count_noun, percent, quantity
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
COLUMNS = grid.point_columns(
    "model device batch precision precision_run energy_per_inference latency throughput edp power memory "
    "electricity_usd hire_usd purchase_usd carbon_kg accuracy odds known bound",
    device={"shown": engine.marked_key},
)


def limit_flags() -> dict[str, Metric]:
    """Return flag -> metric for each limit of a search: `--max-energy`, `--min-throughput`."""
    limitable = [(name, metric) for name, metric in METRICS.items() if metric.limit_example]
    return {
        f"--{'min' if metric.more_is_better else 'max'}-{name.replace('_', '-')}": metric for name, metric in limitable
    }


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
    tick: grid.Tick | None = None,
    **given: float | None,
) -> constrained_search.ConstrainedSearch:
    limits = [
        Constraint(figure := name.partition("_")[2], ">=" if METRICS[figure].more_is_better else "<=", value)
        for name, value in given.items()
        if value is not None
    ]
    if not limits and not front:
        raise RequestError(f"search needs a limit ({', '.join(limit_flags())}) or --front; compare --cost ranks costs")
    points = list[grid.Point]()
    for member in _states(state, models):
        axes = configurations.axes_of(member, batches, precisions, power_modes, caps)
        points += sorted(grid.evaluate(axes, tick, keeps=configurations.draws_its_cap), key=lambda point: point.batch)
    return constrained_search.find_within(
        grid.Points(points), limits, order, (*FRONT, *("accuracy",) * bool(models)) if front else ()
    )


def _title(search: constrained_search.ConstrainedSearch, state: State) -> str:
    models = f"{list_names(search.models)}: " if len(search.models) > 1 else ""
    subject = f"{models}{headline_of_state(state, f'{search.evaluated:,} configurations')}"
    left_out = len(configurations.catalogue(True)) - len(state.devices)
    if state.devices == configurations.catalogue():
        subject += f" ({count_noun(left_out, 'design')} on paper left out)"
    limits = f": {', '.join(search.constraints)}" if search.constraints else ""
    return subject + limits + ("" if search.objectives else f", sorted by {METRICS[search.order].noun}")


def _answer(search: constrained_search.ConstrainedSearch, state: State) -> Iterator[str]:
    """Yield the best configuration that is likely to keep the limits, a bolder one, and the best measured one."""
    yield search.verdict
    least = {"throughput": "most throughput", "edp": "least EDP"}.get(search.order, f"least {search.order}")
    best = next(iter(search.found), None)
    if best is None:
        if search.design_targets and not search.objectives:
            yield f"on paper, {least}: {_describe(search.design_targets[0])}"
        return
    if search.objectives:
        measured = [point for point in (*search.found, *search.dominated) if point.is_measured and point.silicon]
        for metric in FRONT if measured and not all(point.is_measured for point in search.found) else ():
            known = min(measured, key=METRICS[metric].figure)
            yield f"least {metric} with measurements behind it: {_describe(known)}"
        return
    yield f"{least}: {_describe(best)}"
    if engine.device(best.device).power_cap:
        yield _against_uncapped(best, state)
    bolder = next(iter(grid.Points(search.found).order(search.order, "energy")), best)
    backed = next((point for point in search.found if point.is_measured), None)
    if bolder is not best:
        yield f"bolder: {_describe(bolder)}"
    if backed not in (best, bolder):
        yield f"{least} with measurements behind it: {_describe(backed) if backed else 'none'}"


def _describe(point: grid.Point) -> str:
    """Write `hailo10h at batch 1, fp32 run as int8 (measured on it: 60 measurements ..; 98 % sure)`."""
    form = point.precision + f" run as {point.precision_run}" * (point.precision_run != point.precision)
    odds = f"; {describe_odds(point.odds)} to keep the limits" if isinstance(point.odds, float) else ""
    return f"{engine.marked_key(point.device)} at batch {point.batch}, {form} ({describe_evidence(point.trust)}{odds})"


def _words(search: constrained_search.ConstrainedSearch, state: State) -> plain.Text:
    lines = [f"{r.constraint}: {r.leaves:,} keep it; the best has {quantity(r.best, r.unit)}" for r in search.rulings]
    if search.not_fitting:
        lines.append(f"{search.not_fitting:,} of {search.evaluated:,} do not fit in device memory")
    if search.nearest is not None and search.constraints:
        excess = search.nearest_excess
        amount = f"by {percent(excess - 1)}" if excess < 10 else f"{quantity(excess, 'SI')} times"
        near, names = search.nearest, select_metrics(lambda metric: metric.limit_example)
        figures = ", ".join(f"{name} {quantity(near.figure(name), METRICS[name].unit)}" for name in names)
        miss = f"{near.device} at batch {near.batch}, {near.precision} ({figures})"
        lines.append(f"nearest miss: {miss}; exceeds a limit {amount}")
    return plain.Text("limits", "", (("Limits", tuple(lines)),) if lines else ())


def _against_uncapped(best: grid.Point, state: State) -> str:
    """Write `at 400 W 5.34 mJ and 1.72 ms; without a cap 7.74 mJ and 1.53 ms (-31 % energy, +12 % latency)`."""
    device = engine.device(best.device)
    key = device.key.replace(f"@{device.power_cap}", "", 1)
    uncapped = engine.result(replace(state, batch=best.batch, precision=best.precision), key)
    capped, free = ((run.energy_j_per_inference, run.latency_s) for run in (best, uncapped))
    energy, latency = (f"{new / old * 100 - 100:+.0f} %" for new, old in zip(capped, free, strict=True))
    now, before_cap = (f"{quantity(joules, 'J')} and {quantity(seconds, 's')}" for joules, seconds in (capped, free))
    return f"{device.operating_words.strip()} {now}; without a cap {before_cap} ({energy} energy, {latency} latency)"


def _plot(search: constrained_search.ConstrainedSearch, state: State) -> plain.Plot | plain.Text:
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


def _without(search: constrained_search.ConstrainedSearch) -> tuple[str, ...]:
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
