"""Every model on every device at many batches and precisions, in chunks that workers evaluate independently.

A chunk is a few models on all devices: plain data that any process, here or on a cluster, turns into the same
rows. Rows are ordered by model group, then device, batch, precision and model, whoever computes them.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec

from analysis.decide.sweep import BATCHES
from analysis.run.bundle import Asked, Bundle, ask, bundle, evaluate, peaks
from analysis.run.scenario import Scenario
from analysis.run.totals import Totals, rates
from analysis.workload import store, zoo
from analysis.workload.workload import Floats, Workload
from hardware import errors as hardware_errors
from hardware import policy
from hardware.device import Device, load, load_all
from hardware.errors import RequestError
from hardware.plan import Plan, plan
from hardware.precision import SWEEP
from hardware.runtime import resolve
from hardware.text import inert

GROUP = 12  # models evaluated together: enough to fill an array operation, few enough to stay in the cache
FORMATS = ("csv", "json")

COLUMNS = (
    "model", "device", "batch", "precision", "precision_run", "execution", "latency_s", "energy_j",
    "energy_j_per_inference", "edp_js", "throughput_per_s", "average_power_w", "peak_memory_bytes", "fits",
    "utilization", "bound", "silicon",
)  # fmt: skip


class Chunk(msgspec.Struct, frozen=True):
    """A part of a sweep: models by name, devices by key, and where the user's device files are."""

    models: tuple[str, ...]
    devices: tuple[str, ...]
    batches: tuple[int, ...]
    precisions: tuple[str, ...]
    execution: str
    layout: str
    folders: tuple[str, ...]
    form: str

    @property
    def n_rows(self) -> int:
        return len(self.models) * len(self.devices) * len(self.batches) * len(self.precisions)


def chunks(
    batches: Sequence[int] = BATCHES,
    precisions: Sequence[str] = SWEEP,
    models: Sequence[str] = (),
    devices: Sequence[str] = (),
    asked: Scenario | None = None,
    folders: Sequence[Path] = (),
    form: str = "csv",
) -> list[Chunk]:
    """The whole sweep in chunks. Without models every shipped torchvision model, without devices the catalogue.

    Raises RequestError for an empty or invalid list."""
    named = tuple(models) or tuple(info.name for info in zoo.models() if store.is_ready(info.name))
    on = tuple(devices) or tuple(device.key for device in load_all(tuple(folders))[0])
    for what, values in (("model", named), ("device", on), ("batch", batches), ("precision", precisions)):
        if not values:
            raise RequestError(f"nothing to sweep: no {what} is given")
    settings = asked or Scenario()
    for batch in batches:
        for precision in precisions:
            Scenario(batch, precision)
    return [
        Chunk(
            named[i : i + GROUP], on, tuple(batches), tuple(precisions), settings.execution, settings.layout,
            tuple(map(str, folders)), form,
        )
        for i in range(0, len(named), GROUP)
    ]  # fmt: skip


def head(form: str) -> str:
    return ",".join(COLUMNS) + "\n" if form == "csv" else '{"schema": "hwexplorer/1", "rows": [\n'


def tail(form: str) -> str:
    return "" if form == "csv" else "]}\n"


def join(form: str, parts: Iterator[str], done: int = 0) -> Generator[str, None, None]:
    """The text of the whole from the texts of the chunks; where `done` of them are there already, what follows."""
    if not done:
        yield head(form)
    for place, part in enumerate(parts, done):
        yield part if not place or form == "csv" else ",\n" + part
    yield tail(form)


def whole(path: Path, work: Sequence[Chunk]) -> tuple[int, int]:
    """How many chunks of a text that was broken off are whole, and how many bytes these are. A row is a line."""
    rows, form, done, end = 0, work[0].form, 0, 0
    ends = list(accumulate(chunk.n_rows for chunk in work))
    separator, most = (0, len(work)) if form == "csv" else (2, len(work) - 1)  # `,` and a line break come with the next
    with path.open("rb") as file:
        if file.readline() != head(form).encode():
            return 0, 0
        offset = file.tell()
        for line in file:
            offset += len(line)
            rows += line.endswith(b"\n")
            if done < most and rows == ends[done]:
                done, end = done + 1, offset - separator
    return done, end


def key(work: Sequence[Chunk]) -> str:
    """Another one where any row could be another: for another request, other code, data or device files."""
    seen = hashlib.sha256(msgspec.json.encode(work))
    folders = [Path(hardware_errors.__file__).parent, Path(__file__).parents[1], *map(Path, work[0].folders)]
    for folder in folders:
        for path in sorted(path for suffix in ("py", "toml", "gz") for path in folder.rglob(f"*.{suffix}")):
            seen.update(str(path).encode(errors="surrogatepass") + path.read_bytes())
    return seen.hexdigest()[:12]


@lru_cache(maxsize=4)
def _bundle(models: tuple[str, ...], execution: str, is_managed: bool, places_models: bool) -> Bundle:
    return bundle([_ready(name) for name in models], execution, is_managed, places_models)


@lru_cache(maxsize=2 * GROUP)
def _ready(name: str) -> Workload:
    found = store.ready(name)
    if found is None:
        raise RequestError(f"{name} has to be captured first")
    return found


@lru_cache(maxsize=1024)
def _device(key: str, folders: tuple[str, ...]) -> Device:
    return load(key, tuple(map(Path, folders)))


def run_chunk(chunk: Chunk) -> str:
    """The rows of a chunk as text. Pure: the same chunk gives the same text in every process."""
    write = _csv if chunk.form == "csv" else _json
    cache: dict[tuple[Any, ...], Asked] = {}
    held: dict[tuple[Any, ...], Floats] = {}
    lines: list[str] = []
    for key, work, models in _by_work(chunk):
        device = _device(key, chunk.folders)
        runtime = resolve(device, chunk.execution, work)
        execution = runtime.mode
        # One bundle for devices with caches, one for those with a scratchpad, one for those that place whole models.
        kind = (device.arch.is_managed, device.arch.places_models)
        many = _bundle(models, execution, *kind)
        for batch in chunk.batches:
            same: dict[tuple[Any, ...], tuple[Totals, tuple[str, ...]]] = {}
            for precision in chunk.precisions:
                runs = plan(device, precision, execution)
                asked_key = (work, batch, runs.widths, execution, kind)
                if asked_key not in cache:
                    cache[asked_key] = ask(many, batch, runs.widths)
                asked = cache[asked_key]
                held_key = (*asked_key, device.arch.is_host)
                if held_key not in held:
                    held[held_key] = peaks(many, batch, runs.widths, device)
                ran = _what_runs(runs)
                if ran not in same:
                    same[ran] = evaluate(asked, device, runs, runtime, chunk.layout)
                rows = _rows(asked, device, precision, execution, *same[ran], held[held_key])
                lines.extend(map(write, rows))
    return "".join(lines) if chunk.form == "csv" else ",\n".join(lines)


def _by_work(chunk: Chunk) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Devices with the models that one runtime runs: those of one kind of work."""
    works: dict[str, list[str]] = {}
    for name in chunk.models:
        works.setdefault(_ready(name).work, []).append(name)
    for key in chunk.devices:
        for work, models in works.items():
            yield key, work, tuple(models)


def _what_runs(runs: Plan) -> tuple[Any, ...]:
    """A plan without what was asked for: two requests that run alike cost alike."""
    return (
        runs.stored, runs.widths, runs.convolution, runs.contraction, runs.matrix, runs.vector_mac, runs.vector,
        runs.matrix_rate,
    )  # fmt: skip


def _rows(
    asked: Asked, device: Device, precision: str, execution: str, whole: Totals, formats: tuple[str, ...], held: Floats
) -> Iterator[tuple[Any, ...]]:
    batch, room, key = asked.batch, device.memory_bytes, device.key
    for workload, latency, pipelined, energy, peak, utilization, bound, form in zip(
        asked.bundle.workloads, whole.latency_s.tolist(), whole.pipelined_s.tolist(), whole.energy_j.tolist(),
        held.tolist(), whole.utilization.tolist(), whole.bound, formats, strict=True,
    ):  # fmt: skip
        each = rates(batch, latency, energy, pipelined)
        yield (
            workload.name, key, batch, precision, form, execution, latency, energy, each.energy_j_per_inference,
            each.edp_js, each.throughput_per_s, each.average_power_w, peak, peak <= room, utilization, bound,
            device.silicon,
        )  # fmt: skip


def _csv(row: tuple[Any, ...]) -> str:
    # Floats are written so that they read back equal; the two names come first.
    return ",".join([_quoted(row[0]), _quoted(row[1]), *[str(value) for value in row[2:]]]) + "\n"


@lru_cache(maxsize=4096)
def _quoted(name: str) -> str:
    """A name as a CSV cell that a spreadsheet does not run: a user's device file may be called anything."""
    text = inert(name)
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"') else text


def _json(row: tuple[Any, ...]) -> str:
    finite = [None if isinstance(value, float) and not math.isfinite(value) else value for value in row]
    return json.dumps(dict(zip(COLUMNS, finite, strict=True)), allow_nan=False)


def local(work: Sequence[Chunk], workers: int = 0) -> Iterator[str]:
    """Evaluate chunks here on `workers` processes (0: one per core available), results in order."""
    count = 1 if policy.current().is_served else min(workers or _cores(), len(work))
    if count <= 1:
        yield from map(run_chunk, work)
        return
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    pool = ProcessPoolExecutor(count, get_context("spawn"), _work_for_parent)
    done = False
    try:
        with ThreadPoolExecutor(1) as starter:  # a signal is raised in the main thread: here none breaks off a start
            futures = starter.submit(lambda: [pool.submit(run_chunk, chunk) for chunk in work]).result()
        for future in futures:
            yield future.result()
        done = True
    except BrokenProcessPool:
        raise RequestError("a worker of the sweep was killed (out of memory? --workers takes fewer)") from None
    finally:
        # Killed first, and none is cancelled: the pool's thread fails on a cancelled one whose worker has gone.
        for process in [] if done else list((pool._processes or {}).values()):
            process.kill()
        pool.shutdown()


def _work_for_parent() -> None:
    """In a worker. It ignores Ctrl-C: the parent hears it, drops what has not begun and ends it. Where the parent is
    killed nobody says so, and a worker would wait for work forever: it holds both ends of the pipe that work comes on.
    """
    import multiprocessing
    import signal
    import threading

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def scheduled(work: Sequence[Chunk], address: str, connect: Callable[[str], Any] | None = None) -> Iterator[str]:
    """Evaluate chunks on an existing Dask cluster, which is left running; results in order.

    Raises RequestError, before there is any, where `distributed` is not installed or nothing answers at the address."""
    policy.require("code", f"connecting to {address}")  # what a scheduler answers with may be code
    return _gathered(work, (connect or _client)(address))


def _gathered(work: Sequence[Chunk], client: Any) -> Iterator[str]:
    try:
        futures = client.map(run_chunk, list(work), pure=False)
        try:
            for future in futures:
                yield future.result()
        except BaseException:
            client.cancel(futures)
            raise
    finally:
        client.close()


def _client(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise RequestError("--scheduler needs Dask: pip install distributed") from None
    try:
        return Client(address, timeout=10)
    except (OSError, ValueError, TimeoutError) as error:
        raise RequestError(f"no Dask scheduler answers at {address[:80]!r} ({type(error).__name__})") from None
