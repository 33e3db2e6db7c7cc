"""Attribution of a difference between two estimates of one model: parts that add up to it, in several ways, and words.

`explain` compares the second side with the first, of the whole model or of the work below one node. EDP is a product,
so its difference is attributed by Shapley: `de * mean(t) + dt * mean(e)`. Each cause of a tenth of the difference has a
sentence, from the texts of attribution.toml.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np

from analysis.estimate.causes import (
    FAMILIES,
    divide_host_work,
    family_energy,
    static_power_w,
)
from analysis.estimate.estimate import Estimate, estimate, ratio
from analysis.estimate.metrics import ADDITIVE, METRICS, rates
from analysis.estimate.tree_figures import HOST, estimate_of_node, find_node, host_branches, operators_of
from analysis.model.ir.workload import Floats
from analysis.wording import CHANGES, describe_change, formats_differ, short_name, work_word
from hardware.base import file_access
from hardware.base.errors import RequestError, unknown
from hardware.base.records import memoize
from hardware.base.text import Unit, count_noun, percent, quantity
from hardware.engines.runtime import LIKE_FOR_LIKE
from hardware.event_prices import evidence_factor
from hardware.execute import BOUNDS, LAUNCH, RESOURCES
from hardware.precision import rate_unit

EXPLAINED = (*ADDITIVE, "memory")  # metrics whose difference has parts
SAME_COST = 0.001  # a smaller difference, as a fraction, is none
WORTH_NAMING = 0.1  # share of the difference from which a cause is named
WORTH_SAYING = 0.05  # deviation from 1 of a ratio by software that is worth naming
TIMES = (*RESOURCES, "launch", "power limit")
_CONTENTS = {"weights": "weight_bytes", "activations": "activation_peak_bytes", "workspace": "workspace_peak_bytes"}
_ROUNDING = 1e-12  # relative difference that counts as zero
_TEXTS = Path(__file__).with_suffix(".toml")


class Part(msgspec.Struct, frozen=True):
    """One part of both sides, in `unit`. `difference` is that of `b` from `a`, `fraction` its share of the whole
    difference (0 if both sides are equal). For EDP, `a` and `b` are Shapley shares of the EDP of each side."""

    name: str
    unit: Unit
    a: float
    b: float
    difference: float
    fraction: float


Groups = dict[str, tuple[Part, ...]]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The difference of a metric in sentences and in parts: each of `groups` adds up to it. `a` and `b` are the metric
    of both sides, `ratio` is `b / a`. Energy and EDP are per inference."""

    metric: str
    unit: Unit
    a: float
    b: float
    difference: float
    ratio: float
    reasons: tuple[str, ...]
    groups: Groups


def is_comparable(here: Estimate, there: Estimate) -> bool:
    """Return True if both estimates are of the same model in the same subgraphs."""
    return here.workload.name == there.workload.name and here.partition.id == there.partition.id


def explain(a: Estimate, b: Estimate, metric: str = "edp", path: str = "") -> Explanation:
    """Explain what differs from `a` to `b`, two estimates of one model, in the work below a node ('' is all). Raises
    RequestError for an unknown metric or node."""
    known = ADDITIVE if path else EXPLAINED  # a node has no peak of memory
    if metric not in known:
        raise unknown("metric", metric, known)
    if not is_comparable(a, b):
        raise RequestError(f"only sides of one model are explained: {a.workload.name} and {b.workload.name} are two")
    sides = estimate_of_work(a, path), estimate_of_work(b, path)
    groups = attribute(*sides, metric)
    if sides[0] is not a:
        groups = {way: tuple(part for part in parts if part.a or part.b) for way, parts in groups.items()}
    values = [METRICS[metric].figure(side) for side in sides]
    software = attribute_to_software(a, b, path) if metric in ("latency", "edp") else None
    return Explanation(
        metric=metric,
        unit=METRICS[metric].unit,
        a=values[0],
        b=values[1],
        difference=values[1] - values[0],
        ratio=values[1] / values[0] if values[0] else 1.0,
        reasons=_reasons(*sides, metric, groups, values, software),
        groups=groups,
    )


def estimate_of_work(result: Estimate, path: str) -> Estimate:
    """Return the estimate of the work below a node alone: all other operators take no time and no energy. For the model
    that is the estimate itself."""
    if find_node(result, path)[0] == "model":
        return result
    part, members, kernel = estimate_of_node(result, path), operators_of(result, path), result.demand.kernel
    run, mapping, is_member = part.run, part.run.mapping, np.zeros(result.demand.n)
    is_member[members] = 1.0
    latency_s, energy_j = run.latency_s * is_member, run.energy_j * is_member
    kernel_s, has_head = (
        np.bincount(kernel, each, minlength=len(run.kernel_s)) for each in (latency_s, is_member * result.demand.head)
    )
    # A kernel counts by the time of its members. Its overhead is that of its first operator.
    unthrottled_s = kernel_s * ratio(run.unthrottled_s, run.kernel_s)
    is_host = path == HOST and part is not result
    overhead_s = unthrottled_s if is_host else np.minimum(run.overhead_s * has_head, unthrottled_s)
    at_work = ratio(unthrottled_s - overhead_s, run.busy_s)
    traffic = {name: getattr(mapping.traffic, name) * is_member for name in mapping.traffic.__struct_fields__}
    of_part = msgspec.structs.replace(
        run,
        mapping=msgspec.structs.replace(
            mapping,
            traffic=msgspec.structs.replace(mapping.traffic, **traffic),
            matrix_s=mapping.matrix_s * is_member,
        ),
        kernel_s=kernel_s,
        unthrottled_s=unthrottled_s,
        overhead_s=overhead_s,
        latency_s=latency_s,
        energy_j=energy_j,
        counts=run.counts * is_member,
        **{
            name: getattr(run, name) * at_work for name in ("busy_s", "serial_s", "kernel_compute_s", "kernel_memory_s")
        },
    )
    total_s, total_j = float(kernel_s.sum()), float(energy_j.sum())
    bound_s = np.bincount(run.bound, kernel_s, minlength=len(BOUNDS))
    fast_s, slow_s = (end_s * total_s / (result.latency_s or 1.0) for end_s in result.latency_band_s)
    return msgspec.structs.replace(
        part,
        setup=divide_host_work(result)[0].setup,  # without the work of the host, which is a node of its own
        demand=msgspec.structs.replace(part.demand, macs=part.demand.macs * is_member),
        run=of_part,
        latency_s=total_s,
        energy_j=total_j,
        latency_band_s=(fast_s, slow_s),
        **msgspec.structs.asdict(rates(result.scenario.batch, total_s, total_j)),
        utilization=float((run.utilization * kernel_s).sum()) / (total_s or 1.0),
        bound=BOUNDS[int(bound_s.argmax())],
        bound_s=tuple(bound_s.tolist()),
    )


# --- parts that add up ------------------------------------------------------------------------------------


def attribute(a: Estimate, b: Estimate, metric: str) -> Groups:
    """Attribute the difference of a metric, first to families of events or to causes, then to subgraphs; that of memory
    to its contents at the peak."""
    subgraphs, unit = _subgraphs(a, b), METRICS[metric].unit
    if metric == "memory":
        sizes = [np.array([getattr(side.memory, field) for field in _CONTENTS.values()]) for side in (a, b)]
        return {"contents": _list_parts(tuple(_CONTENTS), unit, sizes)}
    energies = [family_energy(side) / side.scenario.batch for side in (a, b)]
    times = [time_parts(side) for side in (a, b)]
    of_subgraphs_j = [_with_host(side, "energy_j") / side.scenario.batch for side in (a, b)]
    of_subgraphs_s = [_with_host(side, "latency_s") for side in (a, b)]
    if metric == "energy":
        parts = _list_parts(FAMILIES, unit, energies)
        return {"family": parts, "subgraph": _list_parts(subgraphs, unit, of_subgraphs_j)}
    if metric == "latency":
        return {"cause": _list_parts(TIMES, unit, times), "subgraph": _list_parts(subgraphs, unit, of_subgraphs_s)}
    names = (*(f"energy: {name}" for name in FAMILIES), *(f"time: {name}" for name in TIMES))
    energies = [np.append(side, np.zeros(len(TIMES))) for side in energies]
    times = [np.append(np.zeros(len(FAMILIES)), side) for side in times]
    return {
        "cause": _shapley(names, energies, times, a, b),
        "subgraph": _shapley(subgraphs, of_subgraphs_j, of_subgraphs_s, a, b),
    }


def _list_parts(
    names: Sequence[str], unit: Unit, sides: Sequence[Floats], difference: Floats | None = None
) -> tuple[Part, ...]:
    """Return the parts of a difference, by default that of both sides, by name, the largest first."""
    difference = sides[1] - sides[0] if difference is None else difference
    total = float(difference.sum())
    if abs(total) <= _ROUNDING * float(np.abs(sides).sum()):
        total = np.inf  # the sides are equal but for rounding
    order = np.argsort(-np.abs(difference), kind="stable")
    columns = (*(side.tolist() for side in sides), difference.tolist(), (difference / total).tolist())
    return tuple(Part(names[i], unit, *(column[i] for column in columns)) for i in order.tolist())


# --- energy and latency -----------------------------------------------------------------------------------


def _with_host(result: Estimate, figure: str) -> Floats:
    """Return a figure of the run by subgraph, followed by that of the host's work between kernels, (s + 1,)."""
    rest, host = divide_host_work(result)
    return np.append(result.partition.total(getattr(rest.run, figure)), getattr(host.run, figure).sum() if host else 0)


def _subgraphs(a: Estimate, b: Estimate) -> tuple[str, ...]:
    """Return the names of the parts of `_with_host`."""
    return (*a.partition.id, next((branch.name for side in (a, b) for branch in host_branches(side)), "host"))


def time_parts(result: Estimate) -> Floats:
    """Return the latency by the resource that each kernel waits for, in the order of TIMES, shape (6,), s. Attention
    blocks that fill count as the matrix unit, kernels that quantise or cast as DRAM."""
    run = result.run
    at_work = run.busy_s - run.serial_s.sum(axis=0)
    times = np.bincount(run.resource, at_work, minlength=len(RESOURCES)).astype(np.float64)
    times[[RESOURCES.index("matrix unit"), RESOURCES.index("DRAM")]] += run.serial_s.sum(axis=1)
    throttled = float((run.kernel_s - run.unthrottled_s).sum())
    return np.array([*times, float(run.overhead_s.sum()), throttled])


# --- EDP --------------------------------------------------------------------------------------------------


def _shapley(
    names: Sequence[str], energies: Sequence[Floats], times: Sequence[Floats], a: Estimate, b: Estimate
) -> tuple[Part, ...]:
    """Attribute the difference of e x t: each part of one factor is weighed with the mean of the other factor."""
    energy_j = [side.energy_j_per_inference for side in (a, b)]
    latency_s = [a.latency_s, b.latency_s]
    by_energy = (energies[1] - energies[0]) * (latency_s[0] + latency_s[1]) / 2
    difference = by_energy + (times[1] - times[0]) * (energy_j[0] + energy_j[1]) / 2
    sides = [0.5 * (energies[i] * latency_s[i] + times[i] * energy_j[i]) for i in range(2)]
    return _list_parts(names, "Js", sides, difference)


# --- by software and chip ---------------------------------------------------------------------------------


class SoftwareShare(msgspec.Struct, frozen=True):
    """`ratio` of two latencies = `software` x `chip`; `chip` is the ratio with ahead-of-time compilers on both."""

    ratio: float
    software: float
    chip: float
    cause: str
    runtimes: str

    def describe(self, of_quicker: bool = False) -> str:
        """Write the product for the slower side, or for the quicker one: `chip 20x slower, software 8.7x faster`."""
        factors = ((self.chip, "chip"), (self.software, self.cause))
        changes = [(1.0 / ratio if of_quicker else ratio, name) for ratio, name in factors]
        return ", ".join(
            f"{name} {_describe_speed(ratio)}" for ratio, name in sorted(changes, key=lambda one: one[0] < 1.0)
        )


def _describe_speed(ratio: float) -> str:
    return describe_change(ratio, *CHANGES["latency"]) or "as fast"


@memoize()
def _like_for_like_s(result: Estimate, path: str) -> float:
    scenario = msgspec.structs.replace(result.scenario, execution=LIKE_FOR_LIKE)
    return estimate_of_work(estimate(result.workload, result.device, scenario), path).latency_s


def attribute_to_software(a: Estimate, b: Estimate, path: str = "") -> SoftwareShare | None:
    """Attribute the ratio of two latencies, the longer over the shorter, of the work below a node ('' is all). Return
    None for one device or one runtime, or if the software's part is too small to name."""
    if a.device.key == b.device.key:
        return None
    wholes = sorted((a, b), key=lambda side: -estimate_of_work(side, path).latency_s)
    sides = slower, quicker = [estimate_of_work(side, path) for side in wholes]
    if not quicker.latency_s:
        return None
    alike_s = [_like_for_like_s(side, path) for side in wholes]
    penalties = [side.latency_s / (seconds or 1.0) for side, seconds in zip(sides, alike_s, strict=True)]
    ratio, chip = slower.latency_s / quicker.latency_s, alike_s[0] / (alike_s[1] or 1.0)
    software = ratio / chip
    responsible = sides[0 if penalties[0] >= penalties[1] else 1]
    waits = responsible.runtime.mode != "fused" and responsible.bound == BOUNDS[LAUNCH]
    names = " against ".join(dict.fromkeys(side.runtime.name for side in sides))
    if abs(software - 1.0) < WORTH_SAYING or not (waits or " against " in names):
        return None
    return SoftwareShare(ratio, software, chip, "host dispatch" if waits else "software", names)


# --- sentences --------------------------------------------------------------------------------------------


def _reasons(
    a: Estimate, b: Estimate, metric: str, groups: Groups, values: Sequence[float], software: SoftwareShare | None
) -> tuple[str, ...]:
    """Return sentences about the second side against the first, with the signs of second - first."""
    if a.device.key == b.device.key and a.scenario == b.scenario:
        return ("both sides are the same",)
    is_second = (values[0], b.device.key) < (values[1], a.device.key)
    more, less = (b, a) if is_second else (a, b)
    unit, noun = METRICS[metric].unit, METRICS[metric].noun_of(work_word(a))
    ratio = max(values) / min(values) if min(values) else np.inf
    first, second = _name_side(a, b), _name_side(b, a)
    if ratio < 1.0 + SAME_COST:
        lines = [f"{first} and {second} have the same {noun}, {quantity(max(values), unit)}"]
    else:
        compared = f"the {noun} of" if is_second else f"less {noun} than"
        amounts = f"{quantity(values[1], unit)} against {quantity(values[0], unit)}"
        lines = [f"{second} takes {quantity(ratio, 'x')} {compared} {first}: {amounts}"]
        main = next(iter(groups.values()))
        least = WORTH_NAMING * max(abs(values[1] - values[0]), *(abs(part.difference) for part in main))
        lines += _describe_parts(more, less, metric, main, 1.0 if is_second else -1.0, least)
    if metric in ("latency", "edp"):
        if software is not None:
            slower = max((more, less), key=lambda side: side.latency_s)
            lines.append(
                f"{short_name(slower.device)} is {_describe_speed(software.ratio)}: {software.describe()} "
                f"({software.runtimes})"
            )
        if more.utilization * 2 < less.utilization and more.utilization < 0.3:
            used, other = (percent(side.utilization, 1) for side in (more, less))
            reaches = f"{short_name(more.device)} reaches {used} of its peak"
            lines.append(f"under-utilisation: {reaches}, {short_name(less.device)} {other}")
    if metric in ("energy", "edp"):
        lines.extend(_provenance(more, less))
        for side in (more, less):
            if not side.device.silicon:
                low, high = (quantity(end / (side.energy_j or 1.0), "x") for end in side.energy_band_j)
                on_paper = f"nothing on {short_name(side.device)} was measured"
                lines.append(f"{on_paper}: its energy may be {low} to {high} of that")
    return tuple(lines)


def _describe_parts(
    more: Estimate, less: Estimate, metric: str, parts: Sequence[Part], sign: float, least: float
) -> Iterator[str]:
    """Yield sentences about the parts of at least `least`, those that `more` takes more of first."""
    for part in sorted(parts, key=lambda p: -sign * p.difference):
        signed = "+" * (part.difference > 0) + quantity(part.difference, METRICS[metric].unit)
        is_time = metric == "latency" or part.name.startswith("time: ")
        name = part.name.removeprefix("energy: ").removeprefix("time: ")
        if sign * part.difference >= least and metric != "memory":
            if sentence := _difference_sentence(more, less, name, "time" if is_time else "energy"):
                yield f"{signed} {sentence}"
        elif abs(part.difference) >= least:
            yield f"{signed} {part.name}"


def _provenance(more: Estimate, less: Estimate) -> tuple[str, ...]:
    """Say how much of a ratio of energies is how prices are known, if they are measured on one side alone."""
    sides = more, less
    kinds = [side.device.priced or side.device.arch.data.story.prices for side in sides]
    measured_j = [
        side.event_j @ [1.0 if kind == "measured" else evidence_factor(side.device, event) for event in side.events]
        for kind, side in zip(kinds, sides, strict=True)
    ]
    ratio = more.energy_j_per_inference / less.energy_j_per_inference
    evidence = more.energy_j / less.energy_j * float(measured_j[1] / measured_j[0])
    if kinds[0] == kinds[1] or abs(evidence - 1.0) < SAME_COST:
        return ()
    names = ", ".join(f"{kind} for {short_name(side.device)}" for kind, side in zip(kinds, sides, strict=True))
    return (f"{quantity(evidence, 'x')} of {quantity(ratio, 'x')} energy is how event energies are known: {names}",)


def _name_side(side: Estimate, other: Estimate) -> str:
    """Return the name of a device, with the settings in which the sides differ, all if one device differs in
    others, and with the format that it runs if the formats differ."""
    own, others = ((f"batch {run.scenario.batch}", run.scenario.precision, run.execution) for run in (side, other))
    differing = [ours for ours, theirs in zip(own, others, strict=True) if ours != theirs]
    if side.device.key == other.device.key:
        differing = differing or list(own)
    name = short_name(side.device) + f" at {', '.join(differing)}" * bool(differing)
    return f"{name} ({side.precision_run})" if formats_differ((side, other)) else name


def _difference_sentence(more: Estimate, less: Estimate, cause: str, of: str) -> str:
    """Return the sentence for a cause of more `of` (energy or time); '' if the cause has no sentence."""
    text: str = file_access.shipped(_TEXTS)[of].get(cause, "")
    figures = _figures(more), _figures(less)
    for name, same in (("delivers", "does as well"), ("instructions", "as many, at a lower price or for less time")):
        if getattr(figures[0], name) == getattr(figures[1], name):
            setattr(figures[1], name, same)
    return text.format(more=figures[0], less=figures[1], static_cause=_static_cause(more, less))


def _figures(side: Estimate) -> SimpleNamespace:
    """Return the figures of a side that a sentence may name."""
    device, batch, flow = side.device, side.scenario.batch, side.run.mapping.traffic
    dram, chip = flow.dram_bytes.sum(), flow.chip_bytes.sum()
    launch_s, kernels = float(side.run.overhead_s.sum()), int(np.count_nonzero(side.run.kernel_s))
    own_s = float(divide_host_work(side)[0].run.overhead_s.sum())
    host = f" and {quantity(launch_s - own_s, 's')} for the host" if launch_s > own_s else ""
    peak = max((rate for (_, form), rate in device.peaks.items() if form == side.precision_run), default=0.0)
    energy_j = dict(zip(FAMILIES, family_energy(side).tolist(), strict=True))
    macs = float(side.demand.macs.sum())
    vector_s, dram_s = (
        float(side.run.busy_s[side.run.resource == RESOURCES.index(name)].sum()) for name in ("vector unit", "DRAM")
    )
    each = f" per {work_word(side)}" * (batch > 1)
    scale = float(np.average(side.run.price_scale, weights=side.run.latency_s)) if side.latency_s else 1.0
    lowered = f", at {percent(scale)} of the energy of the full clock" if scale < 0.99 else ""  # by a power limit
    return SimpleNamespace(
        name=short_name(device),
        format=side.precision_run,
        node=f"{device.process_nm:g} nm{lowered}",
        delivers=device.arch.data.story.delivers,
        instructions=_instructions(side),
        launch=f"{quantity(own_s, 's')} for {count_noun(kernels, 'kernel')}{host} of {short_name(device)} "
        f"({percent(launch_s / (side.latency_s or 1.0))} of its time)",
        launch_energy=f"{quantity(energy_j['launch'] / batch, 'J')} of {short_name(device)}",
        waits=_waits(side, kernels),
        chip=quantity(float(chip) / batch, "byte") + each,
        dram=quantity(float(dram) / batch, "byte") + each,
        per_mac={family: _price(joules, macs, "MAC") for family, joules in energy_j.items()},
        per_byte=_price(energy_j["on-chip memory"], float(chip), f"byte{_hops(side, float(chip))}"),
        per_dram_byte=_price(energy_j["DRAM"], float(dram), "byte"),
        memory=device.memory_technology,
        dram_time=f"waits {quantity(dram_s / batch, 's')} per {work_word(side)} for DRAM of "
        f"{quantity(device.memory_bandwidth, 'byte/s')}",
        static_power=quantity(static_power_w(side), "W"),
        time=quantity(side.latency_s / batch, "s"),
        work=work_word(side),
        compute=f"{short_name(device)} reaches {percent(side.utilization, 1)} of "
        f"{quantity(peak, rate_unit(side.precision_run))} {side.precision_run}{_rows_per_weight(side)}",
        vector=short_name(device) + (f" for {quantity(vector_s / batch, 's')}{each}" if vector_s else " never"),
        limit=quantity(side.power_limit_w, "W"),
    )


def _price(joules: float, count: float, unit: str) -> str:
    return f" ({quantity(joules / count, 'J')}/{unit})" if count else ""


def _hops(side: Estimate, moved_bytes: float) -> str:
    """Return how far the network on chip carries each byte, '' without a network: hops grow with the mesh."""
    place = side.device.arch.row.get("network_on_chip.hop")
    has_hops = place is not None and moved_bytes
    return f", {side.run.counts[place].sum() / moved_bytes:.3g} hops each" if has_hops else ""


def _instructions(side: Estimate) -> str:
    arch, macs, each = side.device.arch, side.demand.macs, f" per {work_word(side)}" * (side.scenario.batch > 1)
    if not (kind := arch.data.story.instructions):
        return "fetches none, its schedule lies in space"
    counts, per, on_matrix = side.run.counts[arch.row[arch.instruction_event]], "", side.run.mapping.on_matrix
    for where, members in (("matrix units", on_matrix), ("lanes", ~on_matrix)):
        done, count = float(macs[members].sum()), float(counts[members & (macs > 0.0)].sum())
        if count and done:
            times = f"one per {quantity(done / count, 'SI')} MACs" if done >= count else f"{count / done:.3g} per MAC"
            per += f", {times} on {where}"
    return f"issues {quantity(float(counts.sum()) / side.scenario.batch, 'SI')} {kind}{each}{per}"


def _waits(side: Estimate, kernels: int) -> str:
    """Say how long the cores of a side wait in loops, for how many launches, if its cores do."""
    device = side.device
    if not device.arch.wait_rows:
        return f"none in {short_name(device)}"
    counts, arch, cycles_per_s = side.run.counts, device.arch, device.units * device.clock_hz
    seconds, clocked_s = (float(counts[rows].sum()) / cycles_per_s for rows in (arch.wait_rows, arch.timed_rows[0]))
    cores, starts = count_noun(device.units, device.unit_name), count_noun(kernels, "kernel start")
    launch = quantity(max(clocked_s - float(side.run.busy_s.sum()), 0.0), "s")
    return f"{cores} of {short_name(device)} wait {quantity(seconds, 's')}, {launch} of it for {starts}"


def _rows_per_weight(side: Estimate) -> str:
    """Say how few rows use each weight of the product that takes longest on arrays, if they do not fill the arrays."""
    slowest = int(side.run.mapping.matrix_s[0].argmax())
    rows = float(side.demand.gemm[1, slowest])
    if not 0.0 < rows < side.device.values.get("array_rows", 0.0):
        return ""
    return f" ({count_noun(rows, 'row')} for each weight that the arrays of {side.device.array_rows:g} rows load)"


def _static_cause(more: Estimate, less: Estimate) -> str:
    """Say whether time or power causes most of a difference in static energy."""
    (power, time), (less_power, less_time) = (
        (static_power_w(side), side.latency_s / side.scenario.batch) for side in (more, less)
    )
    by_time, by_power = (time - less_time) * (power + less_power) / 2, (power - less_power) * (time + less_time) / 2
    return f"static power, by {'time' if by_time >= by_power else 'watts'}"
