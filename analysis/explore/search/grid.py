"""The grid of configurations that sweeps, fronts and searches run over: models x batches x precisions x devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import msgspec

from analysis.estimate.estimate import Estimate, estimate_batches
from analysis.estimate.scenario import Scenario
from analysis.model.ir.workload import Workload
from hardware.device import Device
from hardware.errors import RequestError

TOGETHER = 8  # batches evaluated together, so that memory does not grow with the request
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
Tick = Callable[[int, int], None]  # called with the number of estimates done, and of all


def check_lists(purpose: str, **lists: Sequence[object]) -> None:
    """Raise RequestError if one of the lists is empty."""
    for name, values in lists.items():
        if not values:
            raise RequestError(f"nothing to {purpose}: no {name.replace('_', ' ')} is given")


def estimate_grid(
    workloads: Sequence[Workload],
    devices: Sequence[Device],
    base: Scenario,
    batches: Sequence[int],
    precisions: Sequence[str],
    tick: Tick | None = None,
) -> Iterator[Estimate]:
    """Estimate every configuration, batches innermost. Raises RequestError for an invalid batch or precision."""
    groups = [batches[start : start + TOGETHER] for start in range(0, len(batches), TOGETHER)]
    total, done = len(workloads) * len(batches) * len(precisions) * len(devices), 0
    for workload, precision, device, group in product(workloads, precisions, devices, groups):
        for result in estimate_batches(workload, device, msgspec.structs.replace(base, precision=precision), group):
            yield result
            done += 1
            if tick is not None:
                tick(done, total)
