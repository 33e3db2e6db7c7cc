"""Why a node costs what it costs.

The formula with its numbers, the largest term, what would flip it.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from analysis.reports.events import report as event_report
from analysis.run.estimate import Estimate
from analysis.run.figures import about
from analysis.run.reason import flip, model_reason, operator_reason, subgraph_reason
from analysis.run.tree import Tree, find, told
from analysis.run.tree import tree as tree_figures
from hardware.execute import BOUNDS, POWER
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.declare import NODE, Report
from hwexplorer.state import State
from hwexplorer.state import format as format_state
from hwexplorer.views import verdict
from hwexplorer.views.plain import Text
from hwexplorer.views.words import band, place

TOP = 6


def why(state: State) -> Text:
    """The explanation of the node under the cursor on the device under the cursor; with a pin, first against it."""
    figures = tree_figures(engine.result(state))
    result = figures.estimate
    kind, index = find(result, state.at)
    sections: list[tuple[str, tuple[str, ...]]] = []
    if against := verdict.lines(state):
        sections.append(("Against the pin", against))
    sections.append(("In a word", (_reason(figures, kind, index),)))
    sections.append(("Time", _time(figures, kind, index)))
    sections.append(("Energy", _energy(figures, kind, index)))
    if kind == "operator":
        sections.append(("EDP", _edp(figures, index)))
    if kind == "model":
        count = len(result.workload.operators.path)
        covered = (
            f"{result.coverage:.0%} of {count} operators have a cost rule, "
            f"which move {result.coverage_bytes:.0%} of the bytes"
        )
        if result.coverage < 1:
            covered += "; the FLOPs of the others are not known"
        sections.append(("Capture", (covered, *result.workload.notes)))
    if result.marks:
        sections.append(("Marks", result.marks))
    sections.append(("Largest events, with their sources", _sources(result, state.at)))
    return Text("why", place(state), tuple(sections))


def _document(state: State) -> dict[str, Any]:
    """The lines, and the one string that brings the screen to them."""
    subject = about(engine.result(state), on_device=True)
    return {"state": format_state(state), **subject, **msgspec.to_builtins(why(state))}


def _reason(figures: Tree, kind: str, index: int) -> str:
    if kind == "model":
        return model_reason(figures.estimate)
    return subgraph_reason(figures, index) if kind == "subgraph" else operator_reason(figures, index)


def _kernels(result: Estimate, kind: str, index: int) -> list[int]:
    demand = result.demand
    if kind == "model":
        return list(range(demand.n_kernels))
    members = result.partition.members[index] if kind == "subgraph" else (index,)
    return sorted({int(demand.kernel[i]) for i in members})


def _time(figures: Tree, kind: str, index: int) -> tuple[str, ...]:
    result = figures.estimate
    run = result.run
    kernels = _kernels(result, kind, index)
    if len(kernels) == 1:
        return _kernel_lines(result, kernels[0])
    chosen = np.array(kernels)
    total = float(run.kernel_s[chosen].sum())
    lines = [f"sum over {len(kernels)} kernels = {_s(total)}"]
    if kind == "model":
        lines[0] += f" (band {band(result.latency_band_s, result.latency_s)})"
    for b, name in enumerate(BOUNDS):
        part = float(run.kernel_s[chosen][run.bound[chosen] == b].sum())
        if part:
            count = int((run.bound[chosen] == b).sum())
            lines.append(f"{_percent(part / total)} {name} bound: {count} kernel{'s' * (count != 1)}, {_s(part)}")
    return tuple(lines)


def _kernel_lines(result: Estimate, k: int) -> tuple[str, ...]:
    run = result.run
    compute, memory, overhead = (float(a[k]) for a in (run.kernel_compute_s, run.kernel_memory_s, run.overhead_s))
    lines = [
        f"max(compute {_s(compute)}, memory {_s(memory)}) + overhead {_s(overhead)} = {_s(float(run.unthrottled_s[k]))}"
    ]
    bound = int(run.bound[k])
    if bound == POWER:
        limit = quantity(result.power_limit_w, "W")
        lines.append(f"power limit {limit}: throttled to {_s(float(run.kernel_s[k]))}")
    members = np.flatnonzero(result.demand.kernel == k)
    flops = float((2 * result.demand.macs + result.demand.vector_flops)[members].sum())
    flow = run.mapping.traffic
    moved = float((flow.dram_read + flow.dram_write)[members].sum())
    chip = float((flow.chip_read + flow.chip_write)[members].sum())
    lines.append(
        f"{quantity(flops, 'FLOP')}, {quantity(moved, 'byte')} DRAM of {quantity(chip, 'byte')} moved, "
        f"{run.utilization[k]:.1%} of peak"
    )
    lines.append(f"flips: {flip(result, k)}")
    return tuple(lines)


def _energy(figures: Tree, kind: str, index: int) -> tuple[str, ...]:
    result = figures.estimate
    if kind == "model":
        compute, memory, static = result.component_j.values()
        energy, time = result.energy_j, result.latency_s
    else:
        level = figures.subgraphs if kind == "subgraph" else figures.operators
        compute, memory, static = (float(level.component_j[c, index]) for c in range(3))
        energy, time = float(level.energy_j[index]), float(level.latency_s[index])
    batch = result.scenario.batch
    of_batch = f" for the batch, {_j(energy / batch)} per inference" if batch > 1 else ""
    lines = [
        f"sum of count x energy each = {_j(energy)}{of_batch}"
        + (f" (band {band(result.energy_band_j, energy)})" if kind == "model" else ""),
        f"compute {_j(compute)} + memory {_j(memory)} + static {_j(static)}",
    ]
    if kind != "operator" and time:
        lines.append(
            f"average power {quantity(energy / time, 'W')} of {quantity(result.power_limit_w, 'W')} "
            f"(TDP {quantity(result.device.tdp_w, 'W')})"
        )
    return tuple(lines)


def _edp(figures: Tree, i: int) -> tuple[str, ...]:
    level, result = figures.operators, figures.estimate
    attributed = float(level.share[i]) * result.edp_js
    separate = "fused with others in one kernel" if figures.fused[i] else "a kernel of its own"
    benefit = float(level.fusion_benefit_js[i])
    saves = "takes off" if benefit >= 0 else "adds"
    return (
        f"attributed {_js(attributed)} = share {level.share[i]:.2%} x {_js(result.edp_js)}",
        f"base {_js(float(level.base_edp_js[i]))} {_modifier(float(level.modifier[i]))} ({separate})",
        f"fusing {saves} {_js(abs(benefit))}",
    )


def _modifier(value: float) -> str:
    modifier = told(value)
    return "of next to no work: no modifier" if modifier is None else f"x modifier {modifier:.3g}"


def _sources(result: Estimate, path: str) -> tuple[str, ...]:
    rows = sorted(event_report(result, path).events, key=lambda row: -row.energy_j)[:TOP]
    return tuple(
        f"{_percent(row.fraction)} {row.category}.{row.event}: {_count(row.count, row.unit)} x "
        f"{quantity(row.coefficient_j, 'J')} "
        f"({row.coefficient_low_j / row.coefficient_j:.2g}-{row.coefficient_high_j / row.coefficient_j:.2g}x) "
        f"[{row.quality}: {row.source}]"
        for row in rows
        if row.energy_j > 0
    )


def _percent(fraction: float) -> str:
    """Right aligned whole percents; what is there but rounds to nothing reads `<1%`."""
    return " <1%" if 0 < fraction < 0.005 else f"{fraction:4.0%}"


def _count(value: float, unit: str) -> str:
    return _s(value) if unit == "s" else f"{quantity(value, 'SI')} {unit}"


def _s(value: float) -> str:
    return quantity(value, "s")


def _j(value: float) -> str:
    return quantity(value, "J")


def _js(value: float) -> str:
    return quantity(value, "Js")


VERB = Report(
    subject=NODE,
    document=_document,
    view=why,
    examples={"why": "conv2d --on h100_sxm --node relu"},
)
