"""Show a language model under load: time to first token, time per token and joules of a stream of requests.

Other verbs show it over several loads, changes, devices and layouts if the model is under a load.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, product
from typing import Any

from msgspec import Struct
from msgspec.structs import replace as with_fields

from analysis.document import Column, columns
from analysis.estimate.alternatives import alternatives
from analysis.explore.cost import hired_devices
from analysis.explore.grid import Ranking, Tick, try_each
from analysis.explore.odds import LIKELY, SAFE
from analysis.model.transformer.transformer_request import LoadSpec
from analysis.serving import deployment, served_load
from analysis.serving.request_load import NO_LIMITS, ask_load
from analysis.serving.simulation import Wait
from hardware.base.errors import RequestError
from hardware.base.text import percent, quantity
from hwexplorer import declare, engine
from hwexplorer.configurations import ALL_DEVICES, catalogue
from hwexplorer.configurations import devices as configured
from hwexplorer.options import LOAD_LIMITS
from hwexplorer.state import State, replace, with_setting
from hwexplorer.views import captions, plain

EDP = Column("edp", "J/token x time", "Js", keep=0, of="edp_js", help="joules per token x median time of a request")
_LOADS = columns(
    served_load.ServedLoad,
    "key load ttft_p50 ttft_p99 tpot_p50 tpot_p99 tokens energy_per_token edp usd_per_million_tokens utilization "
    "requests good power mean_batch layout device runtime ttft_p90 tpot_p90 request_p50",
    EDP, key={"of": "marked_key"}, load=2, ttft_p50=1, ttft_p99={"scale": "ttft_p50"},
    tpot_p50=2, tpot_p99={"scale": "tpot_p50"}, tokens=2,
    usd_per_million_tokens=1, requests=4, mean_batch=3, layout=3, device=6, runtime=5, ttft_p90=6, tpot_p90=6,
)  # fmt: skip
# The columns of brief text, without --all.
_SHOWN = "key layout ttft_p50 ttft_p99 tpot_p50 tpot_p99 tokens energy_per_token edp usd_per_million_tokens utilization"
BRIEF = tuple(column for column in _LOADS if column.key in _SHOWN.split())


def add_limits(state: State, given: dict[str, Any]) -> State:
    """Return the state with the limits of the options, which replace its own."""
    limits = [f"{name}<{given[f'max_{name}']!r}s" for name in ("ttft", "tpot") if given.get(f"max_{name}")]
    return replace(state, limits=" ".join([state.limits, *limits]).strip())


def find_document(state: State, loads: Sequence[LoadSpec] = (), **given: Any) -> served_load.ServingReport:
    """Serve these loads, or the load of the state, on the devices of the state."""
    state = add_limits(state, given)
    words = [",".join(spec.words) for spec in loads or (engine.load_of(state)[1],)]
    cases = ([(device, replace(state, load=load), device) for load in words] for device in state.devices)
    return serve_cases(state, state.metric, cases)


def serve_cases(
    state: State, metric: str, cases: Iterable[Sequence[tuple[str, State, str]]]
) -> served_load.ServingReport:
    """Serve loads on servers. A server has one or several cases: words that name it in its row, a state, a device."""
    by_server, not_fitting = try_each(
        cases, lambda server: [_serve(*case) for case in server], error=deployment.DoesNotFitError
    )
    request = engine.load_of(state)[0]
    return served_load.serving_report(
        request.text, metric, ask_load(request, state.limits), by_server, tuple(not_fitting)
    )


def _serve(words: str, state: State, device: str) -> served_load.Served:
    served = engine.serve_load(state, device)
    return with_fields(served, row=with_fields(served.row, key=words))


def _title(report: served_load.ServingReport, state: State) -> str:
    """Return the model, the loads that are served, the settings, and the devices."""
    loads = list(dict.fromkeys(row.load for row in report.loads))
    if len(loads) < 2:
        return captions.headline_of_state(state)
    tokens = f"{report.prompt_tokens} prompt and {report.output_tokens} output tokens"
    return captions.headline_of_state(state, f"{captions.list_names(loads)} of {tokens}, {state.precision}")


def _lines(report: served_load.ServingReport, state: State) -> Iterator[str]:
    """Yield a line for each device and load: whether it keeps up, and how sure its figures are."""
    for row in report.loads:
        ttft = captions.band_words(row.ttft_band_s, row.ttft_p50_s)
        tpot = captions.band_words(row.tpot_band_s, row.tpot_p50_s)
        energy = captions.band_words(row.energy_band_j_per_token, row.energy_j_per_token)
        yield f"{row.device} ({row.layout}, {row.load}): {row.state}; TTFT {ttft}, TPOT {tpot}, J/token {energy}"
    if unpriced := dict.fromkeys(row.device for row in report.loads if row.usd_per_million_tokens is None):
        yield f"no USD: no price to hire {', '.join(unpriced)} is published"


ANSWER = declare.summary_text(lambda report, state: (*report.answers, *report.not_fitting))
_MORE = "More: --all (what slow requests wait for, how steps are formed, all columns)"
_TEXT = {"columns": BRIEF, "footer": lambda report, state: (*_lines(report, state), _MORE)}
LOADS = declare.Rows("loads", "Devices", _LOADS, key=("key", "load"), footer=_lines, optional=True, brief=_TEXT)


def pane_table(state: State) -> plain.Table:
    """Return a row and a line for each device that serves the load of a state, the best first."""
    table = replace(LOADS, columns=BRIEF)(find_document(state), state)
    rows = tuple(replace(row, key=row.key.partition("/")[0]) for row in table.rows)
    return replace(table, name="compare", title=captions.headline_of_state(state), rows=rows)


VERB = declare.Report(
    subject=declare.DEVICES,
    options=LOAD_LIMITS,
    pane=pane_table,
    document=find_document,
    title=_title,
    parts=(
        ANSWER,
        LOADS,
        declare.Rows("waits", "Where the time of a request goes", columns(Wait)),
        declare.summary_text(lambda report, state: report.schedulers, "schedulers", "How steps are formed"),
    ),
    brief_parts=("summary", "loads"),
    main="loads",
    on_screen=False,
    examples={"load": "llama3_8b:serve,in=1024,out=256,rate=4 --on h100_sxm,l4"},
)

# --- sweep: several loads on each device ---------------------------------------------------------------------


def _serve_several(
    state: State, rates: tuple[float, ...] | None, clients: tuple[int, ...] | None, **given: Any
) -> served_load.ServingReport:
    """Serve these rates and numbers of clients on each device, by default the load of the state and its neighbours."""
    spec = engine.load_of(state)[1]
    loads = [with_fields(spec, rate=rate, concurrency=0, requests="") for rate in rates or ()]
    loads += [with_fields(spec, rate=0.0, concurrency=count, requests="") for count in clients or ()]
    return find_document(state, loads or spec.neighbours())


_BY_LOAD = tuple(with_fields(column, keep=0) if column.key == "load" else column for column in LOADS.columns)
SWEEP = with_fields(
    VERB, document=_serve_several, brief_parts=(),
    parts=(ANSWER, with_fields(LOADS, columns=_BY_LOAD, footer=(), brief={"first": 15})),
)  # fmt: skip

# --- advise: the load with each change -----------------------------------------------------------------------


def _serve_changes(
    state: State, aim: str, instead: tuple[str, ...] | None, on_paper: bool, plan: str | None = None, **_: Any
) -> served_load.ServingReport:
    """Serve the load as it is, with each change, and on the same number of other devices. Skip those too small."""
    if plan is not None:
        raise RequestError(f"a plan of {plan} is for a prompt or a token, not for a load")
    others = alternatives(engine.serve_load(state).server.first)
    changes = [change for change in others if change.kind in ("precision", "runtime")]
    count = engine.split_count(state.on)[1]
    devices = () if instead in (None, ALL_DEVICES) else instead or ()
    cases = [
        ("now", state, state.on),
        *((change.change, with_setting(state, change.setting), state.on) for change in changes),
        *((f"device {name}", state, f"{name}*{count}" if count and "*" not in name else name) for name in devices),
    ]
    report = serve_cases(state, aim if aim in served_load.AIMS else "edp", [[case] for case in cases])
    return with_fields(report, not_fitting=())


_KEY, *_FIGURES = BRIEF
_BY_CHANGE = (with_fields(_KEY, title="Change"), *_FIGURES)


def advise(report: declare.Report) -> declare.Report:
    """Return the report of `advise` about a model under a load."""
    parts = (ANSWER, with_fields(LOADS, title="Changes", columns=_BY_CHANGE, footer=(), brief={}))
    return with_fields(report, document=_serve_changes, main="loads", on_screen=False, parts=parts)


# --- search: devices and layouts -----------------------------------------------------------------------------

SHOWN = 40
_FOUND = columns(
    served_load.ServedLoad,
    "key layout ttft_p99 tpot_p99 edp energy_per_token usd_per_million_tokens utilization odds tokens good power",
    EDP, key={"of": "marked_key"}, layout=0, energy_per_token=1, usd_per_million_tokens=1, tokens=2, good=3, power=4,
)  # fmt: skip
_AIMS = {**served_load.AIMS, "throughput": "most tokens/s of each device", "cost": "USD per token"}


class LoadSearch(Struct, frozen=True, kw_only=True):
    """The deployments that serve a load within limits, the best first of those that are SAFE, then of the bolder ones:
    for each device and layout the fewest replicas.
    `first_odds` is the probability that the first is better than the second, None by cost and throughput, which the
    load fixes if it is kept up with. `nearest` exceeds the limits least, if nothing is found."""

    model: str
    devices: tuple[str, ...]
    limits: str
    order: str
    evaluated: int
    not_fitting: int
    falling_behind: int
    found: tuple[served_load.ServedLoad, ...]
    first_odds: float | None
    nearest: served_load.ServedLoad | None
    commands: tuple[deployment.CommandLine, ...]


def _search(state: State, most: int, order: str, tick: Tick | None = None, **given: Any) -> LoadSearch:
    """Serve the load of a state on each device in each layout of at most `most` devices. Use as many replicas, or
    prefill and decode engines, as keep up and satisfy the limits."""
    request, _ = engine.load_of(state)
    asked = ask_load(request, add_limits(state, given).limits)
    everywhere = set(state.devices) >= set(catalogue())
    devices = [name for name in state.devices if not everywhere or name in hired_devices()]
    if given.get("caps"):
        devices = [*configured(devices, power_modes=False, caps=True)]
    load, drafts = asked.load, asked.spec.spec

    def serve(case: tuple[deployment.ParallelDegrees, str]) -> list[served_load.Served]:
        """Serve with ever more replicas, then with prefill apart, each until it keeps the limits."""
        shape, device = case
        server = engine.server_in_layout(request, shape, engine.scenario(state), device, asked.longest)

        def serve_in(layout: deployment.ParallelDegrees) -> served_load.Served:
            """Serve in a layout."""
            key = f"{device}*{layout.devices}" if layout.devices > 1 else device
            return served_load.serve_load(with_fields(server, layout=layout), key, asked)

        ways = (deployment.replicated_layouts(server, load, most), deployment.split_layouts(server, load, most))
        tried = (
            try_each(each, serve_in, until=lambda one: one.is_within_limits, error=deployment.DoesNotFitError)[0]
            for each in ways
        )
        return [one for served in tried for one in served[-1:]]

    # A layout opens its model once. Stages do not take drafts (vLLM: features, speculative decoding).
    shapes = (layout for layout in deployment.layouts(request.config, most) if layout.pp == 1 or not drafts)
    found, not_fitting = try_each(product(shapes, devices), serve, tick, error=deployment.DoesNotFitError)
    tried = Ranking(chain.from_iterable(found))
    within = tried.where(lambda one: one.is_within_limits).order(order, "devices")
    within = within.first(lambda one: one.odds >= SAFE).first(lambda one: one.silicon)
    # The second deployment competes with the first if both exist, or both are on paper.
    has_rival = order in served_load.AIMS and len({one.silicon for one in within[:2]}) == 1 < len(within)
    return LoadSearch(
        model=request.text,
        devices=tuple(devices),
        limits=asked.limits.words,
        order=order,
        evaluated=len(tried) + not_fitting.total(),
        not_fitting=not_fitting.total(),
        falling_behind=sum(not one.keeps_up for one in tried),
        found=tuple(with_fields(one.row, odds=one.odds) for one in within),
        first_odds=served_load.odds_first(within[0], within[1], order) if has_rival else None,
        nearest=None if within or not tried else min(tried, key=lambda one: (not one.keeps_up, one.excess)).row,
        commands=deployment.command_lines(within[0].server, asked.longest, drafts) if within else (),
    )


def _best_deployment(search: LoadSearch, state: State) -> Iterator[str]:
    """Yield the best deployment that is likely to keep the limits, then a bolder one, the cheapest and the one with
    fewest devices, if they differ."""
    if not search.found:
        yield f"No deployment keeps {search.limits}"
        if search.nearest is not None:
            yield f"nearest: {describe(search.nearest)}; {search.nearest.state}"
            yield "--devices N allows more devices"
        return
    existing = [row for row in search.found if row.marked_key == row.key]
    if not existing:
        yield f"Only on paper: {describe(search.found[0])}. No device that exists keeps up with {search.limits}"
        return
    best, on_paper = existing[0], search.found[len(existing) :]
    kept = "up" if search.limits == NO_LIMITS else "the limits"
    sure, odds = "", search.first_odds
    if odds is not None:
        sure = f"{percent(odds)} sure it is first; " if odds >= LIKELY else "the next is too close to call; "
    yield f"least {_AIMS[search.order]}: {describe(best)} ({sure}{_sure(best)} to keep {kept})"
    rented = [one for one in existing if one.usd_per_million_tokens is not None]
    others = {
        "bolder": min(existing, key=lambda one: one.figure(search.order)),
        "without a cap": next((one for one in existing if not engine.device(one.key).power_cap), best),
        "cheapest": min(rented, key=lambda one: one.usd_per_million_tokens or 0.0, default=best),
        "fewest devices": min(existing, key=lambda one: one.devices),
    }
    for place, (what, row) in enumerate(others.items()):
        if row not in (best, *list(others.values())[:place]):
            yield f"{what}: {describe(row)} ({_sure(row)})"
    if on_paper:
        yield f"on paper, not counted: {describe(on_paper[0])}"


def _sure(row: served_load.ServedLoad) -> str:
    return f"{percent(row.odds or 0.0)} sure"


def describe(row: served_load.ServedLoad) -> str:
    """Write `h100_sxm*4 (tp=2,dp=2), TTFT p99 0.3 s, TPOT p99 20 ms, 0.5 J and 1.1 USD a million tokens`."""
    usd = f", {row.usd_per_million_tokens:.3g} USD/M tokens" if row.usd_per_million_tokens else ""
    times = f"TTFT p99 {quantity(row.ttft_p99_s, 's')}, TPOT p99 {quantity(row.tpot_p99_s, 's')}"
    return f"{row.marked_key} ({row.layout}), {times}, {quantity(row.energy_j_per_token, 'J')}/token{usd}"


def _left_out(search: LoadSearch, state: State) -> Iterator[str]:
    limits = "" if search.limits == NO_LIMITS else f"keep {search.limits} and "
    yield (
        f"{len(search.found)} of {search.evaluated} deployments {limits}keep up; "
        f"{search.not_fitting} do not fit, {search.falling_behind} fall behind"
    )
    if len(search.devices) < len(state.devices):
        yield "devices whose price to hire is published; --on names others"


SEARCH = declare.Report(
    subject=declare.EVERYWHERE,
    document=_search,
    title=lambda search, state: (
        f"{captions.headline_of_state(replace(state, devices=search.devices))}; {search.limits}; "
        f"sorted by {_AIMS[search.order]}"
    ),
    parts=(
        declare.summary_text(_best_deployment),
        declare.Rows(
            "search", "", _FOUND, of=lambda search: search.found[:SHOWN], key=("key", "layout"), notes=_left_out,
            first=12,
        ),
        declare.summary_text(
            lambda search, state: (f"{line.server}\t{line.command}" for line in search.commands),
            "commands", "Commands that start the first",
        ),
    ),
    main="search",
    on_screen=False,
)  # fmt: skip
