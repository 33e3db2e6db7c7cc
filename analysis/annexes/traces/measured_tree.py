"""The tree of a model, and any node of it, with measured times beside predicted ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np

from analysis.annexes.traces.matched_pairs import Alignment
from analysis.document import column
from analysis.estimate.causes import CAUSES, LAUNCH, causes
from analysis.estimate.estimate import Estimate
from analysis.model.ir.workload import Floats, Ints


class MeasuredTime(msgspec.Struct, frozen=True, kw_only=True):
    """Measured time of some operators. `predicted_s` and `ratio` (measured over predicted) are of those that were seen,
    `share` of the wall time, `term` the cause of those that make most of the difference; `missing_s` is predicted for
    those that were not seen."""

    measured_s: Annotated[float, column("Measured", "s")]
    predicted_s: Annotated[float, column("Predicted", "s")]
    ratio: Annotated[float | None, column("Ratio", "x", help="measured over predicted")]
    share: Annotated[float, column("Share", "%", keep=1, help="of the wall time of one run")]
    term: Annotated[str, column("Term", keep=2, help="cause of the operators that make most of the difference")]
    missing_s: Annotated[float, column("Not seen", "s", keep=4, help="predicted for operators that the trace has not")]


class MeasuredNode(MeasuredTime, frozen=True, kw_only=True):
    """A node of the tree as it was measured. Measured times of its parts add up."""

    id: str
    name: Annotated[str, column("Node")]
    kind: str
    children: tuple[MeasuredNode, ...] = ()


class MeasuredOperators:
    """A trace aligned with an estimate, by operator of the model: `measured_s`, `is_seen`, and the predicted term that
    is off, `terms`; each (n,). Operators that share a measured kernel have their predicted shares of it."""

    def __init__(self, alignment: Alignment, result: Estimate) -> None:
        self.alignment, self.result = alignment, result
        n, latency = result.workload.n_operators, result.run.latency_s
        self.measured_s, self.is_seen = np.zeros(n), np.zeros(n, dtype=np.bool_)
        for pair in alignment.pairs:
            members = list(pair.operators)
            even = np.full(len(members), 1.0 / len(members))
            part = latency[members] / pair.predicted_s if pair.predicted_s > 0 else even
            self.measured_s[members], self.is_seen[members] = part * pair.op.seconds, True
        # The cause of most of the predicted time; where it took longer by more than its launch, of most of its work.
        time_s = causes(result).time_s.copy()
        time_s[LAUNCH, self.measured_s - latency > time_s[LAUNCH]] = 0.0
        self.terms = [CAUSES[i] for i in time_s.argmax(axis=0).tolist()]

    @property
    def seconds(self) -> Floats:
        """Measured seconds of each operator, (n,), NaN for those that the trace does not show."""
        return np.where(self.is_seen, self.measured_s, np.nan)

    def time(self, members: Sequence[int] | Ints) -> MeasuredTime:
        """Return the measured time of these operators."""
        indices, latency = np.asarray(members), self.result.run.latency_s
        seen = indices[self.is_seen[indices]]
        spent_s, expected_s = float(self.measured_s[seen].sum()), float(latency[seen].sum())
        difference, by_term = (self.measured_s - latency)[seen], np.array(self.terms)[seen]
        off = {term: abs(float(difference[by_term == term].sum())) for term in dict.fromkeys(by_term.tolist())}
        return MeasuredTime(
            measured_s=spent_s,
            predicted_s=expected_s,
            ratio=spent_s / expected_s if expected_s > 0 else None,
            share=spent_s / self.alignment.trace.wall_s,
            term=max(off, key=lambda term: off[term]) if off else "",
            missing_s=float(latency[indices[~self.is_seen[indices]]].sum()),
        )


def measured_tree(measured: MeasuredOperators) -> MeasuredNode:
    """Return the tree of subgraphs and operators with measured times beside predicted."""
    result, parts = measured.result, measured.result.partition

    def node(
        id: str, name: str, kind: str, members: Sequence[int], children: tuple[MeasuredNode, ...] = ()
    ) -> MeasuredNode:
        time = msgspec.structs.asdict(measured.time(members))
        return MeasuredNode(id=id, name=name, kind=kind, children=children, **time)

    paths, subgraphs = result.workload.operators.path, []
    for s, members in enumerate(parts.members):
        several = members if len(members) > 1 else ()
        inner = tuple(node(parts.operator_id[i], paths[i], "operator", (i,)) for i in several)
        subgraphs.append(node(parts.id[s], parts.id[s], "subgraph", members, inner))
    return node("", result.workload.name, "model", range(result.workload.n_operators), tuple(subgraphs))
