"""Matched pairs of measured and predicted operators, the rest on either side, and the kinds that may be matched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from analysis.annexes.traces.trace_record import NAMES, Trace, TraceOp
from analysis.estimate.estimate import Estimate
from analysis.model.ir.operator_kinds import KINDS
from hardware.demand import OpClass

CALLING = 0.2  # of a caller's time is the most it spends itself where it only calls others
_FAMILIES: dict[str, str] = {kind: names[0] for names in NAMES["same"] for kind in names}


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
