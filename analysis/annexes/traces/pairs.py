"""What a trace laid over an estimate consists of: pairs of measured and predicted operators, and what is left on
either side; and which kinds of operators may stand for each other."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from analysis.annexes.traces.record import NAMES, Trace, TraceOp
from analysis.model.ir.operator_kinds import KINDS
from hardware.demand import OpClass

_FAMILIES: dict[str, str] = {kind: names[0] for names in NAMES["same"] for kind in names}

CALLING = 0.2  # of a caller's time is what it spends itself at most, where it only calls others


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured beside what was predicted for it: indices of operators of the model, the measured operator."""

    operators: tuple[int, ...]
    op: TraceOp
    predicted_s: float

    @property
    def ratio(self) -> float:
        """Measured over predicted."""
        return self.op.seconds / self.predicted_s if self.predicted_s > 0 else float("inf")


class Overlay(msgspec.Struct, frozen=True, kw_only=True):
    """All pairs; measured operators that are none of the model's; operators of the model that were not seen."""

    trace: Trace
    pairs: tuple[Pair, ...]
    strangers: tuple[TraceOp, ...]
    missing: tuple[int, ...]
    missing_s: float

    @property
    def matched_s(self) -> float:
        return sum(pair.op.seconds for pair in self.pairs)

    @property
    def unmatched_s(self) -> float:
        return sum(op.seconds for op in self.strangers)

    @property
    def coverage(self) -> float:
        """Share of the measured operators' time that is some operator's of the model."""
        spent = self.matched_s + self.unmatched_s
        return self.matched_s / spent if spent else 0.0


def family(kind: str) -> str:
    """The kind, or the first of those that tools do not tell apart from it."""
    return _FAMILIES.get(kind, kind)


def group(kind: str) -> int:
    """Classes of operators that may stand for each other at a pinch."""
    if kind not in KINDS:
        return -1
    op_class = KINDS[kind].op_class
    return int(OpClass.ELEMENTWISE if op_class in (OpClass.ELEMENTWISE, OpClass.NORM) else op_class)


def leaves(op: TraceOp) -> Iterator[TraceOp]:
    """Operators that a model may have: known by name, or without parts. What a caller spends itself on calling them is
    theirs, in proportion; where it is so much that the caller must do something of its own, it is kept apart."""
    if op.kind or not op.parts:
        yield op
        return
    within_s = sum(part.seconds for part in op.parts)
    own_s = op.seconds - within_s
    if own_s <= CALLING * op.seconds:
        for part in op.parts:
            yield from leaves(_longer(part, op.seconds / within_s))
        return
    for part in op.parts:
        yield from leaves(part)
    yield msgspec.structs.replace(op, name=f"{op.name}, itself", seconds=own_s, parts=())


def _longer(op: TraceOp, factor: float) -> TraceOp:
    """The operator and what it calls with their share of what calling them takes."""
    parts = tuple(_longer(part, factor) for part in op.parts)
    return msgspec.structs.replace(op, seconds=op.seconds * factor, parts=parts)
