"""A language model under load: time to first token, time per token and joules of a stream of requests."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from analysis.document import columns
from analysis.estimate.estimate import Estimate
from analysis.model.names.model_ref import phases
from analysis.serving.request_load import Lengths, Load, closed_load, open_load, read_load
from analysis.serving.serving_report import (
    Limits,
    ServedLoad,
    Server,
    ServingReport,
    Wait,
    client_words,
    make_server,
    serving_report,
)
from hardware import file_access, policy
from hardware.errors import RequestError
from hwexplorer import engine
from hwexplorer.declare import DEVICES, Report, Rows, facts
from hwexplorer.options import amount, option
from hwexplorer.state import State, replace
from hwexplorer.views.captions import headline_of_state

MOST_BYTES = 32 << 20  # of a trace of requests
MOST_CLIENTS = 4096
_LOADS = columns(
    ServedLoad,
    "device load ttft_p50 ttft_p99 tpot_p50 tpot_p99 tokens energy_j_per_token usd_per_million_tokens requests good "
    "power mean_batch runtime ttft_p90 tpot_p90",
)
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


def _server(state: State, device: str, names: dict[str, str], longest: int) -> Server:
    def evaluate(phase: str, batch: int, sequence: int, kv: int) -> Estimate:
        """Return the estimate of a step."""
        lengths = f"kv={kv}" if phase == "decode" else f"sequence={sequence},kv={kv}"
        name = names[phase]
        model = f"{name}{',' if ':' in name else ':'}{lengths}"
        return engine.result(replace(state, model=model, batch=batch), device)

    return make_server(evaluate, longest)


def _loads(lengths: Lengths, options: argparse.Namespace) -> list[tuple[str, Load]]:
    loads = [(f"{rate:g} requests/s", open_load(rate, lengths)) for rate in options.rate or ()]
    loads += [(client_words(clients), closed_load(clients, lengths)) for clients in options.clients or ()]
    if options.requests is not None:
        policy.require_unserved(f"reading {options.requests}")
        text = file_access.read(options.requests, MOST_BYTES).decode("utf-8", "replace")
        loads.append((options.requests.name, read_load(text, options.requests.name)))
    return loads


def _lengths(state: State, names: dict[str, str], cached: int, spread: float) -> Lengths:
    """Return the lengths of the requests that the state names, those of a request by default."""
    stated = engine.captured_model(state).defaults
    if "output" not in stated:
        stated = engine.captured_model(replace(state, model=names["request"])).defaults
    return Lengths(prompt=stated["sequence"], output=stated["output"], cached=cached, spread=spread)


def _document(state: State, **given: Any) -> ServingReport:
    options = argparse.Namespace(**given)
    names = phases(state.model)
    if "request" not in names:
        raise RequestError(f"{state.model[:60]} is no language model; as llama3_8b:request,in=1024,out=256")
    if any(not 0 < rate < 1e6 for rate in options.rate or ()):
        raise RequestError("--rate: more than 0 and less than a million requests a second")
    if any(not 1 <= clients <= MOST_CLIENTS for clients in options.clients or ()):
        raise RequestError(f"--clients: 1 to {MOST_CLIENTS:,}")
    lengths = _lengths(state, names, options.cached, options.spread)
    loads = _loads(lengths, options)
    longest = [int((load.prompt + load.cached + load.output).max()) for _, load in loads]
    servers = [_server(state, name, names, max([lengths.prompt + lengths.output, *longest])) for name in state.devices]
    limits = Limits(ttft_s=options.max_ttft or math.inf, tpot_s=options.max_tpot or math.inf)
    return serving_report(state.model, servers, lengths, loads, limits)


def _summary(report: ServingReport, state: State) -> tuple[str, ...]:
    return (
        f"requests of {report.prompt_tokens:,} prompt and {report.output_tokens:,} output tokens, simulated by steps",
        *report.answers,
        *report.schedulers,
    )


VERB = Report(
    subject=DEVICES,
    options=_OPTIONS,
    document=_document,
    title=lambda document, state: f"{headline_of_state(state)} under load",
    parts=(
        facts(_summary),
        Rows("loads", "Loads", _LOADS),
        Rows("waits", "Where the time of a request goes", columns(Wait), notes=("of the last load of each device",)),
    ),
    main="loads",
    on_screen=False,
    examples={"load": "llama3_8b:request,in=1024,out=256 --on h100_sxm,l4 --rate 4"},
)
