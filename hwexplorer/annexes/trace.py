"""A measured trace laid over the model: each operator's time beside the predicted one, gaps, what was not matched.

With `--run` the trace is made: the model runs here under torch.profiler, in a process of its own, under limits.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from analysis.annexes.machine.torch_process import run_module
from analysis.annexes.traces.trace_report import (
    ComparedOperator,
    MeasuredNode,
    TraceGap,
    TraceReport,
    UnmatchedRow,
    make_trace_report,
)
from analysis.document import columns
from hardware.errors import RequestError
from hardware.precision import TIMED
from hardware.quantity import quantity
from hwexplorer import engine, options
from hwexplorer.annexes._trace_times import load_trace, report_lines, under_runtime
from hwexplorer.declare import Report, Rows, Subject, facts
from hwexplorer.headless import answers
from hwexplorer.options import option
from hwexplorer.process import output
from hwexplorer.state import State
from hwexplorer.views.measured_times import TERMS

_TERM = {"shown": TERMS}
NODES = columns(ComparedOperator, "id type measured predicted ratio share term bound name copies", term=_TERM)
TREE = columns(MeasuredNode, "name measured predicted ratio share term missing", term=_TERM)
UNMATCHED = columns(UnmatchedRow)


def _document(state: State, file: Path, run_here: bool = False, threads: int | None = None) -> TraceReport:
    if not run_here:
        return _compare(state, file)
    with tempfile.TemporaryDirectory(prefix="hwexplorer-trace-") as folder, output.Progress() as progress:
        recorded = Path(folder) / "trace.json"
        run = _run_profiled(state, recorded, threads, progress)
        report = _compare(state, recorded)
    on = f"{run['threads']} thread{'s' * (run['threads'] != 1)}"
    took = f"without the profiler a run took {quantity(run['seconds'], 's')}, with {on}"
    energy = run["energy"]
    if run["joules"] is not None:
        both = quantity(run["joules"], "J"), quantity(report.predicted_energy_j, "J")
        energy = f"and {both[0]} by {energy}; predicted {both[1]}"
    return msgspec.structs.replace(report, measured_energy_j=run["joules"], notes=(took, energy, *report.notes))


def _compare(state: State, file: Path) -> TraceReport:
    trace = load_trace(str(file))
    return make_trace_report(trace, engine.result(under_runtime(state, trace)))


def _run_profiled(state: State, file: Path, threads: int | None, progress: output.Progress) -> dict[str, Any]:
    """Run the model here and write its trace. Return its seconds, threads, joules and how these were read. Raises
    RequestError where its code is not allowed to run, or it fails."""
    if state.precision not in TIMED:
        raise RequestError(f"a run here is in {', '.join(TIMED)}, not {state.precision}")
    plan = {
        "model": str(engine.ref(state)), "image_size": state.image_size, "batch": state.batch,
        "threads": threads or 0, "precision": state.precision,
    }  # fmt: skip

    module = "analysis.annexes.machine.profiled_run"
    answer: dict[str, Any] = msgspec.json.decode(
        run_module(
            module, plan, file, engine.run_limits(state),
            lambda phase, done: progress.show(f"running {state.model}: {phase}"),
        )
    )  # fmt: skip
    return answer


def _run(arguments: argparse.Namespace) -> None:
    if arguments.run_here:
        arguments.model = arguments.model or str(arguments.file)
    elif arguments.model is None:
        raise RequestError("which model was traced is not said: --model MODEL (or --run, to run it here)")
    answers.print_report("trace", VERB, arguments)


def _title(report: TraceReport, state: State) -> str:
    """Return the subject with the runtime that was predicted, which is that of the trace where the state leaves it
    open."""
    subject = f"{report.model}, batch {report.batch}, {report.precision}"
    return f"Measured and predicted time of {subject}, {report.predicted_with} on {engine.device(state.on).label}"


def _subgraphs(report: TraceReport) -> tuple[MeasuredNode, ...]:
    return tuple(sorted(report.tree.children, key=lambda node: -node.measured_s))


_FIRST = {"optional": True, "first": 3}
VERB = Report(
    subject=Subject(
        options=(
            option("--model", metavar="MODEL", help="what was run: a model, or a state string"),
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
            help="of PyTorch, ONNX Runtime, trtexec, Nsight Systems, OpenVINO; also .gz; with --run the model",
        ),
        option("--run", dest="run_here", action="store_true", help="make the trace: run it under torch.profiler"),
        option("--threads", type=options.whole(1, 4096), metavar="N", help="of a run here (default: torch's)"),
    ),
    run=_run,
    document=_document,
    title=_title,
    parts=(
        facts(lambda report, state: report_lines(report)),
        Rows("gaps", "Nothing ran, by what the host did", columns(TraceGap), key="name", optional=True),
        Rows(
            "tree", "By subgraph", TREE, of=_subgraphs, key="id", kind="kind", children=lambda node: node.children,
            brief={"children": None, "first": 10},
        ),
        Rows("unmatched", "Measured, and no operator of the model", UNMATCHED, key="name", brief=_FIRST),
        Rows("missing", "Of the model, and not seen (time: predicted)", UNMATCHED, key="name", brief=_FIRST),
        Rows("rows", "By node", NODES, kind="type"),
    ),
    brief_parts=("summary", "tree", "unmatched", "missing"),
    main="rows",
    on_screen=False,
    shown=("trace.json --model resnet50 --on t4 --batch 8",),
)  # fmt: skip
