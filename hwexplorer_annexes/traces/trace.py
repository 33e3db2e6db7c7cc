"""Compare a measured trace with the prediction, operator by operator.

The document has a tree and rows with measured and predicted times, unmatched operators, gaps by cause, and the largest
differences. Views of the screen get measured times through hwexplorer/views/tree_view.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from hwexplorer.extend import (
    RequestError,
    causes,
    declare,
    document,
    engine,
    estimate,
    exact_value,
    execute,
    figures,
    file_access,
    group_by,
    memoize,
    model_errors,
    options,
    runtime,
    setup,
    text,
    tree_view,
    workload,
)
from hwexplorer.extend import state as states
from hwexplorer_annexes.traces.alignment import (
    Alignment,
    MatchedPair,
    align_trace,
    describe_difference,
    describe_other_runtime,
)
from hwexplorer_annexes.traces.trace_record import Trace, TraceError, TraceOp, TraceReading, operator_kind

percent, quantity = text.percent, text.quantity
SURPRISING = 1.5  # least ratio of an operator over the ratio of the whole run
RELEVANT = 0.01  # least share of the wall time of a surprise
NAMED = 100  # characters of a kernel's name in a surprise
NAME, TIME, SHARE = document.column("Name"), document.column("Time", "s", key="seconds"), document.column("Share", "%")
RATIO = document.column("Ratio", "x", role="quantity", help="measured over predicted")
OF_WALL = document.column("Share", "%", keep=1, help="share of the wall time of one run")
TERM = document.column("Mostly", keep=2, help="the largest part of the predicted time")
_TERMS = {
    "compute": "arithmetic", "on_chip": "on-chip traffic", "dram": "DRAM traffic", "launch": "launch",
    "throttled": "power limit", "static": "static power",
}  # fmt: skip


class MeasuredTime(msgspec.Struct, frozen=True, kw_only=True):
    """Measured time of some operators. `predicted_s` and `ratio` (measured over predicted) cover traced operators;
    `missing_s` is the predicted time of the others. `share` is a share of the wall time. `term` is the cause of
    predicted time whose operators make most of the difference."""

    measured_s: Annotated[float, document.column("Measured", "s")]
    predicted_s: Annotated[float, document.column("Predicted", "s")]
    ratio: Annotated[float | None, RATIO]
    share: Annotated[float, OF_WALL]
    term: Annotated[str, TERM]
    missing_s: Annotated[
        float, document.column("Missing", "s", keep=4, help="predicted for operators not in the trace")
    ]


class MeasuredNode(MeasuredTime, frozen=True, kw_only=True):
    """A node of the tree with its measured time, which is the sum over its children."""

    id: str
    name: Annotated[str, document.column("Node")]
    kind: str
    children: tuple[MeasuredNode, ...] = ()


def measure_operators(trace: Trace, result: estimate.Estimate) -> MeasuredOperators:
    """Align a trace with the estimate of the same model at the same batch. Times of kernels on a device are compared
    with the seconds on the device, without waits for a host that dispatches them."""
    if trace.on_device and not result.device.arch.is_host:
        none = exact_value(0.0)
        alone = msgspec.structs.replace(result.runtime, dispatch=none, dispatch_on={}, prompt_dispatch=none)
        run = execute.execute(result.demand, msgspec.structs.replace(result.setup, runtime=alone))
        result = msgspec.structs.replace(result, run=run)
    return MeasuredOperators(align_trace(trace, result), result)


class MeasuredOperators:
    """A trace aligned with an estimate, by operator of the model: `measured_s`, `is_seen` and `terms`, the predicted
    cause that is most likely wrong, each (n,). The time of a shared kernel is divided by predicted time."""

    def __init__(self, alignment: Alignment, result: estimate.Estimate) -> None:
        self.alignment, self.result = alignment, result
        n, latency = result.workload.n_operators, result.run.latency_s
        self.measured_s, self.is_seen = np.zeros(n), np.zeros(n, dtype=np.bool_)
        for pair in alignment.pairs:
            members = list(pair.operators)
            even = np.full(len(members), 1.0 / len(members))
            part = latency[members] / pair.predicted_s if pair.predicted_s > 0 else even
            self.measured_s[members], self.is_seen[members] = part * pair.op.seconds, True
        # The cause of most predicted time, without the launch if the excess is longer than the predicted launch.
        time_s = causes.causes(result).time_s.copy()
        time_s[causes.LAUNCH_CAUSE, self.measured_s - latency > time_s[causes.LAUNCH_CAUSE]] = 0.0
        self.terms = [causes.CAUSES[i] for i in time_s.argmax(axis=0).tolist()]

    @property
    def seconds(self) -> workload.Floats:
        """Measured seconds of each operator, (n,), NaN for operators that are not in the trace."""
        return np.where(self.is_seen, self.measured_s, np.nan)

    def time(self, members: Sequence[int] | workload.Ints) -> MeasuredTime:
        """Return the measured time of these operators."""
        indices, latency = np.asarray(members), self.result.run.latency_s
        traced = indices[self.is_seen[indices]]
        spent_s, expected_s = float(self.measured_s[traced].sum()), float(latency[traced].sum())
        difference, by_term = (self.measured_s - latency)[traced], np.array(self.terms)[traced]
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
    """Return the tree of subgraphs and operators with measured and predicted times."""
    result, parts = measured.result, measured.result.partition

    def node(
        id: str, name: str, kind: str, members: Sequence[int], children: tuple[MeasuredNode, ...] = ()
    ) -> MeasuredNode:
        """Return a node with the times of its operators `members`."""
        time = msgspec.structs.asdict(measured.time(members))
        return MeasuredNode(id=id, name=name, kind=kind, children=children, **time)

    paths, subgraphs = result.workload.operators.path, []
    for s, members in enumerate(parts.members):
        several = members if len(members) > 1 else ()
        inner = tuple(node(parts.operator_id[i], paths[i], "operator", (i,)) for i in several)
        subgraphs.append(node(parts.id[s], parts.id[s], "subgraph", members, inner))
    return node("", result.workload.name, "model", range(result.workload.n_operators), tuple(subgraphs))


class TraceGap(msgspec.Struct, frozen=True, kw_only=True):
    """Idle time of the device in a run, with its cause on the host."""

    name: Annotated[str, NAME]
    time_s: Annotated[float, TIME]
    share: Annotated[float, SHARE]


class ComparedOperator(msgspec.Struct, frozen=True, kw_only=True):
    """One measured operator and its prediction. `ratio` is measured over predicted, `share` a share of the wall time,
    `operators` the number of the model's operators in it. `bound` and `term` are their predicted bound and cause of
    time. `copies` are calls and kernels in it that only rearrange data."""

    id: Annotated[str, document.column("Node", help="operator of the model; +n others ran in its kernel")]
    type: Annotated[str, document.column("Kind", keep=2)]
    measured_s: Annotated[float, document.column("Measured", "s")]
    predicted_s: Annotated[float, document.column("Predicted", "s")]
    ratio: Annotated[float | None, RATIO]
    share: Annotated[float, OF_WALL]
    operators: int
    bound: Annotated[str, document.column("Bound", keep=3, help="its limit, by the estimate")]
    term: Annotated[str, TERM]
    copies: Annotated[str, document.column("Copies in it", keep=5, help="calls inside it that only move data")]
    name: Annotated[str, document.column("Measured as", keep=4)]
    kernels: str


class UnmatchedRow(msgspec.Struct, frozen=True, kw_only=True):
    """Measured operators of one name that are not in the model, or a model's operator that is not in the trace."""

    name: Annotated[str, NAME]
    type: Annotated[str, document.column("Kind")]
    time_s: Annotated[float, TIME]
    share: Annotated[float, SHARE]
    count: Annotated[int, document.column("Times", "count", keep=2)]


class TraceReport(figures.Head, frozen=True, kw_only=True):
    """`wall_s` of one run = `matched_s` + `unmatched_s` + `gap_s` - `overlap_s`. `coverage` is the matched share of the
    operators' time. `predicted_with` is the runtime of the estimate. `ratio` is measured over predicted time of matched
    operators. `incomplete` is a warning if the trace is of another model, batch or device, else ''."""

    incomplete: str
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
    missing_s: float
    ratio: float | None
    gaps: tuple[TraceGap, ...]
    surprises: tuple[str, ...]
    tree: MeasuredNode
    rows: tuple[ComparedOperator, ...]
    unmatched: tuple[UnmatchedRow, ...]
    missing: tuple[UnmatchedRow, ...]
    notes: tuple[str, ...]


def make_trace_report(trace: Trace, result: estimate.Estimate) -> TraceReport:
    """Compare the trace with the estimate of the same model at the same batch."""
    return report_measured(measure_operators(trace, result))


def report_measured(measured: MeasuredOperators) -> TraceReport:
    """Return the report of a trace that is aligned with an estimate."""
    alignment, result = measured.alignment, measured.result
    trace = alignment.trace  # of one run
    predicted_s = sum(pair.predicted_s for pair in alignment.pairs)
    ratio = alignment.matched_s / predicted_s if predicted_s else 1.0
    rows = [_measured_row(pair, measured) for pair in alignment.pairs]
    rows.sort(key=lambda row: -abs(row.measured_s - row.predicted_s * ratio))
    unmatched = _unmatched_rows(alignment.strangers, trace.wall_s)
    return document.record(
        TraceReport,
        trace,
        alignment,
        **figures.head_fields(result, on_device=True),
        incomplete=describe_difference(alignment, result),
        measured_on=trace.device,
        predicted_with=result.runtime.name,
        predicted_s=result.latency_s,
        predicted_energy_j=result.energy_j,
        ratio=ratio if predicted_s else None,
        gaps=tuple(
            TraceGap(name=name, time_s=seconds, share=seconds / trace.wall_s)
            for name, seconds in trace.gaps
            if seconds > 0
        ),
        surprises=_surprises(trace, rows, unmatched, ratio),
        tree=measured_tree(measured),
        rows=tuple(rows),
        unmatched=unmatched,
        missing=_missing_rows(alignment, result),
        notes=(*describe_other_runtime(trace, result), *trace.notes),
    )


def _measured_row(pair: MatchedPair, measured: MeasuredOperators) -> ComparedOperator:
    result, ops = measured.result, measured.result.workload.operators
    main = max(pair.operators, key=lambda i: result.demand.macs[i])
    others = len(pair.operators) - 1
    several = f"all {others + 1} of {ops.kind[main]}" if pair.op.count > 1 and others else ""
    return ComparedOperator(
        id=several or ops.path[main] + (f" ({others} fused)" if others else ""),
        type=ops.kind[main],
        measured_s=pair.op.seconds,
        predicted_s=pair.predicted_s,
        ratio=pair.op.seconds / pair.predicted_s if pair.predicted_s else None,
        share=pair.op.seconds / measured.alignment.trace.wall_s,
        operators=len(pair.operators),
        bound=execute.BOUNDS[int(result.run.bound[result.demand.kernel[main]])],
        term=measured.terms[main],
        copies=", ".join(dict.fromkeys(_copy_names(pair.op)))[:200],
        name=pair.op.name,
        kernels=", ".join(dict.fromkeys(_kernel_names(pair.op)))[:400],
    )


def _copy_names(op: TraceOp) -> list[str]:
    """Return the calls and kernels inside an operator that only move data; none if the operator is itself a copy."""
    if op.kind == "copy":
        return []
    inner = [part.name for part in op.parts if part.kind == "copy" and part.seconds > RELEVANT * op.seconds]
    kernels = [name for name in op.kernels if operator_kind(name) == "copy"]
    return [*inner, *kernels, *(name for part in op.parts for name in _copy_names(part))]


def _kernel_names(op: TraceOp) -> list[str]:
    return [*op.kernels, *(name for part in op.parts for name in _kernel_names(part))]


def _unmatched_rows(ops: Sequence[TraceOp], wall_s: float) -> tuple[UnmatchedRow, ...]:
    rows = [
        UnmatchedRow(name=name, type=group[0].kind, time_s=spent_s, share=spent_s / wall_s, count=len(group))
        for name, group in group_by(ops, lambda op: op.name).items()
        if (spent_s := sum(op.seconds for op in group)) > 0
    ]
    return tuple(sorted(rows, key=lambda row: -row.time_s))


def _missing_rows(alignment: Alignment, result: estimate.Estimate) -> tuple[UnmatchedRow, ...]:
    ops, latency = result.workload.operators, result.run.latency_s.tolist()
    rows = [
        UnmatchedRow(
            name=ops.path[i], type=ops.kind[i], time_s=latency[i], share=latency[i] / result.latency_s, count=1
        )
        for i in alignment.missing
    ]
    return tuple(sorted(rows, key=lambda row: -row.time_s))


def _surprises(
    trace: Trace, rows: Sequence[ComparedOperator], unmatched: Sequence[UnmatchedRow], ratio: float
) -> tuple[str, ...]:
    """Return sentences that explain most of the difference: gaps, operators that the estimate does not have, and nodes
    that differ from their prediction by more than the whole run does."""
    lines = []
    if trace.gap_s > RELEVANT * trace.wall_s:
        shares = [(name, seconds / trace.wall_s) for name, seconds in trace.gaps]
        reasons = ", ".join(f"{name} ({percent(share)})" for name, share in shares if share > RELEVANT)
        why = reasons or "the host, data loading or copies"
        lines.append(f"the device was idle for {percent(trace.gap_s / trace.wall_s)} of the run, waiting for {why}")
    lines += [
        f"{row.name[:NAMED]} ({text.count_noun(row.count, 'call')}) takes {percent(row.share)} of the run; the "
        "prediction has no such operator"
        for row in unmatched[:3]
        if row.share > RELEVANT
    ]
    ratios = [(row, row.ratio / ratio) for row in rows if row.ratio and row.share > RELEVANT]
    odd = [(row, times) for row, times in ratios if not 1 / SURPRISING < times < SURPRISING]
    for row, times in odd[:5]:
        words = f"{times:.1f}x slower" if times > 1 else f"{1 / times:.1f}x faster"
        why = (
            f"it contains copies that were not predicted: {row.copies}"
            if row.copies
            else f"its predicted time is mostly {_TERMS[row.term]}"
        )
        lines.append(
            f"{row.type} {row.id} takes {percent(row.share)} of the run and is {words} against its prediction "
            f"than the other operators: {why}"
        )
    return tuple(lines)


MOST_NAMES = 3  # shown of the names that a trace has for a node


_KEPT = 4  # files in the cache, as traces or errors
_traces: dict[file_access.Stamp, Trace | TraceError] = {}


def _keep_trace(stamp: file_access.Stamp, trace: Trace | TraceError) -> None:
    _traces[stamp] = trace
    for old in list(_traces)[:-_KEPT]:
        _traces.pop(old, None)


def is_read(file: str) -> bool:
    """Return True if the present version of the file has been read, or if the file cannot be accessed."""
    try:
        return file_access.stamp(file) in _traces
    except RequestError:
        return True


def reading_job(file: str) -> TraceReading:
    """Return the job that reads a trace in a child process and caches the result."""
    return TraceReading(file, _keep_trace)


def load_trace(file: str) -> Trace:
    """Return a trace, and read it first if it is not in the cache. Raises TraceError."""
    stamp = file_access.stamp(file)
    if stamp not in _traces:
        with suppress(model_errors.ModelError):  # the cache has the error
            reading_job(file).run()
    trace = _traces[stamp]
    if isinstance(trace, TraceError):
        raise trace
    return trace


@memoize(keep=2)
def _measured_operators(result: estimate.Estimate, trace: Trace) -> MeasuredOperators:
    return measure_operators(trace, result)


@memoize(keep=2)
def _report(measured: MeasuredOperators) -> TraceReport:
    return report_measured(measured)


def measured_operators(state: states.State, result: estimate.Estimate) -> MeasuredOperators | None:
    """Return the state's trace, aligned with the estimate. Return None if the trace cannot be read."""
    try:
        return _measured_operators(result, load_trace(state.trace))
    except RequestError:
        return None


def under_runtime(state: states.State) -> states.State:
    """Return the state with the runtime of its trace, if the state has `auto` and the device can run it."""
    try:
        trace = load_trace(state.trace)
    except RequestError:
        return state
    result = engine.result(state)
    if state.execution == runtime.AUTO and trace.runtime:
        known = setup.find_runtime(result.device, trace.runtime)
        if known is not None and known.fits(result.device, result.workload.work):
            return states.replace(state, execution=trace.runtime)
    return state


def trace_notes(state: states.State, result: estimate.Estimate) -> tuple[str, ...]:
    """Return lines on how the trace and the estimate agree, or why the trace cannot be read."""
    try:
        trace = load_trace(state.trace)
        report = _report(_measured_operators(result, trace))
    except RequestError as error:
        return (str(error),)
    return (
        *((report.incomplete,) if report.incomplete else ()),
        *report_lines(report)[:3],
        *describe_other_runtime(trace, result),
    )


def node_lines(measured: MeasuredOperators, members: workload.Ints) -> tuple[str, ...]:
    """Return the measured time of a node and its names in the trace; for the model, the report on the trace instead of
    names."""
    time, result = measured.time(members), measured.result
    if not measured.is_seen[members].any():
        return (f"not in the trace; predicted {quantity(time.missing_s, 's')}",)
    against = "" if time.ratio is None else f", {tree_view.compare_times(time.measured_s, time.predicted_s)}"
    mostly = f" (mostly {tree_view.TERMS[time.term]})" if time.term else ""
    lines = [f"measured {quantity(time.measured_s, 's')}{against}{mostly}; {percent(time.share, 1)} of the run"]
    if time.missing_s > 0:
        lines.append(f"predicted {quantity(time.missing_s, 's')} for operators that the trace does not show")
    if len(members) == result.workload.n_operators:
        return (*lines, *report_lines(_report(measured))[1:])
    inside = set(members.tolist())
    ops = [pair.op for pair in measured.alignment.pairs if inside & set(pair.operators)]
    ops.sort(key=lambda op: -op.seconds)
    lines += [f"as {op.name}, {quantity(op.seconds, 's')}{_inner_names(op)}" for op in ops[:MOST_NAMES]]
    return (*lines, *((f"and {len(ops) - MOST_NAMES} more",) if len(ops) > MOST_NAMES else ()))


def _inner_names(op: TraceOp) -> str:
    names = dict.fromkeys([*op.kernels, *(part.name for part in op.parts)])
    shown = [name for name in names if name != op.name][:MOST_NAMES]
    return f": {', '.join(shown)}" if shown else ""


def report_lines(report: TraceReport) -> tuple[str, ...]:
    """Return the time of a run, the parts that add up to it, the largest surprises, and the notes."""
    wall_s = report.wall_s
    matched, unmatched, idle = (part / wall_s * 100 for part in (report.matched_s, report.unmatched_s, report.gap_s))
    at_once = f"; {percent(report.overlap_s / wall_s, 1)} ran at the same time as others" if report.overlap_s else ""
    where = f" on {report.measured_on}" if report.measured_on else ""
    return (
        f"a run took {quantity(wall_s, 's')}, {tree_view.compare_times(wall_s, report.predicted_s)}",
        f"measured by {report.producer}{where}, mean of {text.count_noun(report.runs, 'run')}; predicted with "
        f"{report.predicted_with}",
        f"of a run {matched:.1f} % are operators of the model, {unmatched:.1f} % others, {idle:.1f} % idle{at_once}",
        *report.surprises,
        *report.notes,
    )


_TERM = {"shown": tree_view.TERMS}
NODES = document.columns(ComparedOperator, "id type measured predicted ratio share term bound name copies", term=_TERM)
TREE = document.columns(MeasuredNode, "name measured predicted ratio share term missing", term=_TERM)
UNMATCHED = document.columns(UnmatchedRow)


def _document(state: states.State, file: Path) -> TraceReport:
    trace = load_trace(str(file))
    return make_trace_report(trace, engine.result(under_runtime(states.replace(state, trace=str(file)))))


def _run(arguments: argparse.Namespace, print_report: Callable[[argparse.Namespace], None]) -> None:
    if arguments.model is None:
        load_trace(str(arguments.file))  # a wrong file is the first error
        raise RequestError(f"the traced model is unknown: trace MODEL {arguments.file}")
    print_report(arguments)


def _title(report: TraceReport, state: states.State) -> str:
    """Return the subject with the runtime of the prediction: the runtime of the trace if the state has `auto` and the
    device can run it."""
    subject = f"{report.model}, batch {report.batch}, {report.precision}"
    return f"Measured and predicted time of {subject}, {report.predicted_with} on {engine.device(state.on).label}"


_FIRST = {"optional": True, "first": 3}
VERB = declare.Report(
    subject=declare.Subject(
        options=(
            options.or_default(options.MODEL, None),
            *options.SCENARIO,
            *options.OWN_MODEL,
            options.ON_ONE,
        )
    ),
    options=(
        options.option(
            "file",
            type=Path,
            metavar="FILE",
            help="trace of PyTorch, ONNX Runtime, trtexec, Nsight Systems or OpenVINO; also .gz",
        ),
    ),
    run=_run,
    document=_document,
    title=_title,
    parts=(
        declare.summary_text(lambda report, state: report_lines(report)),
        declare.Rows("gaps", "Idle time, by what the host did", document.columns(TraceGap), key="name", optional=True),
        declare.Rows(
            "tree", "By subgraph", TREE, key="id", kind="kind", children=lambda node: node.children,
            of=lambda report: sorted(report.tree.children, key=lambda node: -node.measured_s),
            without=lambda report: () if report.missing_s else ("missing",), brief={"children": None, "first": 10},
        ),
        declare.Rows("unmatched", "Measured, but not in the model", UNMATCHED, key="name", brief=_FIRST),
        declare.Rows(
            "missing", "In the model, but not in the trace (predicted time)", UNMATCHED, key="name", brief=_FIRST
        ),
        declare.Rows("rows", "By node", NODES, kind="type"),
    ),
    brief_parts=("summary", "tree", "unmatched", "missing"),
    main="rows",
    on_screen=False,
    shown=("resnet50 trace.json --on t4 --batch 8",),
)  # fmt: skip
