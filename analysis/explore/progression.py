"""From stored program to domain flow: what each architecture pays beside the arithmetic, with one model's numbers.

A CPU fetches and decodes an instruction per operation. A GPU shares one among the threads of a warp, and pays for
the machinery that keeps thousands of threads coherent. A TPU streams operands through a fixed array on a fixed
schedule. A KPU lays the schedule out in space: nothing is fetched, operands find their way by the domain flow.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from analysis.estimate.estimate import Estimate
from analysis.estimate.families import FAMILIES, MEANING, family_energy, instructions
from analysis.estimate.figures import Head, about
from hardware.architectures import registry
from hardware.quantity import quantity


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One device. Energies per inference, J, and as fractions, by family; `overhead_fraction` is control, launch
    and operand delivery; `overhead_per_mac_j` the same per multiply-accumulate."""

    device: str
    name: str
    architecture: str
    precision_run: str
    energy_j_per_inference: float
    families_j: dict[str, float]
    families_fraction: dict[str, float]
    macs_per_inference: float
    instructions_per_inference: float
    macs_per_instruction: float
    arithmetic_fraction: float
    overhead_fraction: float
    movement_fraction: float
    static_fraction: float
    overhead_per_mac_j: float
    says: tuple[str, ...]


class Progression(Head, frozen=True, kw_only=True):
    """The document of `hwexplorer compare --level progression`: devices in the order of the progression."""

    families: dict[str, str]
    steps: tuple[Step, ...]


def progression(results: Sequence[Estimate]) -> Progression:
    """The architectures of the results, in order."""
    ordered = sorted(results, key=lambda r: registry.order(r.device.architecture))
    return Progression(**about(ordered[0]), families=MEANING, steps=tuple(step(result) for result in ordered))


_OVERHEAD = ("operand delivery", "instructions and control", "launch and synchronisation")


def step(result: Estimate) -> Step:
    """One device of the progression."""
    batch = result.scenario.batch
    energy = dict(zip(FAMILIES, (family_energy(result) / batch).tolist(), strict=True))
    total_j = sum(energy.values()) or 1.0
    part = {name: value / total_j for name, value in energy.items()}
    macs, issued = float(result.demand.macs.sum()) / batch, instructions(result) / batch
    overhead = sum(energy[name] for name in _OVERHEAD)
    return Step(
        device=result.device.key,
        name=result.device.name,
        architecture=result.device.architecture,
        precision_run=result.precision_run,
        energy_j_per_inference=result.energy_j_per_inference,
        families_j=energy,
        families_fraction=part,
        macs_per_inference=macs,
        instructions_per_inference=issued,
        macs_per_instruction=macs / issued if issued else 0.0,
        arithmetic_fraction=part["arithmetic"],
        overhead_fraction=overhead / total_j,
        movement_fraction=part["on-chip memory"] + part["DRAM"],
        static_fraction=part["static power"],
        overhead_per_mac_j=overhead / macs if macs else 0.0,
        says=_says(result, energy, macs, issued, overhead),
    )


def _says(result: Estimate, energy: dict[str, float], macs: float, issued: float, overhead: float) -> tuple[str, ...]:
    """What this architecture pays for, in sentences."""
    control = quantity(energy["instructions and control"], "J")
    each = f"{macs / issued:.3g}" if issued else ""
    count = quantity(issued, "SI")
    first = result.device.arch.data.story.pays.format(count=count, each=each, control=control)
    per_mac = f", {quantity(overhead / macs, 'J')} for each MAC" if macs else ""
    second = f"control, launch and operand delivery together: {quantity(overhead, 'J')} per inference{per_mac}"
    overheads = sum(event.is_overhead for event in result.events)
    third = f"{overheads} of its {len(result.events)} events are overhead, {result.demand.n_kernels} kernels"
    return first, second, third
