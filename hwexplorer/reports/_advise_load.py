"""Serve the load of a model with changes of precision, runtime and device, the best first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from msgspec.structs import replace as with_fields

from analysis.estimate.alternatives import alternatives
from analysis.serving.deployment import DoesNotFitError
from analysis.serving.request_load import ask_load
from analysis.serving.serving_report import AIMS, ServingReport, serving_report
from hwexplorer import engine
from hwexplorer.declare import DEVICE, Report, summary_text
from hwexplorer.reports.advise import CATALOGUE
from hwexplorer.reports.advise import VERB as ADVISE
from hwexplorer.reports.show.load import LOADS
from hwexplorer.state import State, with_setting

_KINDS = ("precision", "runtime")


def _document(state: State, aim: str, instead: tuple[str, ...] | None, on_paper: bool) -> ServingReport:
    """Serve the load as it is, with each change, and on the same number of other devices. Skip those too small."""
    request, _ = engine.load_of(state)
    by_server = []
    for words, changed, device in _changes(state, instead):
        with suppress(DoesNotFitError):
            served = engine.serve_load(changed, device)
            by_server.append([with_fields(served, row=with_fields(served.row, key=words))])
    metric = aim if aim in AIMS else "edp"
    return serving_report(state.model, metric, ask_load(request, state.limits), by_server)


def _changes(state: State, instead: tuple[str, ...] | None) -> Iterator[tuple[str, State, str]]:
    yield "now", state, state.on
    for other in alternatives(engine.serve_load(state).server.first):
        if other.kind in _KINDS:
            yield other.change, with_setting(state, other.setting), state.on
    count = engine.split_count(state.on)[1]
    for name in () if instead in (None, CATALOGUE) else instead or ():
        yield f"device {name}", state, f"{name}*{count}" if count and "*" not in name else name


_COLUMNS = tuple(
    with_fields(column, title="Change") if column.key == "key" else column for column in LOADS.brief["columns"]
)
VERB = Report(
    subject=DEVICE,
    options=ADVISE.options,
    document=_document,
    title=ADVISE.title,
    parts=(
        summary_text(lambda report, state: report.answers),
        with_fields(LOADS, columns=_COLUMNS, footer=(), brief={}),
    ),
    main="loads",
    on_screen=False,
)
