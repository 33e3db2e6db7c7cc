"""Devices over several loads of one model, from light to heavy."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from analysis.model.transformer.load_spec import LoadSpec
from analysis.serving.serving_report import ServingReport
from hardware.errors import RequestError
from hwexplorer import engine
from hwexplorer.reports.show.load import LOADS, find_document
from hwexplorer.reports.show.load import VERB as SHOW_LOAD
from hwexplorer.state import State

STEPS = 2  # number of lighter loads and of heavier loads, if the user names no load


def _document(
    state: State, rates: tuple[float, ...] | None = None, clients: tuple[int, ...] | None = None, **given: Any
) -> ServingReport:
    for name in ("batches", "precisions", "image_sizes"):
        if given.get(name):
            raise RequestError(f"--{name.replace('_', '-')} applies to one batch; a load takes --rates or --clients")
    _, load = engine.load_of(state)
    loads = [replace(load, rate=rate, concurrency=0, requests="") for rate in rates or ()]
    loads += [replace(load, rate=0.0, concurrency=count, requests="") for count in clients or ()]
    return find_document(state, loads or _list_loads(load))


def _list_loads(load: LoadSpec) -> list[LoadSpec]:
    """Return up to `STEPS` lighter loads, the load itself, and up to `STEPS` heavier loads."""
    lighter, heavier = [load], [load]
    for _ in range(STEPS):
        lighter.append(lighter[-1].scaled(False))
        heavier.append(heavier[-1].scaled(True))
    return list(dict.fromkeys([*reversed(lighter), *heavier]))


_SHOWN = tuple(replace(column, keep=0) if column.key == "load" else column for column in LOADS.columns)
VERB = replace(
    SHOW_LOAD,
    options=(),
    document=_document,
    brief_parts=(),
    parts=(SHOW_LOAD.parts[0], replace(LOADS, columns=_SHOWN, footer=(), brief={"first": 15})),
    examples={},
)
