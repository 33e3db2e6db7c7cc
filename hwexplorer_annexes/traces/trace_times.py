"""Measured times for the views, which ask for this reader through hwexplorer/views/measured_times.py."""

from contextlib import suppress

from hwexplorer.extend import (
    RequestError,
    engine,
    estimate,
    file_access,
    measured_times,
    memoize,
    model_errors,
    text,
    workload,
)
from hwexplorer_annexes.traces.estimate_parts import AUTO, find_runtime, percent, quantity
from hwexplorer_annexes.traces.trace_difference import describe_other_runtime
from hwexplorer_annexes.traces.trace_reading import TraceReading
from hwexplorer_annexes.traces.trace_record import Trace, TraceError, TraceOp
from hwexplorer_annexes.traces.trace_report import MeasuredOperators, TraceReport, measure_operators, report_measured
from hwexplorer_annexes.verb_parts import State, replace

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


def measured_operators(state: State, result: estimate.Estimate) -> MeasuredOperators | None:
    """Return the state's trace, aligned with the estimate. Return None if the trace cannot be read."""
    try:
        return _measured_operators(result, load_trace(state.trace))
    except RequestError:
        return None


def under_runtime(state: State) -> State:
    """Return the state with the runtime of its trace, if the state has `auto` and the device can run it."""
    try:
        trace = load_trace(state.trace)
    except RequestError:
        return state
    result = engine.result(state)
    if state.execution == AUTO and trace.runtime:
        runtime = find_runtime(result.device, trace.runtime)
        if runtime is not None and runtime.fits(result.device, result.workload.work):
            return replace(state, execution=trace.runtime)
    return state


def trace_notes(state: State, result: estimate.Estimate) -> tuple[str, ...]:
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
    against = "" if time.ratio is None else f", {measured_times.compare_times(time.measured_s, time.predicted_s)}"
    mostly = f" (mostly {measured_times.TERMS[time.term]})" if time.term else ""
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
        f"a run took {quantity(wall_s, 's')}, {measured_times.compare_times(wall_s, report.predicted_s)}",
        f"measured by {report.producer}{where}, mean of {text.count_noun(report.runs, 'run')}; predicted with "
        f"{report.predicted_with}",
        f"of a run {matched:.1f} % are operators of the model, {unmatched:.1f} % others, {idle:.1f} % idle{at_once}",
        *report.surprises,
        *report.notes,
    )
