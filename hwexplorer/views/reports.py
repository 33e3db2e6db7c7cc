"""The reports: one analysis of one model each, as views and as a document. Loaded when one is asked for.

Each is a module of hwexplorer.views with `view(state)` (a Report) and `document(state)` (a struct in SI units).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import msgspec

from analysis.run.figures import about
from hwexplorer import engine
from hwexplorer.schema import stamped
from hwexplorer.state import State
from hwexplorer.views.plain import Report

# Report -> module of hwexplorer.views.
REPORTS: dict[str, str] = {
    "partition": "partition",
    "mapping": "mapping",
    "concurrency": "concurrency",
    "roofline": "roofline",
    "energy": "energy",
    "memory": "memory",
    "edp": "edp",
}
# Those that follow from the model alone: no device, no execution mode.
OF_MODEL = ("partition",)


def views() -> dict[str, Callable[[State], Report]]:
    """Builders of the reports by name, for export.render.VIEWS."""
    return {name: partial(build, name) for name in REPORTS}


def documents() -> dict[str, Callable[[State], Any]]:
    """Builders of their JSON documents by name, for documents.DOCUMENTS."""
    return {name: partial(document, name) for name in REPORTS}


def _module(name: str) -> Any:
    return import_module(f"hwexplorer.views.{REPORTS[name]}")


def build(name: str, state: State, **options: Any) -> Report:
    """A report with options of its own (`top`)."""
    built: Report = _module(name).view(state, **options)
    return built


def document(name: str, state: State, **options: Any) -> dict[str, Any]:
    """The same as a JSON document."""
    return envelope(state, _module(name).document(state, **options), name not in OF_MODEL)


def envelope(state: State, body: msgspec.Struct, on_device: bool = True) -> dict[str, Any]:
    """A report as a document: what was asked, then its figures."""
    head = about(engine.result(state), on_device)
    if not on_device:
        del head["execution"], head["layout"]
    return stamped(head | msgspec.to_builtins(body))
