"""One model over batches, precisions, image sizes, devices and power modes: what is best where, and from which
batch on another device wins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, pairwise

import msgspec

from analysis.decide.compare import SCHEMA
from analysis.run.estimate import Estimate, estimate
from analysis.run.scenario import Scenario
from analysis.workload.workload import Workload
from hardware.device import Device
from hardware.errors import RequestError

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
METRICS = ("energy", "latency", "edp")


class Point(msgspec.Struct, frozen=True):
    """One configuration. Energy and latency are for the whole batch; SI units."""

    model: str
    device: str
    name: str
    architecture: str
    image_size: int | None
    batch: int
    precision: str
    precision_run: str
    execution_run: str
    latency_s: float
    energy_j: float
    latency_s_per_inference: float
    energy_j_per_inference: float
    edp_js: float
    throughput_per_s: float
    average_power_w: float
    peak_memory_bytes: float
    fits: bool
    utilization: float
    bound: str


class Best(msgspec.Struct, frozen=True):
    """The batch that is best on one device for one aim, among those that fit; `value` in the aim's SI unit."""

    device: str
    precision: str
    image_size: int | None
    aim: str
    batch: int
    value: float


class Crossover(msgspec.Struct, frozen=True):
    """From `batch` on `after` has the lower metric, `before` up to there; without one `before` wins throughout.

    `changes` counts how often the winner changes over the batches swept; the first is given."""

    metric: str
    precision: str
    image_size: int | None
    before: str
    after: str
    batch: int | None
    changes: int


class Sweep(msgspec.Struct, frozen=True):
    """The document of `hwexplorer sweep MODEL`."""

    schema: str
    model: str
    batches: tuple[int, ...]
    precisions: tuple[str, ...]
    execution: str
    layout: str
    rows: tuple[Point, ...]
    best: tuple[Best, ...]
    crossovers: tuple[Crossover, ...]


def point(result: Estimate) -> Point:
    """The figures of one estimate as a row."""
    batch, device = result.scenario.batch, result.device
    return Point(
        result.workload.name, device.key, device.name, device.architecture, result.workload.image_size,
        batch, result.scenario.precision, result.precision_run, result.execution, result.latency_s, result.energy_j,
        result.latency_s / batch, result.energy_j / batch, result.edp_js, result.throughput_per_s,
        result.average_power_w, result.memory.peak_bytes, result.fits, result.utilization, result.bound,
    )  # fmt: skip


def sweep(
    workloads: Sequence[Workload],
    devices: Sequence[Device],
    batches: Iterable[int],
    precisions: Iterable[str],
    asked: Scenario,
    tick: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Evaluate every combination; `workloads` are one model at several image sizes. Batches are sorted.

    `tick(done, total)` is called after each. Raises RequestError for an empty or invalid list."""
    sizes, formats = tuple(sorted(set(batches))), tuple(dict.fromkeys(precisions))
    for what, values in (("image size", workloads), ("device", devices), ("batch", sizes), ("precision", formats)):
        if not values:
            raise RequestError(f"nothing to sweep: no {what} is given")
    series = [
        [(workload, device, msgspec.structs.replace(asked, batch=batch, precision=precision)) for batch in sizes]
        for workload in workloads
        for device in devices
        for precision in formats
    ]
    rows: list[list[Point]] = []
    total, done = sum(map(len, series)), 0
    for line in series:
        rows.append([])
        for configuration in line:
            rows[-1].append(point(estimate(*configuration)))
            done += 1
            if tick is not None:
                tick(done, total)
    best = tuple(found for line in rows for found in _best(line))
    return Sweep(
        SCHEMA, workloads[0].name, sizes, formats, asked.execution, asked.layout,
        tuple(p for line in rows for p in line), best, _crossovers(series, rows),
    )  # fmt: skip


# What is best for an aim: the figure, and whether more of it is better.
_AIMS: dict[str, tuple[Callable[[Point], float], bool]] = {
    "energy per inference": (lambda p: p.energy_j_per_inference, False),
    "throughput": (lambda p: p.throughput_per_s, True),
    "edp": (lambda p: p.edp_js, False),
}


def _best(line: list[Point]) -> list[Best]:
    """The best batch of one device for each aim; the smallest of equals; nothing where none fits."""
    fitting = [p for p in line if p.fits]
    found = []
    for aim, (figure, more) in _AIMS.items():
        if fitting:
            top = (max if more else min)(fitting, key=figure)
            found.append(Best(top.device, top.precision, top.image_size, aim, top.batch, figure(top)))
    return found


def metric(result: Point | Estimate, name: str) -> float:
    """Energy per inference (J), latency of the batch (s) or EDP (J s)."""
    if name == "latency":
        return result.latency_s
    if name == "edp":
        return result.edp_js
    batch = result.batch if isinstance(result, Point) else result.scenario.batch
    return result.energy_j / batch


def _standing(result: Point | Estimate, name: str) -> float:
    """The metric; infinite where the model does not fit, so that such a device is never ahead of one it fits on."""
    return metric(result, name) if result.fits else float("inf")


_Configuration = tuple[Workload, Device, Scenario]


def _crossovers(series: list[list[_Configuration]], rows: list[list[Point]]) -> tuple[Crossover, ...]:
    """For each pair of devices in the same precision and image size, the batch from which the other wins."""
    found: list[Crossover] = []
    for i, j in combinations(range(len(rows)), 2):
        a, b = rows[i], rows[j]
        if (a[0].precision, a[0].image_size) == (b[0].precision, b[0].image_size) and a[0].device != b[0].device:
            found.extend(_crossover(name, series[i], series[j], a, b) for name in METRICS)
    return tuple(found)


def _crossover(
    name: str, left: list[_Configuration], right: list[_Configuration], a: list[Point], b: list[Point]
) -> Crossover:
    wins = [_standing(p, name) <= _standing(q, name) for p, q in zip(a, b, strict=True)]
    turns = [k for k, (now, then) in enumerate(pairwise(wins)) if now != then]
    names = (a[0].device, b[0].device) if wins[0] else (b[0].device, a[0].device)
    batch = None
    if turns:
        k = turns[0]
        batch = _turn(name, left[k], right[k], a[k].batch, a[k + 1].batch)
    return Crossover(name, a[0].precision, a[0].image_size, *names, batch, len(turns))


def _turn(name: str, left: _Configuration, right: _Configuration, low: int, high: int) -> int:
    """The batch in (low, high] at which the winner changes, by bisection: evaluated, not interpolated."""

    def wins(batch: int) -> bool:
        first, second = (
            estimate(workload, device, msgspec.structs.replace(asked, batch=batch))
            for workload, device, asked in (left, right)
        )
        return _standing(first, name) <= _standing(second, name)

    before = wins(low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if wins(middle) == before else (low, middle)
    return high
