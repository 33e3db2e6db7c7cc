"""List the configurations that no other beats in both energy and latency."""

from collections.abc import Callable, Iterator

from analysis.explore.search.candidates import Candidate, Pareto, select_measured
from analysis.explore.search.candidates import pareto as front
from hwexplorer.configurations import GRID, INCLUDE_PAPER, evaluate_grid
from hwexplorer.declare import EVERYWHERE, Report, summary_text
from hwexplorer.options import name_list, option
from hwexplorer.reports._candidates import COLUMNS, KEY, ON_PAPER, candidate_rows, describe_candidate
from hwexplorer.state import State, replace
from hwexplorer.views.captions import headline_of_state, list_names
from hwexplorer.views.plain import Plot, Series
from hwexplorer.views.tables import row_key

_Names = tuple[str, ...] | None


def _states(state: State, models: _Names, **_: object) -> tuple[State, ...]:
    return tuple(replace(state, model=name) for name in dict.fromkeys((state.model, *(models or ()))))


def _document(
    state: State,
    models: _Names,
    batches: tuple[int, ...] | None,
    precisions: _Names,
    power_modes: bool,
    on_paper: bool,
    tick: Callable[[int, int], None] | None = None,
) -> Pareto:
    return front(evaluate_grid(_states(state, models), batches, precisions, power_modes, tick), bool(models))


def _title(pareto: Pareto, state: State) -> str:
    models = f"{list_names(pareto.models)}: " if len(pareto.models) > 1 else ""
    return f"{models}{headline_of_state(state, f'{pareto.evaluated:,} configurations')}"


def _answer(pareto: Pareto, state: State) -> Iterator[str]:
    """Yield the size of the front, its part that rests on data sheets only, and the best measured configurations."""
    latency = ", latency and accuracy" if "accuracy" in pareto.objectives else " and latency"
    note = f"; {pareto.not_fitting} do not fit in memory" if pareto.not_fitting else ""
    count = f"{len(pareto.front)} of {pareto.evaluated} configurations"
    yield f"{count} are beaten by no other in energy{latency}{note}"
    guessed = len(pareto.front) - len(select_measured(pareto.front))
    if guessed:
        yield f"{guessed} of these rest on data sheets only, nothing measured"
    for what, figure in ENDS if guessed and pareto.best_known else ():
        best = min(pareto.best_known, key=figure)
        yield f"{what} with measurements behind it: {describe_candidate(best)}"


ENDS: tuple[tuple[str, Callable[[Candidate], float]], ...] = (
    ("least energy", lambda c: c.point.energy_j_per_inference),
    ("fastest", lambda c: c.point.latency_s),
)


def _plot(pareto: Pareto, state: State) -> Plot:
    series = []
    for name, members in (("front", pareto.front), ("beaten", pareto.dominated), ("on paper", pareto.design_targets)):
        keys = tuple(row_key(member, KEY) for member in members)
        x, y = ([getattr(c.point, f) for c in members] for f in ("latency_s", "energy_j_per_inference"))
        if members:
            series.append(Series(name, tuple(x), tuple(y), keys=keys, labels=keys))
    return Plot(
        name="pareto",
        title="Energy and latency",
        x_title="Latency of the batch",
        y_title="Energy per inference",
        x_unit="s",
        y_unit="J",
        series=tuple(series),
    )


VERB = Report(
    subject=EVERYWHERE,
    options=(
        option(
            "--models",
            type=name_list("model"),
            metavar="M,..",
            help="other models as well; accuracy becomes an objective",
        ),
        *GRID,
        INCLUDE_PAPER,
    ),
    document=_document,
    title=_title,
    parts=(summary_text(_answer), candidate_rows("pareto", "", COLUMNS, of="front", first=12), ON_PAPER, _plot),
    main="pareto",
    states=_states,
    ticks="configurations",
    examples={"pareto": "conv2d --on h100_sxm,tpu_v4"},
)
