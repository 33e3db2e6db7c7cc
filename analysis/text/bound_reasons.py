"""Reasons why a node costs what it costs, in words chosen by the numbers."""

import numpy as np

from analysis.estimate.causes import LIMITS, divide_host_work, limits
from analysis.estimate.estimate import Estimate
from analysis.estimate.tree_figures import TreeFigures
from analysis.model.ir.workload import Ints, batch_words, refusal
from analysis.text.headline import describe_wait, largest_cause
from hardware.base.text import count_noun, percent, quantity
from hardware.demand import READ_WEIGHT, OpClass
from hardware.execute import LAUNCH, MEMORY, POWER, RESOURCES
from hardware.map_demand import architecture_of, link_seconds


def kernel_reason(result: Estimate, k: int) -> str:
    """Describe what bounds kernel k, with the competing times."""
    run = result.run
    compute, memory = quantity(run.kernel_compute_s[k], "s"), quantity(run.kernel_memory_s[k], "s")
    overhead, total = quantity(run.overhead_s[k], "s"), quantity(run.kernel_s[k], "s")
    bound = int(run.bound[k])
    if bound == POWER:
        limit = quantity(result.power_limit_w, "W")
        return f"power bound: {quantity(run.unthrottled_s[k], 's')} would draw more than {limit}, throttled to {total}"
    if bound == LAUNCH:
        busy = quantity(run.busy_s[k], "s")
        if result.execution == "eager" and not result.device.arch.is_host:
            floor = quantity(result.device.dispatch_s, "s")
            return f"launch bound: {busy} of work, but the host dispatches a kernel only every {floor}"
        return f"launch bound: {busy} of work behind {overhead} of launch and dispatch{_host(result, k)}"
    resource, peak = _resource(result, k), f"{percent(run.utilization[k])} of peak"
    if bound == MEMORY:
        name = "on-chip" if RESOURCES[int(run.resource[k])] == "on-chip memory" else "memory"
        return f"{name} bound: {memory} at the {resource} against {compute} of compute, {peak}"
    return f"compute bound: {compute} on the {resource} against {memory} of memory, {peak}"


def _host(result: Estimate, k: int) -> str:
    """Describe the overhead of kernel k that the runtime spends between calls: scheduling, inputs, sampling."""
    _, host = divide_host_work(result)
    host_s = 0.0 if host is None else float(host.run.latency_s[result.demand.kernel == k].sum())
    runtime = result.runtime
    return f", {quantity(host_s, 's')} of it what {runtime.name} takes between calls" if host_s else ""


def attention_parts(result: Estimate, i: int) -> tuple[str, ...]:
    """Describe the parts of an attention operator with their work, all in one kernel; empty for other operators."""
    demand = result.demand
    if demand.op_class[i] != OpClass.ATTENTION:
        return ()
    results = float(demand.gemm[:, i].prod())
    flops, special = quantity(float(demand.vector_flops[i]), "FLOP"), quantity(float(demand.special[i]), "SI")
    return (
        f"QK^T     {quantity(results, 'MAC')}",
        f"softmax  {flops}, {special} evaluations of special functions among them",
        f"AV       {quantity(float(demand.macs[i]) - results, 'MAC')}",
    )


def _resource(result: Estimate, k: int) -> str:
    """Return the name of a kernel's busiest resource: the links if they take over half of its memory time."""
    run, links = result.run, result.demand.links
    if links is not None and int(run.bound[k]) == MEMORY:
        link_s = link_seconds(links, result.device, result.runtime.library_collectives)
        if 2 * float(link_s[result.demand.kernel == k].sum()) > float(run.kernel_memory_s[k]):
            return "links between devices"
    return RESOURCES[int(run.resource[k])]


def bound_change(result: Estimate, k: int) -> str:
    """Describe what would make another resource bound kernel k."""
    run = result.run
    compute, memory, overhead = (float(a[k]) for a in (run.kernel_compute_s, run.kernel_memory_s, run.overhead_s))
    bound, resource = int(run.bound[k]), _resource(result, k)
    if bound == POWER:
        return "a higher power mode, a lower precision, or fewer bytes moved"
    if bound == LAUNCH:
        work = max(compute, memory)
        batch = result.scenario.batch * max(2, round(overhead / work)) if work else 0
        is_possible = batch and not refusal(result.workload, batch)
        larger = f"about {batch_words(result.workload, batch)}" if is_possible else "a far larger batch"
        how = " or fused execution" if result.execution == "eager" else ""
        return f"{larger}{how}: the work is {percent(work / overhead if overhead else 0)} of the overhead"
    if bound == MEMORY:
        if not compute:
            return f"nothing: it does no arithmetic, only the {resource} works"
        return f"{quantity(memory / compute, 'x')} the bandwidth of the {resource}, or that fraction of the bytes"
    if not memory:
        return "nothing: it moves no data"
    return f"{quantity(compute / memory, 'x')} the rate of the {resource} before memory is the bound"


def operator_reason(figures: TreeFigures, i: int) -> str:
    """Describe how an operator is mapped, what bounds it, and what fusion does to it."""
    result = figures.estimate
    demand, run = result.demand, result.run
    k = int(demand.kernel[i])
    sentence = architecture_of(result.device).sentence(demand, result.setup, run.mapping, i)
    if not result.workload.operators.has_rule[i]:
        sentence = f"no cost rule for {result.workload.operators.target[i]}: bytes only"
    if not figures.fused[i]:
        return f"{sentence}; {kernel_reason(result, k)}{_round_trip(result, i)}"
    head = int(np.flatnonzero((demand.kernel == k) & demand.head)[0])
    if i == head:
        return f"{sentence}; {kernel_reason(result, k)}"
    name = result.workload.operators.path[head]
    inside = quantity(float(demand.local_bytes[i]), "byte")
    resource = RESOURCES[int(run.resource[k])]
    if run.latency_s[i] <= 0:
        reason = f"the {resource} bounds it: no added time"
        return f"{sentence}; inside the kernel of {name}: {inside} stay on chip, and {reason}"
    time = quantity(float(run.latency_s[i]), "s")
    bound = f"adds {time} to the time of the {resource}, which bounds the kernel"
    return f"{sentence}; inside the kernel of {name}: {inside} stay on chip; {bound}"


def _round_trip(result: Estimate, i: int) -> str:
    """Describe the memory traffic of an operator that is a whole kernel; '' if it has MACs or moves no activations."""
    demand = result.demand
    if demand.macs[i] > 0:
        return ""
    is_own = (demand.transfers.op == i) & (demand.transfers.role != READ_WEIGHT)
    own_bytes = float(demand.transfers.size_bytes[is_own].sum())
    if not own_bytes:
        return ""
    dram = float(result.run.mapping.traffic.dram_bytes[i])
    return f"; a kernel of its own: {quantity(own_bytes, 'byte')} in and out, {quantity(dram, 'byte')} of it DRAM"


def subgraph_reason(figures: TreeFigures, s: int) -> str:
    """Describe the kernel of a fused subgraph, or the kernels of any other and the traffic between them."""
    result = figures.estimate
    members = np.array(result.partition.members[s])
    kernels = np.flatnonzero(np.bincount(result.demand.kernel[members]))  # np.unique would import numpy.ma
    if len(kernels) == 1:
        how = f"{len(members)} operators fused in one kernel; " if len(members) > 1 else ""
        return how + kernel_reason(result, int(kernels[0]))
    transfers = int(figures.subgraphs.transfers[s])
    traffic = quantity(float(figures.subgraphs.bytes[s]), "byte")
    return (
        f"{len(kernels)} kernels, {transfers} activation transfers between them and {traffic} moved; "
        f"{figures.subgraph_bound[s]} bound"
    )


def bound_of_most_time(result: Estimate, members: Ints) -> str:
    """Return the bound, one of LIMITS, that most of the time of `members` falls under, without the host's work."""
    bounds = limits(result)[result.demand.kernel[members]]
    return LIMITS[int(np.bincount(bounds, np.maximum(result.run.latency_s[members], np.finfo(float).tiny)).argmax())]


def members_reason(result: Estimate, members: Ints, kernels: int) -> str:
    """Describe any group of operators: kernels, cause of most of the time, traffic."""
    traffic = quantity(float(result.run.mapping.traffic.chip_bytes[members].sum()), "byte")
    parts = f"{count_noun(len(members), 'operator')} in {count_noun(kernels, 'kernel')}"
    return f"{parts}; {describe_wait(*largest_cause(result, members))}; {traffic} moved"


def model_reason(result: Estimate) -> str:
    """Describe the model in one line: kernels, cause of most of the time, power."""
    parts = f"{count_noun(result.demand.n_kernels, 'kernel')} ({result.execution})"
    return (
        f"{parts}; {describe_wait(*largest_cause(result))}; "
        f"draws {result.average_power_w:.0f} W, limit {result.power_limit_w:.0f} W"
    )


def describe_launch_dominated(count: int, kernels: int) -> str:
    """Say how many kernels take longer to launch than to execute."""
    return (
        f"{count} of {count_noun(kernels, 'kernel')} {'takes' if count == 1 else 'take'} longer to launch than to run"
    )
