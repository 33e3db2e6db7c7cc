"""`hwexplorer validate`: predictions against measurements."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hwexplorer.commands import common


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", action="append", default=[], type=Path, metavar="FILE", help="CSV of measurements (default: shipped)"
    )
    parser.add_argument("--kernels", action="store_true", help="single GPU kernels instead of whole models")
    common.output_options(parser)


def run(arguments: argparse.Namespace) -> None:
    if arguments.kernels:
        _kernels(arguments)
    else:
        _models(arguments)


def _kernels(arguments: argparse.Namespace) -> None:
    from analysis.compare import SCHEMA
    from analysis.validate_kernels import validate_kernels
    from hwexplorer.export.render import encode, plain
    from hwexplorer.views.validate import kernels

    found = validate_kernels()

    def make(form: str) -> str:
        if form == "json":
            return encode({"schema": SCHEMA, "kernels": found})
        return plain(kernels(found), form, common.width())

    common.emit(arguments, make)


def _models(arguments: argparse.Namespace) -> None:
    from analysis.compare import SCHEMA
    from analysis.validate import read, shipped, validate
    from hwexplorer import engine
    from hwexplorer.export.render import encode, plain
    from hwexplorer.views.validate import validation

    rows = read(arguments.data) if arguments.data else shipped()

    def progress(done: int) -> None:
        if done % 50 == 0 or done == len(rows):
            end = "\r\x1b[K" if done == len(rows) else ""
            print(f"\rpredicting row {done} of {len(rows)}{end}", end="", file=sys.stderr, flush=True)

    found = validate(rows, engine.folders(), progress if sys.stderr.isatty() else None)

    def make(form: str) -> str:
        if form == "json":
            import msgspec

            return encode({"schema": SCHEMA, **msgspec.to_builtins(found)})
        return plain(validation(found), form, common.width())

    common.emit(arguments, make)
