"""Devices over several loads of one model, from light to heavy."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from analysis.serving.serving_report import ServingReport
from hardware.errors import RequestError
from hwexplorer.reports.show.load import LOADS, request_of
from hwexplorer.reports.show.load import VERB as SHOW_LOAD
from hwexplorer.state import State

STEPS = 2  # loads below that of the state, and above, where none are named


def _document(
    state: State, rates: tuple[float, ...] | None = None, clients: tuple[int, ...] | None = None, **given: Any
) -> ServingReport:
    for name in ("batches", "precisions", "image_sizes"):
        if given.get(name):
            raise RequestError(f"--{name.replace('_', '-')} belongs to one batch; a load takes --rates or --clients")
    if not rates and not clients and (load := request_of(state).load) is not None:
        lighter, heavier = [load], [load]
        for _ in range(STEPS):
            lighter.append(lighter[-1].scaled(False))
            heavier.append(heavier[-1].scaled(True))
        loads = [*lighter[:0:-1], load, *heavier[1:]]
        rates = tuple(dict.fromkeys(one.rate for one in loads if one.rate))
        clients = tuple(dict.fromkeys(one.concurrency for one in loads if one.concurrency))
    return SHOW_LOAD.document(state, rate=rates, clients=clients, **given)  # type: ignore[no-any-return]


_SHOWN = tuple(replace(column, keep=0) if column.key == "load" else column for column in LOADS.columns)
VERB = replace(
    SHOW_LOAD,
    options=(),
    document=_document,
    parts=(SHOW_LOAD.parts[0], replace(LOADS, columns=_SHOWN, footer=())),
    examples={},
)
