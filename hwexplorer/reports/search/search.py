"""Find devices, batches and precisions within limits such as --max-power 20W."""

from collections.abc import Callable, Iterator
from typing import Any

from analysis.estimate.figures import Figures
from analysis.estimate.metrics import METRICS, Metric, select_metrics
from analysis.explore.constraint import Constraint
from analysis.explore.search.candidates import (
    Candidate,
    ConstrainedSearch,
    candidate_figure,
    limit_flags,
    select_measured,
    sort_candidates,
)
from analysis.explore.search.candidates import search as within
from hardware.base.errors import RequestError
from hardware.base.text import percent, quantity
from hwexplorer import engine
from hwexplorer.configurations import CAP, GRID, INCLUDE_PAPER, evaluate_grid
from hwexplorer.declare import EVERYWHERE, Report, summary_text
from hwexplorer.options import LOAD_LIMITS, amount, choice, option, whole
from hwexplorer.reports._candidates import COLUMNS, ODDS, ON_PAPER, candidate_rows, describe_candidate
from hwexplorer.state import State, replace
from hwexplorer.views.captions import headline_of_state
from hwexplorer.views.plain import Text


def _document(
    state: State,
    order: str,
    batches: tuple[int, ...] | None,
    precisions: tuple[str, ...] | None,
    power_modes: bool,
    on_paper: bool,
    caps: bool,
    tick: Callable[[int, int], None] | None = None,
    **given: float | None,
) -> ConstrainedSearch:
    limits = []
    for option_name, value in given.items():
        figure = option_name.partition("_")[2]
        if value is not None:
            if value <= 0:
                raise RequestError(f"--{option_name.replace('_', '-')} {value:g}: expected more than 0")
            limits.append(Constraint(figure, ">=" if METRICS[figure].more_is_better else "<=", value))
    grid = evaluate_grid((state,), batches, precisions, power_modes, tick, caps) if limits else ()
    return within(grid, limits, order)


def _title(search: ConstrainedSearch, state: State) -> str:
    subject = headline_of_state(state, f"{search.evaluated:,} configurations")
    return f"{subject}: {', '.join(search.constraints)}, sorted by {METRICS[search.order].noun}"


def _answer(search: ConstrainedSearch, state: State) -> Iterator[str]:
    """Yield the best configuration that is likely to keep the limits, a bolder one, and the best measured one."""
    yield search.verdict
    best = next(iter(search.found), None)
    if best is None:
        return
    least = {"throughput": "most throughput", "edp": "least EDP"}.get(search.order, f"least {search.order}")
    yield f"{least}: {describe_candidate(best)}"
    if engine.device(best.point.device).power_cap:
        yield _against_uncapped(best.point, state)
    bolder = next(iter(sort_candidates(search.found, search.order)), best)
    backed = next(iter(select_measured(search.found)), None)
    if bolder is not best:
        yield f"bolder: {describe_candidate(bolder)}"
    if backed not in (best, bolder):
        yield f"{least} with measurements behind it: {describe_candidate(backed) if backed else 'none'}"


def _words(search: ConstrainedSearch, state: State) -> Text:
    lines = [f"{r.constraint}: {r.leaves:,} keep it; the best has {quantity(r.best, r.unit)}" for r in search.rulings]
    if search.not_fitting:
        lines.append(f"{search.not_fitting:,} of {search.evaluated:,} do not fit in device memory")
    if search.nearest is not None:
        excess = search.nearest_excess
        amount = f"by {percent(excess - 1)}" if excess < 10 else f"{quantity(excess, 'SI')} times"
        lines.append(f"nearest miss: {_describe_figures(search.nearest)}; exceeds a limit {amount}")
    return Text("limits", "", (("Limits", tuple(lines)),))


def _against_uncapped(best: Figures, state: State) -> str:
    """Write `at 400 W 5.34 mJ and 1.72 ms; without a cap 7.74 mJ and 1.53 ms (-31 % energy, +12 % latency)`."""
    device = engine.device(best.device)
    key = device.key.replace(f"@{device.power_cap}", "", 1)
    uncapped = engine.result(replace(state, batch=best.batch, precision=best.precision), key)
    capped, free = ((run.energy_j_per_inference, run.latency_s) for run in (best, uncapped))
    energy, latency = (f"{new / old * 100 - 100:+.0f} %" for new, old in zip(capped, free, strict=True))
    now, before_cap = (f"{quantity(joules, 'J')} and {quantity(seconds, 's')}" for joules, seconds in (capped, free))
    return f"{device.operating_words.strip()} {now}; without a cap {before_cap} ({energy} energy, {latency} latency)"


def _describe_figures(c: Candidate) -> str:
    p, names = c.point, select_metrics(lambda metric: metric.limit_example)
    figures = ", ".join(f"{name} {quantity(candidate_figure(c, name), METRICS[name].unit)}" for name in names)
    return f"{p.device} at batch {p.batch}, {p.precision} ({figures})"


def _limit(flag: str, metric: Metric) -> Any:
    says = f"{metric.title[0].lower()}{metric.title[1:]}: {metric.limit_example}"
    return option(flag, type=amount(metric.unit or "USD"), metavar="X", help=says)


VERB = Report(
    subject=EVERYWHERE,
    options=(
        *(_limit(flag, metric) for flag, metric in limit_flags().items()),
        choice("--sort", select_metrics(lambda metric: metric.is_order), default="edp", metavar="BY", dest="order"),
        *GRID,
        CAP,
        INCLUDE_PAPER,
        *LOAD_LIMITS,
        option(
            "--devices",
            type=whole(1, 64),
            default=8,
            dest="most",
            metavar="N",
            applies_to="load",
            help="for a load: most devices of a kind (default 8)",
        ),
    ),
    document=_document,
    title=_title,
    parts=(
        summary_text(_answer),
        candidate_rows("search", "", (*COLUMNS[:-2], ODDS, *COLUMNS[-2:]), of="found", first=15),
        ON_PAPER,
        _words,
    ),
    main="search",
    ticks="configurations",
    on_screen=False,
    examples={"search": "conv2d --on h100_sxm,tpu_v4 --max-latency 1ms"},
)
