"""Sentences that explain why one estimate costs more than another, one for each cause that can make the difference."""

from __future__ import annotations

from collections.abc import Callable

from analysis.estimate.estimate import Estimate
from analysis.estimate.families import instructions, static_power_w
from hardware.precision import rate_unit
from hardware.quantity import quantity


def name_side(side: Estimate, other: Estimate) -> str:
    """Return the name of a device, with its settings where the sides differ in them."""
    name = f"{side.device.name} {side.device.power_mode}".rstrip()
    if side.device.key != other.device.key and side.scenario == other.scenario:
        return name
    return f"{name} at batch {side.scenario.batch}, {side.scenario.precision}, {side.execution}"


Sentence = Callable[[Estimate, Estimate], str]


def _describe_both(title: str, describe: Callable[[Estimate], str], between: str) -> Sentence:
    """Return the sentence that says the same of both sides."""
    return lambda more, less: f"{title}: {describe(more)}{between}{describe(less)}"


def _describe_instructions(side: Estimate) -> str:
    count, macs = instructions(side), float(side.demand.macs.sum())
    kind = side.device.arch.data.story.instructions
    if not kind:
        return f"{side.device.name} fetches none, its schedule lies in space"
    each = f", one per {macs / count:.3g} MACs" if count and macs else ""
    return f"{side.device.name} issues {quantity(count, 'SI')} {kind}{each}"


def _describe_arithmetic(more: Estimate, less: Estimate) -> str:
    return (
        f"arithmetic: {more.device.name} computes in {more.precision_run} at {more.device.process_nm:g} nm, "
        f"{less.device.name} in {less.precision_run} at {less.device.process_nm:g} nm"
    )


def _describe_delivery(side: Estimate) -> str:
    return f"{side.device.name} {side.device.arch.data.story.delivers}"


def _bytes_per_inference(side: Estimate, level: str) -> float:
    flow = side.run.mapping.traffic
    read, write = (flow.dram_read, flow.dram_write) if level == "dram" else (flow.chip_read, flow.chip_write)
    return float((read + write).sum()) / side.scenario.batch


def _describe_dram(more: Estimate, less: Estimate) -> str:
    x, y = (quantity(_bytes_per_inference(side, "dram"), "byte") for side in (more, less))
    return (
        f"data movement: {more.device.name} moves {x} per inference through {more.device.memory_technology}, "
        f"{less.device.name} {y} through {less.device.memory_technology}"
    )


def _describe_on_chip(more: Estimate, less: Estimate) -> str:
    x, y = _bytes_per_inference(more, "chip"), _bytes_per_inference(less, "chip")
    fused = f" (kernels: {more.demand.n_kernels} against {less.demand.n_kernels})"
    return (
        f"data movement: {quantity(x, 'byte')} per inference cross the last on-chip level of {more.device.name}, "
        f"{quantity(y, 'byte')} that of {less.device.name}{fused}, and the levels below it"
    )


def _describe_clock(side: Estimate) -> str:
    row = next(i for i, event in enumerate(side.events) if event.family == "clock")
    cycles = quantity(float(side.run.counts[row].sum()) / side.scenario.batch, "SI")
    return f"{cycles} unit cycles per inference on {side.device.name}, {side.utilization:.1%} of peak used"


def _describe_static(more: Estimate, less: Estimate) -> str:
    power = static_power_w(more), static_power_w(less)
    time = more.latency_s / more.scenario.batch, less.latency_s / less.scenario.batch
    by_time = (time[0] - time[1]) * (power[0] + power[1]) / 2
    by_power = (power[0] - power[1]) * (time[0] + time[1]) / 2
    cause = "static power during longer execution" if by_time >= by_power else "higher static power"
    return (
        f"{cause}: {quantity(power[0], 'W')} for {quantity(time[0], 's')} per inference against "
        f"{quantity(power[1], 'W')} for {quantity(time[1], 's')}"
    )


def _describe_launch(side: Estimate) -> str:
    over = float(side.run.overhead_s.sum())
    share = f"{over / (side.latency_s or 1.0):.0%} of its time"
    return f"{quantity(over, 's')} for {side.demand.n_kernels} kernels of {side.device.name} ({share})"


def _describe_compute(side: Estimate) -> str:
    peak = max((v for (_, name), v in side.device.peaks.items() if name == side.precision_run), default=0.0)
    rate = f"{quantity(peak, rate_unit(side.precision_run))} {side.precision_run}"
    return f"{side.device.name} {side.utilization:.1%} of {rate}"


def _describe_bandwidth(more: Estimate, less: Estimate) -> str:
    (x, high), (y, low) = (
        (quantity(_bytes_per_inference(side, "dram"), "byte"), quantity(side.device.memory_bandwidth, "byte/s"))
        for side in (more, less)
    )
    return f"memory: {x} per inference at {high} against {y} at {low}"


def _describe_power(more: Estimate, less: Estimate) -> str:
    return (
        f"power limit: {more.device.name} is throttled to {quantity(more.power_limit_w, 'W')}, "
        f"{less.device.name} may draw {quantity(less.power_limit_w, 'W')}"
    )


_LAUNCH = _describe_both("launch overhead", _describe_launch, ", ")
_COMPUTE = _describe_both("compute", _describe_compute, ", ")
ENERGY_SENTENCES: dict[str, Sentence] = {
    "arithmetic": _describe_arithmetic,
    "operand delivery": _describe_both("operand delivery", _describe_delivery, "; "),
    "instructions and control": _describe_both("instruction overhead", _describe_instructions, "; "),
    "launch": _LAUNCH,
    "on-chip memory": _describe_on_chip,
    "DRAM": _describe_dram,
    "clock": _describe_both("clock", _describe_clock, "; "),
    "static power": _describe_static,
}
TIME_SENTENCES: dict[str, Sentence] = {
    "matrix unit": _COMPUTE,
    "vector unit": _COMPUTE,
    "DRAM": _describe_bandwidth,
    "on-chip memory": _describe_on_chip,
    "launch": _LAUNCH,
    "power limit": _describe_power,
}


def under_utilisation(more: Estimate, less: Estimate) -> tuple[str, ...]:
    """Return a sentence where the slower side leaves much more of its peak unused, else none."""
    if more.utilization * 2 < less.utilization and more.utilization < 0.3:
        return (
            f"under-utilisation: {more.device.name} reaches {more.utilization:.1%} of its peak, "
            f"{less.device.name} {less.utilization:.1%}",
        )
    return ()
