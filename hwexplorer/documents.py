"""The JSON documents of the headless contract (design, section 8): plain structs, SI units, stable keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from analysis.run.figures import about
from analysis.run.nodes import node as tree_node
from analysis.workload import zoo
from analysis.workload.sources.transformer import spec as transformer_spec
from hardware import device as catalogue
from hwexplorer import engine
from hwexplorer.schema import stamped
from hwexplorer.state import State
from hwexplorer.state import format as format_state
from hwexplorer.views import compare as compare_view
from hwexplorer.views import decisions, reports
from hwexplorer.views import events as events_view
from hwexplorer.views import plot as plot_view
from hwexplorer.views import verdict as verdict_view


def compare(state: State) -> Any:
    return compare_view.comparison(state)


def tree(state: State) -> Any:
    """The nested nodes; with a node in the state, the part below it. The root carries the scenario."""
    result = engine.result(state)
    node = tree_node(result, state.at)
    return stamped(about(result, on_device=True) | msgspec.to_builtins(node))


def events(state: State) -> Any:
    return stamped(about(engine.result(state)) | msgspec.to_builtins(events_view.document(state)))


def models(_state: State) -> Any:
    blocks = [
        {"name": name, "family": "block", "parameters": None, "macs": None, "input": parameters}
        for name, parameters in zoo.BLOCKS.items()
    ]
    rows = [
        {
            "name": info.name,
            "family": info.family,
            "parameters": info.parameters,
            "macs": info.macs,
            "input": list(info.input),
            "image_size": info.image_size,
            "min_image_size": info.min_size,
            "accuracy": {"metric": info.metric, "value": info.value},
        }
        for info in zoo.table().values()
    ]
    transformers = [msgspec.to_builtins(transformer_spec.listed(name)) for name in transformer_spec.names()]
    named = sorted(rows + transformers, key=lambda row: str(row["name"]))
    return {"models": named + blocks}


def devices(_state: State) -> Any:
    found, errors = catalogue.load_all(engine.folders())
    rows = [
        {
            "id": device.id,
            "name": device.name,
            "vendor": device.vendor,
            "architecture": device.architecture,
            "year": device.file.year,
            "is_silicon": device.file.is_silicon,
            "aliases": list(device.file.aliases),
            "power_modes": list(device.file.power_modes),
            "memory_technology": device.memory_technology,
            "facts": {name: fact.value for name, fact in device.facts.items()},
            "peak_flops": {f"{unit}.{name}": peak for (unit, name), peak in device.peaks.items()},
        }
        for device in found
    ]
    return {"devices": rows, "errors": errors}


def device(name: str) -> Any:
    return catalogue.sheet(engine.device(name))


def view(state: State, name: str) -> Any:
    """A view without a document of its own, as its plain rows, lines or points."""
    builders: dict[str, Callable[[State], Any]] = {"why": verdict_view.why, "plot": plot_view.plot}
    plain = msgspec.to_builtins(builders[name](state))
    return {"state": format_state(state), **about(engine.result(state)), **plain}


DOCUMENTS: dict[str, Callable[[State], Any]] = {
    "models": models,
    "devices": devices,
    "compare": compare,
    "tree": tree,
    "events": events,
    "why": lambda state: view(state, "why"),
    "plot": lambda state: view(state, "plot"),
    **reports.documents(),
    **decisions.documents(),
}
