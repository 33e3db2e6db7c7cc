"""Sums over a whole capture aligned with an estimate: the number of runs they hold, and each kind's time beside that of
all operators of the kind. Sums do not tell which of the operators took it."""

from __future__ import annotations

from collections import Counter, defaultdict

import msgspec

from analysis.annexes.traces.matched_pairs import (
    Alignment,
    MatchedPair,
    kind_family,
    kind_group,
    leaf_ops,
    make_alignment,
)
from analysis.annexes.traces.trace_record import Trace, TraceOp
from analysis.estimate.estimate import Estimate
from hardware.demand import OpClass

# Kinds by which runs are counted, the most reliable first: each is one kernel, seldom several.
_COUNTED = ("attention", "conv", "layer_norm", "norm", "softmax", "linear")
NEAR = 0.05  # of a whole number of runs


def divide_into_runs(trace: Trace, result: Estimate) -> Trace:
    """Return the trace per run, where the file does not say how many runs it holds: its kernels of a kind over those of
    the model. A note says so."""
    in_model = Counter(kind_family(kind) for kind in result.workload.operators.kind)
    in_file: Counter[str] = Counter()
    for op in trace.ops:
        in_file[kind_family(op.kind)] += op.count
    ratios = {kind: in_file[kind] / in_model[kind] for kind in _COUNTED if in_model[kind] and in_file[kind]}
    several = [kind for kind, n in ratios.items() if n > 1.0 - NEAR and abs(n - round(n)) < NEAR * n]
    if not several:
        return msgspec.structs.replace(
            trace, notes=(*trace.notes, "the file does not say how many runs it holds: it is taken for one")
        )
    kind = several[0]
    runs = ratios[kind]
    note = (
        f"the file does not say how many runs it holds: taken for {runs:.4g}, by its {in_file[kind]} kernels of "
        f"{kind.replace('_', ' ')} and the model's {in_model[kind]}"
    )
    return msgspec.structs.replace(
        trace,
        runs=max(round(runs), 1),
        wall_s=trace.wall_s / runs,
        gap_s=trace.gap_s / runs,
        overlap_s=trace.overlap_s / runs,
        ops=tuple(msgspec.structs.replace(op, seconds=op.seconds / runs) for op in trace.ops),
        gaps=tuple((cause, seconds / runs) for cause, seconds in trace.gaps),
        notes=(*trace.notes, note),
    )


def align_sums(trace: Trace, result: Estimate) -> Alignment:
    """Align the time of each kind with that of the model's operators of the kind."""
    by_kind: dict[str, list[int]] = defaultdict(list)
    for i, kind in enumerate(result.workload.operators.kind):
        by_kind[kind_family(kind)].append(i)
    measured: dict[str, list[TraceOp]] = defaultdict(list)
    strangers: list[TraceOp] = []
    for op in (op for top in trace.ops for op in leaf_ops(top)):
        kind = _kind_in_model(op.kind, by_kind)
        (measured[kind] if kind else strangers).append(op)
    # Element-wise work has many names: a kind that no kernel is named after ran in those of its class.
    unnamed = [kind for kind in by_kind if kind not in measured and kind_group(kind) == OpClass.ELEMENTWISE]
    host = next((kind for kind in measured if kind_group(kind) == OpClass.ELEMENTWISE), "")
    for kind in unnamed if host else ():
        by_kind[host] += by_kind.pop(kind)
    missing = sorted(i for kind, members in by_kind.items() if kind not in measured for i in members)
    pairs = [
        MatchedPair(
            operators=tuple(by_kind[kind]), op=_merge_ops(kind, ops),
            predicted_s=float(result.run.latency_s[by_kind[kind]].sum()),
        )
        for kind, ops in measured.items()
    ]  # fmt: skip
    return make_alignment(trace, result, pairs, strangers, missing)


def _kind_in_model(kind: str, by_kind: dict[str, list[int]]) -> str:
    """Return the kind of the model's operators that kernels of a kind are, '' where none may be."""
    family = kind_family(kind)
    if family in by_kind:
        return family
    if other := {"conv": "linear", "linear": "conv"}.get(family):
        return other if other in by_kind else ""
    if kind_group(kind) == OpClass.ELEMENTWISE:
        return next((name for name in by_kind if kind_group(name) == OpClass.ELEMENTWISE), "")
    return ""


def _merge_ops(kind: str, ops: list[TraceOp]) -> TraceOp:
    ops = sorted(ops, key=lambda op: -op.seconds)
    count = sum(op.count for op in ops)
    return TraceOp(
        name=f"{count} kernels of {kind.replace('_', ' ')}",
        kind=kind,
        seconds=sum(op.seconds for op in ops),
        kernels=tuple(op.name for op in ops[:8]),
        count=count,
    )
