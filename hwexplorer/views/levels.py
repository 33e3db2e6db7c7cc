"""Devices side by side node by node, and the architectures as a progression."""

from __future__ import annotations

from analysis.decide.levels import Levels, compare_levels
from analysis.decide.progression import Progression
from analysis.decide.progression import progression as find_progression
from analysis.run.families import FAMILIES
from analysis.run.metrics import METRICS
from hardware.architectures import registry
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views.compare import FLAGS, title
from hwexplorer.views.plain import Cell, Column, Report, Row, Table, Text


def levels(state: State, level: str) -> Levels:
    results = [engine.result(state, name) for name in state.devices]
    return compare_levels(results, engine.result(state, state.baseline), level)


def view(state: State, found: Levels) -> Table:
    """A row per node: each device's figure in the metric of the state, the winner, and how far ahead it is."""
    metric = state.metric
    columns = [Column("node", "Node", role="text", keep=0), Column("type", "Kind", role="text", keep=5)]
    for key in found.devices:
        columns.append(Column(key, key, METRICS[metric].unit, role="quantity", keep=2))
        columns.append(Column(f"{key}_ratio", "ratio", "x", keep=6, help=f"to {found.baseline}"))
        columns.append(Column(f"{key}_bound", "B", role="flag", keep=7))
    columns += [
        Column("winner", "Winner", role="text", keep=0),
        Column("margin", "Ahead", "x", keep=1, help="times more that the next best takes"),
        Column("energy_winner", "Energy", role="text", keep=3, help="winner by energy"),
        Column("latency_winner", "Latency", role="text", keep=3, help="winner by latency"),
    ]
    rows = []
    for node in found.rows:
        cells: list[Cell] = [node.id, node.type]
        for key in found.devices:
            figures = node.devices[key]
            cells += [METRICS[metric].of(figures), figures.ratio_to_baseline[metric], FLAGS[figures.bound]]
        names = [node.winner[name] or "tie" for name in (metric, "energy", "latency")]
        cells += [names[0], node.margin[metric], *names[1:]]
        rows.append(Row(node.id, tuple(cells)))
    tally = [f"{m}: {_tally(found, m)}" for m in found.tally]
    footer = (f"{len(rows)} {found.level}s; wins by {'; by '.join(tally)}",)
    return Table("compare", f"{title(state)}: {metric} by {found.level}", tuple(columns), tuple(rows), footer)


def _tally(found: Levels, metric: str) -> str:
    counts = sorted(found.tally[metric].items(), key=lambda pair: -pair[1])
    told = [f"{key} {count}" for key, count in counts if count]
    told += [f"{found.ties[metric]} tied"] if found.ties[metric] else []
    return ", ".join(told) or "none fits"


def progression(state: State) -> Progression:
    return find_progression([engine.result(state, name) for name in state.devices])


def progression_view(state: State, found: Progression) -> Report:
    """The families of energy side by side, then what each architecture pays for."""
    columns = [Column("family", "Energy", role="text", keep=0)]
    for step in found.steps:
        columns.append(Column(step.device, step.device, "%", keep=0))
        columns.append(Column(f"{step.device}_energy", "each", "J", role="quantity", keep=2))
    columns.append(Column("meaning", "", role="text", keep=5))
    rows = []
    for family in FAMILIES:
        cells: list[Cell] = [family]
        for step in found.steps:
            cells += [step.families_fraction[family], step.families_j[family]]
        rows.append(Row(family, (*cells, found.families[family])))
    footer = [
        f"{step.device}: {quantity(step.energy_j_per_inference, 'J')} per inference = arithmetic "
        f"{step.arithmetic_fraction:.1%}, instruction and operand overhead {step.overhead_fraction:.1%}, data movement "
        f"{step.movement_fraction:.1%}, static {step.static_fraction:.1%}"
        for step in found.steps
    ]
    sections = tuple(
        (f"{registry.get(step.architecture).story.title} ({step.name})", step.says) for step in found.steps
    )
    return Report(
        "progression",
        f"{title(state)}: from stored program to domain flow",
        (Table("families", "", tuple(columns), tuple(rows), tuple(footer)), Text("steps", "", sections)),
        0,
    )
