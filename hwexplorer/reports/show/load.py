"""A language model under load: time to first token, time per token and joules of a stream of requests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace as with_fields

from analysis.document import columns
from analysis.model.transformer.load_spec import MOST_CLIENTS, MOST_RATE, LoadSpec
from analysis.model.transformer.transformer_request import Request
from analysis.serving.deployment import DoesNotFitError
from analysis.serving.request_load import Load
from analysis.serving.serving_report import (
    CLIENTS,
    Limits,
    ServedLoad,
    ServingReport,
    lengths_of,
    parse_limits,
    serving_report,
)
from analysis.serving.waits import Wait
from hardware.errors import RequestError
from hwexplorer import engine
from hwexplorer.declare import DEVICES, Report, Rows, facts
from hwexplorer.options import amount, option
from hwexplorer.state import State, replace
from hwexplorer.views.captions import headline_of_state, list_names

_LOADS = columns(
    ServedLoad,
    "key load ttft_p50 ttft_p99 tpot_p50 tpot_p99 tokens energy_per_token usd_per_million_tokens utilization "
    "requests good power mean_batch layout device runtime ttft_p90 tpot_p90 request_p50",
    load=2, requests=4, mean_batch=3, layout=3, device=6, runtime=5, ttft_p90=6, tpot_p90=6,
)  # fmt: skip
_OPTIONS = (
    option("--rate", type=amount("1/s"), action="append", metavar="R", help="requests a second, at random (Poisson)"),
    option("--clients", type=int, action="append", metavar="N", help="clients that each wait for their answer"),
    option("--requests", type=Path, metavar="FILE", help="a trace: CSV of arrival_s, prompt_tokens, output_tokens"),
    option("--cached", type=int, default=0, metavar="N", help="tokens of each prompt that the cache holds already"),
    option("--spread", type=amount("fraction"), default=0.0, metavar="X",
           help="lengths vary from 1 - X times those stated to those stated"),
    option("--max-ttft", type=amount("s"), metavar="S", help="time to first token at most, as 1s"),
    option("--max-tpot", type=amount("s"), metavar="S", help="time per output token at most, as 30ms"),
)  # fmt: skip


def request_of(state: State) -> Request:
    """Return the request of a state, with its load or without. Raises RequestError for what is no language model."""
    ref = engine.ref(state)
    if not isinstance(ref, Request) or ref.config.encoder:
        raise RequestError(f"{state.model[:60]} is no language model; as llama3_8b:serve,in=1024,out=256,rate=5")
    if ref.run.phase == "request":
        return ref
    request = engine.ENGINE.refer(ref.spell("request"))
    assert isinstance(request, Request)
    return request


def _specs(request: Request, given: dict[str, Any]) -> list[LoadSpec]:
    """Return the loads that options name, or else that of the model's name; none of these for a curve."""
    base = request.load or LoadSpec()
    own = {"cached": given.get("cached") or base.cached, "spread": given.get("spread") or base.spread}
    base = with_fields(base, rate=0.0, concurrency=0, requests="", **own)
    rates, clients = given.get("rate") or (), given.get("clients") or ()
    if any(not 0 < rate <= MOST_RATE for rate in rates):
        raise RequestError(f"--rate: more than 0 and at most {MOST_RATE:,.0f} requests a second")
    if any(not 1 <= count <= MOST_CLIENTS for count in clients):
        raise RequestError(f"--clients: 1 to {MOST_CLIENTS:,}")
    specs = [with_fields(base, rate=rate) for rate in rates]
    specs += [with_fields(base, concurrency=count) for count in clients]
    if given.get("requests") is not None:
        specs.append(with_fields(base, requests=str(given["requests"])))
    if specs or request.load is None:
        return specs
    return [with_fields(request.load, **own)]


def trace_of(request: Request) -> Load | None:
    """Return the requests of the file that a load names; None of another load."""
    return engine.ENGINE.read_trace(request)


def limits_of(state: State, given: dict[str, Any]) -> Limits:
    """Return the limits that options name, or else those of the state."""
    stated = parse_limits(state.limits)
    return Limits(
        ttft_s=given.get("max_ttft") or stated.ttft_s,
        tpot_s=given.get("max_tpot") or stated.tpot_s,
    )


def limits_text(limits: Limits) -> str:
    """Return limits as a state has them."""
    amounts = (("ttft", limits.ttft_s), ("tpot", limits.tpot_s))
    return " ".join(f"{name}<{amount:g}s" for name, amount in amounts if math.isfinite(amount))


def _document(state: State, **given: Any) -> ServingReport:
    if given.get("level", "summary") != "summary":
        raise RequestError("--level compares one batch; of a load `hwexplorer tree` shows the parts")
    request, limits = request_of(state), limits_of(state, given)
    specs = _specs(request, given)
    is_curve = not specs
    specs = specs or [
        with_fields(LoadSpec(cached=given["cached"], spread=given["spread"]), concurrency=n) for n in CLIENTS
    ]
    lengths = with_fields(lengths_of(request), cached=specs[0].cached, spread=specs[0].spread)
    by_server, not_fitting = [], []
    for device in state.devices:
        at = replace(state, limits=limits_text(limits))
        names = [request.with_load(spec, *request.shares) for spec in specs]
        try:
            by_server.append([engine.serve_load(replace(at, model=name), device) for name in names])
        except DoesNotFitError as error:
            not_fitting.append(str(error))
    return serving_report(state.model, state.metric, by_server, lengths, limits, not_fitting, is_curve)


def _title(report: ServingReport, state: State) -> str:
    """Return the model, the loads that are served, the settings, and the devices."""
    loads = list(dict.fromkeys(row.load for row in report.loads))
    if len(loads) < 2 and engine.request_under_load(state) is not None:
        return headline_of_state(state)
    tokens = f"{report.prompt_tokens} prompt and {report.output_tokens} output tokens"
    return headline_of_state(state, f"{list_names(loads) or 'no load'} of {tokens}, {state.precision}")


def _summary(report: ServingReport, state: State) -> Iterator[str]:
    yield from report.answers
    yield from report.not_fitting
    yield "each step is simulated; its time and energy are estimates"
    yield from report.schedulers


def _lines(report: ServingReport, state: State) -> Iterator[str]:
    """Yield a line for each device and load: whether it keeps up, and how sure its figures are."""
    for row in report.loads:
        bands = (
            f"TTFT {_band(row.ttft_band_s, row.ttft_p50_s)}, TPOT {_band(row.tpot_band_s, row.tpot_p50_s)}, J/token "
        )
        bands += _band(row.energy_band_j_per_token, row.energy_j_per_token)
        yield f"{row.key} ({row.layout}, {row.load}): {row.state}; {bands}"
    if unpriced := dict.fromkeys(row.key for row in report.loads if row.usd_per_million_tokens is None):
        yield f"no USD: no price to hire {', '.join(unpriced)} is published"


def _band(ends: tuple[float, float], value: float) -> str:
    low, high = (f"{(end / value - 1) * 100:+.0f}" for end in ends) if value else ("0", "0")
    return f"{low}/{high} %"


LOADS = Rows("loads", "Loads", _LOADS, key=("key", "load"), footer=_lines)
VERB = Report(
    subject=DEVICES,
    options=_OPTIONS,
    document=_document,
    title=_title,
    parts=(
        facts(_summary),
        LOADS,
        Rows("waits", "Where the time of a request goes", columns(Wait), notes=("of the last load of each device",)),
    ),
    main="loads",
    on_screen=False,
    examples={"load": "llama3_8b:serve,in=1024,out=256,rate=4 --on h100_sxm,l4"},
)
