"""A sweep of every model on every device at many batches and precisions, in chunks that workers evaluate independently.

A chunk is a few models on all devices: plain data that any process turns into the same rows. Rows are ordered by model
group, then device, batch, precision and model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from analysis.estimate.bundle import (
    Bundle,
    BundleDemand,
    bundle_demand,
    evaluate_bundle,
    make_bundle,
    peak_memory_bytes,
)
from analysis.estimate.scenario import Scenario
from analysis.estimate.totals import Totals, rates
from analysis.estimate.workspace import blocked
from analysis.explore.search.grid import check_lists, list_scenarios
from analysis.model import store
from analysis.model.ir.workload import Floats, Workload
from analysis.model.names import zoo
from hardware.device import Device, catalogue_devices, load_device
from hardware.errors import RequestError
from hardware.mapping.common import Mapping
from hardware.plan import Plan
from hardware.runtime import resolve_runtime
from hardware.safe_text import inert
from hardware.setup import make_setup

GROUP = 12  # models evaluated together: enough to fill an array operation, few enough to stay in the cache
TOGETHER = 8  # batches of them evaluated together: whatever is asked for, memory stays what it is
KEPT_BYTES = 24 << 20  # of memory for arrays that come and go
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
        """Return the number of rows that the chunk gives."""
        return len(self.models) * len(self.devices) * len(self.batches) * len(self.precisions)


def chunks(
    batches: Sequence[int],
    precisions: Sequence[str],
    devices: Sequence[str],
    scenario: Scenario,
    folders: Sequence[Path],
    form: str,
) -> list[Chunk]:
    """Return the sweep of every shipped torchvision model in chunks. Without devices the catalogue. Raises RequestError
    for an empty or invalid list."""
    named = tuple(info.name for info in zoo.models() if store.is_ready(info.name))
    on = tuple(devices) or tuple(device.key for device in catalogue_devices(tuple(folders)))
    check_lists("sweep", model=named, device=on, batch=batches, precision=precisions)
    list_scenarios(scenario, batches, precisions)
    return [
        Chunk(
            named[i : i + GROUP], on, tuple(batches), tuple(precisions), scenario.execution, scenario.layout,
            tuple(map(str, folders)), form,
        )
        for i in range(0, len(named), GROUP)
    ]  # fmt: skip


def join(form: str, parts: Iterator[str]) -> Iterator[str]:
    """Yield the text of the file from the texts of the chunks."""
    yield ",".join(COLUMNS) + "\n" if form == "csv" else '{"schema": "hwexplorer/1", "rows": [\n'
    for place, part in enumerate(parts):
        yield part if not place or form == "csv" else ",\n" + part
    yield "" if form == "csv" else "]}\n"


@lru_cache(maxsize=4)
def bundled(models: tuple[str, ...], execution: str, places_models: bool) -> Bundle:
    """Return models as a bundle. Cached."""
    return make_bundle([shipped_workload(name) for name in models], execution, places_models)


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
    write = _csv if chunk.form == "csv" else _json
    np.empty(KEPT_BYTES, dtype=np.uint8)  # glibc keeps as much as was once given back, and asks the system no more
    cache: dict[tuple[Any, ...], BundleDemand] = {}
    held: dict[tuple[Any, ...], Floats] = {}
    lines: list[str] = []
    together = [chunk.batches[i : i + TOGETHER] for i in range(0, len(chunk.batches), TOGETHER)]
    for key, work, models in _by_work(chunk):
        device = named_device(key, chunk.folders)
        runtime = resolve_runtime(device, chunk.execution, work)
        execution, joins = runtime.mode, runtime.joins(device)
        many = bundled(models, joins, device.arch.places_models)
        for batches in together:
            same: dict[tuple[Any, ...], tuple[Totals, tuple[str, ...]]] = {}
            mapped: dict[tuple[Any, ...], Mapping] = {}
            rows: list[list[tuple[Any, ...]]] = []
            for precision in chunk.precisions:
                setup = make_setup(device, precision, runtime, chunk.layout)
                runs = setup.plan
                asked_key = (work, batches, runs.widths, joins, device.arch.places_models)
                if asked_key not in cache:
                    cache[asked_key] = bundle_demand(many, batches, runs.widths)
                held_key = (*asked_key[:-1], blocked(device, execution))
                if held_key not in held:
                    held[held_key] = peak_memory_bytes(many.workloads, joins, batches, runs.widths, held_key[-1])
                ran = _plan_key(runs)
                if ran not in same:
                    same[ran] = evaluate_bundle(cache[asked_key], setup, mapped)
                rows.append(list(_rows(models, batches, device, precision, execution, *same[ran], held[held_key])))
            for at in range(0, len(models) * len(batches), len(models)):
                lines.extend(write(row) for each in rows for row in each[at : at + len(models)])
    return "".join(lines) if chunk.form == "csv" else ",\n".join(lines)


def _by_work(chunk: Chunk) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield each device with the models of one kind of work, which one runtime runs."""
    works: dict[str, list[str]] = {}
    for name in chunk.models:
        works.setdefault(shipped_workload(name).work, []).append(name)
    for key in chunk.devices:
        for work, models in works.items():
            yield key, work, tuple(models)


def _plan_key(runs: Plan) -> tuple[Any, ...]:
    """Return what of a plan decides the cost: two requests with the same key cost the same."""
    return (
        runs.stored, runs.widths, runs.convolution, runs.contraction, runs.matrix, runs.vector_mac, runs.vector,
        runs.matrix_rate,
    )  # fmt: skip


def _rows(
    models: Sequence[str],
    batches: Sequence[int],
    device: Device,
    precision: str,
    execution: str,
    totals: Totals,
    formats: tuple[str, ...],
    held: Floats,
) -> Iterator[tuple[Any, ...]]:
    room, key, silicon = device.memory_bytes, device.key, device.silicon
    for (batch, name), latency, pipelined, energy, peak, utilization, bound, form in zip(
        product(batches, models), totals.latency_s.tolist(), totals.pipelined_s.tolist(), totals.energy_j.tolist(),
        held.tolist(), totals.utilization.tolist(), totals.bound, formats, strict=True,
    ):  # fmt: skip
        each = rates(batch, latency, energy, pipelined)
        yield (
            name, key, batch, precision, form, execution, latency, energy, each.energy_j_per_inference,
            each.edp_js, each.throughput_per_s, each.average_power_w, peak, peak <= room, utilization, bound,
            silicon,
        )  # fmt: skip


def _csv(row: tuple[Any, ...]) -> str:
    # Floats are written so that they read back equal; the two names come first.
    return ",".join((_quote_cell(row[0]), _quote_cell(row[1]), *map(str, row[2:]))) + "\n"


@lru_cache(maxsize=4096)
def _quote_cell(name: str) -> str:
    """Return a name as a CSV cell that a spreadsheet does not run: a user's device file may be called anything."""
    text = inert(name)
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"') else text


def _json(row: tuple[Any, ...]) -> str:
    finite = [None if isinstance(value, float) and not math.isfinite(value) else value for value in row]
    return json.dumps(dict(zip(COLUMNS, finite, strict=True)), allow_nan=False)
