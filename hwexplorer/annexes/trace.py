"""A measured trace laid over the model: each operator's time beside the predicted one, gaps, what was not matched.

With `--run` the trace is made: the model runs here under torch.profiler, in a process of its own, under limits.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from analysis.annexes.machine import bench_job
from analysis.annexes.traces.read import read
from analysis.annexes.traces.report import TraceReport, trace_report
from analysis.annexes.traces.tree import MeasuredNode
from analysis.document import Column
from hardware.errors import RequestError
from hardware.precision import TIMED
from hardware.quantity import quantity
from hwexplorer import engine, headless, options, output, own_model
from hwexplorer.declare import Report, Rows, Subject, facts
from hwexplorer.options import option
from hwexplorer.state import State
from hwexplorer.views import measured
from hwexplorer.views.tree import MEASURED
from hwexplorer.views.words import of_node

NODES = (
    Column("id", "Node", role="text", keep=0, help="operator of the model; +n ran in its kernel"),
    Column("type", "Kind", role="text", keep=2),
    Column("measured", "Measured", "s", keep=0, of="measured_s"),
    Column("predicted", "Predicted", "s", keep=0, of="predicted_s"),
    Column("ratio", "Ratio", "x", keep=0, help="measured over predicted"),
    Column("share", "Share", "%", keep=1, help="of the wall time of one run"),
    Column("term", "Term", role="text", keep=2, shown=measured.TERMS, help=MEASURED[-1].help),
    Column("bound", "Bound", role="text", keep=3, help="what the estimate says bounds it"),
    Column("name", "Measured as", role="text", keep=4),
    Column("copies", "Copies in it", role="text", keep=5, help="calls in it that only move data"),
)
LEFT = (
    Column("name", "Name", role="text", keep=0),
    Column("type", "Kind", role="text", keep=1),
    Column("seconds", "Time", "s", keep=0, of="time_s"),
    Column("share", "Share", "%", keep=0),
    Column("count", "Times", "count", keep=2),
)


TREE = (
    Column("name", "Node", role="text", keep=0),
    *NODES[2:7],
    Column("missing", "Not seen", "s", keep=4, of="missing_s", help="predicted for operators that the trace has not"),
)
GAPS = (LEFT[0], *LEFT[2:4])


TESTS = (Column("name", "Test", role="text", keep=0), *NODES[1:5])
RUN_IN = TIMED


class Traced(TraceReport, frozen=True, kw_only=True):
    """A trace, and beside it the other tests of a file of llama-bench: a prompt, or a token of those it makes."""

    tests: tuple[measured.Test, ...] = ()


def _document(state: State, file: Path, run_here: bool = False, threads: int | None = None) -> TraceReport:
    if not run_here:
        trace = read(file)
        asked = measured.under(state, trace)
        report = trace_report(trace, engine.result(asked))
        return Traced(**msgspec.structs.asdict(report), tests=measured.tests(asked, trace))
    with tempfile.TemporaryDirectory(prefix="hwexplorer-trace-") as folder, output.Progress() as progress:
        made = Path(folder) / "trace.json"
        said = _traced(state, made, threads, progress)
        trace = read(made)
        report = trace_report(trace, engine.result(measured.under(state, trace)))
    on = f"{said['threads']} thread{'s' * (said['threads'] != 1)}"
    took = f"without the profiler a run took {quantity(said['seconds'], 's')}, with {on}"
    energy = said["energy"]
    if said["joules"] is not None:
        both = quantity(said["joules"], "J"), quantity(report.predicted_energy_j, "J")
        energy = f"and {both[0]} by {energy}; predicted {both[1]}"
    return msgspec.structs.replace(report, measured_energy_j=said["joules"], notes=(took, energy, *report.notes))


def _tests(report: TraceReport) -> tuple[measured.Test, ...]:
    return report.tests if isinstance(report, Traced) else ()


def _traced(state: State, made: Path, threads: int | None, progress: output.Progress) -> dict[str, Any]:
    """Run the model here. Raises RequestError where nobody asked for its code to run, or it fails."""
    if state.precision not in RUN_IN:
        raise RequestError(f"a run here is in {', '.join(RUN_IN)}, not {state.precision}")
    plan = {
        "model": str(engine.ref(state)), "image_size": state.image_size, "batch": state.batch,
        "threads": threads or 0, "precision": state.precision,
    }  # fmt: skip

    def report(phase: str, fraction: float) -> None:
        progress.show(f"running {state.model}: {phase}")

    limits = engine.run_limits(state)
    said: dict[str, Any] = msgspec.json.decode(bench_job.run("analysis.capture.traced", plan, made, limits, report))
    return said


def _run(arguments: argparse.Namespace) -> None:
    """With `--run` the word that follows names the model."""
    if arguments.run_here:
        arguments.model = arguments.model or str(arguments.file)
    elif arguments.model is None:
        raise RequestError("which model was traced is not said: --model MODEL (or --run, to run it here)")
    headless.report("trace", VERB, arguments)


def _nodes(report: TraceReport) -> tuple[MeasuredNode, ...]:
    """Subgraphs, with their operators below them; the largest first."""
    return tuple(sorted(report.tree.children, key=lambda node: -node.measured_s))


VERB = Report(
    subject=Subject(
        options=(
            option("--model", metavar="MODEL", help="what was run: a model, or a state string"),
            *options.SCENARIO,
            *own_model.OPTIONS,
            options.ON_ONE,
        )
    ),
    options=(
        option(
            "file",
            type=Path,
            metavar="FILE",
            help="of PyTorch, JAX, ONNX Runtime, trtexec, Nsight Systems, rocprof, OpenVINO, TFLite, llama-bench; "
            "also .gz; with --run the model",
        ),
        option("--run", dest="run_here", action="store_true", help="make the trace: run it under torch.profiler"),
        option("--threads", type=options.whole(1, 4096), metavar="N", help="of a run here (default: torch's)"),
    ),
    run=_run,
    document=_document,
    title=lambda document, state: of_node("Measured beside predicted", state),
    parts=(
        facts(lambda report, state: measured.summary(report)),
        Rows("tests", "Every test at its lengths", TESTS, of=_tests, key="name", optional=True),
        Rows("gaps", "Nothing ran, by what the host did", GAPS, key="name", optional=True),
        Rows(
            "tree", "By subgraph", TREE, of=_nodes, key="id", kind="kind", children=lambda node: node.children,
        ),
        Rows("unmatched", "Measured, and no operator of the model", LEFT, key="name"),
        Rows("missing", "Of the model, and not seen (time: predicted)", LEFT, key="name"),
        Rows("rows", "By node", NODES, kind="type"),
    ),
    main="rows",
    on_screen=False,
    shown=("trace.json --model resnet50 --on t4 --batch 8",),
)  # fmt: skip
