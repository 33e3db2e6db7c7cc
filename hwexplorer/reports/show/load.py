"""Show a language model under load: time to first token, time per token and joules of a stream of requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace as with_fields

from analysis.document import Column, columns
from analysis.model.transformer.load_spec import LoadSpec
from analysis.serving.deployment import DoesNotFitError
from analysis.serving.request_load import ask_load
from analysis.serving.served_load import ServedLoad
from analysis.serving.serving_report import ServingReport, serving_report
from analysis.serving.waits import Wait
from hwexplorer import engine
from hwexplorer.declare import DEVICES, Report, Rows, summary_text
from hwexplorer.options import LOAD_LIMITS
from hwexplorer.state import State, replace
from hwexplorer.views.captions import band_words, headline_of_state, list_names
from hwexplorer.views.plain import Table

EDP = Column("edp", "EDP/token", "Js", keep=0, of="edp_js", help="joules per token x median time of a request")
_LOADS = columns(
    ServedLoad,
    "key load ttft_p50 ttft_p99 tpot_p50 tpot_p99 tokens energy_per_token edp usd_per_million_tokens utilization "
    "requests good power mean_batch layout device runtime ttft_p90 tpot_p90 request_p50",
    EDP, key={"of": "marked_key"}, load=2, ttft_p50=1, tpot_p50=2, tokens=2,
    usd_per_million_tokens=1, requests=4, mean_batch=3, layout=3, device=6, runtime=5, ttft_p90=6, tpot_p90=6,
)  # fmt: skip
# The columns of brief text, without --all.
_SHOWN = "key layout ttft_p50 ttft_p99 tpot_p50 tpot_p99 tokens energy_per_token edp usd_per_million_tokens utilization"
BRIEF = tuple(column for column in _LOADS if column.key in _SHOWN.split())


def add_limits(state: State, given: dict[str, Any]) -> State:
    """Return the state with the limits of the options, which replace its own."""
    limits = [f"{name}<{given[f'max_{name}']!r}s" for name in ("ttft", "tpot") if given.get(f"max_{name}")]
    return replace(state, limits=" ".join([state.limits, *limits]).strip())


def find_document(state: State, loads: Sequence[LoadSpec] = (), **given: Any) -> ServingReport:
    """Serve these loads, or the load of the state, on the devices of the state."""
    state = add_limits(state, given)
    words = [",".join(spec.words) for spec in loads or (engine.load_of(state)[1],)]
    cases = ([(device, replace(state, load=load), device) for load in words] for device in state.devices)
    return serve_cases(state, state.metric, cases)


def serve_cases(state: State, metric: str, cases: Iterable[Sequence[tuple[str, State, str]]]) -> ServingReport:
    """Serve loads on servers. A server has one or several cases: words that name it in its row, a state, a device."""
    by_server, not_fitting = [], []
    for server in cases:
        try:
            runs = [(words, engine.serve_load(case, device)) for words, case, device in server]
        except DoesNotFitError as error:
            not_fitting.append(str(error))
        else:
            by_server.append([with_fields(run, row=with_fields(run.row, key=words)) for words, run in runs])
    request = engine.load_of(state)[0]
    load = ask_load(request, state.limits)
    return serving_report(request.text, metric, load, by_server, not_fitting)


def _title(report: ServingReport, state: State) -> str:
    """Return the model, the loads that are served, the settings, and the devices."""
    loads = list(dict.fromkeys(row.load for row in report.loads))
    if len(loads) < 2:
        return headline_of_state(state)
    tokens = f"{report.prompt_tokens} prompt and {report.output_tokens} output tokens"
    return headline_of_state(state, f"{list_names(loads)} of {tokens}, {state.precision}")


def _lines(report: ServingReport, state: State) -> Iterator[str]:
    """Yield a line for each device and load: whether it keeps up, and how sure its figures are."""
    for row in report.loads:
        ttft, tpot = band_words(row.ttft_band_s, row.ttft_p50_s), band_words(row.tpot_band_s, row.tpot_p50_s)
        energy = band_words(row.energy_band_j_per_token, row.energy_j_per_token)
        yield f"{row.key} ({row.layout}, {row.load}): {row.state}; TTFT {ttft}, TPOT {tpot}, J/token {energy}"
    if unpriced := dict.fromkeys(row.key for row in report.loads if row.usd_per_million_tokens is None):
        yield f"no USD: no price to hire {', '.join(unpriced)} is published"


def _answer(report: ServingReport, state: State) -> Iterator[str]:
    yield from report.answers
    yield from report.not_fitting


ANSWER = summary_text(_answer)
_MORE = "More: --all (what slow requests wait for, how steps are formed, all columns)"
_TEXT = {"columns": BRIEF, "footer": lambda report, state: (*_lines(report, state), _MORE)}
LOADS = Rows("loads", "Devices", _LOADS, key=("key", "load"), footer=_lines, optional=True, brief=_TEXT)


def pane_table(state: State) -> Table:
    """Return a row and a line for each device that serves the load of a state, the best first."""
    table = replace(LOADS, columns=BRIEF)(find_document(state), state)
    rows = tuple(replace(row, key=row.key.partition("/")[0]) for row in table.rows)
    return replace(table, name="compare", title=headline_of_state(state), rows=rows)


VERB = Report(
    subject=DEVICES,
    options=LOAD_LIMITS,
    pane=pane_table,
    document=find_document,
    title=_title,
    parts=(
        ANSWER,
        LOADS,
        Rows("waits", "Where the time of a request goes", columns(Wait)),
        summary_text(lambda report, state: report.schedulers, "schedulers", "How steps are formed"),
    ),
    brief_parts=("summary", "loads"),
    main="loads",
    on_screen=False,
    examples={"load": "llama3_8b:serve,in=1024,out=256,rate=4 --on h100_sxm,l4"},
)
