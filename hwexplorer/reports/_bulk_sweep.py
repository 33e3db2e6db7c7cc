"""Write the sweep of the whole catalogue. A run that was stopped goes on from the parts that it has written."""

import argparse
import shutil
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from hashlib import sha256
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

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
from hwexplorer.version import VERSION

SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet"}
_FORMATS = {"csv": "csv", "json": "jsonl"}  # of --format, which prints lines
Run = Callable[[Sequence[catalogue_sweep.Chunk]], Iterator[str]]


def sweep_all(arguments: argparse.Namespace, lists: dict[str, Any]) -> None:
    """Write the sweep of every shipped torchvision model on all devices, or those of --on, chunk by chunk."""
    target = output.target_file(arguments)
    if target is not None:
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
        Scenario(**{name: value for name in ("execution", "layout", "prices") if (value := getattr(arguments, name))}),
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
            write_parts(target, work, run)
            return
        with closing(_rows(work, run)) as rows:  # ends the line of progress before an error is reported
            lines = chain((catalogue_sweep.header(form),), rows)
            if target is not None:  # a pipe or a device, which holds no rows
                files.write(target, lines, overwrite=True)
            else:
                for part in lines:
                    output.put(part)


def _executor(arguments: argparse.Namespace, count: int) -> AbstractContextManager[Executor | None]:
    """Return what runs the chunks: a cluster, processes, or None for this process alone."""
    if arguments.cluster:
        return catalogue_sweep.cluster(arguments.cluster)
    workers = min(arguments.workers or catalogue_sweep.cores(), count)
    return catalogue_sweep.processes(workers) if workers > 1 else nullcontext()


def _rows(work: Sequence[catalogue_sweep.Chunk], run: Run, before: int = 0) -> Generator[str, None, None]:
    """Yield the rows of the chunks, and show how far it is, after the rows `before` them."""
    begin_s, total, n = time.monotonic(), before + sum(chunk.n_rows for chunk in work), 0
    with output.Progress() as progress:
        for chunk, text in zip(work, run(work), strict=True):
            n += chunk.n_rows
            rate = n / max(time.monotonic() - begin_s, 1e-9)
            progress.show(f"{before + n:,} of {total:,} rows, {rate:,.0f} rows/s")
            yield text


def write_parts(target: Path, work: Sequence[catalogue_sweep.Chunk], run: Run) -> None:
    """Write the rows of all chunks to a file. Until all are there, the folder FILE.part has those of each chunk, from
    which a run that was stopped goes on: their names tell the request, the version and the files of devices."""
    folder, head = target.with_name(f"{target.name}.part"), catalogue_sweep.header(work[0].form).encode()
    own_files = [file_access.stamp(str(file)) for name in work[0].folders for file in sorted(Path(name).glob("*.toml"))]
    names = [sha256(repr((VERSION, own_files, chunk)).encode()).hexdigest() for chunk in work]
    try:
        folder.mkdir(exist_ok=True)
        with (folder / "lock").open("w") as lock:
            with suppress(ImportError):  # not everywhere
                import fcntl

                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left = {name: chunk for name, chunk in zip(names, work, strict=True) if not _kept_rows(folder / name)}
            done, total = (sum(chunk.n_rows for chunk in some) for some in (set(work) - set(left.values()), work))
            if done:
                output.say(f"{done:,} of {total:,} rows are those of a run that was stopped")
            with closing(_rows([*left.values()], run, done)) as rows:
                for name, text in zip(left, rows, strict=True):
                    file_access.write(folder / name, (sha256((name + text).encode()).digest(), text.encode()))
            parts = chain((head,), (_kept_rows(folder / name, True) for name in names))
            file_access.write(target, (_parquet(b"".join(parts)),) if target.suffix.lower() == ".parquet" else parts)
            shutil.rmtree(folder)
    except BlockingIOError:
        raise RequestError(f"another run is writing {target.name}: wait, or name another file") from None
    except OSError as error:
        raise RequestError(f"cannot write {error.filename or target}: {error.strerror or error}") from None


def _kept_rows(file: Path, is_needed: bool = False) -> bytes:
    """Return the rows in a file of FILE.part. If it is missing, damaged or of another: none, or raise if needed."""
    kept = file.read_bytes() if file.is_file() else b""
    rows = kept[sha256().digest_size :]
    is_whole = kept == sha256(file.name.encode() + rows).digest() + rows
    if is_needed and not is_whole:
        raise RequestError(f"a part of {file.parent.name} was damaged meanwhile: run again, which writes it again")
    return rows if is_whole else b""


def _parquet(rows: bytes) -> bytes:
    """Return rows of CSV as a Parquet file."""
    import pyarrow
    from pyarrow import csv, parquet

    texts = ("model", "device", "precision", "precision_run", "execution", "bound")
    types = {name: pyarrow.string() if name in texts else pyarrow.float64() for name in catalogue_sweep.COLUMNS}
    types |= {"batch": pyarrow.int64(), "fits": pyarrow.bool_(), "silicon": pyarrow.bool_()}
    table = csv.read_csv(pyarrow.BufferReader(rows), convert_options=csv.ConvertOptions(column_types=types))
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink)
    return bytes(sink.getvalue())
