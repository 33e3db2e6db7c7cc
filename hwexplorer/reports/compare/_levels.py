"""Devices compared node by node: the winner of every subgraph or operator, and a tally.

A node is compared by its energy per inference, its latency, and the product of both, so a device that loses both wins
nothing. (Its part of the EDP of the model, which depends on the totals of the device, is `edp_js`.) An operator that a
kernel hides behind another takes no time of its own: where several devices hide it, the least energy has the least
product. Equal figures are a tie without a winner.
"""

from collections.abc import Sequence

import msgspec

from analysis.document import Column, records
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.metrics import ADDITIVE, METRICS
from analysis.estimate.tree_figures import TreeLevel, tree_without_host
from hardware.base.errors import unknown
from hwexplorer.state import State
from hwexplorer.views.captions import MARKED, headline_of_state
from hwexplorer.views.plain import Amount, Table
from hwexplorer.views.tables import SAME, rows

LEVELS = ("subgraph", "operator")


class NodeFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One node on one device; keys as in the tree. Ratios are to the baseline's figures, None if those alone are 0."""

    latency_s: float
    energy_j: float
    energy_j_per_inference: float
    edp_js: float
    own_edp_js: float
    share: float
    bound: str
    ratio_to_baseline: dict[str, float | None]

    @property
    def is_hidden(self) -> bool:
        """True if the node takes energy but no time: a kernel does other work meanwhile."""
        return self.latency_s == 0.0 < self.energy_j


def _order(node: NodeFigures, metric: str) -> tuple[float, float]:
    """Return what devices are sorted by in a metric: products without time are sorted by their energy."""
    figure = node_figure(node, metric)
    return figure, node.energy_j_per_inference if metric == "edp" and not figure else 0.0


def node_figure(node: NodeFigures, metric: str) -> float:
    """Return the figure by which a node is compared in a metric."""
    return node.own_edp_js if metric == "edp" else METRICS[metric].figure(node)


class ComparedNode(msgspec.Struct, frozen=True, kw_only=True):
    """One node on every device, by device key. By metric, `winner` is the device with the least, '' in a tie; `margin`
    is the ratio of the next device to it, None if the winner's figure is 0."""

    id: str
    type: str
    macs: float
    devices: dict[str, NodeFigures]
    winner: dict[str, str]
    margin: dict[str, float | None]


class Levels(Head, frozen=True, kw_only=True):
    """The document of `hwexplorer compare --level subgraph|operator`. `tally` counts wins by metric and device;
    `passed_over` counts nodes on which a design target has the least but was not asked for."""

    level: str
    baseline: str
    devices: tuple[str, ...]
    names: dict[str, str]
    tally: dict[str, dict[str, int]]
    ties: dict[str, int]
    passed_over: dict[str, dict[str, int]]
    rows: tuple[ComparedNode, ...]


def compare_levels(results: Sequence[Estimate], baseline: Estimate, level: str, on_paper: bool = False) -> Levels:
    """Compare the nodes of a level on several devices. Design targets win only with `on_paper`. Raises RequestError for
    an unknown level."""
    if level not in LEVELS:
        raise unknown("level", level, LEVELS)
    nodes = {result.device.key: _node_figures(result, baseline, level) for result in results}
    fitting = [result.device.key for result in results if result.can_win and (on_paper or result.device.silicon)]
    unasked = [key for key, can in ((r.device.key, r.can_win and r.device.key not in fitting) for r in results) if can]
    model = results[0]
    parts, ops = model.partition, model.workload.operators
    ids, types = (parts.id, parts.kind) if level == "subgraph" else (parts.operator_id, ops.kind)
    compared = []
    for i, (name, kind, macs) in enumerate(zip(ids, types, _level(model, level)[0].macs.tolist(), strict=True)):
        devices = {key: figures[i] for key, figures in nodes.items()}
        winner, margin = _winners(devices, fitting)
        compared.append(ComparedNode(id=name, type=kind, macs=macs, devices=devices, winner=winner, margin=margin))
    return Levels(
        **head_fields(model),
        level=level,
        baseline=baseline.device.key,
        devices=tuple(nodes),
        names={result.device.key: result.device.name for result in results},
        tally={name: {key: sum(row.winner[name] == key for row in compared) for key in nodes} for name in ADDITIVE},
        ties={name: sum(not row.winner[name] for row in compared) if fitting else 0 for name in ADDITIVE},
        passed_over={name: _count_passed_over(compared, name, unasked) for name in ADDITIVE},
        rows=tuple(compared),
    )


def _count_passed_over(compared: Sequence[ComparedNode], metric: str, designs: Sequence[str]) -> dict[str, int]:
    """Count the nodes on which each of the designs has less than every other device."""
    counts = dict.fromkeys(designs, 0)
    for row in compared if designs else ():
        least = min(row.devices, key=lambda key: _order(row.devices[key], metric))
        if least in counts:
            counts[least] += 1
    return {key: count for key, count in counts.items() if count}


def _level(result: Estimate, level: str) -> tuple[TreeLevel, tuple[str, ...]]:
    """Return the figures of every node of a level, and what bounds each."""
    figures = tree_without_host(result)
    if level == "subgraph":
        return figures.subgraphs, figures.subgraph_bound
    return figures.operators, figures.operator_bound


def _node_figures(result: Estimate, baseline: Estimate, level: str) -> tuple[NodeFigures, ...]:
    """Return the figures of every node on a device, with their ratios to the baseline's."""
    (figures, bound), (reference, _) = _level(result, level), _level(baseline, level)
    energies_j, reference_j = figures.energy_j / result.scenario.batch, reference.energy_j / baseline.scenario.batch
    pairs = {
        "edp": (figures.own_edp_js, reference.own_edp_js),
        "energy": (energies_j, reference_j),
        "latency": (figures.latency_s, reference.latency_s),
    }
    ratios = [list(map(_times, ours.tolist(), base.tolist())) for ours, base in pairs.values()]
    are_hidden = (figures.latency_s == 0.0) & (reference.latency_s == 0.0)
    ratios[0] = [
        energy if hidden else edp for hidden, edp, energy in zip(are_hidden.tolist(), *ratios[:2], strict=True)
    ]
    return records(
        NodeFigures,
        figures,
        energy_j_per_inference=energies_j,
        bound=bound,
        ratio_to_baseline=[dict(zip(pairs, row, strict=True)) for row in zip(*ratios, strict=True)],
    )


def _times(more: float, less: float) -> float | None:
    """Return the ratio. Return None if only `less` is 0, and 1 if both are 0."""
    return more / less if less else None if more else 1.0


def _winners(devices: dict[str, NodeFigures], fitting: Sequence[str]) -> tuple[dict[str, str], dict[str, float | None]]:
    """Return winner and margin by metric. A device without rivals wins by a margin of 1."""
    winner: dict[str, str] = dict.fromkeys(ADDITIVE, "")
    margin: dict[str, float | None] = dict.fromkeys(ADDITIVE, 1.0)
    for name in ADDITIVE:
        by_figure = sorted(fitting, key=lambda key: (*_order(devices[key], name), key))
        if len(by_figure) < 2:
            winner[name] = next(iter(by_figure), "")
            continue
        least, second = (_order(devices[key], name) for key in by_figure[:2])
        place = 0 if second[0] else 1  # 1: both are hidden
        if second[place] > least[place] * (1.0 + SAME):
            winner[name], margin[name] = by_figure[0], _times(second[place], least[place])
    return winner, margin


# --- the table --------------------------------------------------------------------------------------------------------

_HIDDEN = "J: hidden in a kernel without time of its own, so compared by energy"


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
    if metric == "edp" and any(node.is_hidden for row in levels.rows for node in row.devices.values()):
        footer.append(_HIDDEN)
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
               help="what limits the kernel; hidden: other work of its kernel takes as long"),
    )  # fmt: skip


def _figure(node: NodeFigures, metric: str) -> float:
    """Return the figure by which a node is compared: the energy of work that takes no time of its own."""
    is_by_energy = metric == "edp" and node.is_hidden
    return Amount(node.energy_j_per_inference, "J") if is_by_energy else node_figure(node, metric)


def _tally(levels: Levels, metric: str) -> str:
    counts = sorted(levels.tally[metric].items(), key=lambda pair: -pair[1])
    wins = [f"{MARKED[key]} {count}" for key, count in counts if count]
    wins += [f"{levels.ties[metric]} tied"] if levels.ties[metric] else []
    return ", ".join(wins) or "none fits"
