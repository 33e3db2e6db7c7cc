"""Sums over a whole capture laid over an estimate: how many runs they hold, and each kind's time beside that of all
operators of the kind. Which of them took it cannot be told from sums."""

from __future__ import annotations

from collections import Counter, defaultdict

import msgspec

from analysis.annexes.traces.pairs import Overlay, Pair, family, group, leaves
from analysis.annexes.traces.record import Trace, TraceError, TraceOp
from analysis.estimate.estimate import Estimate
from hardware.demand import OpClass

# What a run has so many of that one counts runs by it, the most telling first: each is one kernel, seldom several.
_TELLING = ("attention", "conv", "layer_norm", "norm", "softmax", "linear")
NEAR = 0.05  # of a whole number of runs


def counted(trace: Trace, result: Estimate) -> Trace:
    """The trace per run, where the file does not say how many runs it holds: as many as its kernels of a kind are
    times those of the model. A note says so."""
    of_model = Counter(family(kind) for kind in result.workload.operators.kind)
    in_file: Counter[str] = Counter()
    for op in trace.ops:
        in_file[family(op.kind)] += op.count
    times = {kind: in_file[kind] / of_model[kind] for kind in _TELLING if of_model[kind] and in_file[kind]}
    whole = [kind for kind, often in times.items() if often > 1.0 - NEAR and abs(often - round(often)) < NEAR * often]
    if not whole:
        return msgspec.structs.replace(
            trace, notes=(*trace.notes, "the file does not say how many runs it holds: it is taken for one")
        )
    kind = whole[0]
    runs = round(times[kind])
    said = (
        f"the file does not say how many runs it holds: taken for {runs}, by its {in_file[kind]} kernels of "
        f"{kind.replace('_', ' ')} and the model's {of_model[kind]}"
    )
    return msgspec.structs.replace(
        trace,
        runs=runs,
        wall_s=trace.wall_s / runs,
        gap_s=trace.gap_s / runs,
        overlap_s=trace.overlap_s / runs,
        ops=tuple(msgspec.structs.replace(op, seconds=op.seconds / runs) for op in trace.ops),
        gaps=tuple((cause, seconds / runs) for cause, seconds in trace.gaps),
        notes=(*trace.notes, said),
    )


def is_sums(trace: Trace) -> bool:
    """Whether operators of several calls or runs stand together: no order can tell them apart."""
    return trace.runs > 1 or any(op.count > 1 for op in trace.ops)


def of_tests(trace: Trace, result: Estimate) -> Overlay:
    """The test of the model's phase that is nearest in its lengths, a token of it where it makes tokens, as the whole
    model; the trace is of that test alone then. Raises TraceError where there is none."""
    workload, scenario = result.workload, result.scenario
    mine = [op for op in trace.ops if op.kind == workload.kind]
    if not mine:
        kinds = ", ".join(dict.fromkeys(op.kind for op in trace.ops))
        raise TraceError(f"the tests are of {kinds}, the model is of {workload.kind} (MODEL:decode decodes)")
    kv = scenario.kv if scenario.kv is not None else workload.defaults.get("kv", 0)
    sequence = scenario.sequence or workload.defaults.get("sequence", 1)

    def far(op: TraceOp) -> tuple[int, int]:
        made = op.count // 2 if op.kind == "decode" else 0
        return (abs(op.count - sequence) if op.kind == "prefill" else 0), abs(op.result[0] + made - kv)

    test = min(mine, key=far)
    steps = test.count if test.kind == "decode" else 1
    op = msgspec.structs.replace(test, seconds=test.seconds / steps, count=1)
    if steps > 1:
        op = msgspec.structs.replace(op, name=f"one of {test.name}")
    others = len(trace.ops) - 1
    said = f"{op.name}; the file has {others} other test{'s' * (others != 1)}"
    alone = msgspec.structs.replace(trace, ops=(op,), wall_s=op.seconds, gap_s=0.0, overlap_s=0.0, runs=steps)
    return Overlay(
        trace=msgspec.structs.replace(alone, notes=(said, *trace.notes)),
        pairs=(Pair(operators=tuple(range(workload.n_operators)), op=op, predicted_s=result.latency_s),),
        strangers=(),
        missing=(),
        missing_s=0.0,
    )


def of_sums(trace: Trace, result: Estimate) -> Overlay:
    """The time of each kind beside that of the model's operators of the kind."""
    latency, kinds = result.run.latency_s, result.workload.operators.kind
    of_model: dict[str, list[int]] = defaultdict(list)
    for i, kind in enumerate(kinds):
        of_model[family(kind)].append(i)
    measured: dict[str, list[TraceOp]] = defaultdict(list)
    strangers = []
    for op in (op for top in trace.ops for op in leaves(top)):
        into = _stands_for(op.kind, of_model)
        if into:
            measured[into].append(op)
        else:
            strangers.append(op)
    # Element-wise work has many names: what no kernel is named after ran in those of its class.
    loose = [kind for kind in of_model if kind not in measured and group(kind) == OpClass.ELEMENTWISE]
    host = next((kind for kind in measured if group(kind) == OpClass.ELEMENTWISE), "")
    for kind in loose if host else ():
        of_model[host] += of_model.pop(kind)
    missing = tuple(sorted(i for kind, members in of_model.items() if kind not in measured for i in members))
    pairs = [
        Pair(operators=tuple(of_model[kind]), op=_together(kind, ops), predicted_s=float(latency[of_model[kind]].sum()))
        for kind, ops in measured.items()
    ]
    return Overlay(
        trace=trace,
        pairs=tuple(pairs),
        strangers=tuple(op for op in strangers if op.seconds > 0),
        missing=missing,
        missing_s=float(latency[list(missing)].sum()) if missing else 0.0,
    )


def _stands_for(kind: str, of_model: dict[str, list[int]]) -> str:
    """The kind of the model's operators that kernels of a kind are, '' where none may be."""
    mine = family(kind)
    if mine in of_model:
        return mine
    if mine in ("conv", "linear"):
        other = "linear" if mine == "conv" else "conv"
        return other if other in of_model else ""
    if group(kind) == OpClass.ELEMENTWISE:
        return next((name for name in of_model if group(name) == OpClass.ELEMENTWISE), "")
    return ""


def _together(kind: str, ops: list[TraceOp]) -> TraceOp:
    """All measured operators of a kind as one, the longest named first."""
    ops = sorted(ops, key=lambda op: -op.seconds)
    return TraceOp(
        name=f"{sum(op.count for op in ops)} kernels of {kind.replace('_', ' ')}",
        kind=kind,
        seconds=sum(op.seconds for op in ops),
        kernels=tuple(op.name for op in ops[:8]),
        count=sum(op.count for op in ops),
    )
