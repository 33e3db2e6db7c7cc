"""`sweep --all`: every shipped model on every device, as CSV or JSON that is written while it is made."""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

from analysis.decide import catalogue_sweep as sweep
from analysis.decide import workers
from analysis.decide.catalogue_sweep import Chunk
from analysis.decide.sweep import BATCHES
from analysis.run.scenario import Scenario
from hardware import files as hardware_files
from hardware.errors import RequestError
from hardware.precision import SWEEP
from hwexplorer import configurations, engine, output
from hwexplorer.export import files
from hwexplorer.options import names


def run(arguments: argparse.Namespace) -> None:
    if arguments.model:
        raise RequestError("--all sweeps every shipped model: name none, or leave --all out")
    target = Path(arguments.output) if arguments.output is not None else None
    if target is not None:
        files.check(target, overwrite=True)
    form = arguments.format or (files.format_of(target) if target is not None else "csv")
    if form not in sweep.FORMATS:
        raise RequestError(f"sweep --all writes csv or json, not {form}")
    if arguments.image_size or arguments.image_sizes:
        raise RequestError("sweep --all runs each model at its own image size: leave the size out")
    given = {option.name: option.given(arguments) for option in configurations.GRID}
    devices = () if arguments.on is None else tuple(engine.device(name).key for name in names("device")(arguments.on))
    if arguments.power_modes:
        devices = configurations.devices(devices or configurations.catalogue(), True)
    work = sweep.chunks(
        given["batches"] or BATCHES,
        given["precisions"] or SWEEP,
        (),
        tuple(dict.fromkeys(devices)),
        Scenario(execution=arguments.execution or "auto", layout=arguments.layout or "nchw"),
        engine.folders(),
        form,
    )
    if arguments.resume and (target is None or (target.exists() and not target.is_file())):
        raise RequestError("--resume goes on with a file: name it with -o")

    def parts(done: int) -> Generator[str, None, None]:
        rest = work[done:]
        texts = (
            workers.scheduled(sweep.run_chunk, rest, arguments.scheduler)
            if arguments.scheduler
            else workers.local(sweep.run_chunk, rest, arguments.workers or 0)
        )
        return sweep.join(form, _watched(rest, texts), done)

    if target is None:
        for part in parts(0):
            output.put(part)
    else:
        _write(target, work, arguments.resume, parts)


def _write(target: Path, work: list[Chunk], resume: bool, parts: Callable[[int], Generator[str, None, None]]) -> None:
    """Chunk by chunk into `FILE.KEY.part`, which becomes the file when it is whole (another key is another output);
    where it is broken off, whatever was made is kept and what to do is said."""
    place = Path(os.path.realpath(target))
    growing = place.with_name(f"{place.name[:200]}.{sweep.key(work, work[0].folders)}.part")
    done, kept = sweep.whole(growing, work) if resume and growing.is_file() else (0, 0)
    pieces = parts(done)
    try:
        hardware_files.write(target, pieces, growing=growing, kept_bytes=kept)
    except BlockingIOError:
        raise RequestError(f"another sweep writes {target}") from None
    except BaseException as error:
        pieces.close()  # workers end before anything is said
        ended = sweep.whole(growing, work)[0] if growing.is_file() else 0
        if not ended:
            growing.unlink(missing_ok=True)
        hint = f"{ended} of {len(work)} parts are kept: --resume goes on with them" if ended else "nothing is kept"
        if isinstance(error, OSError):
            raise RequestError(f"cannot write {target}: {error.strerror or error}; {hint}") from None
        if isinstance(error, RequestError):
            raise RequestError(f"{error}; {hint}") from None
        output.complain(hint)
        raise
    for other in place.parent.glob("*.part"):
        if re.fullmatch(re.escape(place.name[:200]) + r"\.[0-9a-f]{12}\.part", other.name):
            other.unlink(missing_ok=True)


def _watched(work: list[Chunk], parts: Iterator[str]) -> Iterator[str]:
    """The parts, with progress and rate on a terminal."""
    start, done, total = time.monotonic(), 0, sum(chunk.n_rows for chunk in work)
    with output.Progress() as progress:
        for chunk, part in zip(work, parts, strict=True):
            done += chunk.n_rows
            rate = done / max(time.monotonic() - start, 1e-9)
            progress.show(f"{done:,} of {total:,} rows, {rate:,.0f} rows/s")
            yield part
