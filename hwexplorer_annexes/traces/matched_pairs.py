"""Matched pairs of measured and predicted operators, unmatched operators, and the kinds that may be matched.

Sums over a whole capture are matched by kind: the module finds the number of runs in the capture, and compares each
kind's time with the time of the model's operators of that kind. Sums do not show the time of single operators."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from hwexplorer.extend import KINDS, estimate
from hwexplorer_annexes.traces.estimate_parts import OpClass
from hwexplorer_annexes.traces.trace_record import NAMES, Trace, TraceOp

CALLING = 0.2  # share of its time that an operator may spend itself if it only calls others
_FAMILIES: dict[str, str] = {kind: names[0] for names in NAMES["same"] for kind in names}
# Kinds by which runs are counted, the most reliable first: their operators are nearly always one kernel.
_COUNTED = ("attention", "conv", "layer_norm", "norm", "softmax", "linear")
NEAR = 0.05  # relative distance from a whole number of runs


class MatchedPair(msgspec.Struct, frozen=True, kw_only=True):
    """A measured operator and the indices of the model's operators that it executes. `input_ratio` is the elements of
    the measured input over the model's. `has_same_weights` and `input_ratio` are None if the trace has no sizes."""

    operators: tuple[int, ...]
    op: TraceOp
    predicted_s: float
    has_same_weights: bool | None = None
    input_ratio: float | None = None


class Alignment(msgspec.Struct, frozen=True, kw_only=True):
    """All pairs of a trace of one run. `strangers` are measured operators that are not in the model; `missing` are
    indices of the model's operators that are not in the trace, and `missing_s` is their predicted time."""

    trace: Trace
    pairs: tuple[MatchedPair, ...]
    strangers: tuple[TraceOp, ...]
    missing: tuple[int, ...]
    missing_s: float

    @property
    def matched_s(self) -> float:
        """Seconds of measured operators that are in the model."""
        return sum(pair.op.seconds for pair in self.pairs)

    @property
    def unmatched_s(self) -> float:
        """Seconds of measured operators that are not in the model."""
        return sum(op.seconds for op in self.strangers)

    @property
    def coverage(self) -> float:
        """The share of the measured operators' time that belongs to operators of the model."""
        spent_s = self.matched_s + self.unmatched_s
        return self.matched_s / spent_s if spent_s else 0.0


def make_alignment(
    trace: Trace,
    result: estimate.Estimate,
    pairs: Sequence[MatchedPair],
    strangers: Sequence[TraceOp],
    missing: Sequence[int],
) -> Alignment:
    """Return the alignment. It keeps only strangers that took time and adds up the time of missing operators."""
    return Alignment(
        trace=trace,
        pairs=tuple(pairs),
        strangers=tuple(op for op in strangers if op.seconds > 0),
        missing=tuple(missing),
        missing_s=float(result.run.latency_s[list(missing)].sum()) if missing else 0.0,
    )


def kind_family(kind: str) -> str:
    """Return the first of the kinds that profilers do not distinguish from this one, else the kind itself."""
    return _FAMILIES.get(kind, kind)


def kind_group(kind: str) -> int:
    """Return the operator class of a kind, -1 for an unknown kind. Normalisations count as element-wise. Kinds of one
    class may be matched with each other."""
    if kind not in KINDS:
        return -1
    op_class = KINDS[kind].op_class
    return int(OpClass.ELEMENTWISE if op_class in (OpClass.ELEMENTWISE, OpClass.NORM) else op_class)


def leaf_ops(op: TraceOp) -> Iterator[TraceOp]:
    """Yield the operators that a model may have: those with a known kind or without parts. The time that a caller
    spends itself is divided among its parts; above the share `CALLING` it becomes a separate operator instead."""
    if op.kind or not op.parts:
        yield op
        return
    parts_s = sum(part.seconds for part in op.parts)
    own_s = op.seconds - parts_s
    if own_s <= CALLING * op.seconds:
        for part in op.parts:
            yield from leaf_ops(_scale_op(part, op.seconds / parts_s))
        return
    for part in op.parts:
        yield from leaf_ops(part)
    yield msgspec.structs.replace(op, name=f"{op.name}, itself", seconds=own_s, parts=())


def _scale_op(op: TraceOp, factor: float) -> TraceOp:
    parts = tuple(_scale_op(part, factor) for part in op.parts)
    return msgspec.structs.replace(op, seconds=op.seconds * factor, parts=parts)


# --- sums of a whole capture --------------------------------------------------------------------------------


def divide_into_runs(trace: Trace, result: estimate.Estimate) -> Trace:
    """Return the trace with times per run, for a file that does not state its number of runs. The number is estimated
    as the count of kernels of one kind over their count in the model. A note says so."""
    in_model = Counter(kind_family(kind) for kind in result.workload.operators.kind)
    in_file: Counter[str] = Counter()
    for op in trace.ops:
        in_file[kind_family(op.kind)] += op.count
    ratios = {kind: in_file[kind] / in_model[kind] for kind in _COUNTED if in_model[kind] and in_file[kind]}
    several = [kind for kind, n in ratios.items() if n > 1.0 - NEAR and abs(n - round(n)) < NEAR * n]
    if not several:
        return msgspec.structs.replace(
            trace, notes=(*trace.notes, "the file does not state its number of runs: one is assumed")
        )
    kind = several[0]
    runs = ratios[kind]
    note = (
        f"the file does not state its number of runs: {runs:.4g} are assumed, from its {in_file[kind]} kernels of "
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


def align_sums(trace: Trace, result: estimate.Estimate) -> Alignment:
    """Align the time of each kind with the time of the model's operators of that kind."""
    by_kind: dict[str, list[int]] = defaultdict(list)
    for i, kind in enumerate(result.workload.operators.kind):
        by_kind[kind_family(kind)].append(i)
    measured: dict[str, list[TraceOp]] = defaultdict(list)
    strangers: list[TraceOp] = []
    for op in (op for top in trace.ops for op in leaf_ops(top)):
        kind = _kind_in_model(op.kind, by_kind)
        (measured[kind] if kind else strangers).append(op)
    # Element-wise work has many names: if no kernel has the name of a kind, it ran in other element-wise kernels.
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
    """Return the kind of the model's operators that kernels of this kind execute, '' if there is none."""
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
