"""`hwexplorer capture`: capture models now, several at once, say what each covers, and keep them."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hardware.errors import RequestError
from hwexplorer.commands import common, own
from hwexplorer.format import safe

if TYPE_CHECKING:
    from analysis.workload.job import CaptureJob
    from analysis.workload.workload import Workload
    from hwexplorer.state import State
    from hwexplorer.views.plain import View

_JOBS_MAX = 64


def arguments(parser: argparse.ArgumentParser) -> None:
    what = "net.py:factory, package.module:factory, net.pt2, net.onnx, or any model; several are captured at once"
    parser.add_argument("models", metavar="TARGET", nargs="+", help=what)
    parser.add_argument("--jobs", type=common.whole(1, _JOBS_MAX), metavar="N", help="at once (default: one a core)")
    parser.add_argument("--image-size", type=common.whole(1, common.IMAGE_MAX), metavar="S", help="pixels")
    own.options(parser)
    parser.add_argument("--format", choices=common.FORMATS, metavar="F", help="of the summary (default text)")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the workload here (.msgpack.gz: opens as a model anywhere), or the summary",
    )
    parser.set_defaults(batch=None, precision=None, execution=None, layout=None, on=None, baseline=None, node=None)
    parser.set_defaults(several=True)


class _Done(NamedTuple):
    workload: Workload
    seconds: float


def run(arguments: argparse.Namespace) -> None:
    from analysis.workload import store, targets
    from hwexplorer.export import files

    target = Path(arguments.output) if arguments.output is not None else None
    packed = target is not None and target.name.endswith(targets.STORED)
    names = list(dict.fromkeys(arguments.models))
    if packed and len(names) > 1:
        raise RequestError(f"{target} holds one workload: capture one model with it, or name a .json or .txt file")
    if target is not None:
        files.check(target, overwrite=True)
    done, failures = _capture(names, arguments)
    if packed and target is not None and done:
        files.write_parts(target, [store.pack(done[0].workload)], overwrite=True)
        arguments.output = None
    if done:
        _show(arguments, done, failures)
    for failure in failures[:-1]:
        common.complain(failure)
    if failures:
        raise RequestError(failures[-1])
    gaps = [gap for item in done if (gap := own.gap(item.workload))]
    if arguments.strict and gaps:
        raise common.OutputError("; ".join(gaps))


def _capture(names: Sequence[str], arguments: argparse.Namespace) -> tuple[list[_Done], list[str]]:
    """What was captured, in the order asked for, and a line for each that was not."""
    from analysis.workload import together
    from analysis.workload.errors import ModelError
    from hwexplorer import engine

    done: dict[str, _Done] = {}
    failures: dict[str, str] = {}
    jobs: dict[str, tuple[State, CaptureJob]] = {}
    for name in names:
        try:
            arguments.model = name
            state = common.state(arguments)
            if engine.is_ready(state):
                done[name] = _Done(engine.captured(state), 0.0)
            else:
                jobs[name] = (state, engine.capture_job(state))
        except RequestError as error:
            failures[name] = str(error)
    progress = _Progress([job for _, job in jobs.values()])
    try:
        together.run([job for _, job in jobs.values()], arguments.jobs or together.cores(), progress)
    finally:
        progress.end()
    for name, (state, job) in jobs.items():
        try:
            engine.keep(state, job.result())
            done[name] = _Done(engine.captured(state), progress.seconds[id(job)])
        except ModelError as error:
            failures[name] = str(error)
    return [done[name] for name in names if name in done], [failures[name] for name in names if name in failures]


class _Progress:
    """What runs, on standard error where that is a terminal; and how long each took."""

    def __init__(self, jobs: Sequence[CaptureJob]) -> None:
        self.seconds: dict[int, float] = {}
        self._jobs = jobs
        self._started: dict[int, float] = {}
        self._is_shown = sys.stderr is not None and sys.stderr.isatty()

    def __call__(self, running: Sequence[CaptureJob]) -> None:
        now = time.perf_counter()
        for job in running:
            self.seconds[id(job)] = now - self._started.setdefault(id(job), now)
        if self._is_shown:
            ended = sum(job.done for job in self._jobs)
            count = f" {ended} of {len(self._jobs)} done;" if len(self._jobs) > 1 else ""
            parts = ", ".join(f"{job.name} {job.progress[0]} {job.progress[1]:.0%}" for job in running)
            self._write(f"capturing:{count} {safe(parts)}")

    def end(self) -> None:
        if self._is_shown:
            self._write("")

    def _write(self, line: str) -> None:
        import shutil

        columns = shutil.get_terminal_size().columns
        print(f"\r\x1b[K{line[: columns - 1]}", end="", file=sys.stderr, flush=True)


def _show(arguments: argparse.Namespace, done: list[_Done], failures: list[str]) -> None:
    reports = [_report(item.workload, item.seconds) for item in done]
    if len(arguments.models) == 1:
        common.show(arguments, lambda: _view(done[0].workload, reports[0]), lambda: reports[0])
        return
    document = {"schema": reports[0]["schema"], "captures": reports, "failures": failures}
    common.show(arguments, lambda: _table(reports), lambda: document)


def _report(workload: Workload, seconds: float) -> dict[str, Any]:
    from hwexplorer.schema import SCHEMA

    known = workload.operators.has_rule
    at = workload.at(**dict.fromkeys(workload.dims, 1))
    macs, flops = workload.operators.macs @ at, workload.operators.flops @ at
    return {
        "schema": SCHEMA,
        "model": workload.name,
        "origin": workload.origin,
        "parameters": workload.parameters,
        "macs": float(macs.sum()),
        "flops": float(flops.sum()),
        "operators": workload.n_operators,
        "coverage": float(known.mean()) if len(known) else 1.0,
        # What an operator without a rule computes is not known, so neither is a share beside it.
        "coverage_flops": 1.0 if known.all() else None,
        "uncovered": own.uncovered(workload),
        "inputs": [{"name": i.name, "dtype": i.dtype, "shape": list(i.shape)} for i in workload.inputs],
        "notes": list(workload.notes),
        "versions": workload.versions,
        "seconds": round(seconds, 3),
    }


def _table(reports: list[dict[str, Any]]) -> View:
    """A row for each capture."""
    from hardware.quantity import quantity
    from hwexplorer.views.plain import Column, Row, Table

    heads = ("Model", "Parameters", "One input", "Operators", "Covered", "Captured in")
    rows = tuple(
        Row(
            str(place),
            (
                report["model"],
                quantity(report["parameters"], "SI"),
                quantity(report["macs"], "MAC"),
                f"{report['operators']:,}",
                f"{report['coverage']:.1%}",
                _took(report),
            ),
        )
        for place, report in enumerate(reports)
    )
    notes = tuple(
        f"{report['model']}: {note}"
        for report in reports
        for note in (
            *(f"no cost rule: {name} ({count}x)" for name, count in report["uncovered"].items()),
            *report["notes"],
        )
    )
    columns = tuple(Column(head.lower(), head, role="text", keep=0) for head in heads)
    return Table("capture", f"{len(reports)} models captured", columns, rows, (), notes)


def _covered(report: dict[str, Any]) -> str:
    return f"{report['coverage']:.1%}" + (
        "" if report["coverage_flops"] else " of the operators; FLOPs of the rest unknown"
    )


def _took(report: dict[str, Any]) -> str:
    return f"{report['seconds']:.1f} s" if report["seconds"] else "stored already"


def _view(workload: Workload, report: dict[str, Any]) -> View:
    from hardware.quantity import quantity
    from hwexplorer.views.plain import Column, Row, Table

    inputs = ", ".join(f"{'x'.join(map(str, item.shape))} {item.dtype}" for item in workload.inputs)
    cells = [
        ("parameters", quantity(workload.parameters, "SI")),
        ("work of one input", quantity(report["macs"], "MAC")),
        ("operators", f"{workload.n_operators:,}"),
        ("covered", _covered(report)),
        ("inputs", inputs),
        ("captured in", _took(report)),
    ]
    rows = tuple(Row(name, (name, value)) for name, value in cells)
    gaps = tuple(f"no cost rule: {target} ({count}x)" for target, count in report["uncovered"].items())
    return Table(
        "capture",
        f"{workload.name} captured",
        (Column("name", "What", role="text", keep=0), Column("value", "Value", role="text", keep=0)),
        rows,
        (),
        (*gaps, *workload.notes),
    )
