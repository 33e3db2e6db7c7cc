"""One model over batches, precisions, image sizes, devices and power modes: what is best where, and from which
batch on another device wins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Annotated

import msgspec

from analysis.document import column
from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.figures import Figures, figures
from analysis.estimate.metrics import ADDITIVE, METRICS
from analysis.estimate.scenario import Scenario
from analysis.model.ir.workload import Workload
from hardware.device import Device
from hardware.errors import RequestError

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)


class Best(msgspec.Struct, frozen=True):
    """The batch that is best on one device for one aim, among those that fit; `value` in the aim's SI unit."""

    device: Annotated[str, column("Device")]
    precision: Annotated[str, column("Asked", keep=1)]
    image_size: Annotated[int | None, column("Pixels", "count", keep=4)]
    aim: Annotated[str, column("Best for")]
    batch: Annotated[int, column("Batch", "count")]
    value: float


class Crossover(msgspec.Struct, frozen=True):
    """From `batch` on `after` has the lower metric, `before` up to there; without one `before` wins throughout.

    `changes` counts how often the winner changes over the batches swept; the first is given."""

    metric: Annotated[str, column("Metric")]
    precision: Annotated[str, column("Asked", keep=1)]
    image_size: Annotated[int | None, column("Pixels", "count", keep=4)]
    before: Annotated[str, column("Ahead at first")]
    after: Annotated[str, column("Against")]
    batch: Annotated[int | None, column("Crossover batch", "count")]
    changes: int


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `hwexplorer sweep MODEL`."""

    model: str
    batches: tuple[int, ...]
    precisions: tuple[str, ...]
    execution: str
    layout: str
    rows: tuple[Figures, ...]
    best: tuple[Best, ...]
    crossovers: tuple[Crossover, ...]


def need(what: str, lists: Mapping[str, Sequence[object]]) -> None:
    """Raises RequestError where one of the lists that what is done goes over is empty."""
    for name, values in lists.items():
        if not values:
            raise RequestError(f"nothing to {what}: no {name} is given")


def sweep(
    workloads: Sequence[Workload],
    devices: Sequence[Device],
    batches: Iterable[int],
    precisions: Iterable[str],
    base: Scenario,
    tick: Callable[[int, int], None] | None = None,
    on_paper: bool = True,
) -> Sweep:
    """Evaluate every combination; `workloads` are one model at several image sizes. Batches are sorted. Without
    `on_paper` design targets overtake nothing.

    `tick(done, total)` is called after each. Raises RequestError for an empty or invalid list."""
    sizes, formats = tuple(sorted(set(batches))), tuple(dict.fromkeys(precisions))
    need("sweep", {"image size": workloads, "device": devices, "batch": sizes, "precision": formats})
    series = [
        [(workload, device, msgspec.structs.replace(base, batch=batch, precision=precision)) for batch in sizes]
        for workload in workloads
        for device in devices
        for precision in formats
    ]
    rows: list[list[Figures]] = []
    total, done = sum(map(len, series)), 0
    for line in series:
        rows.append([])
        for configuration in line:
            rows[-1].append(figures(estimate(*configuration)))
            done += 1
            if tick is not None:
                tick(done, total)
    return Sweep(
        model=workloads[0].name,
        batches=sizes,
        precisions=formats,
        execution=base.execution,
        layout=base.layout,
        rows=tuple(p for line in rows for p in line),
        best=tuple(batch_of_aim for line in rows for batch_of_aim in _best(line)),
        crossovers=_crossovers([line for line in zip(series, rows, strict=True) if on_paper or line[1][0].silicon]),
    )


# What a batch can be best for.
_AIMS = {"energy per inference": METRICS["energy"], "throughput": METRICS["throughput"], "edp": METRICS["edp"]}


def _best(line: list[Figures]) -> list[Best]:
    """The best batch of one device for each aim; the smallest of equals; nothing where none fits."""
    fitting = [p for p in line if p.can_win]
    best = []
    for aim, metric in _AIMS.items():
        if fitting:
            top = (max if metric.more_is_better else min)(fitting, key=metric.of)
            best.append(Best(top.device, top.precision, top.image_size, aim, top.batch, metric.of(top)))
    return best


def _standing(result: Figures | Estimate, name: str) -> float:
    """The metric; infinite where the model does not fit, so that such a device is never ahead of one it fits on."""
    return METRICS[name].of(result) if result.can_win else float("inf")


_Configuration = tuple[Workload, Device, Scenario]
_Line = tuple[list[_Configuration], list[Figures]]  # a device over the batches


def _crossovers(lines: Sequence[_Line]) -> tuple[Crossover, ...]:
    """For each pair of devices in the same precision and image size, the batch from which the other wins."""
    crossovers: list[Crossover] = []
    for (left, a), (right, b) in combinations(lines, 2):
        if (a[0].precision, a[0].image_size) == (b[0].precision, b[0].image_size) and a[0].device != b[0].device:
            crossovers.extend(_crossover(name, left, right, a, b) for name in ADDITIVE)
    return tuple(crossovers)


def _crossover(
    name: str, left: list[_Configuration], right: list[_Configuration], a: list[Figures], b: list[Figures]
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
            estimate(workload, device, msgspec.structs.replace(scenario, batch=batch))
            for workload, device, scenario in (left, right)
        )
        return _standing(first, name) <= _standing(second, name)

    before = wins(low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if wins(middle) == before else (low, middle)
    return high
