"""Time and energy of kernels under a power limit, and the share of each operator.

A kernel takes `max(compute, memory) + overhead`, with a smooth maximum (`overlapped`). If a run of kernels would draw
more than the power limit, the clock falls, and the voltage with it, until it does not: see hardware/power_limit.py. Its
operators share the busy time by their use of the resource that bounds it; the overhead belongs to the operator that it
was started for. Energy follows events."""

from __future__ import annotations

from typing import NamedTuple, cast

import msgspec
import numpy as np

from hardware.architecture_facts import CpuConstants, Efficiency
from hardware.demand import Bools, Demand, Floats, Ints, KernelStarts, Record
from hardware.event_prices import Coefficients
from hardware.map_demand import map_demand
from hardware.mapping.common import BLOCKS, BY_TILES, PASSES, STARTS, Mapping, Traffic, overlapped
from hardware.mapping.kernel_passes import engine_starts
from hardware.power_limit import KernelNeeds, PowerBudget, Throttled, dispatched_s, lower_clocks
from hardware.setup import Setup

# The values of `Execution.bound`, in order.
BOUNDS = ("compute", "memory", "launch", "power")
COMPUTE, MEMORY, LAUNCH, POWER = range(4)
# The values of `Execution.resource`, in order.
RESOURCES = ("matrix unit", "vector unit", "DRAM", "on-chip memory")
_FEW = 4096  # operators whose events fit into a core's cache


class KernelTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The times of kernels on one device under its power limit, (k,) each, in s."""

    kernel_s: Floats
    unthrottled_s: Floats  # without the power limit
    busy_s: Floats  # without overhead and without the power limit
    overhead_s: Floats  # start, end and waits for the host
    kernel_compute_s: Floats
    kernel_memory_s: Floats
    bound: Ints  # a place in BOUNDS
    utilization: Floats  # the busiest unit's share of its peak
    pipelined_s: Floats | None = None  # the part in which the next batch already runs


class Execution(KernelTimes, frozen=True, kw_only=True):
    """The execution of k kernels, n operators and e kinds of events on one device. Times are in s, energy in J."""

    mapping: Mapping
    prices: Coefficients
    serial_s: Floats  # (2, k): parts of `busy_s` that nothing hides, filling of blocks and passes of auxiliary kernels
    resource: Ints  # (k,): a place in RESOURCES
    latency_s: Floats  # (n,)
    energy_j: Floats  # (n,)
    counts: Floats  # (e, n): events
    price_scale: Floats  # (n,): factor of prices on chip, below 1 where the power limit lowers the voltage
    idle_scale: Floats  # (n,): factor of the power at rest

    def scale_counts(self, counts: Floats) -> Floats:
        """Return event counts (e, n) such that their products with the prices are their energy."""
        if (self.price_scale == 1.0).all() and (self.idle_scale == 1.0).all():
            return counts
        at_rest = np.where(self.prices.is_static[:, None], counts * self.idle_scale, counts)
        return np.where(self.prices.follows_voltage[:, None], counts * self.price_scale, at_rest)


def kernel_seconds(demand: Demand, setup: Setup, rates: Efficiency) -> Floats:
    """Return the seconds of each kernel without the power limit, (s, k), at each setting s of the efficiencies."""
    mapping = map_demand(demand, setup, rates)
    kernels = _sum_kernels(demand, mapping, setup, rates)
    overlapped_s, joins_s = _busy(mapping, kernels, setup)
    overhead, floor = _overhead(kernels, setup, _start_s(kernels.starts, setup)[0])
    own_s = overlapped_s + kernels.serial_s.sum(axis=0) + joins_s + overhead + kernels.class_s
    return dispatched_s(own_s, np.zeros(demand.n_kernels) + floor, _awaits(kernels.starts, setup))


class KernelRuns(KernelTimes, frozen=True, kw_only=True):
    """Kernels in the order in which they run, (r,) each, as often as `times` says."""

    way: _Way  # of each kernel, (k,)
    limited: Throttled
    energy_j: Floats
    static_w: float
    times: Floats


def run_kernels(demand: Demand, setup: Setup, times: Floats | float = 1.0) -> KernelRuns:
    """Time kernels at the full clock and lower the clock of a run until its mean power keeps the limit. `times` says
    how often each operator runs."""
    device, arch = setup.device, setup.device.arch
    static_w = float(setup.prices.value[arch.static_rows].sum())
    budget = device.power_budget(static_w)
    repeats = np.empty(demand.n_kernels)
    repeats[demand.kernel] = times
    model, begins = demand.model, demand.starts.begins > 0.0
    if demand.order is not None:
        model, begins = model[demand.order], begins[demand.order]
    begins[1:] |= model[1:] != model[:-1]
    begins[:1] = True
    mapping = map_demand(demand, setup, setup.efficiency)
    way = _at_full_clock(demand, setup, mapping, repeats)
    if mapping.least_energy is None:
        run = lower_clocks(way.needs, budget, begins)
    else:
        way, run = _take_quicker(demand, setup, way, mapping.least_energy, repeats, budget, begins)
    mapping, needs, kernel_s = way.mapping, way.needs, run.kernel_s
    # A kernel that waits for the host takes the same time at a lower clock.
    unthrottled_s = np.where(kernel_s > run.own_s, kernel_s, needs.own_s)
    compute_s, memory_s, busy_s, ideal_s = way.parts_s
    # The voltage of memory stays.
    dynamic_j = (needs.chip_j + needs.timed_j * run.cycle_scale) * run.price_scale + needs.memory_j
    room_w = budget.limit_w - static_w + budget.gated_w
    next_s = _next_s(demand, setup, mapping, unthrottled_s, needs.host_s, dynamic_j / room_w)
    sides_s = np.array([compute_s, memory_s, unthrottled_s - busy_s])
    return KernelRuns(
        kernel_s=kernel_s,
        unthrottled_s=unthrottled_s,
        busy_s=busy_s,
        overhead_s=sides_s[2],
        kernel_compute_s=compute_s,
        kernel_memory_s=memory_s,
        bound=_find_bounds(run, unthrottled_s, needs.host_s, sides_s),
        utilization=ideal_s / kernel_s,
        pipelined_s=None if next_s is None else np.maximum(kernel_s - next_s, 0.0),
        way=way,
        limited=run,
        energy_j=dynamic_j + static_w * run.idle_scale * kernel_s,
        static_w=static_w,
        times=needs.times,
    )


def _find_bounds(run: Throttled, unthrottled_s: Floats, host_s: Floats, sides_s: Floats) -> Ints:
    """Return what bounds each kernel, (r,): the longest of `sides_s` (3, r), its start by the host, or the limit."""
    is_started = (run.kernel_s > run.own_s) & (run.kernel_s <= host_s * (1 + 1e-9))
    # What the limit adds is time of the clock: it bounds a kernel if no memory and no start takes longer.
    added_s = run.kernel_s - unthrottled_s
    is_limited = (added_s > unthrottled_s * 1e-9) & (sides_s[0] + added_s >= sides_s[1:].max(axis=0))
    return np.where(is_limited, POWER, np.where(is_started, LAUNCH, sides_s.argmax(axis=0)))


def _next_s(
    demand: Demand, setup: Setup, mapping: Mapping, own_s: Floats, dispatch_s: Floats, least_s: Floats
) -> Floats | None:
    """Return the seconds of each kernel after which that of the next batch follows, at `least_s` under the power limit
    in the mean of a model, (k,); None where all kernels of a batch end before the next one."""
    if mapping.fill_s is None or mapping.is_resident is None:
        return None
    # The chip that works on several layers at once is given the next batch before this one ends.
    given_s = setup.call_s * demand.starts.begins if setup.device.layers_at_once > 1.0 else 0.0
    next_s = np.maximum(own_s - mapping.fill_s * mapping.is_resident - given_s, dispatch_s)
    # Batches that follow each other keep the limit as their mean too.
    least, following = (np.bincount(demand.model, each) for each in (least_s, next_s))
    return np.asarray(next_s * np.maximum(least / np.maximum(following, 1e-300), 1.0)[demand.model])


def execute(demand: Demand, setup: Setup, times: Floats | float = 1.0) -> Execution:
    """Run kernels, each operator so many `times`, and share their time, events and energy among their operators."""
    return share_runs(run_kernels(demand, setup, times), demand, setup)


def share_runs(runs: KernelRuns, demand: Demand, setup: Setup) -> Execution:
    """Share time, events and energy of kernels, none of which is left out, among their operators.

    With the operator's share w of its kernel's busy time and its slowdown r under the limit (1 without), its latency is
    `(w busy + overhead of the operator that the kernel was started for) r`, s. Its energy is that of its events, with
    prices on chip times the square of the voltage, plus the static power times its latency, J."""
    arch, way, kernel, run = setup.device.arch, runs.way, demand.kernel, runs.limited
    slowdown = np.where(runs.unthrottled_s > 0, runs.kernel_s / np.maximum(runs.unthrottled_s, 1e-300), 1.0)
    latency_s = (way.share * runs.busy_s[kernel] + demand.head * runs.overhead_s[kernel]) * slowdown[kernel]
    factors = run.price_scale, run.cycle_scale, run.idle_scale
    price_scale, cycles, idle_scale = [factor[kernel] for factor in factors]
    counts = way.counts
    if way.mapping.clocked_s is None:
        counts[arch.timed_rows] *= cycles
    counts[arch.static_rows] = latency_s
    dynamic_j = (way.chip_j + way.timed_j * cycles) * price_scale + way.memory_j
    return Execution(
        **{name: getattr(runs, name) for name in KernelTimes.__struct_fields__},
        mapping=way.mapping,
        prices=setup.prices,
        serial_s=way.serial_s,
        resource=way.resource,
        latency_s=latency_s,
        energy_j=dynamic_j + runs.static_w * idle_scale * latency_s,
        counts=counts,
        price_scale=price_scale,
        idle_scale=idle_scale,
    )


class _Way(NamedTuple):
    """A mapping at the full clock: what its kernels need in the order in which they run, the share of each operator in
    its kernel, its events, and their energy, J."""

    mapping: Mapping
    needs: KernelNeeds
    parts_s: Floats  # (4, r): compute and memory with what nothing hides, both overlapped, and work at the peak
    serial_s: Floats  # (2, k), as in Execution
    resource: Ints  # (k,): the one of RESOURCES that takes longest
    share: Floats  # (n,)
    counts: Floats  # (e, n)
    chip_j: Floats  # (n,): of events on chip
    timed_j: Floats  # (n,): of the cycles of clocked units
    memory_j: Floats  # (n,): of memory, which has a clock and a voltage of its own


def _at_full_clock(demand: Demand, setup: Setup, mapping: Mapping, repeats: Floats) -> _Way:
    """Time each kernel at the full clock, `overlapped(compute, memory) + filling of blocks + passes + overhead`, s,
    count the events of its operators, and price them."""
    mapping = msgspec.structs.replace(mapping, least_energy=None)
    kernels = _sum_kernels(demand, mapping, setup, setup.efficiency)
    resources, serial_s = kernels.resources[0], kernels.serial_s
    overlapped_s, joins_s = [seconds[0] for seconds in _busy(mapping, kernels, setup)]
    start_s, start_cycles_s = _start_s(kernels.starts, setup)
    overhead_s, dispatch_s = _overhead(kernels, setup, start_s)
    busy_s = overlapped_s + serial_s[BLOCKS] + serial_s[PASSES]
    own_s = overlapped_s + serial_s.sum(axis=0) + overhead_s + joins_s + kernels.class_s[0]
    resource = resources.argmax(axis=0)
    share = _share(demand, mapping, resource, resources.max(axis=0))
    # Units are clocked while a kernel is busy, for a part of its start, and while the host handles sequences.
    idle_s = setup.device.arch.constants.launch_clocked * start_s + serial_s[STARTS]
    idle_s = idle_s + setup.runtime.sequence_s.value * kernels.starts.sequences
    priced = _price(demand, setup, mapping, busy_s, idle_s, share)
    joules = demand.per_kernel(np.array(priced[1:]))
    host = np.zeros(demand.n_kernels) + dispatch_s, _awaits(kernels.starts, setup)
    needs = KernelNeeds._make(
        (*joules, own_s, *_clocked_part(kernels, setup, overlapped_s), start_cycles_s, repeats, *host)
    )
    # If kernels work at once, a link serves all of them.
    memory_s = resources[2:].max(axis=0)
    memory_s = memory_s if mapping.busy_s is None else np.minimum(memory_s, overlapped_s)
    sides_s = resources[:2].max(axis=0) + serial_s[BLOCKS], memory_s + serial_s[PASSES]
    parts_s = np.array((*sides_s, busy_s, np.maximum(*kernels.ideal_s)))
    if demand.order is not None:
        parts_s, needs = parts_s[:, demand.order], KernelNeeds._make([values[demand.order] for values in needs])
    return _Way(mapping, needs, parts_s, serial_s[:STARTS], resource, share, *priced)


def _price(
    demand: Demand, setup: Setup, mapping: Mapping, busy_s: Floats, idle_s: Floats, share: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Count the events of operators and price them: return the last four fields of a `_Way`. Cores wait in loops in the
    cycles that instructions of the work do not take."""
    worked_s = busy_s if mapping.clocked_s is None else np.minimum(mapping.clocked_s, busy_s)
    counts = _timed_counts(demand, setup, mapping, worked_s + idle_s, share)
    if demand.mean_work is not None:  # the busiest device was timed, the mean one is paid
        counts = counts * demand.mean_work
    chip_j, timed_j, memory_j = [_operator_energy_j(price, counts, rows) for rows, price in setup.prices.kinds]
    if mapping.clocked_s is None:
        return counts, chip_j, timed_j, memory_j
    # Units without work are not clocked: work takes its cycles at any clock.
    return counts, chip_j + timed_j, np.zeros(demand.n), memory_j


def _take_quicker(
    demand: Demand, setup: Setup, way: _Way, other: Mapping, repeats: Floats, budget: PowerBudget, begins: Bools
) -> tuple[_Way, Throttled]:
    """Return the run of each model under the power limit, with tiles that take less energy where these are quicker.
    Both ways are solved together."""
    models = demand.model if demand.order is None else demand.model[demand.order]
    cooler = msgspec.structs.replace(way.mapping, **{name: getattr(other, name) for name in BY_TILES})
    lean = _at_full_clock(demand, setup, cooler, repeats)
    needs = KernelNeeds._make([np.array(pair).ravel() for pair in zip(way.needs, lean.needs, strict=True)])
    both = lower_clocks(needs, budget, np.array((begins, begins)).ravel())
    runs = [Throttled._make([values[part] for values in both]) for part in np.arange(2 * len(begins)).reshape(2, -1)]
    saved_s = (runs[0].kernel_s - runs[1].kernel_s) * way.needs.times
    is_quicker = np.bincount(models, saved_s) > 0.0
    if is_quicker.all() or not is_quicker.any():
        return (lean, runs[1]) if is_quicker[0] else (way, runs[0])
    mapping = way.mapping.exchange(other, is_quicker[demand.model][demand.kernel])
    run = Throttled._make([np.where(is_quicker[models], *values) for values in zip(runs[1], runs[0], strict=True)])
    return _at_full_clock(demand, setup, mapping, repeats), run


def repeat_kernels(run: Execution, demand: Demand, times: Floats) -> tuple[Execution, Demand]:
    """Return the execution and the demand with each kernel repeated as often as `times` (n,) says of its last operator.
    Times, work, traffic and energy are multiplied; sizes stay."""
    of_kernel = np.zeros(demand.n_kernels)
    of_kernel[demand.kernel] = times
    times = of_kernel[demand.kernel]

    def scale(record: Record, *names: str, by: Floats = times) -> Record:
        """Return the record with some of its values so many times, but those that it does not have."""
        values = {name: value for name in names if (value := getattr(record, name)) is not None}
        return msgspec.structs.replace(record, **{name: value * by for name, value in values.items()})

    by_kernel = [name for name in (*KernelTimes.__struct_fields__, "serial_s") if name.endswith("_s")]
    run = scale(scale(run, *by_kernel, by=of_kernel), "latency_s", "energy_j", "counts")
    mapping = scale(run.mapping, "matrix_s", "vector_s", "dram_s", "chip_s", "matrix_ideal_s", "vector_ideal_s")
    flow = scale(mapping.traffic, *Traffic.__struct_fields__)
    mapping = msgspec.structs.replace(mapping, traffic=flow, counts=run.counts)
    demand = scale(demand, "macs", "vector_flops", "special", "local_bytes", "unpack_ops")
    transfers = scale(demand.transfers, "size_bytes", by=times[demand.transfers.op])
    return msgspec.structs.replace(run, mapping=mapping), msgspec.structs.replace(demand, transfers=transfers)


def _operator_energy_j(price: Floats, counts: Floats, rows: Ints) -> Floats:
    """Return the energy per operator, (n,), of the events in some rows. The order of summation does not depend on n: a
    matrix product, or numpy's sum of a single column, would round differently for one model alone."""
    n = counts.shape[1]
    total: Floats = np.zeros(n)
    if 1 < n <= _FEW:
        return np.add.reduce(counts[rows] * price[:, None], axis=0, out=total)
    part = np.empty(n)
    for each, row in zip(price.tolist(), rows.tolist(), strict=True):
        if each:
            total += np.multiply(counts[row], each, out=part)
    return total


class _KernelSums(NamedTuple):
    """Sums over the operators of each kernel: seconds of the four `resources` (s, 4, k), `serial_s` (3, k), `ideal_s`
    of the matrix and the vector units, (k,), extra seconds to start by class, (s, k), memory passes within the work,
    (k,); of a processor also seconds of one core, (s, k), and parallel regions, (k,)."""

    starts: KernelStarts
    resources: Floats
    serial_s: Floats
    ideal_s: tuple[Floats, Floats]
    class_s: Floats
    staged_s: Floats | float
    core_s: Floats | None
    regions: Floats | float


def _sum_kernels(demand: Demand, mapping: Mapping, setup: Setup, rates: Efficiency) -> _KernelSums:
    """Return the sums of a mapping over the operators of each kernel."""
    device, resources = setup.device, np.empty((len(mapping.dram_s), 4, demand.n))
    for row, seconds in enumerate((mapping.matrix_s, mapping.vector_s, mapping.dram_s, mapping.chip_s)):
        resources[:, row] = seconds
    ideal_s, serial_s = (mapping.matrix_ideal_s, mapping.vector_ideal_s), mapping.serial_s
    sums, core_s = demand.per_kernel(resources), None
    regions: Floats | float = 0.0
    if device.arch.is_host:
        worked_s = demand.per_kernel(np.maximum(*ideal_s) / rates.compute[:, demand.op_class])
        # Work without the quantisation of tiles, but no more than libraries need that are quicker than the rates.
        worked_s = np.minimum(worked_s, sums[:, :2].max(axis=1))
        core_s = np.maximum(worked_s, sums[:, 3]) * device.units
        regions = demand.per_kernel(_regions(demand, setup))
    return _KernelSums(
        starts=engine_starts(demand, setup),
        resources=sums,
        serial_s=np.zeros((3, demand.n_kernels)) if serial_s is None else demand.per_kernel(serial_s),
        ideal_s=(demand.per_kernel(ideal_s[0]), demand.per_kernel(ideal_s[1])),
        class_s=_start_seconds_by_class(demand, rates) * setup.slower,
        staged_s=0.0 if mapping.staged_s is None else demand.per_kernel(mapping.staged_s),
        core_s=core_s,
        regions=regions,
    )


def _busy(mapping: Mapping, kernels: _KernelSums, setup: Setup) -> tuple[Floats, Floats]:
    """Return the seconds in which each kernel works, and those in which a processor forks and joins its threads, as a
    tree, in each parallel region, (s, k) each. Software takes as many threads as are best for the arithmetic, which
    waits for memory with as many: quicker memory asks for no more of them."""
    device, busy_s = setup.device, mapping.busy_s
    if busy_s is None:
        busy_s = overlapped(kernels.resources, device.software.overlap.value)
    if kernels.core_s is None:
        return busy_s, np.zeros(busy_s.shape)
    doubling_s = device.thread_join_s * setup.runtime.launch.value * setup.slower * kernels.regions
    best = kernels.core_s * np.log(2.0) / np.maximum(doubling_s, 1e-12)
    threads = np.clip(best, 1.0, device.units)
    return np.maximum(busy_s, kernels.core_s / threads), doubling_s * np.log2(threads)


def _start_s(starts: KernelStarts, setup: Setup) -> tuple[Floats, Floats]:
    """Return the seconds in which each kernel starts and ends, (k,), and those of them that follow the clock, (k,)."""
    device, cycles_s = setup.device, setup.device.launch_cycles / setup.device.clock_hz
    seconds = np.where(starts.is_light, device.light_start_s, device.kernel_start_s)
    cycles = np.where(starts.is_light, device.arch.constants.light_launch, 1.0) * cycles_s
    early = setup.runtime.early_launch.value if device.has_bulk_instructions else 1.0
    launch = setup.runtime.launch_on.get(device.software_class, setup.runtime.launch).value
    times = starts.parts * launch * early * setup.slower
    return seconds * times, np.minimum(cycles, seconds) * times


def _overhead(kernels: _KernelSums, setup: Setup, start_s: Floats) -> tuple[Floats, Floats | float]:
    """Return the seconds added to each kernel, and those that the host takes to dispatch it beside the device."""
    device, runtime, starts = setup.device, setup.runtime, kernels.starts
    launch, host_s, least_s = start_s, device.dispatch_s, runtime.least_dispatch_s.value
    dispatch_s = (host_s if host_s > least_s else least_s) * setup.slower
    if setup.call_s:
        launch = launch + setup.call_s * starts.begins
    if runtime.sequence_s.value:
        launch = launch + runtime.sequence_s.value * setup.slower * starts.sequences
    if device.arch.places_models:
        return launch, 0.0
    dispatch: Floats | float = runtime.dispatch_on.get(device.software_class, runtime.dispatch).value
    if dispatch:
        dispatch = dispatch_s * dispatch * starts.dispatched
    if runtime.prompt_dispatch.value:
        started = starts.prompts + (runtime.interpreted_dispatch.value - 1.0) * starts.interpreted
        dispatch = dispatch + dispatch_s * runtime.prompt_dispatch.value * started
    if device.arch.is_host:
        return launch + dispatch, 0.0
    return launch, dispatch


def _clocked_part(kernels: _KernelSums, setup: Setup, busy_s: Floats) -> tuple[Floats, Floats]:
    """Return the seconds of each kernel in which work and memory overlap, and those of its work that follow the clock
    of its units, (k,) each. The last level on chip keeps its bandwidth: if it followed, a higher clock of the units
    alone would be slower at the power limit."""
    device, work_s = setup.device, busy_s - kernels.staged_s
    if device.arch.places_models and device.layers_at_once > 1.0:  # some layer always works
        return work_s, work_s
    # The matrix unit may run below the other clocks, which then fall first. Products below its peak wait for what has
    # another clock.
    ratio = device.matrix_clock_hz / device.vector_clock_hz
    bound_s = kernels.ideal_s[0] / device.arch.constants.matrix_clock_bound
    matrix_s, vector_s = kernels.resources[0, :2]
    product_s = np.minimum(matrix_s * min(ratio, 1.0), bound_s * ratio)
    return work_s, np.maximum(product_s, vector_s - kernels.staged_s)


def _awaits(starts: KernelStarts, setup: Setup) -> Bools:
    """Return whether the host waits for the device before it dispatches a kernel, (k,): always, or, where the runtime
    dispatches ahead, before a call and before an operator that takes several dispatches."""
    return (starts.begins > 0.0) | (starts.dispatched > 1.0) | (not setup.runtime.dispatches_ahead)


def _regions(demand: Demand, setup: Setup) -> Floats:
    """Return the parallel regions of each operator on a CPU, (n,). Small operators stay on one thread. A framework's
    convolution has extra regions that rearrange its tensors."""
    assumed = cast(CpuConstants, setup.device.arch.constants)
    extra = {"nchw": assumed.plain_reorder_regions, "channels_last": assumed.reorder_regions}.get(setup.layout, 0.0)
    regions = np.where(demand.is_convolution, 1.0 + extra, 1.0)
    is_small = (demand.macs == 0) & (demand.elements < assumed.serial_elements)
    return np.where(demand.head & ~is_small, regions, 0.0)


def _start_seconds_by_class(demand: Demand, rates: Efficiency) -> Floats:
    """Return the extra seconds to start each kernel, (s, k), by the class of the operator that it was started for."""
    if not rates.overhead.any():
        return np.zeros((1, 1))
    head = np.zeros(demand.n_kernels, dtype=np.int64)
    head[demand.kernel[demand.head]] = demand.op_class[demand.head]
    return rates.overhead[:, head]


def _timed_counts(demand: Demand, setup: Setup, mapping: Mapping, clocked_s: Floats, share: Floats) -> Floats:
    """Return the mapping's counts with clocked cycles and host dispatches. Cores wait in the cycles that instructions
    of the work do not take."""
    device, runtime, counts = setup.device, setup.runtime, mapping.counts
    arch = device.arch
    # All units are clocked during a kernel: those without work wait or spin.
    cycles_per_s = device.clock_hz * device.units
    counts[arch.timed_rows] = cycles = share * (clocked_s * cycles_per_s)[demand.kernel]
    if arch.wait_rows:
        computing = np.maximum(mapping.matrix_s, mapping.vector_s)[0] * cycles_per_s
        issued = counts[arch.row[arch.instruction_event]] / cast(CpuConstants, arch.constants).instructions_per_cycle
        counts[arch.wait_rows] -= np.minimum(issued, np.minimum(computing, cycles))
    enqueued = 1.0 if runtime.dispatch.value else demand.calls.prompts if runtime.prompt_dispatch.value else 0.0
    if arch.dispatch_event:
        counts[arch.row[arch.dispatch_event]] = demand.head * enqueued
    return counts


def _share(demand: Demand, mapping: Mapping, resource: Ints, needed_s: Floats) -> Floats:
    """Return each operator's share of its kernel's busy time, `needed_s` (k,), by the resource that bounds it."""
    if demand.n_kernels == demand.n:
        return np.ones(demand.n)
    needs = np.array((mapping.matrix_s[0], mapping.vector_s[0], mapping.dram_s[0], mapping.chip_s))
    total = needed_s[demand.kernel]
    share = demand.head.astype(np.float64)
    np.divide(needs[resource[demand.kernel], np.arange(demand.n)], total, out=share, where=total > 0)
    return share
