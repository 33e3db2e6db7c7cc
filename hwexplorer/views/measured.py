"""Measured times beside predicted ones in every view, where the state names a trace."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from analysis.annexes.traces.match import overlay
from analysis.annexes.traces.read import read
from analysis.annexes.traces.record import Trace, TraceOp
from analysis.annexes.traces.report import TraceReport, trace_report
from analysis.annexes.traces.tree import Beside
from analysis.document import Cell
from analysis.estimate.causes import CAUSES
from analysis.estimate.estimate import Estimate
from analysis.estimate.tree import operators_of
from analysis.model.ir.workload import Ints
from hardware.errors import RequestError
from hardware.quantity import quantity
from hardware.remember import remembered
from hardware.runtime import AUTO, record
from hwexplorer import engine
from hwexplorer.state import State, replace
from hwexplorer.views.causes import LOOKS
from hwexplorer.views.plain import Stack, Step

TERMS = {"": "", **{cause: look.name for cause, look in zip(CAUSES, LOOKS, strict=True)}}
SOME = 3  # of the names that a node was measured as


@lru_cache(maxsize=2)
def _trace(path: Path, stamp: tuple[int, int]) -> Trace:
    return read(path)


def trace(file: str) -> Trace:
    """The trace in a file, read anew when the file is another. Raises RequestError."""
    path = Path(file).expanduser()
    try:
        stat = path.stat()
    except (OSError, ValueError) as error:
        raise RequestError(f"{path.name[:60]}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    return _trace(path, (stat.st_mtime_ns, stat.st_size))


@remembered(keep=2)
def _beside(result: Estimate, measured: Trace) -> Beside:
    return Beside(overlay(measured, result), result)


@remembered(keep=2)
def _report(result: Estimate, measured: Trace) -> TraceReport:
    return trace_report(measured, result)


def under(state: State, measured: Trace) -> State:
    """The state with what ran the trace and the lengths that it ran, where the state leaves that open and the model
    and the device can have it."""
    result = engine.result(state)
    if state.execution == AUTO and measured.runtime:
        runtime = record(result.device, measured.runtime)
        if runtime is not None and runtime.fits(result.device, result.workload.work):
            state = replace(state, execution=measured.runtime)
    if state.sequence is None and state.kv is None:
        test = next((op for op in measured.ops if measured.is_tests and op.kind == result.workload.kind), None)
        state = of_test(state, test) if test is not None else state
    return state


def of_test(state: State, test: TraceOp) -> State:
    """The state at the lengths of a test of llama-bench: a prompt, or a token in the middle of those it makes."""
    if test.kind == "prefill":
        return replace(state, sequence=test.count, kv=test.result[0])
    return replace(state, sequence=None, kv=test.result[0] + test.count // 2)


class Test(msgspec.Struct, frozen=True, kw_only=True):
    """A test of llama-bench beside its own estimate: a prompt, or a token of those it makes."""

    name: str
    type: str
    measured_s: float
    predicted_s: float
    ratio: float


def tests(state: State, measured: Trace) -> tuple[Test, ...]:
    """Every test that is of a phase the model has, each beside an estimate at its lengths."""
    found = []
    for op in measured.ops if measured.is_tests else ():
        if op.kind == "request":
            continue
        phase = ":decode" if op.kind == "decode" else ""
        predicted = engine.result(of_test(replace(state, model=state.model.partition(":")[0] + phase), op)).latency_s
        spent = op.seconds / (op.count if phase else 1)
        name = f"one of {op.name}" if phase else op.name
        found.append(Test(name=name, type=op.kind, measured_s=spent, predicted_s=predicted, ratio=spent / predicted))
    return tuple(found)


def beside(state: State, result: Estimate) -> Beside | None:
    """The trace that the state names beside the estimate; None where it names none, or one that cannot be read."""
    try:
        return _beside(result, trace(state.trace)) if state.trace else None
    except RequestError:
        return None


def said(state: State, result: Estimate) -> tuple[str, ...]:
    """In a line how the trace and the estimate agree, or why the trace cannot be read."""
    try:
        measured = trace(state.trace)
        report = _report(result, measured)
    except RequestError as error:
        return (str(error),)
    idle, unmatched = report.gap_s / report.wall_s, report.unmatched_s / report.wall_s
    ran = record(result.device, measured.runtime)
    other = ran is not None and ran.id != result.runtime.id
    return (
        f"{report.producer}: {quantity(report.wall_s, 's')} a run, {report.coverage:.0%} of the operators' time is on "
        f"a node; not matched {unmatched:.0%}, nothing ran {idle:.0%}",
        *((f"the trace is of {ran.name}, the estimate of {result.runtime.name}",) if ran and other else ()),
    )


def cells(found: Beside, members: Sequence[int] | Ints) -> tuple[Cell, ...]:
    """Measured seconds, their ratio to the predicted ones, and the term that is off; empty where nothing was seen."""
    of = found.of(members)
    return (None, None, "") if of.ratio is None else (of.measured_s, of.ratio, TERMS[of.term])


def steps(found: Beside, members: Ints, predicted: Sequence[Step]) -> tuple[Step, ...]:
    """The waterfall with what was measured as its last bar, in the colour of the term that is off; on one scale."""
    of, total_s = found.of(members), sum(step.seconds for step in predicted)
    if not found.seen[members].any() or total_s <= 0:
        return tuple(predicted)
    shrunk = total_s / max(total_s, of.measured_s)
    scaled = [
        Step(step.name, step.seconds, step.start * shrunk, Stack([part * shrunk for part in step.bar.parts]))
        for step in predicted
    ]
    bar = Stack([of.measured_s / total_s * shrunk * (cause == of.term) for cause in CAUSES])
    return (*scaled, Step("measured", of.measured_s, 0.0, bar))


def section(found: Beside, members: Ints) -> tuple[str, ...]:
    """What was measured of a node and as what; of the model also what was not matched, and why nothing ran."""
    of, result = found.of(members), found.result
    if not found.seen[members].any():
        return (f"not in the trace; predicted {quantity(of.missing_s, 's')}",)
    ratio = "" if of.ratio is None else f" = {of.ratio:.3g}x the {quantity(of.predicted_s, 's')} predicted"
    off = f", most of the difference where {TERMS[of.term]} is what costs" if of.term else ""
    lines = [f"measured {quantity(of.measured_s, 's')}{ratio}{off}; {of.share:.1%} of the wall time"]
    if of.missing_s > 0:
        lines.append(f"predicted {quantity(of.missing_s, 's')} for operators that the trace does not show")
    if len(members) == result.workload.n_operators:
        return (*lines, *summary(_report(result, found.laid_over.trace))[1:])
    inside = set(members.tolist())
    ops = [pair.op for pair in found.laid_over.pairs if inside & set(pair.operators)]
    ops.sort(key=lambda op: -op.seconds)
    lines += [f"as {op.name}, {quantity(op.seconds, 's')}{_made_of(op)}" for op in ops[:SOME]]
    return (*lines, *((f"and {len(ops) - SOME} more",) if len(ops) > SOME else ()))


def _made_of(op: TraceOp) -> str:
    """What ran in it, where that has names of its own."""
    names = dict.fromkeys([*op.kernels, *(part.name for part in op.parts)])
    told = [name for name in names if name != op.name][:SOME]
    return f": {', '.join(told)}" if told else ""


def summary(report: TraceReport) -> tuple[str, ...]:
    """The answer first: what a run took, what it adds up to, and the largest surprises."""
    wall = report.wall_s
    matched, unmatched, idle = (part / wall for part in (report.matched_s, report.unmatched_s, report.gap_s))
    at_once = f" - at once {report.overlap_s / wall:.1%}" if report.overlap_s else ""
    where = f" on {report.measured_on}" if report.measured_on else ""
    return (
        f"{report.producer}{where}: {quantity(wall, 's')} a run, mean of {report.runs}; "
        f"predicted {quantity(report.predicted_s, 's')} with {report.predicted_with}",
        f"matched {matched:.1%} + not matched {unmatched:.1%} + nothing ran {idle:.1%}{at_once} = 100 %; "
        f"{report.coverage:.1%} of the operators' time is some operator's of the model",
        *report.surprises,
        *report.notes,
    )


def nested(node: dict[str, Any], found: Beside) -> None:
    """Put what was measured into a nested node of the tree's document, and into those below it."""
    of = found.of(operators_of(found.result, node["id"]))
    if of.ratio is not None:
        node.update(measured_s=of.measured_s, ratio=of.ratio, term=of.term)
    for child in node.get("children", ()):
        nested(child, found)
