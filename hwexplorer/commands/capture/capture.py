"""Capture a model, of your own or not: coverage, and a file to open elsewhere.

Several are captured at once, said what each covers, and kept.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from analysis.document import Column, record
from analysis.explore.search.workers import cores
from analysis.model import store
from analysis.model.ir.coverage import coverage, uncovered_note
from analysis.model.ir.workload import Workload
from analysis.model.model_errors import ModelError
from analysis.model.names import targets
from analysis.model.process.workload_jobs import WorkloadJob, run_all
from hardware.errors import RequestError
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.declare import CATALOGUE, Verb
from hwexplorer.export import files
from hwexplorer.export.files import FORMATS
from hwexplorer.export.render import encode, plain
from hwexplorer.headless import asked_state
from hwexplorer.options import IMAGE_SIZE, OWN_MODEL, option, whole
from hwexplorer.process import output
from hwexplorer.state import State
from hwexplorer.views.plain import Row, Table
from hwexplorer.views.tables import rows

_JOBS_MAX = 64


def _run(arguments: argparse.Namespace) -> None:
    target = Path(arguments.output) if arguments.output is not None else None
    packed = target is not None and target.name.endswith(targets.STORED)
    names = list(dict.fromkeys(arguments.models))
    if packed and len(names) > 1:
        raise RequestError(f"{target} holds one workload: capture one model with it, or name a .json or .txt file")
    if target is not None:
        files.check(target, overwrite=True)
    done, failures = _capture(names, arguments)
    if packed and target is not None and done:
        files.write(target, store.pack(done[0][0]), overwrite=True)
        arguments.output = None
    if done:
        _show(arguments, done, failures)
    for failure in failures[:-1]:
        output.complain(failure)
    if failures:
        raise RequestError(failures[-1])
    gaps = [gap for workload, _ in done if (gap := asked_state.uncovered_text(workload))]
    if arguments.strict and gaps:
        raise output.OutputError("; ".join(gaps))


def _capture(names: Sequence[str], arguments: argparse.Namespace) -> tuple[list[tuple[Workload, float]], list[str]]:
    """Return the captures and their seconds in the order asked for, and a line for each that failed."""
    done: dict[str, tuple[Workload, float]] = {}
    failures: dict[str, str] = {}
    jobs: dict[str, tuple[State, WorkloadJob]] = {}
    for name in names:
        try:
            arguments.model = name
            state = asked_state.state_from_arguments(arguments, CATALOGUE)
            if engine.is_ready(state):
                done[name] = engine.captured_model(state), 0.0
            else:
                jobs[name] = (state, engine.capture_job(state))
        except RequestError as error:
            failures[name] = str(error)
    running = [job for _, job in jobs.values()]
    with output.Progress() as progress:
        clock = _Clock(running, progress)
        run_all(running, arguments.jobs or cores(), clock)
    for name, (state, job) in jobs.items():
        try:
            engine.keep(state, job.result())
            done[name] = engine.captured_model(state), clock.seconds[id(job)]
        except ModelError as error:
            failures[name] = str(error)
    return [done[name] for name in names if name in done], [failures[name] for name in names if name in failures]


class _Clock:
    """Times each job and shows those that run."""

    def __init__(self, jobs: Sequence[WorkloadJob], progress: output.Progress) -> None:
        self.seconds: dict[int, float] = {}
        self._jobs, self._progress = jobs, progress
        self._started: dict[int, float] = {}

    def __call__(self, running: Sequence[WorkloadJob]) -> None:
        now = time.perf_counter()
        for job in running:
            self.seconds[id(job)] = now - self._started.setdefault(id(job), now)
        ended = sum(job.is_done for job in self._jobs)
        count = f" {ended} of {len(self._jobs)} done;" if len(self._jobs) > 1 else ""
        parts = ", ".join(f"{job.name} {job.progress[0]} {job.progress[1]:.0%}" for job in running)
        self._progress.show(f"capturing:{count} {parts}")


def _show(arguments: argparse.Namespace, done: list[tuple[Workload, float]], failures: list[str]) -> None:
    captures = tuple(_describe_capture(*item) for item in done)
    one = captures[0] if len(arguments.models) == 1 else None

    def make(form: str) -> str:
        if form == "json":
            return encode(one or Captures(captures, tuple(failures)))
        return plain(_sheet(one) if one else _table(captures), form, output.width())

    output.emit(arguments, make)


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


class Captures(msgspec.Struct, frozen=True):
    """The sheets of several models, and a line for each that failed."""

    captures: tuple[CaptureSheet, ...]
    failures: tuple[str, ...]


def _describe_capture(workload: Workload, seconds: float) -> CaptureSheet:
    covered = coverage(workload)
    at = workload.value_at(**dict.fromkeys(workload.dims, 1))
    return record(
        CaptureSheet,
        workload,
        model=workload.name,
        macs=float((workload.operators.macs @ at).sum()),
        flops=float((workload.operators.flops @ at).sum()),
        operators=workload.n_operators,
        coverage=covered.work,
        coverage_bytes=covered.bytes,
        coverage_flops=covered.flops,
        incomplete=uncovered_note(workload),
        uncovered=dict(covered.missing),
        inputs=tuple({"name": i.name, "dtype": i.dtype, "shape": list(i.shape)} for i in workload.inputs),
        seconds=round(seconds, 3),
    )


def _duration(capture: CaptureSheet) -> str:
    return f"{capture.seconds:.1f} s" if capture.seconds else "stored already"


COLUMNS = tuple(
    Column(title.lower(), title, role="text", keep=0, of=of)
    for title, of in (
        ("Model", "model"),
        ("Parameters", lambda capture: quantity(capture.parameters, "SI")),
        ("One input", lambda capture: quantity(capture.macs, "MAC")),
        ("Operators", lambda capture: f"{capture.operators:,}"),
        ("Covered", lambda capture: f"{capture.coverage:.1%}"),
        ("Captured in", _duration),
    )
)


def _gaps(capture: CaptureSheet) -> list[str]:
    return [f"no cost rule: {target} ({count}x)" for target, count in capture.uncovered.items()]


def _table(captures: tuple[CaptureSheet, ...]) -> Table:
    """Return a row for each capture."""
    notes = tuple(f"{each.model}: {note}" for each in captures for note in (*_gaps(each), *each.notes))
    places = iter(range(len(captures)))
    shown = rows(COLUMNS, captures, key=lambda _: str(next(places)))
    return Table("capture", f"{len(captures)} models captured", COLUMNS, shown, footer=(), notes=notes)


def _sheet(capture: CaptureSheet) -> Table:
    """Return a row for each figure of one capture."""
    cells = {
        "parameters": quantity(capture.parameters, "SI"),
        "work of one input": quantity(capture.macs, "MAC"),
        "operators": f"{capture.operators:,}",
        "covered": f"{capture.coverage:.1%}" + " of the work, at least" * bool(capture.uncovered),
        "inputs": ", ".join(f"{'x'.join(map(str, item['shape']))} {item['dtype']}" for item in capture.inputs),
        "captured in": _duration(capture),
    }
    return Table(
        "capture",
        "; ".join(filter(None, (capture.incomplete, f"{capture.model} captured"))),
        (Column("name", "What", role="text", keep=0), Column("value", "Value", role="text", keep=0)),
        tuple(Row(name, (name, value)) for name, value in cells.items()),
        footer=(),
        notes=(*_gaps(capture), *capture.notes),
    )


_WHAT = "net.py:factory, package.module:factory, net.pt2, net.onnx, or any model; several are captured at once"
VERB = Verb(
    options=(
        option("models", metavar="TARGET", nargs="+", help=_WHAT),
        option("--jobs", type=whole(1, _JOBS_MAX), metavar="N", help="at once (default: one a core)"),
        IMAGE_SIZE,
        *OWN_MODEL,
        option("--format", choices=FORMATS, metavar="F", help="of the summary (default text)"),
        option(
            "-o", "--output", metavar="FILE",
            help="write the workload here (.msgpack.gz: opens as a model anywhere), or the summary",
        ),
    ),
    run=_run,
    shown=("net.py:make --input 1x3x224x224", "resnet50 vit_b_16 raft_small --jobs 4"),
)  # fmt: skip
