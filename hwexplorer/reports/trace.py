"""A measured trace laid over the model: each operator's time beside the predicted one, gaps, what was not matched."""

from __future__ import annotations

from pathlib import Path

from analysis.trust.traces.read import read
from analysis.trust.traces.report import TraceReport, trace_report
from hardware.quantity import quantity
from hwexplorer import engine, options, own_model
from hwexplorer.declare import Report, Rows, Subject, facts
from hwexplorer.options import option
from hwexplorer.state import State
from hwexplorer.views.plain import Column
from hwexplorer.views.words import of_node

NODES = (
    Column("id", "Node", role="text", keep=0, help="operator of the model; +n ran in its kernel"),
    Column("type", "Kind", role="text", keep=2),
    Column("measured", "Measured", "s", keep=0, of="measured_s"),
    Column("predicted", "Predicted", "s", keep=0, of="predicted_s"),
    Column("ratio", "Ratio", "x", keep=0, help="measured over predicted"),
    Column("share", "Share", "%", keep=1, help="of the wall time of one run"),
    Column("bound", "Bound", role="text", keep=3, help="what the estimate says bounds it"),
    Column("name", "Measured as", role="text", keep=4),
)
LEFT = (
    Column("name", "Name", role="text", keep=0),
    Column("type", "Kind", role="text", keep=1),
    Column("seconds", "Time", "s", keep=0, of="time_s"),
    Column("share", "Share", "%", keep=0),
    Column("count", "Times", "count", keep=2),
)


def _document(state: State, file: Path) -> TraceReport:
    return trace_report(read(file), engine.result(state))


def _summary(report: TraceReport, state: State) -> tuple[str, ...]:
    wall = report.wall_s
    matched, unmatched, idle = (part / wall for part in (report.matched_s, report.unmatched_s, report.gap_s))
    at_once = f" - at once {report.overlap_s / wall:.1%}" if report.overlap_s else ""
    where = f" on {report.measured_on}" if report.measured_on else ""
    return (
        f"{report.producer}{where}: {quantity(wall, 's')} a run, mean of {report.runs}; "
        f"predicted {quantity(report.predicted_s, 's')}",
        f"matched {matched:.1%} + not matched {unmatched:.1%} + nothing ran {idle:.1%}{at_once} = 100 %; "
        f"{report.coverage:.1%} of the operators' time is some operator's of the model",
        *report.surprises,
        *report.notes,
    )


VERB = Report(
    subject=Subject(
        options=(
            option("--model", required=True, metavar="MODEL", help="what was run: a model, or a state string"),
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
            help="of PyTorch, JAX, ONNX Runtime, trtexec, Nsight Systems, OpenVINO, TFLite, llama-bench; also .gz",
        ),
    ),
    document=_document,
    title=lambda document, state: of_node("Measured beside predicted", state),
    parts=(
        facts(_summary),
        Rows(name="unmatched", title="Measured, and no operator of the model", columns=LEFT, key="name"),
        Rows(name="missing", title="Of the model, and not seen (time: predicted)", columns=LEFT, key="name"),
        Rows(name="rows", title="By node", columns=NODES, kind="type"),
    ),
    main="rows",
    on_screen=False,
)
