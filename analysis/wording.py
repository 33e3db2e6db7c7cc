"""Sentences about an estimate: how its device differs from others (`1st, 1.5x faster`), how its figures are known, and
why a node costs what it costs."""

import re
from collections.abc import Sequence

import numpy as np

from analysis.estimate.causes import (
    COMPUTE,
    DRAM,
    LAUNCH_CAUSE,
    LIMITS,
    ON_CHIP,
    THROTTLED,
    causes,
    divide_host_work,
    limits,
    runs_of_kernels,
)
from analysis.estimate.estimate import Estimate
from analysis.estimate.metrics import METRICS
from analysis.estimate.tree_figures import TreeFigures
from analysis.estimate.trust import Trust
from analysis.model.ir.workload import Floats, Ints, batch_words, refusal
from hardware.base.text import count_noun, percent, quantity
from hardware.demand import READ_WEIGHT, OpClass
from hardware.device import ON_PAPER, Device
from hardware.execute import LAUNCH, MEMORY, POWER, RESOURCES
from hardware.map_demand import architecture_of, link_seconds

UNRANKED = ("design", "what if")
DIFFER = "Formats differ", "Software differs"  # begin lines about devices that cannot run what was asked for
ASIDES = ("Among chips with measured relatives", "On paper:")  # begin the lines that a short verdict lacks
SAME = 1.05  # ratio below which two figures count as equal
BASELINE = "the baseline"
FACTOR_MIN = 1.095  # ratio from which a difference is a factor, `1.1x less`; a smaller one is in percent
NOTICEABLE = 0.005  # difference, a fraction, below which two figures read the same
_LEFT_OUT = re.compile(r" (?:SXM\d*|PCIe|OAM|NVL|HGX|Platinum|Gold|\d+ ?[GM]B)(?=[ ,]|$)")  # of a device's name
WAIT_MIN = 0.4  # share of the latency from which a device is said to wait on a cause
LINKS = "links between devices"
_WAITS = {
    COMPUTE: "computing",
    ON_CHIP: "waiting for on-chip memory",
    DRAM: "waiting for DRAM",
    LAUNCH_CAUSE: "waiting for kernel launches",
    THROTTLED: "slowed by the power limit",
}


def ratio(value: float) -> str:
    """Write a ratio above 1: `1.04x`, `1.4x`, `27x`, `3,120x`."""
    return f"{value:,.{2 if value < FACTOR_MIN else 1 if value < 9.95 else 0}f}x"


def describe_change(change: float, less: str, more: str, times: str = "", factor_min: float = FACTOR_MIN) -> str:
    """Describe a figure that is `change` times another: `4 % less EDP`, `1.4x less EDP`, `2.7x the EDP`. Return '' if
    they read the same."""
    if abs(change - 1) < NOTICEABLE:
        return ""
    factor = max(change, 1 / change)
    is_factor = factor >= factor_min
    words = less if change < 1 else times if times and is_factor else more
    return f"{ratio(factor) if is_factor else percent(abs(change - 1))} {words}"


# What a lower and a higher figure are called against another.
CHANGES = {"energy": ("less energy", "more energy"), "latency": ("faster", "slower"), "edp": ("less EDP", "more EDP")}


def describe_metric(metric: str, change: float, other: str = "") -> str:
    """Describe a metric that is `change` times that of another: `3.8x less EDP`, `4.8x slower than TPU v4`."""
    noun = METRICS[metric].noun
    words = describe_change(change, *CHANGES.get(metric, (f"less {noun}", f"more {noun}")))
    than = f" {'than' if words else 'as'} {other}" if other else ""
    return (words or f"the same {noun}") + than


def short_name(device: Device) -> str:
    """Return the name of a device without its maker, with its power mode, its changes, and the mark of a design."""
    return device.label.removeprefix(f"{device.vendor} ") or device.id


def plain_name(device: Device) -> str:
    """Return the short name without the mark of a design, form factor and memory size, as people say it: `H100`, or
    `H100, launch cycles x2` with changed facts."""
    return _LEFT_OUT.sub("", short_name(device).removesuffix(ON_PAPER))


def distinct_names(devices: Sequence[Device]) -> list[str]:
    """Return the plain name of each device, or its short name if another device has that plain name."""
    names = [plain_name(device) for device in devices]
    return [
        name if names.count(name) == 1 else short_name(device).removesuffix(ON_PAPER)
        for device, name in zip(devices, names, strict=True)
    ]


def formats_differ(results: Sequence[Estimate]) -> bool:
    """Return True if devices run formats that differ by more than the names of 16-bit floats."""
    return len({result.precision_run.replace("fp16", "bf16") for result in results}) > 1


def headlines(
    results: Sequence[Estimate], reference: Estimate, ranks: Sequence[str], metric: str = "edp"
) -> tuple[str, ...]:
    """Return a headline for each device: its rank by `metric` in words (`rank_words`) and its ratios to the
    reference, that of `metric` first."""
    phrases = [_parts(result, rank, reference, metric) for result, rank in zip(results, ranks, strict=True)]
    left_out = {""} if len(phrases) > 1 else {"", BASELINE}
    return tuple(" · ".join(part for part in phrase if part not in left_out) for phrase in phrases)


def rank_values(values: Sequence[float], competes: Sequence[bool]) -> list[int]:
    """Return the place of each value among those that compete, from 1; 0 for one that does not compete."""
    rivals = sorted(value for value, is_rival in zip(values, competes, strict=True) if is_rival)
    return [rivals.index(value) + 1 if is_rival else 0 for value, is_rival in zip(values, competes, strict=True)]


def rank_words(results: Sequence[Estimate], metric: str) -> tuple[str, ...]:
    """Return `1st`, `2nd` .. among the devices that exist and can run the model, `design` for one on paper, `what if`
    for changed facts."""
    competes = [run.can_win and run.device.silicon for run in results]
    ranks = rank_values([METRICS[metric].figure(run) for run in results], competes)
    return tuple(
        (("what if" if run.device.changes else "design") if run.fits else "")
        if not run.device.silicon
        else _ordinal(rank) * (rank > 0 and sum(competes) > 1)
        for run, rank in zip(results, ranks, strict=True)
    )


def _ordinal(place: int) -> str:
    ending = "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending}"


def _parts(result: Estimate, rank: str, reference: Estimate, metric: str) -> list[str]:
    if not result.fits:
        needs, has = result.peak_memory_bytes, result.device.memory_bytes
        return [f"needs {quantity(needs, 'byte')}, has {quantity(has, 'byte')}"]
    if result is reference:
        _, share = largest_cause(result)
        return [rank, BASELINE, time_reason(result)] if share >= WAIT_MIN else [rank, BASELINE]
    words = compare_factors(result, reference, "the energy")
    if metric == "energy":
        words.sort(key=lambda part: "energy" not in part)
    elif metric == "edp":
        change = METRICS["edp"].figure(result) / (METRICS["edp"].figure(reference) or 1.0)
        words[:0] = [describe_change(change, "less EDP", "more EDP", "the EDP") or "the same EDP"]
    words = words or ["within 5 % of the baseline"]
    return [f"{rank}: {words[0]}", *words[1:]] if rank in UNRANKED else [rank, *words]


def compare_factors(result: Estimate, other: Estimate, more_energy: str) -> list[str]:
    """Write the ratios of speed and energy between two devices. Ratios within SAME are left out."""
    changes = (
        (result.latency_s / (other.latency_s or 1.0), *CHANGES["latency"], ""),
        (result.energy_j / (other.energy_j or 1.0), *CHANGES["energy"], more_energy),
    )
    return [describe_change(*change) for change in changes if not 1 / SAME < change[0] < SAME]


def largest_cause(result: Estimate, members: Ints | slice = slice(None)) -> tuple[int, float]:
    """Return the cause of most of the time of some operators, and its share of that time."""
    time_s = causes(result).sum_over(members).time_s
    cause = int(time_s.argmax())
    return cause, float(time_s[cause]) / (float(time_s.sum()) or 1.0)


def time_reason(result: Estimate, members: Ints | slice = slice(None)) -> str:
    """Write the cause of most of the time of some operators: `84 % of the time waiting for kernel launches`. Waits for
    DRAM are those for links if collectives, which count among them, take most."""
    cause, share = largest_cause(result, members)
    waits_s = share * float(result.run.latency_s[members].sum())
    is_link = cause == DRAM and 2.0 * float(_link_seconds(result)[members].sum()) > waits_s
    return f"{percent(share)} of the time {f'waiting for {LINKS}' if is_link else _WAITS[cause]}"


def _link_seconds(result: Estimate) -> Floats:
    """Return the seconds of collectives that nothing hides, (n,); zeros in training, which hides most."""
    demand, runtime = result.demand, result.runtime
    if demand.links is None or demand.training_devices:
        return np.zeros(demand.n)
    link_s = link_seconds(demand.links, result.device, runtime.library_collectives, runtime.collective_s.value)
    return link_s * runs_of_kernels(result)[demand.kernel]


def phase_words(result: Estimate) -> tuple[str, str]:
    """Return the name of the latency of a language model's phase, and what it makes; empty texts for other work."""
    lengths = result.workload.defaults
    if "kv" not in lengths or "output" in lengths:
        return "", ""
    return ("TPOT", "token") if lengths.get("sequence") == 1 else ("TTFT", "prompt")


def work_word(result: Estimate) -> str:
    """Return what a run of a model makes: `inference`, or `prompt`, `token` or `request` of a language model."""
    if result.workload.training is not None:
        return "sample"
    return phase_words(result)[1] or ("request" if "output" in result.workload.defaults else "inference")


def course_words(held: Sequence[tuple[str, float]]) -> str:
    """Write the bytes that kernels of training hold: `over time: forward 224 MB to 3.06 GB, at most 3.06 GB; ..`."""
    phases: dict[str, list[float]] = {}
    for kernel, size in held:
        phases.setdefault(kernel.partition(".")[0], []).append(size)
    ends = (
        (name, [quantity(size, "byte") for size in (each[0], each[-1], max(each))]) for name, each in phases.items()
    )
    return "over time: " + "; ".join(f"{name} {first} to {last}, at most {most}" for name, (first, last, most) in ends)


# --- evidence ---------------------------------------------------------------------------------------------

# The words for each level of evidence: here for a table, below for a sentence.
EVIDENCE = {
    "measured": "measured",
    "siblings": "similar chips",
    "engineering": "data sheet",
    "design_target": "on paper",
}
_SENTENCES = EVIDENCE | {"measured": "measured on it", "engineering": "data sheets only, nothing measured"}


def is_backed(trust: Trust) -> bool:
    """Return True if the device or similar chips were measured."""
    return trust.level in ("measured", "siblings")


def describe_evidence(trust: Trust) -> str:
    """Write `similar chips: 412 measurements, typically 21 % off there`."""
    words = _SENTENCES[trust.level]
    if trust.median_error is None or not is_backed(trust):
        return words
    return f"{words}: {count_noun(trust.rows, 'measurement')}, typically {percent(trust.median_error)} off" + (
        " there" * (trust.level == "siblings")
    )


# --- why a node costs what it costs -------------------------------------------------------------------------


def kernel_reason(result: Estimate, k: int) -> str:
    """Describe what bounds kernel k, with the competing times."""
    run = result.run
    compute, memory = quantity(run.kernel_compute_s[k], "s"), quantity(run.kernel_memory_s[k], "s")
    overhead, total = quantity(run.overhead_s[k], "s"), quantity(run.kernel_s[k], "s")
    bound = int(run.bound[k])
    if bound == POWER:
        limit = quantity(result.power_limit_w, "W")
        full_s = quantity(run.unthrottled_s[k], "s")
        return (
            f"power bound: {full_s} at the full clock, at which the run draws more than {limit}; throttled to {total}"
        )
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
    run, has_links = result.run, int(result.run.bound[k]) == MEMORY and result.demand.links is not None
    if has_links and 2 * float(_link_seconds(result)[result.demand.kernel == k].sum()) > float(run.kernel_memory_s[k]):
        return LINKS
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
    sentence = architecture_of(result.device).sentence(demand, result.setup_of(i), run.mapping, i)
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
        f"{len(kernels)} kernels, {count_noun(transfers, 'activation transfer')} between them and {traffic} moved; "
        f"{figures.subgraph_bound[s]} bound"
    )


def bound_of_most_time(result: Estimate, members: Ints) -> str:
    """Return the bound, one of LIMITS, that most of the time of `members` falls under, without the host's work."""
    bounds = limits(result)[result.demand.kernel[members]]
    return LIMITS[int(np.bincount(bounds, np.maximum(result.run.latency_s[members], np.finfo(float).tiny)).argmax())]
