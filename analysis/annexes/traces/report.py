"""A trace beside the estimate, as a document: the tree with both, rows by node, what was not matched, gaps by cause,
and the largest surprises."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from analysis.annexes.traces.match import overlay
from analysis.annexes.traces.pairs import Overlay, Pair
from analysis.annexes.traces.record import Trace, TraceOp, kind_of
from analysis.annexes.traces.tree import Beside, MeasuredNode, measured_tree
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, about
from hardware.execute import BOUNDS

SURPRISING = 1.5  # times slower or faster than predicted, beyond the whole's own ratio
TELLING = 0.01  # share of the wall time below which nothing is a surprise
NAMED = 100  # characters of a kernel's name that tell it
_OFF = {
    "compute": "its arithmetic is off", "on_chip": "its on-chip traffic is off", "dram": "its DRAM traffic is off",
    "launch": "its launch is off", "throttled": "its power limit is off", "static": "its static part is off",
}  # fmt: skip


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Time of a run in which nothing ran, by what the host did meanwhile."""

    name: str
    time_s: float
    share: float


class Laid(msgspec.Struct, frozen=True, kw_only=True):
    """One measured operator beside what was predicted. `ratio` is measured over predicted; `share` of the wall time;
    `operators` of the model that it stands for; `bound` what the estimate says bounds them, `term` the cause of most
    of their predicted time; `copies` are calls and kernels in it that only rearrange data."""

    id: str
    type: str
    measured_s: float
    predicted_s: float
    ratio: float | None
    share: float
    operators: int
    bound: str
    term: str
    copies: str
    name: str
    kernels: str


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured and is no operator of the model, by name; or, of the model, what was not seen."""

    name: str
    type: str
    time_s: float
    share: float
    count: int


class TraceReport(Head, frozen=True, kw_only=True):
    """`wall_s` of one run = `matched_s` + `unmatched_s` + `gap_s` - `overlap_s`; `coverage` is the matched share of
    the operators' time. `predicted_with` is the runtime of the estimate; `ratio` is the measured time over the
    predicted one. `measured_energy_j` of one run without the profiler, where a run here read it."""

    format: str
    producer: str
    measured_on: str
    runs: int
    wall_s: float
    matched_s: float
    unmatched_s: float
    gap_s: float
    overlap_s: float
    coverage: float
    predicted_with: str
    predicted_s: float
    predicted_energy_j: float
    measured_energy_j: float | None = None
    missing_s: float
    ratio: float | None
    gaps: tuple[Gap, ...]
    surprises: tuple[str, ...]
    tree: MeasuredNode
    rows: tuple[Laid, ...]
    unmatched: tuple[Left, ...]
    missing: tuple[Left, ...]
    notes: tuple[str, ...]


def trace_report(trace: Trace, result: Estimate) -> TraceReport:
    """The trace laid over the estimate of the same model at the same batch."""
    laid_over = overlay(trace, result)
    trace = laid_over.trace  # of one run
    beside = Beside(laid_over, result)
    rows = tuple(_laid(pair, beside) for pair in laid_over.pairs)
    predicted_s = sum(pair.predicted_s for pair in laid_over.pairs)
    usual = laid_over.matched_s / predicted_s if predicted_s else 1.0
    rows = tuple(sorted(rows, key=lambda row: -abs(row.measured_s - row.predicted_s * usual)))
    return TraceReport(
        **about(result, on_device=True),
        format=trace.format,
        producer=trace.producer,
        measured_on=trace.device,
        runs=trace.runs,
        wall_s=trace.wall_s,
        matched_s=laid_over.matched_s,
        unmatched_s=laid_over.unmatched_s,
        gap_s=trace.gap_s,
        overlap_s=trace.overlap_s,
        coverage=laid_over.coverage,
        predicted_with=result.runtime.name,
        predicted_s=result.latency_s,
        predicted_energy_j=result.energy_j,
        missing_s=laid_over.missing_s,
        ratio=usual if predicted_s else None,
        gaps=tuple(Gap(name=name, time_s=spent, share=spent / trace.wall_s) for name, spent in trace.gaps if spent > 0),
        surprises=_surprises(rows, laid_over, usual),
        tree=measured_tree(beside),
        rows=rows,
        unmatched=_left(laid_over.strangers, trace.wall_s),
        missing=_missing(laid_over, result),
        notes=trace.notes,
    )


def _laid(pair: Pair, beside: Beside) -> Laid:
    result, ops = beside.result, beside.result.workload.operators
    main = max(pair.operators, key=lambda i: result.demand.macs[i])
    others = len(pair.operators) - 1
    several = f"all {others + 1} of {ops.kind[main]}" if pair.op.count > 1 and others else ""
    return Laid(
        id=several or ops.path[main] + (f" +{others}" if others else ""),
        type=ops.kind[main],
        measured_s=pair.op.seconds,
        predicted_s=pair.predicted_s,
        ratio=pair.op.seconds / pair.predicted_s if pair.predicted_s else None,
        share=pair.op.seconds / beside.laid_over.trace.wall_s,
        operators=len(pair.operators),
        bound=BOUNDS[int(result.run.bound[result.demand.kernel[main]])],
        term=beside.terms[main],
        copies=", ".join(dict.fromkeys(_copies(pair.op)))[:200],
        name=pair.op.name,
        kernels=", ".join(dict.fromkeys(_kernels(pair.op)))[:400],
    )


def _copies(op: TraceOp) -> list[str]:
    """What inside an operator that is none itself only moves data."""
    if op.kind == "copy":
        return []
    inner = [part.name for part in op.parts if part.kind == "copy" and part.seconds > TELLING * op.seconds]
    kernels = [name for name in op.kernels if kind_of(name) == "copy"]
    return [*inner, *kernels, *(name for part in op.parts for name in _copies(part))]


def _kernels(op: TraceOp) -> list[str]:
    return [*op.kernels, *(name for part in op.parts for name in _kernels(part))]


def _left(ops: Sequence[TraceOp], wall_s: float) -> tuple[Left, ...]:
    """Measured operators by name, the longest first."""
    named: dict[str, list[TraceOp]] = {}
    for op in ops:
        named.setdefault(op.name, []).append(op)
    rows = [
        Left(name=name, type=mine[0].kind, time_s=spent, share=spent / wall_s, count=len(mine))
        for name, mine in named.items()
        if (spent := sum(op.seconds for op in mine)) > 0
    ]
    return tuple(sorted(rows, key=lambda row: -row.time_s))


def _missing(laid_over: Overlay, result: Estimate) -> tuple[Left, ...]:
    """Operators of the model that the trace does not show, with the time predicted for them."""
    ops, latency = result.workload.operators, result.run.latency_s
    rows = [
        Left(
            name=ops.path[i],
            type=ops.kind[i],
            time_s=float(latency[i]),
            share=float(latency[i]) / result.latency_s,
            count=1,
        )
        for i in laid_over.missing
    ]
    return tuple(sorted(rows, key=lambda row: -row.time_s))


def _surprises(rows: Sequence[Laid], laid_over: Overlay, usual: float) -> tuple[str, ...]:
    """What explains most of the difference, in words: gaps, what the estimate does not have, and of the nodes, those
    that differ most first, the ones that differ more than the whole does."""
    wall_s = laid_over.trace.wall_s
    said = []
    if laid_over.trace.gap_s > TELLING * wall_s:
        by = [f"{seconds / wall_s:.0%} {name}" for name, seconds in laid_over.trace.gaps if seconds > TELLING * wall_s]
        why = ", ".join(by) or "host, data loading or copies"
        said.append(f"nothing ran for {laid_over.trace.gap_s / wall_s:.0%} of the time: {why}")
    said += [
        f"{left.name[:NAMED]}, {left.count}x: {left.share:.0%} of the time, which the estimate does not have"
        for left in _left(laid_over.strangers, wall_s)[:3]
        if left.share > TELLING
    ]
    compared = [(row, row.ratio / usual) for row in rows if row.ratio and row.share > TELLING]
    odd = [(row, times) for row, times in compared if not 1 / SURPRISING < times < SURPRISING]
    for row, times in odd[:5]:
        against = f"{times:.1f}x as slow" if times > 1 else f"{1 / times:.1f}x as fast"
        why = f"copies in it that the estimate does not have: {row.copies}" if row.copies else _OFF[row.term]
        said.append(
            f"{row.id} ({row.type}), {row.share:.0%} of the time: {against} against its estimate as the rest; {why}"
        )
    return tuple(said)
