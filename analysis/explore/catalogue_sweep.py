"""A sweep of every model on every device at many batches and precisions, in chunks that workers evaluate independently.

A chunk is a few models on all devices: plain data that any process turns into the same rows, of this machine or of a
Dask cluster. It makes no points of a grid, but evaluates models together and keeps their rows alone, which are ordered
by model group, then device, batch, precision and model.
"""

import math
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, lru_cache, partial
from itertools import product
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from analysis.estimate.estimate import Bundle, Evaluation, evaluate_in_parts, make_bundle
from analysis.estimate.kernels import usual_joins
from analysis.estimate.metrics import rates
from analysis.estimate.peak_memory import block_channels, peak_memory
from analysis.estimate.scenario import Scenario
from analysis.explore.grid import TOGETHER, check_axes
from analysis.model import store
from analysis.model.ir.workload import Floats, Workload
from analysis.model.names import zoo
from hardware.base.errors import RequestError
from hardware.base.records import group_by
from hardware.base.text import inert
from hardware.device import Device
from hardware.device_catalog import catalogue_devices, load_device
from hardware.plan import Plan
from hardware.setup import Setup, make_setup, resolve_runtime

GROUP = 8  # models evaluated together: enough to fill an array operation, few enough to stay in the cache
KEPT_BYTES = 24 << 20  # of memory for short-lived arrays

COLUMNS = (
    "model", "device", "batch", "precision", "precision_run", "execution", "latency_s", "energy_j",
    "energy_j_per_inference", "edp_js", "throughput_per_s", "average_power_w", "peak_memory_bytes", "fits",
    "utilization", "bound", "silicon",
)  # fmt: skip
ASKED = COLUMNS.index("precision_run")  # columns before it are the request, the others its cost


class Chunk(msgspec.Struct, frozen=True):
    """A part of a sweep: models by name, devices by key, and the folders of the user's device files."""

    models: tuple[str, ...]
    devices: tuple[str, ...]
    batches: tuple[int, ...]
    precisions: tuple[str, ...]
    execution: str
    layout: str
    folders: tuple[str, ...]
    form: str  # "csv" or "jsonl"
    prices: str = "own"

    @property
    def n_rows(self) -> int:
        """Return the number of rows of the chunk."""
        return len(self.models) * len(self.devices) * len(self.batches) * len(self.precisions)


def chunks(
    batches: Sequence[int],
    precisions: Sequence[str],
    devices: Sequence[str],
    scenario: Scenario,
    folders: Sequence[Path],
    form: str,
) -> list[Chunk]:
    """Return the sweep of every shipped torchvision model in chunks, by default on all devices of the catalogue. Raises
    RequestError for an empty or invalid list."""
    models = tuple(info.name for info in zoo.models() if store.is_ready(info.name))
    keys = tuple(devices) or tuple(device.key for device in catalogue_devices(tuple(folders)))
    check_axes(model=models, device=keys, batch=batches, precision=precisions)
    for batch, precision in product(batches, precisions):
        msgspec.structs.replace(scenario, batch=batch, precision=precision)  # raises
    return [
        Chunk(
            models[i : i + GROUP], keys, tuple(batches), tuple(precisions), scenario.execution, scenario.layout,
            tuple(map(str, folders)), form, scenario.prices,
        )
        for i in range(0, len(models), GROUP)
    ]  # fmt: skip


def header(form: str) -> str:
    """Return the line before the rows, empty for JSON lines."""
    return ",".join(COLUMNS) + "\n" if form == "csv" else ""


@lru_cache(maxsize=2 * GROUP)
def shipped_workload(name: str) -> Workload:
    """Return a captured model. Cached. Raises RequestError for one that is not captured yet."""
    workload = store.ready(name)
    if workload is None:
        raise RequestError(f"{name} has to be captured first")
    return workload


@lru_cache(maxsize=1024)
def named_device(key: str, folders: tuple[str, ...]) -> Device:
    """Return a device of the catalogue or of folders. Cached."""
    return load_device(key, tuple(map(Path, folders)))


def run_chunk(chunk: Chunk) -> str:
    """Return the rows of a chunk as text, the same in every process."""
    np.empty(KEPT_BYTES, dtype=np.uint8)  # glibc then keeps as much freed memory for later arrays
    rows: list[tuple[tuple[int, ...], str]] = []  # by place in the chunk
    write_names = _writer(chunk.form, COLUMNS[:2])
    row = "%s,%s,%s,%s\n" if chunk.form == "csv" else '{%s, "batch": %s, "precision": "%s", %s}\n'
    for (work, _), models in _alike(chunk).items():
        write_costs = _cost_writer(models, chunk.form)
        for device_place, key in enumerate(chunk.devices):
            device = named_device(key, chunk.folders).priced_by(chunk.prices)
            runtime = resolve_runtime(device, chunk.execution, work)
            names = [(chunk.models.index(name), write_names((name, key))) for name in models]
            setups = [make_setup(device, precision, runtime, chunk.layout) for precision in chunk.precisions]
            for first in range(0, len(chunk.batches), TOGETHER):
                batches = chunk.batches[first : first + TOGETHER]
                costs: dict[Plan, list[str]] = {}  # plans that differ in words alone cost the same
                for precision_place, (precision, setup) in enumerate(zip(chunk.precisions, setups, strict=True)):
                    plan = msgspec.structs.replace(setup.plan, requested="", marks=())
                    if plan not in costs:
                        costs[plan] = write_costs(setup, batches)
                    runs = product(enumerate(batches, first), names)
                    rows += [
                        ((device_place, batch_place, precision_place, place), row % (name, batch, precision, cost))
                        for ((batch_place, batch), (place, name)), cost in zip(runs, costs[plan], strict=True)
                    ]
    return "".join([text for _, text in sorted(rows)])


def _cost_writer(models: Sequence[str], form: str) -> Callable[[Setup, tuple[int, ...]], list[str]]:
    """Return a function that writes the cost of each batch of each model on a setup. Bundles and peaks of memory are
    kept, for other devices have the same."""
    workloads = [shipped_workload(name) for name in models]
    write = _writer(form, COLUMNS[ASKED:])

    bundle: Callable[..., Bundle] = cache(partial(make_bundle, workloads))

    @cache
    def peak_bytes(batches: Sequence[int], *run: Any) -> Floats:
        """Return the peak of memory of each batch of each model."""
        return np.array([peak_memory(workload, batch, *run).peak_bytes for batch in batches for workload in workloads])

    def write_costs(setup: Setup, batches: tuple[int, ...]) -> list[str]:
        """Return the cost of each run as text, batch by batch."""
        shared = setup.plan.widths, usual_joins(workloads[0], setup.runtime.joins(setup.device))
        is_distinct = not setup.device.arch.places_models
        evaluation = evaluate_in_parts(bundle(batches, *shared, is_distinct), workloads, setup)
        held = peak_bytes(batches, *shared, block_channels(setup.device, setup.runtime.mode))
        return list(map(write, _costs(np.repeat(batches, len(models)).tolist(), setup, evaluation, held)))

    return write_costs


def _alike(chunk: Chunk) -> dict[tuple[str, str], list[str]]:
    """Return the models by kind of work, which decides the runtime, and by how runtimes may join them."""

    def kind(name: str) -> tuple[str, str]:
        """Return the kind of work, and the way to join operators."""
        workload = shipped_workload(name)
        return workload.work, usual_joins(workload, "clamped")

    return group_by(chunk.models, kind)


def _costs(batches: Sequence[int], setup: Setup, evaluation: Evaluation, held: Floats) -> Iterator[tuple[Any, ...]]:
    """Yield the cost of each run, in the order of the columns."""
    device, execution, totals = setup.device, setup.runtime.mode, evaluation.totals
    of_convolution = evaluation.bundle.mostly_convolution
    formats = [setup.plan.precision_run(is_most) for is_most in of_convolution]
    room, silicon = device.memory_bytes, device.silicon
    for batch, latency, pipelined, energy, peak, utilization, bound, form in zip(
        batches, totals.latency_s.tolist(), totals.pipelined_s.tolist(), totals.energy_j.tolist(), held.tolist(),
        totals.utilization.tolist(), totals.bound, formats, strict=True,
    ):  # fmt: skip
        figure = rates(batch, latency, energy, pipelined)
        yield (
            form, execution, latency, energy, figure.energy_j_per_inference, figure.edp_js, figure.throughput_per_s,
            figure.average_power_w, peak, peak <= room, utilization, bound, silicon,
        )  # fmt: skip


def _writer(form: str, columns: Sequence[str]) -> Callable[[tuple[Any, ...]], str]:
    """Return a function that writes values of some columns as part of a row. Floats read back equal."""
    if form == "csv" and columns == COLUMNS[:2]:
        return lambda names: ",".join(map(_quote_cell, names))
    if form == "csv":
        return ",".join(["%s"] * len(columns)).__mod__
    from json import dumps  # imported late: few sweeps are written as JSON

    def cell(value: Any) -> str:
        """Return a value in JSON."""
        return "null" if isinstance(value, float) and not math.isfinite(value) else dumps(value)

    cells = ", ".join(f'"{name}": %s' for name in columns)
    return lambda values: cells % tuple(map(cell, values))


@lru_cache(maxsize=4096)
def _quote_cell(name: str) -> str:
    """Return a name as a CSV cell that a spreadsheet does not execute: a user may give a device file any name."""
    text = inert(name)
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"') else text


# --- what runs the chunks ---------------------------------------------------------------------------------


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def processes(count: int) -> Iterator[Executor]:
    """Yield an executor of so many processes, and kill them at the end, whatever they do."""
    others = set(active_children())
    executor = ProcessPoolExecutor(count, get_context("spawn"), initializer=_follow_parent)
    try:
        with ThreadPoolExecutor(1) as starter:  # signals go to the main thread, so none interrupts a start here
            starter.submit(lambda: [executor.submit(cores) for _ in range(count)]).result()
        yield executor
    finally:
        for process in set(active_children()) - others:
            process.kill()
        executor.shutdown(cancel_futures=True)


def _follow_parent() -> None:
    """Leave ctrl+c to the parent, and end when it has ended, also if it was killed."""

    def exit_with_parent() -> None:
        """Wait for the end of the parent, then exit at once."""
        if (parent := parent_process()) is not None:
            parent.join()
            os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=exit_with_parent, daemon=True).start()


@contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """Yield an executor on the workers of a Dask scheduler. Raises RequestError without Dask, or if none answers."""
    try:
        from distributed import Client
    except ImportError:
        raise RequestError("--cluster needs Dask: pip install 'hwexplorer[cluster]'") from None
    try:
        client = Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise RequestError(f"no Dask scheduler answers at {address[:80]}: {error}") from None
    with client:
        yield client.get_executor(pure=False)
