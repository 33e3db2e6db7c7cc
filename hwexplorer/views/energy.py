"""Where the energy of a node goes: components, categories, power, idle losses, top consumers."""

from __future__ import annotations

from analysis.reports.energy_report import TOP, Consumer, EnergyReport, Part, energy_report
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views import pieces
from hwexplorer.views.plain import Column, Report, Row, Table, Text

PARTS = (
    Column("name", "Part", role="text", keep=0),
    Column("bar", "Share", "%", role="bar", keep=1),
    Column("fraction", "%", "%", keep=0),
    Column("energy", "Energy", "J", keep=0),
    Column("per_inference", "Per inference", "J", keep=1),
)
CONSUMERS = (
    Column("name", "Node", role="text", keep=0),
    Column("kind", "Kind", role="text", keep=4),
    Column("bar", "Share", "%", role="bar", keep=2),
    Column("fraction", "%", "%", keep=0),
    Column("cumulative", "Cum", "%", keep=1),
    Column("energy", "Energy", "J", keep=0),
    Column("compute", "Compute", "J", keep=2),
    Column("memory", "Memory", "J", keep=2),
    Column("static", "Static", "J", keep=2),
    Column("latency", "Latency", "s", keep=3),
)


def document(state: State, top: int = TOP) -> EnergyReport:
    return energy_report(engine.result(state), state.at, top)


def view(state: State, top: int = TOP) -> Report:
    found = document(state, top)
    name = state.at or engine.workload(state).name
    return Report(
        "energy",
        f"Energy of {name} on {engine.device(state.on).name}, batch {state.batch}",
        (
            _summary(found),
            _parts("components", "By component", found.components),
            _parts("categories", "By category of events", found.categories),
            _consumers("operators", "Operators that use most", found.top_operators),
            _consumers("subgraphs", "Subgraphs that use most", found.top_subgraphs),
        ),
    )


def _summary(found: EnergyReport) -> Text:
    return pieces.facts(
        "summary",
        "Summary",
        (
            f"{quantity(found.energy_j, 'J')} in {quantity(found.latency_s, 's')}; "
            f"{quantity(found.energy_j_per_inference, 'J')} per inference",
            f"power {quantity(found.average_power_w, 'W')} on average, {quantity(found.peak_power_w, 'W')} at most "
            f"({found.peak_power_kernel}); limit {quantity(found.power_limit_w, 'W')}, TDP "
            f"{quantity(found.tdp_w, 'W')}, static {quantity(found.static_power_w, 'W')}",
            f"efficiency {found.efficiency:.0%}: {quantity(found.dynamic_j, 'J')} of it dynamic",
            f"lost to idle resources: {quantity(found.idle_loss_j, 'J')} ({found.idle_loss_fraction:.0%}) = static x "
            f"(1 - utilisation {found.utilization:.1%})",
        ),
    )


def _parts(name: str, title: str, parts: tuple[Part, ...]) -> Table:
    rows = tuple(
        Row(p.name, (p.name.replace("_", " "), p.fraction, p.fraction, p.energy_j, p.energy_j_per_inference))
        for p in parts
    )
    return Table(name, title, PARTS, rows)


def _consumers(name: str, title: str, found: tuple[Consumer, ...]) -> Table:
    rows = tuple(
        Row(
            c.id,
            (c.id, c.type, c.fraction, c.fraction, c.cumulative, c.energy_j, c.compute_j, c.memory_j, c.static_j,
             c.latency_s),
            kind=c.type,
        )
        for c in found
    )  # fmt: skip
    return Table(name, title, CONSUMERS, rows)
