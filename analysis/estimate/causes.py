"""Causes of a model's time and energy: six parts that add up exactly, for every operator and any node.

A kernel's time at work goes to the resource that bounds it: arithmetic, on-chip memory or DRAM. The other resources are
hidden behind it. Attention blocks that fill and drain count as arithmetic, kernels that quantise or cast as DRAM.
`launch` is the time that launching and dispatching add, and where layers stream to each other also filling and waiting.
`throttled` is the time that the power limit adds. Energy goes to the event that draws it; `static` is drawn whatever
happens. So time has no static part, and energy has no throttled part. Events belong to eight families that all
architectures share, so that unlike devices can be compared.

The host works once per step apart from the operators: the call, a scheduler, sampling. An execution adds that to the
first kernel of each call, and `divide_host_work` divides an estimate in two that add up to it.
"""

from functools import cache

import msgspec
import numpy as np

from analysis.estimate.estimate import COMPONENTS, Estimate, ratio, weighted_mean
from analysis.model.ir.workload import Floats, Ints
from hardware.architecture_facts import Event
from hardware.base.records import memoize
from hardware.execute import BOUNDS, LAUNCH, MEMORY, RESOURCES
from hardware.map_demand import architecture_of
from hardware.mapping.common import units_in_all
from hardware.setup import Setup


@memoize(large=True)
def divide_host_work(result: Estimate) -> tuple[Estimate, Estimate | None]:
    """Return the estimate without the host's work between kernels, and that work alone (None if there is none). Both
    keep the totals of the model."""
    run, demand, runtime = result.run, result.demand, result.runtime
    times = runs_of_kernels(result)
    waits_s = result.setup.call_s * demand.starts.begins
    sequences_s = runtime.sequence_s.value * demand.starts.sequences
    added_s = np.minimum((waits_s + sequences_s) * times, run.overhead_s)
    if not added_s.any():
        return result, None
    latency_s = np.where(demand.head, added_s[demand.kernel], 0.0)  # no clock of the device slows the host
    counts = _host_counts(result, latency_s, sequences_s * times)
    energy_j: Floats = run.prices.value @ run.scale_counts(counts)
    host = msgspec.structs.replace(run, latency_s=latency_s, energy_j=energy_j, counts=counts)
    kernel_s, overhead_s = run.kernel_s - added_s, run.overhead_s - added_s
    waits_most = np.stack([run.kernel_compute_s, run.kernel_memory_s, overhead_s]).argmax(axis=0)
    rest = msgspec.structs.replace(
        run,
        latency_s=run.latency_s - latency_s,
        energy_j=run.energy_j - energy_j,
        counts=run.counts - counts,
        overhead_s=overhead_s,
        kernel_s=kernel_s,
        unthrottled_s=run.unthrottled_s - added_s,
        utilization=run.utilization * ratio(run.kernel_s, kernel_s, 1.0),
        bound=np.where((added_s > 0.0) & (run.bound == LAUNCH), waits_most, run.bound),
    )
    none = msgspec.structs.replace(runtime.sequence_s, value=0.0, low=0.0, high=0.0)
    # A second division finds no work of the host.
    quiet = msgspec.structs.replace(runtime, starts_calls=False, sequence_s=none)
    setup = Setup(result.device, result.plan, quiet, result.setup.layout)
    divided = msgspec.structs.replace(result, run=rest, setup=setup), msgspec.structs.replace(result, run=host)
    of_host = np.zeros((len(COMPONENTS), result.demand.n))
    members = np.flatnonzero(energy_j)
    of_host[:, members] = result.components_j(run.scale_counts(counts)[:, members])
    for estimate, component_j in zip(divided, (result.component_energy_j - of_host, of_host), strict=True):
        vars(estimate)["component_energy_j"] = component_j  # computed only for the few operators with host work
    return divided


def _host_counts(result: Estimate, latency_s: Floats, sequences_s: Floats) -> Floats:
    """Return the events that belong to the host, (e, n): what is drawn during its `latency_s` (n,), the cycles of units
    that are clocked while it prepares sequences (`sequences_s` of each kernel), and sampling."""
    run, demand, arch = result.run, result.demand, result.device.arch
    counts = np.zeros_like(run.counts)
    counts[arch.static_rows] = run.counts[arch.static_rows] * ratio(latency_s, run.latency_s)
    timed = arch.timed_rows
    cycles = result.device.clock_hz * result.device.units * result.workload.devices
    clocked_s = demand.per_kernel(run.counts[timed].max(axis=0)) / cycles
    part = np.minimum(ratio(sequences_s, clocked_s), 1.0)
    counts[timed] = run.counts[timed] * part[demand.kernel]
    if arch.sampling_event:
        counts[arch.row[arch.sampling_event]] = run.counts[arch.row[arch.sampling_event]]
    return counts


def runs_of_kernels(result: Estimate) -> Floats:
    """Return how often each kernel runs in the estimate, (k,)."""
    workload, demand = result.workload, result.demand
    times = np.full(demand.n_kernels, result.kernel_runs)
    if workload.repeats is not None:
        at_once = result.part or result.wave_batch
        times[demand.kernel] = workload.repeats @ workload.value_at(batch=at_once) * result.kernel_runs
    return times


FAMILIES = (
    "arithmetic",  # multiply-accumulates, element-wise operations and special functions
    "operand delivery",  # registers, operand collectors, bypasses, values passed from cell to cell, cells that wait
    "instructions",  # fetch, decode, schedule, branches, addresses, coherence, descriptors, domain tracking
    "launch",  # kernel launch, host dispatch, fork and join, barriers, program load
    "waiting loops",  # cores that spin until a kernel starts, data arrive or others are done
    "on-chip memory",  # caches, scratchpads, FIFOs and the network between them
    "DRAM",  # bytes that cross the memory interface
    "static power",  # leakage, idle and memory background, for as long as the model runs
)
_BY_TIME = {
    "matrix": "arithmetic", "vector": "arithmetic", "compute": "instructions", "chip": "on-chip memory",
    "dram": "DRAM",
}  # fmt: skip
_DELIVERY = ("register", "bypass", "operand_collector", "pe_forward", "idle_cell")
_LAUNCH = (
    "launch", "dispatch_kernel", "operator_dispatch", "fork_join", "block_schedule", "host_dispatch", "drain",
    "barrier", "sync", "program_load",
)  # fmt: skip


@cache
def family_of(event: Event) -> str:
    """Return the family of an event, by the constant that prices it."""
    if event.component == "static":
        return "static power"
    if event.family == "wait":
        return "waiting loops"
    if event.is_by_time:
        return "operand delivery" if event.category == "register" else _BY_TIME[event.argument]
    if event.family == "dram" or (event.family, event.argument) == ("path", "controller"):
        return "DRAM"
    if event.family in ("mac", "tensor_mac", "flop", "special"):
        return "instructions" if event.argument == "integer" else "arithmetic"
    if event.component == "memory" and event.argument != "tlb":
        return "on-chip memory"
    if any(word in event.argument for word in _DELIVERY):
        return "operand delivery"
    if any(word in event.argument for word in _LAUNCH):
        return "launch"
    return "instructions"


def family_energy(result: Estimate) -> Floats:
    """Return the energy of each family in J, shape (8,)."""
    index = [FAMILIES.index(family_of(event)) for event in result.events]
    return np.bincount(index, result.event_j, minlength=len(FAMILIES)).astype(np.float64)


def sum_events(result: Estimate, members: Ints) -> tuple[Floats, Floats]:
    """Return the count and the energy in J of each event in these operators, shape (e,)."""
    counts = result.run.counts[:, members].sum(axis=1)
    return counts, result.run.scale_counts(result.run.counts)[:, members].sum(axis=1) * result.run.prices.value


def event_rates(result: Estimate, members: Ints) -> dict[str, float]:
    """Return fractions by name: hit rate of the last on-chip level, units busy, dynamic energy, and the rates of the
    architecture. Of cores that wait in loops also `waiting_cycles`, and `counted_energy_of_work`: the energy of counted
    events over theirs and what is clocked in the other cycles, without rest."""
    run, flow = result.run, result.run.mapping.traffic
    chip, dram = float(flow.chip_bytes[members].sum()), float(flow.dram_bytes[members].sum())
    time = run.latency_s[members]
    energy = float(run.energy_j[members].sum())
    static = float(result.component_energy_j[2][members].sum())
    weight = time if time.sum() > 0 else np.ones_like(time)
    busy = np.minimum(run.mapping.units / units_in_all(result.setup, run.mapping.on_matrix), 1.0)[members]
    values = {
        "last_level_hit_rate": 1.0 - dram / chip if chip else 1.0,
        "units_busy": weighted_mean(busy, weight),
        "dynamic_fraction": 1.0 - static / energy if energy else 0.0,
    }
    arch = result.device.arch
    for name, (misses_of, every) in arch.misses.items():
        misses, total = (float(run.counts[arch.row[label], members].sum()) for label in (misses_of, every))
        values[name] = 1.0 - misses / total if total else 1.0
    if arch.wait_rows:
        counts, joules = sum_events(result, members)
        timed, waiting = arch.timed_rows, arch.wait_rows[0]
        values["waiting_cycles"] = float(counts[waiting] / (counts[timed[0]] or 1.0))
        clocked_j = float(joules[timed].sum() - joules[waiting]) * (1.0 - values["waiting_cycles"])
        counted_j = energy - static - float(joules[timed].sum())
        values["counted_energy_of_work"] = counted_j / (counted_j + clocked_j or 1.0)
    if (occupancy := architecture_of(result.device).occupancy) is not None:
        resident = occupancy(result.demand, result.device, run.mapping)[members]
        values["occupancy"] = weighted_mean(resident, weight)
    return values


def static_power_w(result: Estimate) -> float:
    """Return the power that the device draws whatever it does."""
    return result.component_j["static"] / result.latency_s if result.latency_s else 0.0


# What bounds a kernel, as every report names it: `memory` is DRAM.
LIMITS = (*BOUNDS, "on-chip")


@memoize()
def limits(result: Estimate) -> Ints:
    """Return the index in LIMITS of what bounds each kernel without the host's work, (k,)."""
    run = divide_host_work(result)[0].run
    is_on_chip = (run.bound == MEMORY) & (run.resource == RESOURCES.index("on-chip memory"))
    return np.where(is_on_chip, LIMITS.index("on-chip"), run.bound)


CAUSES = ("compute", "on_chip", "dram", "launch", "throttled", "static")
COMPUTE, ON_CHIP, DRAM, LAUNCH_CAUSE, THROTTLED, STATIC = range(len(CAUSES))
_CAUSE_OF_RESOURCE = np.array([COMPUTE, COMPUTE, DRAM, ON_CHIP])  # in the order of hardware.execute.RESOURCES
_CAUSE_OF_FAMILY = {"on-chip memory": ON_CHIP, "DRAM": DRAM, "static power": STATIC}
_CAUSE_OF_FAMILY |= {"launch": LAUNCH_CAUSE, "waiting loops": LAUNCH_CAUSE}

# The steps from the roofline's time to the estimated time.
STEPS = ("ideal", "tiles", "memory", "launch", "throttled", "shared")


class Causes(msgspec.Struct, frozen=True):
    """Seconds and joules of the batch by cause and operator, (6, n). `ideal_s` (6, n) is the part of the seconds that
    the roofline requires: arithmetic at its peak, DRAM bytes at the peak bandwidth."""

    time_s: Floats
    energy_j: Floats
    ideal_s: Floats

    def sum_over(self, members: Ints | slice, weights: Floats | float = 1.0) -> "Causes":
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
        rows[cause_of_family(family_of(event)), place] = price
    return rows


def cause_of_family(family: str) -> int:
    """Return the index in CAUSES that the energy of a family of events belongs to."""
    return _CAUSE_OF_FAMILY.get(family, COMPUTE)


def _seconds_by_cause(result: Estimate) -> tuple[Floats, Floats]:
    """Return the seconds by cause, and the ideal part of them, each (6, n)."""
    run, demand, kernel, busy = result.run, result.demand, result.demand.kernel, result.run.busy_s
    waits, at_work, ideal, _ = _times_at_work(result)
    # The head of a kernel has its overhead; the rest is divided as in the estimate.
    before = run.latency_s / ratio(run.kernel_s, run.unthrottled_s, 1.0)[kernel]
    launch = np.where(demand.head, np.minimum(run.overhead_s[kernel], before), 0.0)
    part = (before - launch) / np.where(busy > 0, busy, 1.0)[kernel]
    bound, operators = _CAUSE_OF_RESOURCE[run.resource][kernel], np.arange(demand.n)
    time_s, ideal_s = np.zeros((len(CAUSES), demand.n)), np.zeros((len(CAUSES), demand.n))
    time_s[bound, operators] = part * at_work[kernel]
    time_s[[COMPUTE, DRAM]] += part * run.serial_s[:, kernel]
    time_s[LAUNCH_CAUSE] = launch + part * waits[kernel]
    time_s[THROTTLED] = run.latency_s - before
    ideal_s[bound, operators] = part * ideal[kernel]
    return time_s, ideal_s


def steps(result: Estimate, members: Ints) -> Floats:
    """Return the waterfall of a node: seconds by step and cause, (6, 6); their sum is its latency. Operators that share
    kernels with others take what they would take alone; the last step, at most 0, is what the others hide of it. Parts
    of a kernel follow the resource that bounds it, so they may grow as that changes, while the kernel gets quicker."""
    sums = causes(result).sum_over(members)
    table = np.zeros((len(STEPS), len(CAUSES)))
    table[0], table[[1, 2, 2, 3, 4], range(5)] = sums.ideal_s, (sums.time_s - sums.ideal_s)[:5]
    run, demand, mapping = result.run, result.demand, result.run.mapping
    is_member = np.zeros(demand.n)
    is_member[members] = 1.0
    needs_s = np.array((mapping.matrix_s[0], mapping.vector_s[0], mapping.dram_s[0], mapping.chip_s))
    own_s, all_s = demand.per_kernel(needs_s * is_member), demand.per_kernel(needs_s)
    is_shared = demand.per_kernel(is_member) < np.bincount(demand.kernel)
    shared = np.flatnonzero(is_shared & own_s.any(axis=0) & all_s.any(axis=0))
    bound, (_, at_work, ideal, limits_s) = run.resource[shared], _times_at_work(result)
    own_s, work_s = own_s[:, shared], at_work[shared] / all_s[bound, shared]
    part, alone_s = own_s[bound, range(len(shared))], own_s.max(axis=0) * work_s
    roof_s = np.minimum(demand.per_kernel(limits_s * is_member)[:, shared].max(axis=0), alone_s)
    before = part / all_s[bound, shared] * ideal[shared], part * work_s
    for resource, sign, (roofs, totals) in ((bound, -1.0, before), (own_s.argmax(axis=0), 1.0, (roof_s, alone_s))):
        for place, roof, total in zip(resource.tolist(), sign * roofs, sign * totals, strict=True):
            table[[0, 1 + (place > 1), 5], _CAUSE_OF_RESOURCE[place]] += roof, total - roof, -total
    return table


def _times_at_work(result: Estimate) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the seconds of each kernel in which it waits for another, works at the resource that bounds it, and would
    work at the roofline, (k,) each; and of each operator at the peaks of matrix and vector units and DRAM, (3, n)."""
    run, demand, mapping = result.run, result.demand, result.run.mapping
    # Layers that stream to each other take longer than any of their resources: they fill and wait.
    waits = np.zeros_like(run.busy_s)
    if mapping.busy_s is not None:
        waits = np.maximum(run.busy_s - np.maximum(run.kernel_compute_s, run.kernel_memory_s), 0.0)
    # Filling blocks and the memory passes of helper kernels are not hidden behind the resource that bounds.
    at_work = run.busy_s - waits - run.serial_s.sum(axis=0)
    dram_s = mapping.traffic.dram_bytes / result.device.memory_bandwidth
    limits_s = np.array((mapping.matrix_ideal_s, mapping.vector_ideal_s, dram_s))
    return waits, at_work, np.minimum(demand.per_kernel(limits_s).max(axis=0), at_work), limits_s


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
