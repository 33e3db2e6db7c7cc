"""The tree of a model with measured times beside predicted ones."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from analysis.run.causes import CAUSES, causes
from analysis.run.estimate import Estimate
from analysis.workload.workload import Floats

from .match import Overlay

Seen = NDArray[np.bool_]


class MeasuredNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the tree as it was measured. `ratio` is measured over predicted (of operators that were seen), `term`
    the cause (analysis/run/causes.py) of those of its operators that make most of the difference; `missing_s` is
    predicted for what was not seen. Measured times of its parts add up."""

    id: str
    name: str
    kind: str
    measured_s: float
    predicted_s: float
    ratio: float | None
    share: float
    term: str
    missing_s: float
    children: tuple[MeasuredNode, ...] = ()


def terms(result: Estimate) -> list[str]:
    """The cause of most of each operator's predicted time."""
    return [CAUSES[i] for i in causes(result).time_s.argmax(axis=0).tolist()]


def per_operator(laid_over: Overlay, result: Estimate) -> tuple[Floats, Seen]:
    """Measured seconds of each operator, and whether the trace shows it, (n,): one that stands with others for one
    measured kernel has its predicted share of it."""
    n, latency = result.workload.n_operators, result.run.latency_s
    measured, seen = np.zeros(n), np.zeros(n, dtype=np.bool_)
    for pair in laid_over.pairs:
        mine = list(pair.operators)
        part = latency[mine] / pair.predicted_s if pair.predicted_s > 0 else np.full(len(mine), 1.0 / len(mine))
        measured[mine], seen[mine] = part * pair.op.seconds, True
    return measured, seen


def measured_tree(laid_over: Overlay, result: Estimate) -> MeasuredNode:
    """The tree with measured times beside predicted."""
    n, latency = result.workload.n_operators, result.run.latency_s
    measured, seen = per_operator(laid_over, result)
    by_term, wall_s, parts = np.array(terms(result)), laid_over.trace.wall_s, result.partition

    def node(
        key: str, name: str, kind: str, members: Sequence[int], children: tuple[MeasuredNode, ...] = ()
    ) -> MeasuredNode:
        mine = np.array(members)
        met = mine[seen[mine]]
        spent, expected = float(measured[met].sum()), float(latency[met].sum())
        off = {term: abs(float((measured - latency)[met[by_term[met] == term]].sum())) for term in set(by_term[met])}
        return MeasuredNode(
            id=key,
            name=name,
            kind=kind,
            measured_s=spent,
            predicted_s=expected,
            ratio=spent / expected if expected > 0 else None,
            share=spent / wall_s,
            term=str(max(off, key=lambda term: off[term])) if off else "",
            missing_s=float(latency[mine[~seen[mine]]].sum()),
            children=children,
        )

    paths, subgraphs = result.workload.operators.path, []
    for s, members in enumerate(parts.members):
        several = members if len(members) > 1 else ()
        inner = tuple(node(parts.operator_id[i], paths[i], "operator", (i,)) for i in several)
        subgraphs.append(node(parts.id[s], parts.id[s], "subgraph", members, inner))
    return node("", result.workload.name, "model", range(n), tuple(subgraphs))
