"""A comparison of devices node by node."""

from __future__ import annotations

from analysis.document import Column
from analysis.estimate.metrics import METRICS
from analysis.explore.node_comparison import ComparedNode, Levels, NodeFigures, node_figure
from hwexplorer.state import State
from hwexplorer.views.captions import MARKED, headline_of_state
from hwexplorer.views.plain import Table
from hwexplorer.views.tables import rows


def by_node(state: State, levels: Levels) -> Table:
    """Return a row per node with the figure of each device in the metric of the state, the winner and its lead."""
    metric = state.metric
    columns = [
        Column("node", "Node", role="text", keep=0, of="id"),
        Column("type", "Kind", role="text", keep=5),
        *(column for key in levels.devices for column in _of_device(key, metric, levels.baseline)),
        Column("winner", "Winner", role="text", keep=0, of=lambda node: _winner(node, metric)),
        Column("margin", "Ahead x", "x", keep=1, of=lambda node: node.margin[metric],
               help="how many times more the next best takes"),
        Column("energy_winner", "Least energy", role="text", keep=3, of=lambda node: _winner(node, "energy"),
               help="winner by energy"),
        Column("latency_winner", "Least latency", role="text", keep=3, of=lambda node: _winner(node, "latency"),
               help="winner by latency"),
    ]  # fmt: skip
    tally = [f"{METRICS[m].noun}: {_tally(levels, m)}" for m in levels.tally]
    count = len(levels.rows)
    footer = [f"{count} {levels.level}s; wins by {'; by '.join(tally)}"]
    footer += [
        f"{MARKED[key]} has the least {METRICS[metric].noun} in {least} of {count}, on paper: not counted"
        for key, least in levels.passed_over[metric].items()
    ]
    return Table(
        "compare",
        f"{headline_of_state(state)}: {METRICS[metric].noun} by {levels.level}",
        tuple(columns),
        rows(columns, levels.rows),
        footer=tuple(footer),
    )


def _winner(node: ComparedNode, metric: str) -> str:
    return MARKED[node.winner[metric]] or "tie"


def _of_device(key: str, metric: str, baseline: str) -> tuple[Column, ...]:
    return (
        Column(key, MARKED[key], METRICS[metric].unit, role="quantity", keep=2,
               of=lambda node: _figure(node.devices[key], metric)),
        Column(f"{key}_ratio", "ratio", "x", keep=6, of=lambda node: node.devices[key].ratio_to_baseline[metric],
               help=f"to {baseline}"),
        Column(f"{key}_bound", "Limit", role="text", keep=7,
               of=lambda node: "hidden" if node.devices[key].is_hidden else node.devices[key].bound,
               help="what limits the kernel; hidden: other work of its kernel takes as long, compared by energy"),
    )  # fmt: skip


def _figure(node: NodeFigures, metric: str) -> float | None:
    return None if metric == "edp" and node.is_hidden else node_figure(node, metric)


def _tally(levels: Levels, metric: str) -> str:
    counts = sorted(levels.tally[metric].items(), key=lambda pair: -pair[1])
    told = [f"{MARKED[key]} {count}" for key, count in counts if count]
    told += [f"{levels.ties[metric]} tied"] if levels.ties[metric] else []
    return ", ".join(told) or "none fits"
