"""The tree of a model, and any node of it, with measured times beside predicted ones."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from analysis.annexes.traces.pairs import Overlay
from analysis.estimate.causes import CAUSES, LAUNCH, causes
from analysis.estimate.estimate import Estimate
from analysis.model.ir.workload import Floats, Ints

Seen = NDArray[np.bool_]


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of some operators. `predicted_s` and `ratio` (measured over predicted) are of those that were
    seen, `share` of the wall time, `term` the cause of those that make most of the difference;
    `missing_s` is predicted for what was not seen."""

    measured_s: float
    predicted_s: float
    ratio: float | None
    share: float
    term: str
    missing_s: float


class MeasuredNode(Measured, frozen=True, kw_only=True):
    """A node of the tree as it was measured. Measured times of its parts add up."""

    id: str
    name: str
    kind: str
    children: tuple[MeasuredNode, ...] = ()


def terms(result: Estimate, measured_s: Floats) -> list[str]:
    """The cause that is off in each operator: that of most of its predicted time; where it took longer by more than
    its launch, that of most of its work."""
    time_s = causes(result).time_s.copy()
    time_s[LAUNCH, measured_s - result.run.latency_s > time_s[LAUNCH]] = 0.0
    return [CAUSES[i] for i in time_s.argmax(axis=0).tolist()]


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


class Beside:
    """A trace beside an estimate, for any operators of the model: `measured_s`, `seen` and the term that is
    off of each, (n,)."""

    def __init__(self, laid_over: Overlay, result: Estimate) -> None:
        self.laid_over, self.result = laid_over, result
        self.measured_s, self.seen = per_operator(laid_over, result)
        self.terms = terms(result, self.measured_s)

    @property
    def seconds(self) -> Floats:
        """Measured seconds of each operator, (n,), NaN of those that the trace has not."""
        return np.where(self.seen, self.measured_s, np.nan)

    def of(self, members: Sequence[int] | Ints) -> Measured:
        """What was measured of these operators."""
        mine, latency = np.asarray(members), self.result.run.latency_s
        met = mine[self.seen[mine]]
        spent, expected = float(self.measured_s[met].sum()), float(latency[met].sum())
        difference, by_term = (self.measured_s - latency)[met], np.array(self.terms)[met]
        off = {term: abs(float(difference[by_term == term].sum())) for term in dict.fromkeys(by_term.tolist())}
        return Measured(
            measured_s=spent,
            predicted_s=expected,
            ratio=spent / expected if expected > 0 else None,
            share=spent / self.laid_over.trace.wall_s,
            term=max(off, key=lambda term: off[term]) if off else "",
            missing_s=float(latency[mine[~self.seen[mine]]].sum()),
        )


def measured_tree(beside: Beside) -> MeasuredNode:
    """The tree with measured times beside predicted."""
    result, parts = beside.result, beside.result.partition

    def node(
        key: str, name: str, kind: str, members: Sequence[int], children: tuple[MeasuredNode, ...] = ()
    ) -> MeasuredNode:
        of = msgspec.structs.asdict(beside.of(members))
        return MeasuredNode(id=key, name=name, kind=kind, children=children, **of)

    paths, subgraphs = result.workload.operators.path, []
    for s, members in enumerate(parts.members):
        several = members if len(members) > 1 else ()
        inner = tuple(node(parts.operator_id[i], paths[i], "operator", (i,)) for i in several)
        subgraphs.append(node(parts.id[s], parts.id[s], "subgraph", members, inner))
    return node("", result.workload.name, "model", range(result.workload.n_operators), tuple(subgraphs))
