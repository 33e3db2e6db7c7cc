"""Measured times for the views, behind the door hwexplorer/views/measured_times.py."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from analysis.annexes.traces.alignment import align_trace
from analysis.annexes.traces.trace_difference import describe_other_runtime
from analysis.annexes.traces.trace_file import read_trace
from analysis.annexes.traces.trace_record import Trace, TraceOp
from analysis.annexes.traces.trace_report import MeasuredOperators, TraceReport, report_measured
from analysis.estimate.estimate import Estimate
from analysis.model.ir.workload import Ints
from hardware.errors import RequestError
from hardware.memo import memoize
from hardware.quantity import quantity
from hardware.runtime import AUTO, find_runtime
from hwexplorer import engine
from hwexplorer.state import State, replace
from hwexplorer.views.measured_times import TERMS

MOST_NAMES = 3  # that a node was measured under, shown


@lru_cache(maxsize=2)
def _cached_trace(path: Path, stamp: tuple[int, int]) -> Trace:
    return read_trace(path)


def _load_trace(file: str) -> Trace:
    path = Path(file).expanduser()
    try:
        stat = path.stat()
    except (OSError, ValueError) as error:
        raise RequestError(f"{path.name[:60]}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    return _cached_trace(path, (stat.st_mtime_ns, stat.st_size))


@memoize(keep=2)
def _measured_operators(result: Estimate, trace: Trace) -> MeasuredOperators:
    return MeasuredOperators(align_trace(trace, result), result)


@memoize(keep=2)
def _report(measured: MeasuredOperators) -> TraceReport:
    return report_measured(measured)


def measured_operators(state: State, result: Estimate) -> MeasuredOperators | None:
    """Return the trace that the state names, aligned with the estimate; None for one that cannot be read."""
    try:
        return _measured_operators(result, _load_trace(state.trace))
    except RequestError:
        return None


def under_runtime(state: State, trace: Trace) -> State:
    """Return the state with the runtime of the trace, where the state leaves it open and the device can run it."""
    result = engine.result(state)
    if state.execution == AUTO and trace.runtime:
        runtime = find_runtime(result.device, trace.runtime)
        if runtime is not None and runtime.fits(result.device, result.workload.work):
            return replace(state, execution=trace.runtime)
    return state


def state_with_trace(state: State, file: str) -> State:
    """Return the state with the trace of a file, and its runtime if the trace is of this model, batch and device.
    Raises RequestError for a file that is no trace."""
    matched = replace(under_runtime(state, _load_trace(file)), trace=file)
    measured = measured_operators(matched, engine.result(matched))
    return replace(state, trace=file) if measured is None or _report(measured).incomplete else matched


def trace_notes(state: State, result: Estimate) -> tuple[str, ...]:
    """Return lines on how the trace and the estimate agree, or why the trace cannot be read."""
    try:
        trace = _load_trace(state.trace)
        report = _report(_measured_operators(result, trace))
    except RequestError as error:
        return (str(error),)
    idle, unmatched = report.gap_s / report.wall_s, report.unmatched_s / report.wall_s
    return (
        *((report.incomplete,) if report.incomplete else ()),
        f"{report.producer}: {quantity(report.wall_s, 's')} a run, {report.coverage:.0%} of the operators' time is on "
        f"a node; not matched {unmatched:.0%}, nothing ran {idle:.0%}",
        *describe_other_runtime(trace, result),
    )


def node_lines(measured: MeasuredOperators, members: Ints) -> tuple[str, ...]:
    """Return the measured time of a node and the names it was measured under; for the model also the unmatched time
    and the causes of gaps."""
    time, result = measured.time(members), measured.result
    if not measured.is_seen[members].any():
        return (f"not in the trace; predicted {quantity(time.missing_s, 's')}",)
    ratio = "" if time.ratio is None else f" = {time.ratio:.3g}x the {quantity(time.predicted_s, 's')} predicted"
    off = f", most of the difference where {TERMS[time.term]} is what costs" if time.term else ""
    lines = [f"measured {quantity(time.measured_s, 's')}{ratio}{off}; {time.share:.1%} of the wall time"]
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
    """Return the answer first: the time of a run, the parts that add up to it, and the largest surprises."""
    wall_s = report.wall_s
    matched, unmatched, idle = (part / wall_s for part in (report.matched_s, report.unmatched_s, report.gap_s))
    at_once = f" - at once {report.overlap_s / wall_s:.1%}" if report.overlap_s else ""
    where = f" on {report.measured_on}" if report.measured_on else ""
    return (
        f"{report.producer}{where}: {quantity(wall_s, 's')} a run, mean of {report.runs}; "
        f"predicted {quantity(report.predicted_s, 's')} with {report.predicted_with}",
        f"matched {matched:.1%} + not matched {unmatched:.1%} + nothing ran {idle:.1%}{at_once} = 100 %; "
        f"{report.coverage:.1%} of the operators' time is some operator's of the model",
        *report.surprises,
        *report.notes,
    )
