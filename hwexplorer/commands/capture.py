"""Capture a model, of your own or not: coverage, and a file to open elsewhere."""

import argparse
import time
from typing import Any

import msgspec

from analysis.document import Column, record
from analysis.model import store
from analysis.model.ir.workload import Workload, coverage, uncovered_note
from analysis.model.names import targets
from hardware.base.text import percent, quantity
from hwexplorer import answer, engine
from hwexplorer.declare import CATALOGUE, Verb
from hwexplorer.export import files
from hwexplorer.export.files import FORMATS
from hwexplorer.export.render import encode, plain
from hwexplorer.options import CAPTURE, IMAGE_SIZE, option
from hwexplorer.process import output
from hwexplorer.views.plain import Row, Table


def _run(arguments: argparse.Namespace) -> None:
    target = output.target_file(arguments)
    state = answer.state_from_arguments(arguments, CATALOGUE)
    is_stored, start = engine.is_ready(state), time.perf_counter()
    answer.capture_model(state)
    workload = engine.captured_model(state)
    sheet = _describe_capture(workload, 0.0 if is_stored else time.perf_counter() - start)
    if target is not None and target.name.endswith(targets.STORED):
        files.write(target, store.pack(workload), overwrite=True)
        arguments.output = None
    output.emit(arguments, lambda form: encode(sheet) if form == "json" else plain(_table(sheet), form, output.width()))
    if arguments.strict and (gap := answer.uncovered_text(workload)):
        raise output.OutputError(gap)


class CaptureSheet(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `capture` for one model. `coverage` is the lesser of the shares of bytes and FLOPs with a cost
    rule; the work of other operators is bounded, not known."""

    model: str
    origin: str
    parameters: int
    macs: float
    flops: float
    operators: int
    coverage: float
    coverage_bytes: float
    coverage_flops: float
    uncovered: dict[str, int]
    incomplete: str
    inputs: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]
    versions: dict[str, str]
    seconds: float


def _describe_capture(workload: Workload, seconds: float) -> CaptureSheet:
    rule_coverage = coverage(workload)
    # A language model has lengths of its own; every other dimension is 1.
    lengths = dict.fromkeys(("batch",) if workload.defaults else workload.dims, 1)
    return record(
        CaptureSheet,
        workload,
        model=workload.name,
        macs=workload.total(workload.operators.macs, **lengths),
        flops=workload.total(workload.operators.flops, **lengths),
        operators=workload.n_operators,
        coverage=rule_coverage.work,
        coverage_bytes=rule_coverage.bytes,
        coverage_flops=rule_coverage.flops,
        incomplete=uncovered_note(workload),
        uncovered=dict(rule_coverage.missing),
        inputs=tuple({"name": i.name, "dtype": i.dtype, "shape": list(i.shape)} for i in workload.inputs),
        seconds=round(seconds, 3),
    )


def _table(capture: CaptureSheet) -> Table:
    """Return a row for each figure of one capture."""
    cells = {
        "parameters": quantity(capture.parameters, "SI"),
        "work of one input": quantity(capture.macs, "MAC"),
        "operators": f"{capture.operators:,}",
        "covered": f"{percent(capture.coverage, 1)}" + " of the work, at least" * bool(capture.uncovered),
        "inputs": ", ".join(f"{'x'.join(map(str, item['shape']))} {item['dtype']}" for item in capture.inputs),
        "captured in": f"{capture.seconds:.1f} s" if capture.seconds else "stored already",
    }
    return Table(
        "capture",
        "; ".join(filter(None, (capture.incomplete, f"{capture.model} captured"))),
        (Column("name", "What", role="text", keep=0), Column("value", "Value", role="text", keep=0)),
        tuple(Row(name, (name, value)) for name, value in cells.items()),
        notes=(*(f"no cost rule: {name} ({count}x)" for name, count in capture.uncovered.items()), *capture.notes),
    )


_WHAT = "net.py:factory, package.module:factory, net.pt2, net.onnx, or any model"
VERB = Verb(
    options=(
        option("model", metavar="TARGET", help=_WHAT),
        IMAGE_SIZE,
        *CAPTURE,
        option("--format", choices=FORMATS, metavar="F", help="format of the summary (default text)"),
        option(
            "-o", "--output", metavar="FILE",
            help="write the workload here (.msgpack.gz: opens as a model anywhere), or the summary",
        ),
    ),
    run=_run,
    shown=("net.py:make --input 1x3x224x224", "resnet50 -o resnet50.msgpack.gz"),
)  # fmt: skip
