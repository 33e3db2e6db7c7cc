"""The reports: one analysis of one model each, as views and as a document. Loaded when one is asked for.

Each is a module of hwexplorer.views with `view(state)` (a Report) and `document(state)` (a struct in SI units).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import msgspec

from analysis.compare import SCHEMA
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views.plain import Report

# Report -> module of hwexplorer.views.
REPORTS: dict[str, str] = {}


def views() -> dict[str, Callable[[State], Report]]:
    """Builders of the reports by name, for export.render.VIEWS."""
    return {name: partial(_view, name) for name in REPORTS}


def documents() -> dict[str, Callable[[State], Any]]:
    """Builders of their JSON documents by name, for documents.DOCUMENTS."""
    return {name: partial(_document, name) for name in REPORTS}


def _module(name: str) -> Any:
    return import_module(f"hwexplorer.views.{REPORTS[name]}")


def _view(name: str, state: State) -> Report:
    built: Report = _module(name).view(state)
    return built


def _document(name: str, state: State) -> Any:
    return envelope(state, _module(name).document(state))


def envelope(state: State, body: msgspec.Struct, **more: Any) -> dict[str, Any]:
    """A report as a document: what was asked, then its figures."""
    result = engine.result(state)
    return {
        "schema": SCHEMA,
        "model": result.workload.name,
        "device": result.device.key,
        "batch": state.batch,
        "precision": state.precision,
        "execution": state.execution,
        "execution_run": result.execution,
        "layout": state.layout,
        "image_size": state.image_size,
        **more,
        **msgspec.to_builtins(body),
    }
