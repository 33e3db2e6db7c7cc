"""Matched pairs of measured and predicted operators, the rest on either side, and the kinds that may be matched.

Sums over a whole capture are matched by kind: the number of runs they hold, and each kind's time beside that of all
operators of the kind. Sums do not tell which of the operators took it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from analysis.annexes.traces.trace_record import NAMES, Trace, TraceOp
from analysis.estimate.estimate import Estimate
from analysis.model.ir.operator_kinds import KINDS
from hardware.demand import OpClass

CALLING = 0.2  # of a caller's time is the most it spends itself where it only calls others
_FAMILIES: dict[str, str] = {kind: names[0] for names in NAMES["same"] for kind in names}
# Kinds by which runs are counted, the most reliable first: each is one kernel, seldom several.
_COUNTED = ("attention", "conv", "layer_norm", "norm", "softmax", "linear")
NEAR = 0.05  # of a whole number of runs


class MatchedPair(msgspec.Struct, frozen=True, kw_only=True):
    """A measured operator beside the indices of the model's operators that it stands for. `input_ratio` is the
    elements of its input over the model's. Sizes that the trace does not have are None."""

    operators: tuple[int, ...]
    op: TraceOp
    predicted_s: float
    has_same_weights: bool | None = None
    input_ratio: float | None = None


class Alignment(msgspec.Struct, frozen=True, kw_only=True):
    """All pairs of a trace of one run; `strangers` are measured operators that are none of the model's, `missing` the
    indices of the model's operators that were not seen."""

    trace: Trace
    pairs: tuple[MatchedPair, ...]
    strangers: tuple[TraceOp, ...]
    missing: tuple[int, ...]
    missing_s: float

    @property
    def matched_s(self) -> float:
        """Seconds of measured operators that are the model's."""
        return sum(pair.op.seconds for pair in self.pairs)

    @property
    def unmatched_s(self) -> float:
        """Seconds of measured operators that are none of the model's."""
        return sum(op.seconds for op in self.strangers)

    @property
    def coverage(self) -> float:
        """The share of the measured operators' time that belongs to operators of the model."""
        spent_s = self.matched_s + self.unmatched_s
        return self.matched_s / spent_s if spent_s else 0.0


def make_alignment(
    trace: Trace, result: Estimate, pairs: Sequence[MatchedPair], strangers: Sequence[TraceOp], missing: Sequence[int]
) -> Alignment:
    """Return an alignment with the strangers that took time, and the time predicted for the missing operators."""
    return Alignment(
        trace=trace,
        pairs=tuple(pairs),
        strangers=tuple(op for op in strangers if op.seconds > 0),
        missing=tuple(missing),
        missing_s=float(result.run.latency_s[list(missing)].sum()) if missing else 0.0,
    )


def kind_family(kind: str) -> str:
    """Return the first of the kinds that profilers do not tell apart from this one, else the kind itself."""
    return _FAMILIES.get(kind, kind)


def kind_group(kind: str) -> int:
    """Return the class of a kind, normalisations counted as element-wise: kinds of one class may stand for each
    other."""
    if kind not in KINDS:
        return -1
    op_class = KINDS[kind].op_class
    return int(OpClass.ELEMENTWISE if op_class in (OpClass.ELEMENTWISE, OpClass.NORM) else op_class)


def leaf_ops(op: TraceOp) -> Iterator[TraceOp]:
    """Yield the operators that a model may have: known by name, or without parts. The time that a caller spends on
    calling them is divided among them; where it is more than `CALLING`, the caller is an operator of its own."""
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
