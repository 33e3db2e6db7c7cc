"""Checks that the figures of an estimate agree with each other and with physics.

They compare figures that were computed in different ways, so that a mistake in one shows as a contradiction.
"""

from __future__ import annotations

import msgspec
import numpy as np

from analysis.estimate.estimate import Estimate
from analysis.estimate.evaluation import ratio
from analysis.estimate.kernel_rows import Kernels, kernels
from analysis.estimate.kernels import structure
from analysis.estimate.operator_facts import tensor_bytes
from analysis.estimate.peak_memory import storage_roots
from analysis.model.ir.workload import BUFFER, WEIGHT
from hardware.execute import LAUNCH, MEMORY, POWER
from hardware.mapping.common import units_in_all
from hardware.quantity import quantity

NEAR = 1.0 + 1e-9
_DRAM = 2  # of hardware.execute.RESOURCES


class Check(msgspec.Struct, frozen=True):
    """One check; the sentence quotes the numbers it compared."""

    name: str
    passed: bool
    sentence: str


def checks(result: Estimate) -> tuple[Check, ...]:
    """Return all checks of one estimate."""
    rows = kernels(result)
    return (
        _sums(result), _latency(result, rows), _utilization(result), _parallelism(result), _bounds(result, rows),
        _bandwidth(result, rows), _power(result, rows), _memory(result), _bands(result), _coverage(result),
    )  # fmt: skip


def _sums(result: Estimate) -> Check:
    energies = (result.event_energy_j, result.run.energy_j, result.partition.total(result.run.energy_j))
    pairs = [(float(part.sum()), result.energy_j) for part in energies]
    pairs.append((float(result.run.latency_s.sum()), result.latency_s))
    off = max(abs(summed - total) / (total or 1.0) for summed, total in pairs)
    return Check(
        "sums",
        off <= 1e-9,
        f"events, operators and subgraphs add up to {quantity(result.energy_j, 'J', 4)}, operators to "
        f"{quantity(result.latency_s, 's', 4)}; largest difference {off:.0e}",
    )


def _latency(result: Estimate, rows: Kernels) -> Check:
    """Compare the latency with the roofline, which has no efficiencies or overheads."""
    roof = np.maximum(rows.ideal_s, rows.dram_bytes / result.device.memory_bandwidth)
    below = int((rows.latency_s * NEAR < roof).sum())
    times = result.latency_s / float(roof.sum()) if roof.sum() else np.inf
    return Check(
        "latency and roofline",
        below == 0,
        f"{quantity(result.latency_s, 's')} is {times:.3g}x the roofline bound of {quantity(float(roof.sum()), 's')}; "
        f"{below} of {len(roof)} kernels are quicker than their roof",
    )


def _utilization(result: Estimate) -> Check:
    most = float(result.run.utilization.max(initial=0.0))
    says = f"{result.utilization * 100:.1f} % of peak over all, {most:.1%} in the best kernel, never over 100 %"
    return Check("utilisation", most <= NEAR, says)


def _parallelism(result: Estimate) -> Check:
    """A kernel cannot use more of the peak than the part of the units it runs on."""
    run, demand = result.run, result.demand
    active = run.mapping.units / units_in_all(result.device, run.mapping.on_matrix)
    most = np.zeros(demand.n_kernels)
    np.maximum.at(most, demand.kernel, np.minimum(active, 1.0))
    over = int((run.utilization > most * (1.0 + 1e-6)).sum())
    used = float((most * run.kernel_s).sum()) / (result.latency_s or 1.0)
    return Check(
        "utilisation and parallelism",
        over == 0,
        f"{used:.0%} of the units have work on average, {result.utilization:.1%} of the peak is used; {over} of "
        f"{demand.n_kernels} kernels use more than the units they run on could give",
    )


def _bounds(result: Estimate, rows: Kernels) -> Check:
    """Kernels bound by memory lie left of where their own efficiencies put the ridge, those bound by compute right."""
    run, bandwidth = result.run, result.device.memory_bandwidth
    plain = ~np.isin(run.bound, (LAUNCH, POWER)) & (rows.dram_bytes > 0) & (rows.ideal_s > 0)
    by_dram = plain & (run.bound == MEMORY) & (run.resource == _DRAM)
    by_compute = plain & (run.bound != MEMORY)
    intensity = rows.flops / np.maximum(rows.dram_bytes, 1.0)
    ridge = rows.flops / np.maximum(rows.ideal_s, 1e-300) / bandwidth
    # Ridge at the rates that are reached: compute seconds over the ideal moves it left, DRAM seconds right.
    dram_s = np.maximum(run.kernel_memory_s, 1e-300)
    reached = ridge * (rows.ideal_s / np.maximum(run.kernel_compute_s, 1e-300))
    reached = reached * (dram_s * bandwidth / np.maximum(rows.dram_bytes, 1.0))
    wrong = int((by_dram & (intensity > reached * NEAR)).sum() + (by_compute & (intensity * NEAR < reached)).sum())
    textbook = int((by_dram & (intensity < ridge)).sum() + (by_compute & (intensity >= ridge)).sum())
    judged = int(by_dram.sum() + by_compute.sum())
    return Check(
        "bound and intensity",
        wrong == 0,
        f"{judged} kernels are bound by compute or DRAM: {textbook} lie on that side of the data sheet's ridge, "
        f"{judged - textbook} cross it because of what they reach of either rate; {wrong} contradict their intensity",
    )


def _bandwidth(result: Estimate, rows: Kernels) -> Check:
    most, limit = float(ratio(rows.dram_bytes, rows.latency_s).max(initial=0.0)), result.device.memory_bandwidth
    says = f"at most {quantity(most, 'byte/s')} of {quantity(limit, 'byte/s')} in any kernel"
    return Check("bandwidth", most <= limit * NEAR, says)


def _power(result: Estimate, rows: Kernels) -> Check:
    most, limit = float(ratio(rows.energy_j, rows.latency_s).max(initial=0.0)), result.power_limit_w
    return Check(
        "power",
        most <= limit * (1.0 + 1e-6),
        f"{quantity(result.average_power_w, 'W')} on average, {quantity(most, 'W')} in the most demanding kernel, "
        f"limit {quantity(limit, 'W')}; {int((result.run.bound == POWER).sum())} kernels throttled",
    )


def _memory(result: Estimate) -> Check:
    """Compare the peak, which comes from lifetimes, with bounds that need none: each kernel holds all that it touches
    at once, and no more is held than all values ever made."""
    held, workload = result.memory, result.workload
    tensors, joined = workload.tensors, structure(workload, result.joins)
    moves, width = joined.moves, tensor_bytes(workload, result.plan.widths)
    size = (tensors.numel @ workload.value_at(batch=result.scenario.batch)) * width
    is_passing = ~np.isin(tensors.role, (WEIGHT, BUFFER))[moves.tensor]
    root = np.array(storage_roots(tensors.storage), dtype=np.int64)[moves.tensor]
    touched: dict[tuple[int, int], float] = {}
    largest: dict[int, float] = {}
    for kernel, storage, each in zip(
        moves.kernel[is_passing].tolist(), root[is_passing].tolist(), size[moves.tensor][is_passing].tolist(),
        strict=True,
    ):  # fmt: skip
        touched[kernel, storage] = max(touched.get((kernel, storage), 0.0), each)
        largest[storage] = max(largest.get(storage, 0.0), each)
    at_once = np.zeros(joined.n_kernels)
    for (kernel, _), each in touched.items():
        at_once[kernel] += each
    least = held.weight_bytes + float(at_once.max(initial=0.0))
    most = held.weight_bytes + sum(largest.values()) + float(held.workspace.max(initial=0.0))
    limit = result.device.memory_bytes
    return Check(
        "memory",
        least <= held.peak_bytes * NEAR and held.peak_bytes <= most * NEAR and result.fits,
        f"the peak of {quantity(held.peak_bytes, 'byte')} lies between weights with what the largest kernel touches, "
        f"{quantity(least, 'byte')}, and with all values at once, {quantity(most, 'byte')}; it "
        f"{'fits' if result.fits else 'does not fit'} in {quantity(limit, 'byte')}",
    )


def _bands(result: Estimate) -> Check:
    (fast, slow), (low, high) = result.latency_band_s, result.energy_band_j
    return Check(
        "bands",
        _is_within(fast, result.latency_s, slow) and _is_within(low, result.energy_j, high),
        f"latency {quantity(fast, 's')} to {quantity(slow, 's')}, energy {quantity(low, 'J')} to {quantity(high, 'J')} "
        "hold the figures",
    )


def _coverage(result: Estimate) -> Check:
    count, covered = result.workload.n_operators, result.rule_coverage
    known = count - sum(many for _, many in covered.missing)
    says = f"{known} of {count} operators have a cost rule, {covered.work * 100:.0f} % of the work"
    return Check("coverage", known == count, says)


def _is_within(low: float, value: float, high: float) -> bool:
    return low <= value * NEAR and value <= high * NEAR
