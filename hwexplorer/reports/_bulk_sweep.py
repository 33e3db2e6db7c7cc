"""Write the sweep of the whole catalogue to a file.

FILE.part holds the rows until all are there. A run that was stopped goes on from them, and two runs cannot write one
file.
"""

import argparse
import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from analysis.estimate.scenario import Scenario
from analysis.explore import catalogue_sweep
from analysis.explore.grid import BATCHES
from hardware.base import file_access
from hardware.base.errors import RequestError
from hardware.precision import SWEEP
from hwexplorer import configurations, engine
from hwexplorer.export import files
from hwexplorer.options import name_list
from hwexplorer.process import output

SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet"}
_FORMATS = {"csv": "csv", "json": "jsonl"}  # of --format, which prints lines
_PIECE = 1 << 20  # bytes copied at once
Run = Callable[[Sequence[catalogue_sweep.Chunk]], Iterator[str]]


def sweep_all(arguments: argparse.Namespace, lists: dict[str, Any]) -> None:
    """Write the sweep of every shipped torchvision model on all devices, or those of --on, chunk by chunk."""
    target = Path(arguments.output) if arguments.output is not None else None
    if target is not None:
        files.check(target, overwrite=output.may_overwrite())
        form = files.format_of(target, SUFFIXES)
        if form == "parquet" and find_spec("pyarrow") is None:
            raise RequestError("a .parquet file needs pyarrow: pip install 'hwexplorer[parquet]'")
    elif (asked := arguments.format or "csv") in _FORMATS:
        form = _FORMATS[asked]
    else:
        raise RequestError(f"sweep --all prints csv or json (a row a line), not {asked}")
    if arguments.image_size or arguments.image_sizes:
        raise RequestError("sweep --all runs each model at its own image size: leave the size out")
    keys = () if arguments.on is None else tuple(engine.device(name).key for name in name_list("device")(arguments.on))
    if arguments.power_modes:
        keys = configurations.devices(keys or configurations.catalogue(), True)
    work = catalogue_sweep.chunks(
        lists["batches"] or BATCHES,
        lists["precisions"] or SWEEP,
        tuple(dict.fromkeys(keys)),
        Scenario(execution=arguments.execution or "auto", layout=arguments.layout or "nchw"),
        engine.folders(),
        "csv" if form == "parquet" else form,
    )
    with _executor(arguments, len(work)) as executor:

        def run(some: Sequence[catalogue_sweep.Chunk]) -> Iterator[str]:
            """Yield the rows of chunks, in their order."""
            try:
                run_all = map if executor is None else executor.map
                yield from run_all(catalogue_sweep.run_chunk, some)
            except BrokenExecutor:
                raise RequestError("a worker was killed (out of memory? --workers takes fewer)") from None

        if target is not None and (target.is_file() or not target.exists()):
            continue_file(target, work, run)
            return
        with closing(_lines(work, run)) as rows:  # ends the line of progress before an error is reported
            if target is not None:  # a pipe or a device, which holds no rows
                files.write(target, rows, overwrite=True)
            else:
                for part in rows:
                    output.put(part)


def _executor(arguments: argparse.Namespace, count: int) -> AbstractContextManager[Executor | None]:
    """Return what runs the chunks: a cluster, processes, or None for this process alone."""
    if arguments.cluster:
        return catalogue_sweep.cluster(arguments.cluster)
    workers = min(arguments.workers or catalogue_sweep.cores(), count)
    return catalogue_sweep.processes(workers) if workers > 1 else nullcontext()


def _lines(work: Sequence[catalogue_sweep.Chunk], run: Run, done: int = 0) -> Generator[str, None, None]:
    """Yield the header and the rows of the chunks after the first `done`, and show how far it is."""
    if not done:
        yield catalogue_sweep.header(work[0].form)
    begin_s, total, n = time.monotonic(), sum(chunk.n_rows for chunk in work), 0
    before = sum(chunk.n_rows for chunk in work[:done])
    with output.Progress() as progress:
        for chunk, text in zip(work[done:], run(work[done:]), strict=True):
            n += chunk.n_rows
            rate = n / max(time.monotonic() - begin_s, 1e-9)
            progress.show(f"{before + n:,} of {total:,} rows, {rate:,.0f} rows/s")
            yield text


def continue_file(target: Path, work: Sequence[catalogue_sweep.Chunk], run: Run) -> None:
    """Write the rows of all chunks to a file by way of FILE.part, which holds rows of a run that was stopped. Raises
    RequestError if another run is writing it."""
    part = target.with_name(f"{target.name}.part")
    try:
        with _locked(part) as file:
            with closing(_lines(work, run, _take_up(file, work, run))) as rows:
                for text in rows:
                    file.write(text.encode())
                    file.flush()
            file.seek(0)
            is_table = target.suffix.lower() == ".parquet"
            pieces = [_parquet(part)] if is_table else iter(lambda: file.read(_PIECE), b"")
            file_access.write(target, pieces)
            part.unlink()
    except OSError as error:
        raise RequestError(f"cannot write {target}: {error.strerror or error}") from None


@contextmanager
def _locked(part: Path) -> Iterator[BinaryIO]:
    """Open a file for this process alone. The lock ends with the process. Raises RequestError if another one has it."""
    with part.open("a+b") as file:
        try:
            with suppress(ImportError):
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_taken = not part.exists() or not os.path.samestat(os.fstat(file.fileno()), part.stat())
        except BlockingIOError:
            is_taken = True
        if is_taken:
            raise RequestError(f"another run is writing {part.name.removesuffix('.part')}: wait, or name another file")
        yield file


def _take_up(file: BinaryIO, work: Sequence[catalogue_sweep.Chunk], run: Run) -> int:
    """Return how many chunks a stopped run has written whole, and cut what follows them. The last of these is run
    again: if its rows differ, they are of another request or version, and the file is emptied."""
    head = catalogue_sweep.header(work[0].form).encode()
    file.seek(0)
    end, done, last = len(head), 0, b""
    for chunk in work if file.read(end) == head else ():
        rows = b"".join(islice(file, chunk.n_rows))
        if rows.count(b"\n") < chunk.n_rows:
            break
        end, done, last = end + len(rows), done + 1, rows
    if not done or next(run(work[done - 1 : done])).encode() != last:
        if done:
            output.say(f"{Path(file.name).name} has rows of another request or version: it begins again")
        file.truncate(0)
        return 0
    file.truncate(end)
    counts = [chunk.n_rows for chunk in work]
    output.say(f"{sum(counts[:done]):,} of {sum(counts):,} rows are those of a run that was stopped")
    return done


def _parquet(rows: Path) -> bytes:
    """Return rows of CSV as a Parquet file."""
    import pyarrow
    from pyarrow import csv, parquet

    texts = ("model", "device", "precision", "precision_run", "execution", "bound")
    types = {name: pyarrow.string() if name in texts else pyarrow.float64() for name in catalogue_sweep.COLUMNS}
    types |= {"batch": pyarrow.int64(), "fits": pyarrow.bool_(), "silicon": pyarrow.bool_()}
    table = csv.read_csv(rows, convert_options=csv.ConvertOptions(column_types=types))
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data
