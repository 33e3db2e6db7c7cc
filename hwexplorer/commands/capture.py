"""`hwexplorer capture`: capture a model now, say what it covers, and keep it."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwexplorer.commands import common, own

if TYPE_CHECKING:
    from analysis.workload.workload import Workload
    from hwexplorer.views.plain import View


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", metavar="TARGET", help="net.py:factory, package.module:factory, net.pt2, net.onnx, or any model"
    )
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


def run(arguments: argparse.Namespace) -> None:
    from analysis.workload import targets
    from hardware.errors import RequestError
    from hwexplorer import engine
    from hwexplorer.export import files

    state = common.state(arguments)
    target = Path(arguments.output) if arguments.output is not None else None
    packed = target is not None and target.name.endswith(targets.STORED)
    if target is not None:
        files.check(target, overwrite=True)
    start = time.perf_counter()
    stored = engine.is_ready(state)
    common.capture(state)
    workload = engine.captured(state)
    seconds = 0.0 if stored else time.perf_counter() - start
    if packed and target is not None:
        from analysis.workload import store

        if not store.write(target, store.pack(workload)):
            raise RequestError(f"cannot write {target}")
        arguments.output = None
    report = _report(workload, seconds)
    common.show(arguments, lambda: _view(workload, report), lambda: report)
    if arguments.strict and (gap := own.gap(workload)):
        raise common.OutputError(gap)


def _report(workload: Workload, seconds: float) -> dict[str, Any]:
    from hwexplorer.documents import SCHEMA

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
        "uncovered": own.uncovered(workload),
        "inputs": [{"name": i.name, "dtype": i.dtype, "shape": list(i.shape)} for i in workload.inputs],
        "notes": list(workload.notes),
        "versions": workload.versions,
        "seconds": round(seconds, 3),
    }


def _view(workload: Workload, report: dict[str, Any]) -> View:
    from hardware.quantity import quantity
    from hwexplorer.views.plain import Column, Row, Table

    inputs = ", ".join(f"{'x'.join(map(str, item.shape))} {item.dtype}" for item in workload.inputs)
    cells = [
        ("parameters", quantity(workload.parameters, "SI")),
        ("work of one input", quantity(report["macs"], "MAC")),
        ("operators", f"{workload.n_operators:,}"),
        ("covered", f"{report['coverage']:.1%}"),
        ("inputs", inputs),
        ("captured in", f"{report['seconds']:.1f} s" if report["seconds"] else "stored already"),
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
