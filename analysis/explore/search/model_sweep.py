"""One model over batches, precisions, image sizes, devices and power modes: the best batches, and the batch from which
another device wins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise, product
from typing import Annotated

import msgspec

from analysis.document import column, record
from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.figures import Figures, figures
from analysis.estimate.metrics import ADDITIVE, METRICS
from analysis.estimate.scenario import Scenario
from analysis.explore.search.grid import Tick, check_lists, estimate_grid
from analysis.model.ir.workload import Workload
from hardware.device import Device


class BestBatch(msgspec.Struct, frozen=True):
    """The best batch of one device for one aim, among those that fit; `value` in the aim's SI unit."""

    device: Annotated[str, column("Device")]
    precision: Annotated[str, column("Precision", keep=1)]
    image_size: Annotated[int | None, column("Pixels", "count", keep=4)]
    aim: Annotated[str, column("Best for")]
    batch: Annotated[int, column("Batch", "count")]
    value: float


class BatchCrossover(msgspec.Struct, frozen=True):
    """From `batch` on, `after` has the lower metric; if it is None, `before` wins throughout. `changes` counts how
    often the winner changes over the batches swept."""

    metric: Annotated[str, column("Metric")]
    precision: Annotated[str, column("Precision", keep=1)]
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
    best: tuple[BestBatch, ...]
    crossovers: tuple[BatchCrossover, ...]


def sweep(
    workloads: Sequence[Workload],
    devices: Sequence[Device],
    batches: Iterable[int],
    precisions: Iterable[str],
    base: Scenario,
    tick: Tick | None = None,
    on_paper: bool = True,
) -> Sweep:
    """Evaluate every combination; `workloads` are one model at several image sizes. Without `on_paper`, crossovers
    leave out design targets. Raises RequestError for an empty or invalid list."""
    sizes, formats = tuple(sorted(set(batches))), tuple(dict.fromkeys(precisions))
    check_lists("sweep", image_size=workloads, device=devices, batch=sizes, precision=formats)
    results = iter(estimate_grid(workloads, devices, base, sizes, formats, tick))
    keys = [(w, d, p) for w, p, d in product(*map(range, (len(workloads), len(formats), len(devices))))]
    lines = {key: [next(results) for _ in sizes] for key in keys}  # by workload, device and precision
    series = [(line, [figures(result) for result in line]) for _, line in sorted(lines.items())]
    return record(
        Sweep,
        base,
        model=workloads[0].name,
        batches=sizes,
        precisions=formats,
        rows=tuple(row for _, rows in series for row in rows),
        best=tuple(best for _, rows in series for best in _best_batches(rows)),
        crossovers=_crossovers([line for line in series if on_paper or line[1][0].silicon]),
    )


# The aims that a batch can be best for.
BATCH_AIMS = {"energy per inference": METRICS["energy"], "throughput": METRICS["throughput"], "edp": METRICS["edp"]}


def _best_batches(rows: list[Figures]) -> list[BestBatch]:
    """Return the best batch of one device for each aim, the smallest of equals; empty if no batch fits."""
    fitting, best = [row for row in rows if row.can_win], []
    for aim, metric in BATCH_AIMS.items() if fitting else ():
        top = (max if metric.more_is_better else min)(fitting, key=metric.figure)
        best.append(record(BestBatch, top, aim=aim, value=metric.figure(top)))
    return best


def _figure(result: Figures | Estimate, name: str) -> float:
    """Return the metric; infinity if the device may not be recommended, so that it never wins."""
    return METRICS[name].figure(result) if result.can_win else float("inf")


_Line = tuple[list[Estimate], list[Figures]]  # one device over the batches


def _crossovers(lines: Sequence[_Line]) -> tuple[BatchCrossover, ...]:
    """Return, for each pair of devices in the same precision and image size, the batch from which the other wins."""
    return tuple(
        _crossover(name, first, second)
        for first, second in combinations(lines, 2)
        if (first[1][0].precision, first[1][0].image_size) == (second[1][0].precision, second[1][0].image_size)
        and first[1][0].device != second[1][0].device
        for name in ADDITIVE
    )


def _crossover(name: str, first: _Line, second: _Line) -> BatchCrossover:
    (one, a), (other, b) = first, second
    wins = [_figure(p, name) <= _figure(q, name) for p, q in zip(a, b, strict=True)]
    changes = [k for k, (now, then) in enumerate(pairwise(wins)) if now != then]
    names = (a[0].device, b[0].device) if wins[0] else (b[0].device, a[0].device)
    k = changes[0] if changes else 0
    batch = _bisect_batch(name, one[k], other[k], a[k].batch, a[k + 1].batch) if changes else None
    return BatchCrossover(name, a[0].precision, a[0].image_size, *names, batch, len(changes))


def _bisect_batch(name: str, one: Estimate, other: Estimate, low: int, high: int) -> int:
    """Find the batch in (low, high] at which the winner changes. Every batch tried is estimated, not interpolated."""

    def wins(batch: int) -> bool:
        """Return True if the first device has the lower metric at a batch."""
        first, second = (
            estimate(side.workload, side.device, msgspec.structs.replace(side.scenario, batch=batch))
            for side in (one, other)
        )
        return _figure(first, name) <= _figure(second, name)

    before = wins(low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if wins(middle) == before else (low, middle)
    return high
