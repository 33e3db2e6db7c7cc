"""Compare a measured trace with the prediction, operator by operator."""

import argparse
from collections.abc import Callable
from pathlib import Path

from hwexplorer.extend import RequestError, declare, document, engine, measured_times, options
from hwexplorer_annexes.traces.trace_report import (
    ComparedOperator,
    MeasuredNode,
    TraceGap,
    TraceReport,
    UnmatchedRow,
    make_trace_report,
)
from hwexplorer_annexes.traces.trace_times import load_trace, report_lines, under_runtime
from hwexplorer_annexes.verb_parts import Rows, State, option, replace

_TERM = {"shown": measured_times.TERMS}
NODES = document.columns(ComparedOperator, "id type measured predicted ratio share term bound name copies", term=_TERM)
TREE = document.columns(MeasuredNode, "name measured predicted ratio share term missing", term=_TERM)
UNMATCHED = document.columns(UnmatchedRow)


def _document(state: State, file: Path) -> TraceReport:
    trace = load_trace(str(file))
    return make_trace_report(trace, engine.result(under_runtime(replace(state, trace=str(file)))))


def _run(arguments: argparse.Namespace, print_report: Callable[[argparse.Namespace], None]) -> None:
    if arguments.model is None:
        load_trace(str(arguments.file))  # a wrong file is the first error
        raise RequestError("the traced model is unknown: name it with --model MODEL")
    print_report(arguments)


def _title(report: TraceReport, state: State) -> str:
    """Return the subject with the runtime of the prediction: the runtime of the trace if the state has `auto` and the
    device can run it."""
    subject = f"{report.model}, batch {report.batch}, {report.precision}"
    return f"Measured and predicted time of {subject}, {report.predicted_with} on {engine.device(state.on).label}"


_FIRST = {"optional": True, "first": 3}
VERB = declare.Report(
    subject=declare.Subject(
        options=(
            option("--model", metavar="MODEL", help="the model that was traced, or a state string"),
            *options.SCENARIO,
            *options.OWN_MODEL,
            options.ON_ONE,
        )
    ),
    options=(
        option(
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
        Rows("gaps", "Idle time, by what the host did", document.columns(TraceGap), key="name", optional=True),
        Rows(
            "tree", "By subgraph", TREE, key="id", kind="kind", children=lambda node: node.children,
            of=lambda report: sorted(report.tree.children, key=lambda node: -node.measured_s),
            without=lambda report: () if report.missing_s else ("missing",), brief={"children": None, "first": 10},
        ),
        Rows("unmatched", "Measured, but not in the model", UNMATCHED, key="name", brief=_FIRST),
        Rows("missing", "In the model, but not in the trace (predicted time)", UNMATCHED, key="name", brief=_FIRST),
        Rows("rows", "By node", NODES, kind="type"),
    ),
    brief_parts=("summary", "tree", "unmatched", "missing"),
    main="rows",
    on_screen=False,
    shown=("trace.json --model resnet50 --on t4 --batch 8",),
)  # fmt: skip
