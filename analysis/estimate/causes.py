"""Causes of a model's time and energy: six parts that add up exactly, for every operator and any node.

A kernel's time at work goes to the resource that bounds it: arithmetic, on-chip memory or DRAM. The other resources are
hidden behind it. Attention blocks that fill and drain count as arithmetic, kernels that quantise or cast as DRAM.
`launch` is the time that launching and dispatching add, and where layers stream to each other also filling and waiting.
`throttled` is the time that the power limit adds. Energy goes to the event that draws it; `static` is drawn whatever
happens. So time has no static part, and energy has no throttled part.
"""

from __future__ import annotations

import msgspec
import numpy as np

from analysis.estimate.estimate import Estimate
from analysis.estimate.families import FAMILIES, family_of
from analysis.estimate.host_work import divide_host_work
from analysis.model.ir.workload import Floats, Ints
from hardware.memo import memoize
from hardware.taxonomy import Event

CAUSES = ("compute", "on_chip", "dram", "launch", "throttled", "static")
COMPUTE, ON_CHIP, DRAM, LAUNCH, THROTTLED, STATIC = range(len(CAUSES))
_CAUSE_OF_RESOURCE = np.array([COMPUTE, COMPUTE, DRAM, ON_CHIP])  # in the order of hardware.execute.RESOURCES
_CAUSE_OF_FAMILY = {"on-chip memory": ON_CHIP, "DRAM": DRAM, "launch": LAUNCH, "static power": STATIC}

# The steps from the roofline's time to the estimated time.
STEPS = ("ideal", "tiles", "memory", "launch", "throttled")


class Causes(msgspec.Struct, frozen=True):
    """Seconds and joules of the batch by cause and operator, (6, n). `ideal_s` (6, n) is the part of the seconds that
    the roofline requires: arithmetic at its peak, DRAM bytes at the peak bandwidth."""

    time_s: Floats
    energy_j: Floats
    ideal_s: Floats

    def sum_over(self, members: Ints | slice, weights: Floats | float = 1.0) -> Causes:
        """Return the sums over some operators, each (6,). Each operator counts `weights` times."""
        return Causes(*((getattr(self, name)[:, members] * weights).sum(axis=1) for name in self.__struct_fields__))


@memoize()
def causes(result: Estimate) -> Causes:
    """Return the causes of every operator. Sums over them are the latency and the energy of the operator, to
    rounding."""
    time_s, ideal_s = _seconds_by_cause(result)
    return Causes(time_s, _prices_by_cause(result) @ result.run.scale_counts(result.run.counts), ideal_s)


@memoize()
def causes_without_host(result: Estimate) -> tuple[Causes, Causes | None]:
    """Return the causes of every operator without the host's work, and of that work alone (None if there is none)."""
    whole, (rest, host) = causes(result), divide_host_work(result)
    if host is None:
        return whole, None
    of_rest = causes(rest)
    own = Causes(whole.time_s - of_rest.time_s, whole.energy_j - of_rest.energy_j, np.zeros_like(whole.time_s))
    return of_rest, own


@memoize()
def _prices_by_cause(result: Estimate) -> Floats:
    """Return the price of each event in the row of its cause, (6, e)."""
    rows = np.zeros((len(CAUSES), len(result.events)))
    for place, (event, price) in enumerate(zip(result.events, result.run.prices.value.tolist(), strict=True)):
        rows[cause_of_event(event), place] = price
    return rows


def cause_of_event(event: Event) -> int:
    """Return the index in CAUSES that an event's energy belongs to."""
    return cause_of_family(family_of(event))


def cause_of_family(family: str) -> int:
    """Return the index in CAUSES that the energy of a family of events belongs to."""
    return _CAUSE_OF_FAMILY.get(family, COMPUTE)


def _seconds_by_cause(result: Estimate) -> tuple[Floats, Floats]:
    """Return the seconds by cause, and the ideal part of them, each (6, n)."""
    run, demand = result.run, result.demand
    mapping, flow, kernel, busy = run.mapping, run.mapping.traffic, demand.kernel, run.busy_s
    # Layers that stream to each other take longer than any of their resources: they fill and wait.
    waits = np.zeros_like(busy)
    if mapping.busy_s is not None:
        waits = np.maximum(busy - np.maximum(run.kernel_compute_s, run.kernel_memory_s), 0.0)
    arithmetic = np.maximum(demand.per_kernel(mapping.matrix_ideal_s), demand.per_kernel(mapping.vector_ideal_s))
    # Filling blocks and the memory passes of helper kernels are not hidden behind the resource that bounds.
    at_work = busy - waits - run.serial_s.sum(axis=0)
    roof = demand.per_kernel(flow.dram_bytes) / result.device.memory_bandwidth
    ideal = np.minimum(np.maximum(arithmetic, roof), at_work)

    # The head of a kernel has its overhead; the rest is divided as in the estimate.
    ratio = run.kernel_s / np.where(run.unthrottled_s > 0, run.unthrottled_s, run.kernel_s)
    before = run.latency_s / ratio[kernel]
    launch = np.where(demand.head, np.minimum(run.overhead_s[kernel], before), 0.0)
    part = (before - launch) / np.where(busy > 0, busy, 1.0)[kernel]
    bound, operators = _CAUSE_OF_RESOURCE[run.resource][kernel], np.arange(demand.n)
    time_s, ideal_s = np.zeros((len(CAUSES), demand.n)), np.zeros((len(CAUSES), demand.n))
    time_s[bound, operators] = part * at_work[kernel]
    time_s[[COMPUTE, DRAM]] += part * run.serial_s[:, kernel]
    time_s[LAUNCH] = launch + part * waits[kernel]
    time_s[THROTTLED] = run.latency_s - before
    ideal_s[bound, operators] = part * ideal[kernel]
    return time_s, ideal_s


def steps(sums: Causes) -> Floats:
    """Return the waterfall of the sums over a node: seconds by step and cause, (5, 6); their sum is the latency."""
    rest = sums.time_s - sums.ideal_s
    result = np.zeros((len(STEPS), len(CAUSES)))
    result[0] = sums.ideal_s
    result[1, COMPUTE] = rest[COMPUTE]
    result[2, [ON_CHIP, DRAM]] = rest[[ON_CHIP, DRAM]]
    result[3, LAUNCH], result[4, THROTTLED] = rest[LAUNCH], rest[THROTTLED]
    return result


def shares(result: Estimate, metric: str) -> Floats:
    """Return the share of the whole by cause and operator, (6, n), in a metric of ADDITIVE; sums over causes are the
    operator's share."""
    return shares_of_causes(causes(result), result, metric)


def shares_of_causes(part: Causes, result: Estimate, metric: str) -> Floats:
    """Return some causes as shares of the model's total in a metric, (6, n)."""
    energy, time = part.energy_j / (result.energy_j or 1.0), part.time_s / (result.latency_s or 1.0)
    return {"energy": energy, "latency": time}.get(metric, 0.5 * (energy + time))


def values_by_cause(values: Floats) -> dict[str, float]:
    """Return values by cause, (6,), as a dict from the name of the cause, for documents."""
    return dict(zip(CAUSES, values.tolist(), strict=True))


assert set(_CAUSE_OF_FAMILY) <= set(FAMILIES)
