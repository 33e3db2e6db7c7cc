"""Devices compared node by node: the winner of every subgraph or operator, and a tally.

A node is compared by its energy per inference, its latency, and the product of both, so a device that loses both wins
nothing. (Its part of the EDP of the model, which depends on the totals of the device, is `edp_js`.) An operator that a
kernel hides behind another takes no time of its own: where several devices hide it, the least energy has the least
product. Equal figures are a tie without a winner.
"""

from collections.abc import Mapping, Sequence

import msgspec

from analysis.document import records
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import ADDITIVE, METRICS, Head, head_fields
from analysis.estimate.tree_figures import TreeLevel, tree_without_host
from hardware.base.errors import unknown

LEVELS = ("subgraph", "operator")
_SAME = 1e-9  # sums in another order differ by less


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
    """Return winner and margin by metric."""
    found = {name: find_winner({key: _order(devices[key], name) for key in fitting}) for name in ADDITIVE}
    return {name: key for name, (key, _) in found.items()}, {name: margin for name, (_, margin) in found.items()}


def find_winner(costs: Mapping[str, tuple[float, float]]) -> tuple[str, float | None]:
    """Return the device with the least cost, '' in a tie, and the ratio of the next device to it: None if its cost is
    0, 1 in a tie or without rivals. A cost is a figure, and the energy that decides where the figure of both is 0."""
    by_cost = sorted(costs, key=lambda key: (*costs[key], key))
    if len(by_cost) < 2:
        return next(iter(by_cost), ""), 1.0
    least, second = (costs[key] for key in by_cost[:2])
    place = 0 if second[0] else 1  # 1: both are hidden
    is_ahead = second[place] > least[place] * (1.0 + _SAME)
    return (by_cost[0], _times(second[place], least[place])) if is_ahead else ("", 1.0)
