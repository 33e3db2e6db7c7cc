"""Why A costs more than B: the difference in parts that add up, and the reason in words chosen by the numbers: a cause
is named where it explains a tenth of it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from analysis.estimate.estimate import Estimate
from analysis.estimate.families import instructions
from analysis.estimate.figures import Figures, figures
from analysis.estimate.metrics import EXPLAINED, METRICS
from analysis.explore.attribution import Groups, Part, divisions, static_power
from analysis.explore.runtime_share import split
from hardware.errors import RequestError, unknown
from hardware.quantity import Unit, quantity


class Side(Figures, frozen=True, kw_only=True):
    """One side: its figures, and the `value` that is explained, in the unit of the metric."""

    value: float
    static_power_w: float


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `hwexplorer explain`. `groups` divide the same difference in several ways; each adds up.

    Energy is per inference where the batches differ (`per_inference`), else of the batch; EDP always takes the
    energy per inference, latency always the batch's."""

    model: str
    metric: str
    unit: Unit
    per_inference: bool
    a: Side
    b: Side
    difference: float
    ratio: float
    reasons: tuple[str, ...]
    groups: Groups


def explain(a: Estimate, b: Estimate, metric: str = "edp") -> Explanation:
    """Explain A against B, two estimates of one model. Raises RequestError for an unknown metric."""
    if metric not in EXPLAINED:
        raise unknown("metric", metric, EXPLAINED)
    if a.workload.name != b.workload.name or a.partition.id != b.partition.id:
        raise RequestError(f"explain compares one model: {a.workload.name} and {b.workload.name} are two")
    per_inference = metric == "edp" or a.scenario.batch != b.scenario.batch
    groups = divisions(a, b, metric, per_inference)
    values = _value(a, metric, per_inference), _value(b, metric, per_inference)
    return Explanation(
        model=a.workload.name,
        metric=metric,
        unit=METRICS[metric].unit,
        per_inference=per_inference and metric != "latency",
        a=_side(a, values[0]),
        b=_side(b, values[1]),
        difference=values[0] - values[1],
        ratio=values[0] / values[1] if values[1] else 1.0,
        reasons=reasons(a, b, metric, groups, values),
        groups=groups,
    )


def _value(result: Estimate, metric: str, per_inference: bool) -> float:
    return result.energy_j if metric == "energy" and not per_inference else METRICS[metric].of(result)


def _side(result: Estimate, value: float) -> Side:
    return Side(**msgspec.structs.asdict(figures(result)), value=value, static_power_w=static_power(result))


# --- the reason in words ----------------------------------------------------------------------------------


WORTH_NAMING = 0.1  # of the difference


def reasons(a: Estimate, b: Estimate, metric: str, groups: Groups, values: tuple[float, float]) -> tuple[str, ...]:
    """Sentences about the costlier side against the cheaper one: the same facts whichever is named first."""
    if a.device.key == b.device.key and a.scenario == b.scenario:
        return ("both sides are the same run",)
    swapped = (values[0], b.device.key) < (values[1], a.device.key)
    more, less = (b, a) if swapped else (a, b)
    high, low = max(values), min(values)
    what = {"energy": "energy", "latency": "time", "memory": "memory", "edp": "energy-delay product"}[metric]
    unit = METRICS[metric].unit
    ratio = high / low if low else float("inf")
    first = (
        f"{_name(more, less)} takes {ratio:.3g}x the {what} of {_name(less, more)}: "
        f"{quantity(high, unit)} against {quantity(low, unit)}"
    )
    if ratio < 1.001:
        first = f"{_name(more, less)} and {_name(less, more)} take the same {what}, {quantity(high, unit)}"
    lines = [first]
    if metric == "memory":
        return (*lines, *_memory(groups, swapped))
    main = groups["family"] if metric == "energy" else groups["cause"]
    sign = -1.0 if swapped else 1.0
    for part in sorted(main, key=lambda p: -sign * p.difference):
        share = part.fraction
        if sign * part.difference <= 0 or share < WORTH_NAMING or ratio < 1.001:
            break
        timed = metric == "latency" or part.name.startswith("time: ")
        name = part.name.removeprefix("energy: ").removeprefix("time: ")
        sentence = (_TIME_SENTENCES if timed else _SENTENCES).get(name)
        if sentence is not None:
            lines.append(f"{share:.0%}: {sentence(more, less)}")
    against = [p for p in main if sign * p.difference < 0 and p.fraction < -WORTH_NAMING]
    lines.extend(
        f"against it, {part.name} favours {_name(more, less)} by {-part.fraction:.0%} of the difference"
        for part in sorted(against, key=lambda p: p.fraction)
    )
    if metric in ("latency", "edp") and (parts := split(more, less)):
        lines.append(f"of the time, {parts.text}")
    lines.extend(_utilisation(more, less) if metric in ("latency", "edp") else ())
    return tuple(lines)


def _name(side: Estimate, other: Estimate) -> str:
    """The device; with its settings where the sides differ in them."""
    if side.device.key != other.device.key and side.scenario == other.scenario:
        return side.device.name + (f" {side.device.power_mode}" if side.device.power_mode else "")
    mode = f" {side.device.power_mode}" if side.device.power_mode else ""
    return f"{side.device.name}{mode} at batch {side.scenario.batch}, {side.scenario.precision}, {side.execution}"


def _instructions(more: Estimate, less: Estimate) -> str:
    def told(side: Estimate) -> str:
        count, macs = instructions(side), float(side.demand.macs.sum())
        kind = side.device.arch.data.story.instructions
        if not kind:
            return f"{side.device.name} fetches none, its schedule lies in space"
        each = f", one per {macs / count:.3g} MACs" if count and macs else ""
        return f"{side.device.name} issues {quantity(count, 'SI')} {kind}{each}"

    return f"instruction overhead: {told(more)}; {told(less)}"


def _arithmetic(more: Estimate, less: Estimate) -> str:
    return (
        f"arithmetic: {more.device.name} computes in {more.precision_run} at {more.device.process_nm:g} nm, "
        f"{less.device.name} in {less.precision_run} at {less.device.process_nm:g} nm"
    )


def _delivery(more: Estimate, less: Estimate) -> str:
    return (
        f"operand delivery: {more.device.name} {more.device.arch.data.story.delivers}; "
        f"{less.device.name} {less.device.arch.data.story.delivers}"
    )


def _bytes(side: Estimate, level: str) -> float:
    flow = side.run.mapping.traffic
    read, write = (flow.dram_read, flow.dram_write) if level == "dram" else (flow.chip_read, flow.chip_write)
    return float((read + write).sum()) / side.scenario.batch


def _dram(more: Estimate, less: Estimate) -> str:
    x, y = _bytes(more, "dram"), _bytes(less, "dram")
    return (
        f"data movement: {more.device.name} moves {quantity(x, 'byte')} per inference through "
        f"{more.device.memory_technology}, {less.device.name} {quantity(y, 'byte')} through "
        f"{less.device.memory_technology}"
    )


def _on_chip(more: Estimate, less: Estimate) -> str:
    x, y = _bytes(more, "chip"), _bytes(less, "chip")
    fused = f" (kernels: {more.demand.n_kernels} against {less.demand.n_kernels})"
    return (
        f"data movement: {quantity(x, 'byte')} per inference cross the last on-chip level of {more.device.name}, "
        f"{quantity(y, 'byte')} that of {less.device.name}{fused}, and the levels below it"
    )


def _clock(more: Estimate, less: Estimate) -> str:
    def told(side: Estimate) -> str:
        row = next(i for i, event in enumerate(side.events) if event.family == "clock")
        cycles = float(side.run.counts[row].sum()) / side.scenario.batch
        used = f"{side.utilization:.1%} of peak used"
        return f"{quantity(cycles, 'SI')} unit cycles per inference on {side.device.name}, {used}"

    return f"clock: {told(more)}; {told(less)}"


def _static(more: Estimate, less: Estimate) -> str:
    power = static_power(more), static_power(less)
    time = more.latency_s / more.scenario.batch, less.latency_s / less.scenario.batch
    by_time = (time[0] - time[1]) * (power[0] + power[1]) / 2
    by_power = (power[0] - power[1]) * (time[0] + time[1]) / 2
    cause = "static power during longer execution" if by_time >= by_power else "higher static power"
    return (
        f"{cause}: {quantity(power[0], 'W')} for {quantity(time[0], 's')} per inference against "
        f"{quantity(power[1], 'W')} for {quantity(time[1], 's')}"
    )


def _launch(more: Estimate, less: Estimate) -> str:
    def told(side: Estimate) -> str:
        over = float(side.run.overhead_s.sum())
        return (
            f"{quantity(over, 's')} for {side.demand.n_kernels} kernels of {side.device.name} "
            f"({over / (side.latency_s or 1.0):.0%} of its time)"
        )

    return f"launch overhead: {told(more)}, {told(less)}"


def _compute(more: Estimate, less: Estimate) -> str:
    def told(side: Estimate) -> str:
        peak = max((v for (_, name), v in side.device.peaks.items() if name == side.precision_run), default=0.0)
        return f"{side.device.name} {side.utilization:.1%} of {quantity(peak, 'FLOP/s')} {side.precision_run}"

    return f"compute: {told(more)}, {told(less)}"


def _bandwidth(more: Estimate, less: Estimate) -> str:
    return (
        f"memory: {quantity(_bytes(more, 'dram'), 'byte')} per inference at "
        f"{quantity(more.device.memory_bandwidth, 'byte/s')} against {quantity(_bytes(less, 'dram'), 'byte')} at "
        f"{quantity(less.device.memory_bandwidth, 'byte/s')}"
    )


def _power(more: Estimate, less: Estimate) -> str:
    return (
        f"power limit: {more.device.name} is throttled to {quantity(more.power_limit_w, 'W')}, "
        f"{less.device.name} may draw {quantity(less.power_limit_w, 'W')}"
    )


_SENTENCES: dict[str, Callable[[Estimate, Estimate], str]] = {
    "arithmetic": _arithmetic,
    "operand delivery": _delivery,
    "instructions and control": _instructions,
    "launch and synchronisation": _launch,
    "on-chip memory": _on_chip,
    "DRAM": _dram,
    "clock": _clock,
    "static power": _static,
}
_TIME_SENTENCES: dict[str, Callable[[Estimate, Estimate], str]] = {
    "matrix unit": _compute,
    "vector unit": _compute,
    "DRAM": _bandwidth,
    "on-chip memory": _on_chip,
    "launch and dispatch": _launch,
    "power limit": _power,
}


def _utilisation(more: Estimate, less: Estimate) -> tuple[str, ...]:
    """Said where the slower side leaves much more of its peak unused."""
    if more.utilization * 2 < less.utilization and more.utilization < 0.3:
        return (
            f"under-utilisation: {more.device.name} reaches {more.utilization:.1%} of its peak, "
            f"{less.device.name} {less.utilization:.1%}",
        )
    return ()


def _memory(groups: Groups, swapped: bool) -> list[str]:
    def told(part: Part) -> str:
        high, low = (part.b, part.a) if swapped else (part.a, part.b)
        return f"{part.name}: {quantity(high, 'byte')} against {quantity(low, 'byte')}"

    lines = [told(part) for part in groups["kind"] if part.a or part.b]
    largest = groups["live at the peak"][0]
    return [*lines, f"the largest difference is {told(largest)}"] if largest.difference else lines
