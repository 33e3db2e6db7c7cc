"""Operators joined into kernels: time, power limit, and the share of each operator.

A kernel takes `max(compute, memory) + overhead`, the max rounded where the two meet; compute is the busier of
matrix and vector unit, memory the slower of DRAM and the last on-chip level. If its dynamic energy would exceed
the power limit in that time it is throttled: `t = max(t, E_dynamic / (P_limit - P_static))`.

The time of a kernel is divided among its operators by their use of the resource that bounds it: an activation
inside a kernel bound by the matrix unit is hidden and takes none; where the vector unit is the bound, it pays.
The overhead belongs to the operator the kernel was started for. Energy follows events, so both add up exactly.
"""

from __future__ import annotations

import msgspec
import numpy as np

from hardware.coefficients import Coefficients, coefficients
from hardware.demand import READ_WEIGHT, Demand, Floats, Ints, OpClass
from hardware.device import Device
from hardware.efficiency import Efficiency, usable_cache
from hardware.mapping.common import Mapping, Traffic, memory_seconds_of, overlapped, per_kernel
from hardware.plan import Plan
from hardware.precision import BASE, FORMATS
from hardware.runtime import Runtime

# What bounds a kernel, in the order of `Execution.bound`.
BOUNDS = ("compute", "memory", "launch", "power")
COMPUTE, MEMORY, LAUNCH, POWER = range(4)
# Finer: which resource.
RESOURCES = ("matrix unit", "vector unit", "DRAM", "on-chip memory")


class Execution(msgspec.Struct, frozen=True):
    """Kernels (k,) and operators (n,) of one model on one device.

    `kernel_s` with overhead and throttling; `unthrottled_s` before the power limit; `busy_s` without overhead;
    `kernel_ends_s` (2, k) at the fast and slow ends of the fitted efficiencies, (0, k) where these were not asked for;
    `utilization` the busiest unit's share of its peak; `latency_s`, `energy_j` per operator; `counts` (e, n) of all
    events; `pipelined_s` (k,) the part of each kernel in which the next batch already runs, None for none.
    """

    mapping: Mapping
    prices: Coefficients
    kernel_s: Floats
    unthrottled_s: Floats
    busy_s: Floats
    overhead_s: Floats
    kernel_ends_s: Floats
    kernel_compute_s: Floats
    kernel_memory_s: Floats
    bound: Ints
    resource: Ints
    utilization: Floats
    latency_s: Floats
    energy_j: Floats
    counts: Floats
    pipelined_s: Floats | None = None


def map_demand(demand: Demand, device: Device, plan: Plan, runtime: Runtime, layout: str, rates: Efficiency) -> Mapping:
    """What the device does with each operator, at each setting of the efficiencies."""
    if runtime.mode != "eager":  # compilers choose the layout of convolutions themselves
        layout = "channels_last" if runtime.mode == "compiled" else "blocked"
    if device.arch.is_managed and not runtime.resident:
        demand = _without_resident_weights(demand)
    if runtime.streams_rest:
        demand = _with_parameter_cache(demand, device)
    demand = _as_written(demand, device, runtime)
    if (narrow := runtime.narrow.get(device.software_class)) and demand.element_bytes < FORMATS[BASE].bytes:
        rates = _narrowed(rates, narrow.value)
    if device.arch.search is not None:
        mapping = device.arch.search(demand, device, plan, rates, coefficients(device, plan).value)
    else:
        assert device.arch.map_operators is not None
        mapping = device.arch.map_operators(demand, device, plan, layout, rates)
    streaming = runtime.streaming.get(device.software_class)
    if streaming is not None:
        mapping = _streamed(mapping, demand, device, streaming.all, runtime.per_query_head)
    mapping = _attended(mapping, demand, device, runtime)
    return mapping if demand.links is None else _later(mapping, demand, link_seconds(demand.links, device))


def link_seconds(links: Floats, device: Device) -> Floats:
    """Seconds of collectives, (n,), of what they send, (3, n) as in a Demand. Libraries have two ways: words that carry
    their own flags, at a part of the speed, or large blocks, each waited for; the quicker is taken."""
    sent, messages, stated = links
    speed, assumed = np.where(stated > 0, stated, device.link_bandwidth), device.arch.data.assumed
    in_words = sent / (speed * assumed("link_words_reached"))
    in_blocks = sent / (speed * assumed("link_blocks_reached")) + messages * assumed("link_block_s")
    seconds: Floats = np.minimum(in_words, in_blocks) + messages * device.link_latency_s
    return seconds


def _as_written(demand: Demand, device: Device, runtime: Runtime) -> Demand:
    """The demand with products at the rates of the runtime's own kernels, those of one row excepted, which are bound by
    reading; and with weights unpacked anew for each so many rows of activations."""
    shares, rows = runtime.compute.get(device.software_class), runtime.unpack_rows.get(device.software_class)
    m = demand.gemm[1]
    if shares:
        rate = np.ones(len(OpClass))
        rate[[OpClass[name] for name in shares]] = [share.value for share in shares.values()]
        demand = demand.but(product_rate=np.where(m > 1, rate[demand.op_class], 1.0))
    if rows and demand.unpack_ops is not None:
        again = np.ceil(m / rows.value) / np.maximum(np.ceil(m / device.arch.data.assumed("unpack_rows")), 1.0)
        demand = demand.but(unpack_ops=demand.unpack_ops * np.maximum(again, 1.0))
    return demand


def _narrowed(rates: Efficiency, share: float) -> Efficiency:
    """The rates with this share of the bandwidth of element-wise kernels."""
    bandwidth = rates.bandwidth.copy()
    bandwidth[:, OpClass.ELEMENTWISE] *= share
    return msgspec.structs.replace(rates, bandwidth=bandwidth)


def _later(mapping: Mapping, demand: Demand, link_s: Floats) -> Mapping:
    """The mapping with so many seconds more of off-chip data for each operator, (n,)."""
    busy_s = None if mapping.busy_s is None else mapping.busy_s + demand.per_kernel(link_s)
    return msgspec.structs.replace(mapping, dram_s=mapping.dram_s + link_s, busy_s=busy_s)


def _attended(mapping: Mapping, demand: Demand, device: Device, runtime: Runtime) -> Mapping:
    """The mapping with what attention on a matrix unit takes beside its products: between the two of them all scores
    pass the special function units, and kernels of an older kind do not reach the unit's peak."""
    is_attention = (demand.op_class == OpClass.ATTENTION) & mapping.on_matrix
    if "special_per_clock" not in device.facts or not is_attention.any():
        return mapping
    rate = 1.0 if runtime.asynchronous else device.synchronous_matrix_rate
    softmax_s = demand.special / (device.units * device.special_per_clock * device.vector_clock_hz)
    matrix_s = np.where(is_attention, mapping.matrix_s / rate + softmax_s, mapping.matrix_s)
    return msgspec.structs.replace(mapping, matrix_s=matrix_s)


def _without_resident_weights(demand: Demand) -> Demand:
    """The demand with every read of weights from memory: nothing placed them on chip before the call."""
    is_weight = demand.transfer_role == READ_WEIGHT
    return demand.but(
        weight_bytes=np.full(demand.n, np.inf),
        transfer_distance=np.where(is_weight, np.inf, demand.transfer_distance),
    )


def _with_parameter_cache(demand: Demand, device: Device) -> Demand:
    """The demand with as much of its model's weights on chip as the largest activations of a kernel leave room for; a
    part of each, and the others read in each call."""
    is_weight = demand.transfer_role == READ_WEIGHT
    room = np.maximum(device.last_level_bytes - demand.largest_bytes, 0.0)
    kept = np.minimum(room / np.maximum(demand.weight_bytes, 1.0), 1.0)[demand.transfer_op]
    usable = device.last_level_bytes * usable_cache(device.arch.is_managed)
    return demand.but(
        weight_bytes=np.zeros(demand.n),
        transfer_distance=np.where(is_weight, usable - kept * demand.transfer_bytes, demand.transfer_distance),
    )


def _streamed(
    mapping: Mapping, demand: Demand, device: Device, shares: tuple[float, float, float], per_query_head: bool
) -> Mapping:
    """The mapping with long contiguous reads at rates of their own: weights of products, what attention reads."""
    flow = mapping.traffic
    is_attention, is_product = demand.op_class == OpClass.ATTENTION, demand.op_class == OpClass.GEMM
    streamed = np.where(is_attention, flow.dram_read, np.where(is_product, flow.weight_read, 0.0))
    moved = flow.dram_read + flow.dram_write
    rest = 1.0 - streamed / np.where(moved > 0, moved, 1.0)
    nominal, slow, fast = shares  # of [value, low, high]; settings are nominal, fast, slow
    ends = np.array([nominal, fast, slow])[: len(mapping.dram_s), None]
    if per_query_head:  # those that share a cache are the rows of one product
        rows = demand.gemm[1]
        is_step = is_attention & (rows <= device.arch.data.assumed("packed_rows"))
        streamed = np.where(is_step, streamed * rows, streamed)
    return msgspec.structs.replace(mapping, dram_s=mapping.dram_s * rest + memory_seconds_of(device, streamed, ends))


def kernel_seconds(
    demand: Demand, device: Device, plan: Plan, runtime: Runtime, layout: str, rates: Efficiency
) -> Floats:
    """Seconds of each kernel before any power limit at each setting of the efficiencies, shape (s, k)."""
    mapping = map_demand(demand, device, plan, runtime, layout, rates)
    overhead, floor = _overhead(demand, device, runtime)
    busy = _busy(mapping, _per_resource(demand, mapping), device)
    seconds: Floats = np.maximum(busy + overhead[0] + _of_class(demand, rates), floor[0])
    return seconds


def execute(
    demand: Demand, device: Device, plan: Plan, runtime: Runtime, layout: str, mapping: Mapping | None = None
) -> Execution:
    """Run the demand on the device: under 'eager' and 'compiled' runtimes the host dispatches every kernel, a 'fused'
    one starts a whole program. A `mapping` that is there already is used, and its counts are written over; it may be
    one of nominal rates alone."""
    mapping = mapping or map_demand(demand, device, plan, runtime, layout, device.software.efficiency)
    prices = coefficients(device, plan)
    resources = _per_resource(demand, mapping)  # (3 ends, 4 resources, k)
    busy_ends = _busy(mapping, resources, device)
    overhead, floor = (each[: len(busy_ends)] for each in _overhead(demand, device, runtime))
    ends = np.maximum(busy_ends + overhead + _of_class(demand, device.software.efficiency)[: len(busy_ends)], floor)
    busy, unthrottled = busy_ends[0], ends[0]
    resource = resources[0].argmax(axis=0)

    clocked_s = busy + device.arch.data.assumed("launch_clocked") * device.kernel_start_s[0]
    clocked_s = clocked_s + runtime.sequence_s.value * demand.per_kernel(demand.sequences)
    resting_s = _resting_s(device, mapping, demand, resources[0])
    share = _share(demand, mapping, resource, resources[0].max(axis=0))
    counts = _timed_counts(demand, device, mapping, runtime, clocked_s - resting_s, share)
    clocks, unclocked = device.arch.clock_rows, prices.value.copy()
    unclocked[clocks] = unclocked[device.arch.static_rows] = 0.0
    unclocked_j, clocked_j = _priced(unclocked, counts), _priced(prices.value[clocks], counts[clocks])
    dynamic_j = unclocked_j + clocked_j
    dynamic, clock_j = demand.per_kernel(dynamic_j), demand.per_kernel(clocked_j)
    static_w = float(prices.value[device.arch.static_rows].sum())
    budget_w = device.power_limit_w - static_w
    # At its power limit a device lowers its clock, first where that costs no time: cycles in which it would wait.
    compute_s = resources[0, :2].max(axis=0)
    cycles_s = clocked_s - resting_s
    needed_s = compute_s if mapping.busy_s is None else busy  # of layers that stream to each other some always work
    spare_j = clock_j * np.where(cycles_s > 0, (clocked_s - needed_s) / np.maximum(cycles_s, 1e-300), 0.0)
    least_j = dynamic - spare_j
    kernel_s = np.maximum(unthrottled, least_j / budget_w)
    over_j = np.maximum(dynamic - kernel_s * budget_w, 0.0)
    if over_j.any():
        left = np.maximum(1.0 - over_j / np.maximum(clock_j, 1e-300), 0.0)[demand.kernel]
        counts[clocks] *= left
        dynamic_j = unclocked_j + clocked_j * left
    throttle = np.where(unthrottled > 0, kernel_s / np.maximum(unthrottled, 1e-300), 1.0)

    pipelined = None
    if mapping.fill_s is not None and mapping.is_resident is not None:
        fill_s = mapping.fill_s * mapping.is_resident
        # Clocks that run while a pipeline fills are those of the batch before.
        clock_w = float(prices.value[device.arch.clock_rows].sum()) * device.clock_hz * device.units
        least_s = (demand.per_kernel(dynamic_j) - clock_w * fill_s) / budget_w
        pipelined = kernel_s - np.maximum(np.maximum(unthrottled - fill_s, floor[0]), least_s)
    overhead_s = unthrottled - busy
    latency = (share * busy[demand.kernel] + demand.head * overhead_s[demand.kernel]) * throttle[demand.kernel]
    counts[device.arch.static_rows] = latency
    ideal = np.maximum(demand.per_kernel(mapping.matrix_ideal_s), demand.per_kernel(mapping.vector_ideal_s))
    memory_s = resources[0, 2:].max(axis=0)
    return Execution(
        mapping,
        prices,
        kernel_s,
        unthrottled,
        busy,
        overhead_s,
        np.maximum(ends[1:], least_j * _price_ends(prices, counts)[:, None] / budget_w) if len(ends) > 1 else ends[1:],
        compute_s,
        memory_s,
        _bound(compute_s, memory_s, overhead_s, kernel_s, unthrottled, floor[0]),
        resource,
        ideal / kernel_s,
        latency,
        dynamic_j + static_w * latency,
        counts,
        pipelined,
    )


def repeated(run: Execution, demand: Demand, times: Floats) -> tuple[Execution, Demand]:
    """Both with every kernel run so often, `times` (n,) by operator: what a loop makes of one run of its body.

    Sizes (tiles, elements, products) stay those of one run; times, work, traffic and energy add up."""
    of_kernel = np.zeros(demand.n_kernels)
    of_kernel[demand.kernel] = times
    mapping = run.mapping
    flow = msgspec.structs.replace(
        mapping.traffic, **{name: getattr(mapping.traffic, name) * times for name in Traffic.__struct_fields__}
    )
    by_operator = ("matrix_s", "vector_s", "dram_s", "chip_s", "matrix_ideal_s", "vector_ideal_s", "counts")
    scaled = {name: getattr(mapping, name) * times for name in by_operator}
    by_kernel = ("kernel_s", "unthrottled_s", "busy_s", "overhead_s", "kernel_compute_s", "kernel_memory_s")
    return (
        msgspec.structs.replace(
            run,
            mapping=msgspec.structs.replace(mapping, traffic=flow, **scaled),
            latency_s=run.latency_s * times,
            energy_j=run.energy_j * times,
            counts=run.counts * times,
            kernel_ends_s=run.kernel_ends_s * of_kernel,
            pipelined_s=None if run.pipelined_s is None else run.pipelined_s * of_kernel,
            **{name: getattr(run, name) * of_kernel for name in by_kernel},
        ),
        msgspec.structs.replace(
            demand,
            **{name: getattr(demand, name) * times for name in ("macs", "vector_flops", "special", "local_bytes")},
            transfer_bytes=demand.transfer_bytes * times[demand.transfer_op],
            unpack_ops=None if demand.unpack_ops is None else demand.unpack_ops * times,
        ),
    )


def grouped(run: Execution, devices: Floats | float) -> Execution:
    """The run of so many devices that do the same at once: events and energy of all of them, in the time of one."""
    return msgspec.structs.replace(run, energy_j=run.energy_j * devices, counts=run.counts * devices)


def _price_ends(prices: Coefficients, counts: Floats) -> Floats:
    """Dynamic energy at the low and high ends of its prices over the nominal, (2,): groups are independent."""
    total = counts.sum(axis=1)
    nominal = float(prices.value @ total) or 1.0
    down, up = (
        np.sqrt(np.square(np.bincount(prices.group, total * spread)).sum())
        for spread in (prices.value - prices.low, prices.high - prices.value)
    )
    return np.array([max(1.0 - down / nominal, 0.0), 1.0 + up / nominal])


def _priced(price: Floats, counts: Floats) -> Floats:
    """Energy per operator, shape (n,): the sum over events in their order, whatever n is.

    A matrix product would round differently for one model alone than for the same model among many."""
    total, part = np.zeros(counts.shape[1]), np.empty(counts.shape[1])
    for each, row in zip(price.tolist(), counts, strict=True):
        if each:
            total += np.multiply(row, each, out=part)
    return total


def _per_resource(demand: Demand, mapping: Mapping) -> Floats:
    """Seconds each kernel needs of each resource, shape (s, 4, k), at each setting of the efficiencies."""
    chip = np.broadcast_to(mapping.chip_s, mapping.dram_s.shape)
    return per_kernel(demand, np.stack([mapping.matrix_s, mapping.vector_s, mapping.dram_s, chip], axis=1))


def _busy(mapping: Mapping, resources: Floats, device: Device) -> Floats:
    """Seconds of each kernel without overhead, (s, k)."""
    if mapping.busy_s is not None:
        return mapping.busy_s
    return overlapped(resources, device.software.overlap.value)


def _overhead(demand: Demand, device: Device, runtime: Runtime) -> tuple[Floats, Floats]:
    """Seconds added to each kernel, and the least a kernel can take: (3, k) or (3, 1), nominal, fast end, slow end.

    An accelerator overlaps execution with the host's dispatch of the next kernel, so dispatch is a floor; a device
    that is its own host dispatches on the cores that compute, so it adds. A call of the model begins with a kernel,
    which waits for what the runtime does once per call.
    """
    launch = _ends(device.kernel_start_s) * _ends(runtime.launch.all)
    dispatch = _ends(device.ends("dispatch_s")) * _ends(
        runtime.dispatch_on.get(device.software_class, runtime.dispatch).all
    )
    if runtime.call_s.high:
        launch = launch + _ends(runtime.call_s.all) * demand.per_kernel(demand.calls)
    if runtime.sequence_s.high:
        launch = launch + _ends(runtime.sequence_s.all) * demand.per_kernel(demand.sequences)
    if device.arch.places_models:
        return launch, np.zeros((3, 1))
    if runtime.prompt_dispatch.high:
        enqueued = demand.per_kernel(np.where(demand.head, demand.prompts, 0.0))
        dispatch = dispatch + _ends(device.ends("dispatch_s")) * _ends(runtime.prompt_dispatch.all) * enqueued
    if device.arch.is_host:
        return launch + dispatch, np.zeros((3, 1))
    return launch, dispatch


def _of_class(demand: Demand, rates: Efficiency) -> Floats:
    """Seconds that each kernel takes to start by the class of what it was started for, (s, k)."""
    if not rates.overhead.any():
        return np.zeros((1, 1))
    head = np.zeros(demand.n_kernels, dtype=np.int64)
    head[demand.kernel[demand.head]] = demand.op_class[demand.head]
    return rates.overhead[:, head]


def _ends(values: tuple[float, float, float]) -> Floats:
    """Nominal, fast and slow, (3, 1)."""
    return np.array(values)[:, None]


def _resting_s(device: Device, mapping: Mapping, demand: Demand, resources: Floats) -> Floats:
    """Seconds of each kernel, (k,), in which what only feeds the matrix unit rests: that works, the lanes do not."""
    alone_s = np.maximum(resources[0] - resources[1], 0.0)
    seconds: Floats = device.matrix_rests_clock * np.minimum(demand.per_kernel(mapping.matrix_ideal_s), alone_s)
    return seconds


def _timed_counts(
    demand: Demand, device: Device, mapping: Mapping, runtime: Runtime, clocked_s: Floats, share: Floats
) -> Floats:
    """The mapping's counts plus those that need the execution: busy cycles and host dispatches."""
    counts, arch = mapping.counts, device.arch
    # The clocks of all units run while a kernel does: idle ones wait for it, or spin.
    cycles = clocked_s * device.clock_hz * device.units
    counts[arch.clock_rows] = share * cycles[demand.kernel]
    enqueued = 1.0 if runtime.dispatch.value else demand.prompts if runtime.prompt_dispatch.value else 0.0
    if arch.dispatch_event:
        counts[arch.row[arch.dispatch_event]] = demand.head * enqueued
    return counts


def _share(demand: Demand, mapping: Mapping, resource: Ints, needed_s: Floats) -> Floats:
    """Each operator's share of its kernel's busy time: its part of the resource that bounds the kernel, of which that
    needs so many seconds, (k,)."""
    if demand.n_kernels == demand.n:
        return np.ones(demand.n)
    needs = mapping.matrix_s[0], mapping.vector_s[0], mapping.dram_s[0], mapping.chip_s
    total = needed_s[demand.kernel]
    share = demand.head.astype(np.float64)
    np.divide(np.choose(resource[demand.kernel], needs), total, out=share, where=total > 0)
    return share


def _bound(
    compute: Floats, memory: Floats, overhead: Floats, kernel: Floats, unthrottled: Floats, floor: Floats
) -> Ints:
    """The largest term; launch where the kernel ends before the host can dispatch the next; power where throttled."""
    largest = np.stack([compute, memory, overhead]).argmax(axis=0)
    waiting = np.where(unthrottled <= floor, LAUNCH, largest)
    return np.where(kernel > unthrottled * (1 + 1e-9), POWER, waiting)
