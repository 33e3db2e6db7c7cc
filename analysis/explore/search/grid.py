"""The grid of configurations that sweeps, fronts and searches run over: models x batches x precisions x devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import msgspec

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.model.ir.workload import Workload
from hardware.device import Device
from hardware.errors import RequestError

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
Tick = Callable[[int, int], None]  # called with the number of estimates done, and of all


def check_lists(purpose: str, **lists: Sequence[object]) -> None:
    """Raise RequestError if one of the lists is empty."""
    for name, values in lists.items():
        if not values:
            raise RequestError(f"nothing to {purpose}: no {name.replace('_', ' ')} is given")


def list_scenarios(base: Scenario, batches: Sequence[int], precisions: Sequence[str]) -> list[Scenario]:
    """Return the scenarios of a grid. Raises RequestError for an invalid batch or precision."""
    return [
        msgspec.structs.replace(base, batch=batch, precision=precision)
        for batch, precision in product(batches, precisions)
    ]


def estimate_grid(
    workloads: Sequence[Workload], devices: Sequence[Device], scenarios: Sequence[Scenario], tick: Tick | None = None
) -> Iterator[Estimate]:
    """Estimate every configuration, devices innermost, so that all devices share the cached demand of a scenario."""
    total = len(workloads) * len(scenarios) * len(devices)
    for done, (workload, scenario, device) in enumerate(product(workloads, scenarios, devices), 1):
        yield estimate(workload, device, scenario)
        if tick is not None:
            tick(done, total)
