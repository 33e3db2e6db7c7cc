"""The reports that replace others for a model under a load: several loads, changes, devices and layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace as with_fields

from analysis.document import columns
from analysis.estimate.alternatives import alternatives
from analysis.explore import verdict
from analysis.explore.deployment_cost import hired_devices
from analysis.serving.deployment import ParallelDegrees, Server
from analysis.serving.load_search import LoadCandidate, LoadSearch, order_figure, search_layouts
from analysis.serving.request_load import NO_LIMITS, ask_load
from analysis.serving.served_load import ServedLoad
from analysis.serving.serving_report import AIMS, ServingReport
from hardware.quantity import percent, quantity
from hwexplorer import engine
from hwexplorer.configurations import catalogue
from hwexplorer.configurations import devices as configured
from hwexplorer.declare import EVERYWHERE, Report, Rows, summary_text
from hwexplorer.reports import advise
from hwexplorer.reports.show import load
from hwexplorer.state import State, replace, with_setting
from hwexplorer.views.captions import headline_of_state
from hwexplorer.views.plain import Text

# --- sweep: several loads on each device ---------------------------------------------------------------------


def _serve_several(
    state: State, rates: tuple[float, ...] | None, clients: tuple[int, ...] | None, **given: Any
) -> ServingReport:
    """Serve these rates and numbers of clients on each device, by default the load of the state and its neighbours."""
    spec = engine.load_of(state)[1]
    loads = [with_fields(spec, rate=rate, concurrency=0, requests="") for rate in rates or ()]
    loads += [with_fields(spec, rate=0.0, concurrency=count, requests="") for count in clients or ()]
    return load.find_document(state, loads or spec.neighbours())


_BY_LOAD = tuple(with_fields(column, keep=0) if column.key == "load" else column for column in load.LOADS.columns)
_SWEEP = with_fields(
    load.VERB, document=_serve_several, brief_parts=(),
    parts=(load.ANSWER, with_fields(load.LOADS, columns=_BY_LOAD, footer=(), brief={"first": 15})),
)  # fmt: skip

# --- advise: the load with each change -----------------------------------------------------------------------


def _serve_changes(state: State, aim: str, instead: tuple[str, ...] | None, on_paper: bool) -> ServingReport:
    """Serve the load as it is, with each change, and on the same number of other devices. Skip those too small."""
    others = alternatives(engine.serve_load(state).server.first)
    changes = [change for change in others if change.kind in ("precision", "runtime")]
    count = engine.split_count(state.on)[1]
    devices = () if instead in (None, advise.CATALOGUE) else instead or ()
    cases = [
        ("now", state, state.on),
        *((change.change, with_setting(state, change.setting), state.on) for change in changes),
        *((f"device {name}", state, f"{name}*{count}" if count and "*" not in name else name) for name in devices),
    ]
    report = load.serve_cases(state, aim if aim in AIMS else "edp", [[case] for case in cases])
    return with_fields(report, not_fitting=())


_KEY, *_FIGURES = load.BRIEF
_BY_CHANGE = (with_fields(_KEY, title="Change"), *_FIGURES)
_ADVISE = with_fields(
    advise.VERB, document=_serve_changes, main="loads", on_screen=False,
    parts=(load.ANSWER, with_fields(load.LOADS, columns=_BY_CHANGE, footer=(), brief={})),
)  # fmt: skip

# --- search: devices and layouts -----------------------------------------------------------------------------

SHOWN = 40
_FOUND = columns(
    ServedLoad,
    "key layout ttft_p99 tpot_p99 edp energy_per_token usd_per_million_tokens utilization odds tokens good power",
    *columns(LoadCandidate, "odds", odds=1), with_fields(load.EDP, of="row.edp_js"),
    within="row", key={"of": "row.marked_key"}, layout=0, tokens=2, good=3, power=4,
)  # fmt: skip
_AIMS = {**AIMS, "throughput": "most tokens/s of each device", "cost": "USD per token"}


def _search(
    state: State, most: int, order: str, tick: Callable[[int, int], None] | None = None, **given: Any
) -> LoadSearch:
    request, _ = engine.load_of(state)
    request_load = ask_load(request, load.add_limits(state, given).limits)
    everywhere = set(state.devices) >= set(catalogue())
    devices = [name for name in state.devices if not everywhere or name in hired_devices()]
    if given.get("caps"):
        devices = [*configured(devices, power_modes=False, caps=True)]

    def find_server(device: str, layout: ParallelDegrees) -> Server:
        """Return a server of devices in a layout."""
        return engine.server_in_layout(request, layout, engine.scenario(state), device, request_load.longest)

    return search_layouts(request, request_load, devices, most, order, find_server, tick)


def _best_deployment(search: LoadSearch, state: State) -> Iterator[str]:
    """Yield the best deployment that is likely to keep the limits, then a bolder one, the cheapest and the one with
    fewest devices, if they differ."""
    if not search.found:
        yield f"No deployment keeps {search.limits}"
        if search.nearest is not None:
            yield f"nearest: {describe(search.nearest)}; {search.nearest.state}"
            yield "--devices N allows more devices"
        return
    existing = [candidate for candidate in search.found if candidate.row.marked_key == candidate.row.key]
    if not existing:
        yield f"Only on paper: {describe(search.found[0].row)}. No device that exists keeps up with {search.limits}"
        return
    best, on_paper = existing[0], search.found[len(existing) :]
    sure, odds = "", search.first_odds
    if odds is not None:
        sure = f"{percent(odds)} sure it is first; " if odds >= verdict.LIKELY else "the next is too close to call; "
    yield f"least {_AIMS[search.order]}: {describe(best.row)} ({sure}{percent(best.odds)} sure to keep the limits)"
    rented = [one for one in existing if one.row.usd_per_million_tokens is not None]
    others = {
        "bolder": min(existing, key=lambda one: order_figure(one.row, search.order)),
        "without a cap": next((one for one in existing if not engine.device(one.row.key).power_cap), best),
        "cheapest": min(rented, key=lambda one: one.row.usd_per_million_tokens or 0.0, default=best),
        "fewest devices": min(existing, key=lambda one: one.row.devices),
    }
    for place, (what, candidate) in enumerate(others.items()):
        if candidate not in (best, *list(others.values())[:place]):
            yield f"{what}: {describe(candidate.row)} ({percent(candidate.odds)} sure)"
    if on_paper:
        yield f"on paper, not counted: {describe(on_paper[0].row)}"


def describe(row: ServedLoad) -> str:
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


def _commands(search: LoadSearch, state: State) -> Text:
    lines = tuple(f"{line.server}\t{line.command}" for line in search.commands)
    return Text("commands", "", (("Commands that start the first", lines),) if lines else ())


_SEARCH = Report(
    subject=EVERYWHERE,
    document=_search,
    title=lambda search, state: (
        f"{headline_of_state(replace(state, devices=search.devices))}; {search.limits}; sorted by {_AIMS[search.order]}"
    ),
    parts=(
        summary_text(_best_deployment),
        Rows(
            "search",
            "",
            _FOUND,
            of=lambda search: search.found[:SHOWN],
            key=("row.key", "row.layout"),
            notes=_left_out,
            first=12,
        ),
        _commands,
    ),
    main="search",
    on_screen=False,
)

# The report of a verb under a load; other verbs answer about an average step.
UNDER_LOAD = {"compare": load.VERB, "sweep": _SWEEP, "advise": _ADVISE, "search": _SEARCH}
