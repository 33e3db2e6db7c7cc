"""Comparisons that lead to a decision, as views and documents of a state. Loaded when one is asked for.

Their verbs take more options than a state holds; here each has those that follow from the state: its devices, the
device under the cursor, the baseline, the metric.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views.plain import Report, Table


def _pareto(state: State) -> Any:
    from analysis.decide.catalogue_sweep import PRECISIONS
    from analysis.decide.choose import candidates, pareto
    from analysis.decide.cost import settings
    from analysis.decide.sweep import BATCHES

    devices = [engine.device(name) for name in state.devices]
    grid = candidates([engine.workload(state)], devices, BATCHES, PRECISIONS, engine.scenario(state), settings())
    return pareto(grid, False)


def document(name: str, state: State) -> Any:
    """The figures of one of NAMES."""
    from hwexplorer.views import advise, cost, explain, levels, report, sweep

    makers: dict[str, Callable[[State], Any]] = {
        "explain": explain.default,
        "sweep": sweep.default,
        "pareto": _pareto,
        "advise": advise.found,
        "cost": cost.found,
        "subgraphs": lambda s: levels.levels(s, "subgraph"),
        "progression": levels.progression,
        "report": report.document,
    }
    return makers[name](state)


def build(name: str, state: State) -> Table | Report:
    """The view of one of NAMES."""
    from hwexplorer.views import advise, choose, cost, explain, levels, report, sweep

    if name == "report":
        return report.view(state)
    found = document(name, state)
    makers: dict[str, Callable[[], Table | Report]] = {
        "explain": lambda: explain.tables_only(explain.view(found), "text"),
        "sweep": lambda: sweep.view(found),
        "pareto": lambda: choose.pareto(found),
        "advise": lambda: advise.view(found),
        "cost": lambda: cost.view(state, found),
        "subgraphs": lambda: levels.view(state, found),
        "progression": lambda: levels.progression_view(state, found),
    }
    return makers[name]()


NAMES = ("explain", "sweep", "pareto", "advise", "cost", "subgraphs", "progression", "report")


def views() -> dict[str, Callable[[State], Table | Report]]:
    """Builders by name, for export.render.VIEWS."""
    return {name: lambda state, name=name: build(name, state) for name in NAMES}  # type: ignore[misc]


def documents() -> dict[str, Callable[[State], Any]]:
    """Builders of the documents by name, for documents.DOCUMENTS."""
    return {name: lambda state, name=name: document(name, state) for name in NAMES}  # type: ignore[misc]
