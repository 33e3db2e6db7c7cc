"""`hwexplorer sweep`: a model over batches, precisions, image sizes and devices; `--all`: every shipped model."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hardware.errors import RequestError
from hwexplorer.commands import choices, common
from hwexplorer.state import IMAGE_MAX

if TYPE_CHECKING:
    from analysis.decide.catalogue_sweep import Chunk


def arguments(parser: argparse.ArgumentParser) -> None:
    common.model_options(parser, devices="DEV,..", default="")
    parser.add_argument("--all", action="store_true", help="all shipped models on all devices, as CSV or JSON")
    choices.grid_options(parser)
    parser.add_argument("--image-sizes", metavar="S,..", help="pixels")
    parser.add_argument("--workers", type=common.whole(1, 256), metavar="N", help="processes of --all (default: cores)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="hand --all to a Dask cluster, as tcp://host:8786")
    common.output_options(parser)


def run(arguments: argparse.Namespace) -> None:
    if arguments.all:
        if arguments.model:
            raise RequestError("--all sweeps every shipped model: name none, or leave --all out")
        _everything(arguments)
        return
    if not arguments.model:
        raise RequestError("sweep needs a model, or --all (hwexplorer models lists them)")
    for name in ("workers", "scheduler"):
        if getattr(arguments, name):
            raise RequestError(f"--{name} belongs to sweep --all")
    _one(arguments)


def _one(arguments: argparse.Namespace) -> None:
    from analysis.decide.sweep import sweep
    from hwexplorer import engine
    from hwexplorer.state import replace
    from hwexplorer.views import sweep as views

    state = common.state(arguments)
    common.prepare(state)
    sizes: tuple[int | None, ...] = (state.image_size,)
    if arguments.image_sizes is not None:
        sizes = common.whole_list(arguments.image_sizes, "image size", IMAGE_MAX)
    states = [replace(state, image_size=size) for size in sizes]
    for each in states:
        common.prepare(each)
    names = [mode for name in state.devices for mode in (choices.modes(name) if arguments.power_modes else [name])]
    found = sweep(
        [engine.workload(each) for each in states],
        [engine.device(name) for name in dict.fromkeys(names)],
        choices.batches(arguments),
        choices.precisions(arguments.precisions, (state.precision,)),
        engine.scenario(state),
        common.ticking("configurations"),
    )
    common.show(arguments, lambda: views.view(found), lambda: views.document(found))


def _everything(arguments: argparse.Namespace) -> None:
    from analysis.decide import catalogue_sweep as sweep
    from analysis.run.scenario import Scenario
    from hwexplorer import engine
    from hwexplorer.export import files

    target = Path(arguments.output) if arguments.output is not None else None
    if target is not None:
        files.check(target, overwrite=True)
    form = arguments.format or (files.format_of(target) if target is not None else "csv")
    if form not in sweep.FORMATS:
        raise RequestError(f"sweep --all writes csv or json, not {form}")
    if arguments.image_size or arguments.image_sizes:
        raise RequestError("sweep --all runs each model at its own image size: leave the size out")
    devices = common.listed(arguments.on, "device") if arguments.on is not None else ()
    keys = [engine.device(name).key for name in devices]
    if arguments.power_modes:
        keys = [key for name in keys or choices.catalogue() for key in choices.modes(name)]
    precisions = choices.precisions(
        arguments.precisions, (arguments.precision,) if arguments.precision else sweep.PRECISIONS
    )
    asked = Scenario(execution=arguments.execution or "auto", layout=arguments.layout or "nchw")
    work = sweep.chunks(
        choices.batches(arguments), precisions, (), tuple(dict.fromkeys(keys)), asked, engine.folders(), form
    )
    parts = (
        sweep.scheduled(work, arguments.scheduler) if arguments.scheduler else sweep.local(work, arguments.workers or 0)
    )
    _write(target, sweep.join(form, _watched(work, parts)))


def _write(target: Path | None, parts: Iterable[str]) -> None:
    from hwexplorer.export import files

    if target is not None:
        files.write_parts(target, parts, overwrite=True)
        return
    for part in parts:
        common.put(part)


def _watched(work: list[Chunk], parts: Iterator[str]) -> Iterator[str]:
    """The parts, with progress and rate on a terminal."""
    watch = sys.stderr is not None and sys.stderr.isatty()
    start, done, total = time.monotonic(), 0, sum(chunk.n_rows for chunk in work)
    try:
        for chunk, part in zip(work, parts, strict=True):
            done += chunk.n_rows
            if watch:
                rate = done / max(time.monotonic() - start, 1e-9)
                line = f"{done:,} of {total:,} rows, {rate:,.0f} rows/s"
                print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
            yield part
    finally:
        if watch:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
