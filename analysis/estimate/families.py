"""Families of events: seven groups that all architectures share, so that unlike devices can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from analysis.estimate.estimate import Estimate
from analysis.model.ir.workload import Floats, Ints
from hardware.taxonomy import Event

FAMILIES = (
    "arithmetic",  # multiply-accumulates, element-wise operations and special functions
    "operand delivery",  # registers, operand collectors, bypasses, values passed from cell to cell, cells that wait
    "instructions and control",  # fetch, decode, schedule, branches, addresses, coherence, descriptors, domain tracking
    "launch",  # kernel launch, host dispatch, fork and join, barriers, program load
    "on-chip memory",  # caches, scratchpads, FIFOs and the network between them
    "DRAM",  # bytes that cross the memory interface
    "static power",  # leakage, idle and memory background, for as long as the model runs
)
_BY_TIME = {
    "matrix": "arithmetic", "vector": "arithmetic", "compute": "instructions and control", "chip": "on-chip memory",
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
    if event.is_by_time:
        return "operand delivery" if event.category == "register" else _BY_TIME[event.argument]
    if event.family == "dram" or (event.family, event.argument) == ("path", "controller"):
        return "DRAM"
    if event.family in ("mac", "tensor_mac", "flop", "special"):
        return "instructions and control" if event.argument == "integer" else "arithmetic"
    if event.component == "memory" and event.argument != "tlb":
        return "on-chip memory"
    if any(word in event.argument for word in _DELIVERY):
        return "operand delivery"
    if any(word in event.argument for word in _LAUNCH):
        return "launch"
    return "instructions and control"


def family_energy(result: Estimate) -> Floats:
    """Return the energy of each family in J, shape (7,)."""
    return sum_by_family(result.events, result.event_j)


def sum_by_family(events: Sequence[Event], energy_j: Floats) -> Floats:
    """Return the sums of the energy of events, (e,), over each family, shape (7,)."""
    index = [FAMILIES.index(family_of(event)) for event in events]
    return np.bincount(index, energy_j, minlength=len(FAMILIES)).astype(np.float64)


def sum_events(result: Estimate, members: Ints) -> tuple[Floats, Floats]:
    """Return the count and the energy in J of each event in these operators, shape (e,)."""
    counts = result.run.counts[:, members].sum(axis=1)
    return counts, result.run.scale_counts(result.run.counts)[:, members].sum(axis=1) * result.run.prices.value


def instructions(result: Estimate) -> float:
    """Return the instructions that the device fetches and decodes for the model; 0 for a spatial architecture."""
    arch = result.device.arch
    return float(result.run.counts[arch.row[arch.instruction_event]].sum()) if arch.instruction_event else 0.0


def static_power_w(result: Estimate) -> float:
    """Return the power that the device draws whatever it does."""
    return result.component_j["static"] / result.latency_s if result.latency_s else 0.0
