"""Devices compared node by node: the winner of every subgraph or operator, and a tally.

A node is compared by its own figures: its energy per inference, its latency, their product. An operator that a
fused kernel hides takes no time of its own there, so its product is 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from analysis.run.estimate import Estimate
from analysis.run.figures import Head, about
from analysis.run.tree import Level, tree
from hardware.errors import RequestError, unknown

LEVELS = ("subgraph", "operator")
METRICS = ("edp", "energy", "latency")


class Figures(msgspec.Struct, frozen=True):
    """One node on one device: energy per inference, latency of the batch, their product; and its EDP share."""

    energy_j: float
    latency_s: float
    edp_js: float
    share: float
    bound: str
    ratio_to_baseline: dict[str, float]


class Node(msgspec.Struct, frozen=True):
    """One node on every device, by device key; `winner` by metric ('' where the model fits nowhere)."""

    id: str
    type: str
    macs: float
    devices: dict[str, Figures]
    winner: dict[str, str]
    margin: dict[str, float]


class Levels(Head, frozen=True, kw_only=True):
    """The document of `hwexplorer compare --level subgraph|operator`. `tally` counts wins by metric and device."""

    level: str
    baseline: str
    devices: tuple[str, ...]
    names: dict[str, str]
    tally: dict[str, dict[str, int]]
    rows: tuple[Node, ...]


def compare_levels(results: Sequence[Estimate], baseline: Estimate, level: str) -> Levels:
    """Compare the nodes of a level on several devices. Raises RequestError for an unknown level or no device."""
    if level not in LEVELS:
        raise unknown("level", level, LEVELS)
    if not results:
        raise RequestError("nothing to compare: no device is given")
    columns = {r.device.key: _columns(r, level) for r in results}
    bounds = {r.device.key: _bounds(r, level) for r in results}
    fitting = [r.device.key for r in results if r.fits]
    first = results[0]
    parts, ops = first.partition, first.workload.operators
    ids, types = (parts.id, parts.kind) if level == "subgraph" else (parts.operator_id, ops.kind)
    macs = _level(first, level).macs.tolist()
    reference = columns.get(baseline.device.key) or _columns(baseline, level)
    rows = []
    for i, name in enumerate(ids):
        devices = {key: _figures(found, i, bounds[key][i], reference) for key, found in columns.items()}
        winner, margin = _winners(devices, fitting)
        rows.append(Node(name, types[i], macs[i], devices, winner, margin))
    keys = tuple(columns)
    tally = {m: {key: sum(row.winner[m] == key for row in rows) for key in keys} for m in METRICS}
    return Levels(
        **about(first),
        level=level,
        baseline=baseline.device.key,
        devices=keys,
        names={r.device.key: r.device.name for r in results},
        tally=tally,
        rows=tuple(rows),
    )


def _level(result: Estimate, level: str) -> Level:
    figures = tree(result)
    return figures.subgraphs if level == "subgraph" else figures.operators


_Columns = tuple[list[float], list[float], list[float], list[float]]


def _columns(result: Estimate, level: str) -> _Columns:
    """Energy per inference, latency, their product and share of every node."""
    found = _level(result, level)
    energy = found.energy_j / result.scenario.batch
    return energy.tolist(), found.latency_s.tolist(), (energy * found.latency_s).tolist(), found.share.tolist()


def _bounds(result: Estimate, level: str) -> tuple[str, ...]:
    figures = tree(result)
    return figures.subgraph_bound if level == "subgraph" else figures.operator_bound


def _figures(found: _Columns, i: int, bound: str, reference: _Columns) -> Figures:
    energy, latency, edp, share = (column[i] for column in found)
    return Figures(energy, latency, edp, share, bound, _ratios(found, reference, i))


def _ratios(found: _Columns, reference: _Columns, i: int) -> dict[str, float]:
    names = ("energy", "latency", "edp")
    pairs = zip(names, found, reference, strict=False)
    return {name: mine[i] / theirs[i] if theirs[i] else float(mine[i] == 0) for name, mine, theirs in pairs}


def _winners(devices: dict[str, Figures], fitting: Sequence[str]) -> tuple[dict[str, str], dict[str, float]]:
    """The device of the least figure by metric, and how many times more the next best takes."""
    winner, margin = {}, {}
    for name in METRICS:
        field = {"edp": "edp_js", "energy": "energy_j", "latency": "latency_s"}[name]
        values = sorted((getattr(devices[key], field), order, key) for order, key in enumerate(fitting))
        winner[name] = values[0][2] if values else ""
        margin[name] = values[1][0] / values[0][0] if len(values) > 1 and values[0][0] else 1.0
    return winner, margin
