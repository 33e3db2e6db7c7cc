"""`hwexplorer validate`: predictions against measurements."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hardware.errors import RequestError
from hwexplorer.commands import common

if TYPE_CHECKING:
    from analysis.trust.calibrate import HeldOut


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", action="append", default=[], type=Path, metavar="FILE", help="CSV of measurements (default: shipped)"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--kernels", action="store_true", help="single GPU kernels instead of whole models")
    what.add_argument(
        "--cross-validate", action="store_true", help="also fit anew with each device, each family of models left out"
    )
    common.output_options(parser)


def run(arguments: argparse.Namespace) -> None:
    if arguments.kernels and arguments.data:
        raise RequestError("--kernels validates the shipped table of kernels: leave --data out")
    if arguments.kernels:
        _kernels(arguments)
    else:
        _models(arguments)


def _kernels(arguments: argparse.Namespace) -> None:
    from analysis.trust.validate_kernels import validate_kernels
    from hwexplorer.export.render import encode, plain
    from hwexplorer.views.validate import kernels

    found = validate_kernels()

    def make(form: str) -> str:
        if form == "json":
            return encode({"kernels": found})
        return plain(kernels(found), form, common.width())

    common.emit(arguments, make)


def _models(arguments: argparse.Namespace) -> None:
    from analysis.trust.calibrate import recorded
    from analysis.trust.measurement import read, shipped
    from analysis.trust.validate import validate
    from hwexplorer import engine
    from hwexplorer.export.render import encode, plain
    from hwexplorer.views.validate import validation

    rows = read(arguments.data) if arguments.data else shipped()

    def progress(done: int) -> None:
        if done % 50 == 0 or done == len(rows):
            end = "\r\x1b[K" if done == len(rows) else ""
            print(f"\rpredicting row {done} of {len(rows)}{end}", end="", file=sys.stderr, flush=True)

    watched = sys.stderr.isatty()
    found = validate(rows, engine.folders(), progress if watched else None)
    held = _held_out(rows, watched) if arguments.cross_validate else (() if arguments.data else recorded())

    def make(form: str) -> str:
        if form == "json":
            import msgspec

            return encode({**msgspec.to_builtins(found), "cross_validation": held})
        return plain(validation(found, held), form, common.width())

    common.emit(arguments, make)


def _held_out(rows: list[dict[str, str]], watched: bool) -> tuple[HeldOut, ...]:
    from analysis.trust.calibrate import cross_validate
    from hwexplorer import engine

    def progress(phase: str) -> None:
        print(f"\r\x1b[K{phase}", end="", file=sys.stderr, flush=True)

    held = cross_validate(rows, engine.folders(), progress if watched else lambda _: None)
    if watched:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return held
