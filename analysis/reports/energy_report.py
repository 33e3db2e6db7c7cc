"""Where the energy goes: compute, memory, static; categories of events; average and peak power; what idles; who uses
most.

Efficiency is the dynamic part of the energy. Energy lost to idle resources is the static energy of the part of the
device that does nothing: static x (1 - utilisation). Peak power is that of the kernel that draws most.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np

from analysis.document import column, records
from analysis.estimate.estimate import COMPONENTS, Estimate
from analysis.estimate.figures import Head, about
from analysis.estimate.tree import operators_of
from analysis.model.ir.workload import Floats, Ints
from analysis.reports.kernel_rows import kernel_id, kernels, kernels_of

TOP = 10


class EnergyPart(msgspec.Struct, frozen=True):
    """A share of the energy of the node."""

    name: str
    energy_j: Annotated[float, column("Energy/batch", "J")]
    energy_j_per_inference: Annotated[float, column("Energy/inf", "J", key="per_inference", keep=1)]
    fraction: Annotated[float, column("Share", "%", key="bar", role="bar", keep=1), column("%", "%")]


class Consumer(msgspec.Struct, frozen=True, kw_only=True):
    """A subgraph or operator among those that use most; `cumulative` with all above it."""

    id: Annotated[str, column("Node", key="name")]
    type: Annotated[str, column("Kind", key="kind", keep=4)]
    energy_j: Annotated[float, column("Energy/batch", "J")]
    fraction: Annotated[float, column("Share", "%", key="bar", role="bar", keep=2), column("%", "%")]
    cumulative: Annotated[float, column("Cum", "%", keep=1)]
    compute_j: Annotated[float, column("Compute", "J", keep=2)]
    memory_j: Annotated[float, column("Memory", "J", keep=2, help="what moving data takes, on the chip and beside it")]
    static_j: Annotated[float, column("Static", "J", keep=2)]
    latency_s: Annotated[float, column("Latency", "s", keep=3)]


class EnergyReport(Head, frozen=True, kw_only=True):
    node: str
    energy_j: float
    energy_j_per_inference: float
    latency_s: float
    components: tuple[EnergyPart, ...]
    categories: tuple[EnergyPart, ...]
    average_power_w: float
    peak_power_w: float
    peak_power_kernel: str
    static_power_w: float
    power_limit_w: float
    tdp_w: float
    dynamic_j: float
    efficiency: float
    utilization: float
    idle_loss_j: float
    idle_loss_fraction: float
    top_subgraphs: tuple[Consumer, ...]
    top_operators: tuple[Consumer, ...]


def energy_report(result: Estimate, path: str = "", top: int = TOP) -> EnergyReport:
    """The energy of a node ('' is the model). Raises RequestError for an unknown node."""
    members = operators_of(result, path)
    events = result.event_energy_j[:, members].sum(axis=1)
    component = result.component_energy_j[:, members].sum(axis=1)
    energy, time = float(result.run.energy_j[members].sum()), float(result.run.latency_s[members].sum())
    static, used = float(component[COMPONENTS.index("static")]), _utilization(result, members)
    lost = static * (1.0 - used)
    peak_w, peak_kernel = _peak_power(result, path)
    categories = dict.fromkeys(event.category for event in result.events)
    by_category = [
        (name, float(sum(e for e, event in zip(events, result.events, strict=True) if event.category == name)))
        for name in categories
    ]
    return EnergyReport(
        **about(result, on_device=True),
        node=path,
        energy_j=energy,
        energy_j_per_inference=energy / result.scenario.batch,
        latency_s=time,
        components=_parts(list(zip(COMPONENTS, component.tolist(), strict=True)), energy, result.scenario.batch),
        categories=_parts(by_category, energy, result.scenario.batch),
        average_power_w=energy / time if time else 0.0,
        peak_power_w=peak_w,
        peak_power_kernel=peak_kernel,
        static_power_w=static / time if time else 0.0,
        power_limit_w=result.power_limit_w,
        tdp_w=result.device.tdp_w * result.workload.devices,
        dynamic_j=energy - static,
        efficiency=(energy - static) / energy if energy else 0.0,
        utilization=used,
        idle_loss_j=lost,
        idle_loss_fraction=lost / energy if energy else 0.0,
        top_subgraphs=_top_subgraphs(result, members, energy, top),
        top_operators=_top_operators(result, members, energy, top),
    )


def _parts(named: list[tuple[str, float]], energy: float, batch: int) -> tuple[EnergyPart, ...]:
    return tuple(EnergyPart(name, part, part / batch, part / energy if energy else 0.0) for name, part in named)


def _utilization(result: Estimate, members: Ints) -> float:
    """Utilisation of the kernels that the operators run in, weighed by the operators' time."""
    time = result.run.latency_s[members]
    used = result.run.utilization[result.demand.kernel[members]]
    total_s = float(time.sum())
    return min(float((time * used).sum()) / total_s, 1.0) if total_s else 0.0


def _peak_power(result: Estimate, path: str) -> tuple[float, str]:
    """The most power a kernel of the node draws, and which."""
    chosen = kernels_of(result, path)
    time = result.run.kernel_s[chosen]
    power = np.where(time > 0, kernels(result).energy_j[chosen] / np.where(time > 0, time, 1.0), 0.0)
    if not len(power):
        return 0.0, ""
    return float(power.max()), kernel_id(result, int(chosen[power.argmax()]))


def _top_subgraphs(result: Estimate, members: Ints, energy: float, top: int) -> tuple[Consumer, ...]:
    parts = result.partition
    subgraph = parts.subgraph[members]

    def total(values: Floats) -> Floats:
        return np.bincount(subgraph, values[members], minlength=len(parts.id)).astype(np.float64)

    component = np.stack([total(row) for row in result.component_energy_j])
    energies, times = total(result.run.energy_j), total(result.run.latency_s)
    return _consumers(parts.id, parts.kind, np.unique(subgraph), energies, component, times, energy, top)


def _top_operators(result: Estimate, members: Ints, energy: float, top: int) -> tuple[Consumer, ...]:
    ids, kinds = result.partition.operator_id, result.workload.operators.kind
    run = result.run
    return _consumers(ids, kinds, members, run.energy_j, result.component_energy_j, run.latency_s, energy, top)


def _consumers(
    ids: tuple[str, ...],
    kinds: tuple[str, ...],
    members: Ints,
    energy: Floats,
    component: Floats,
    latency: Floats,
    total_j: float,
    top: int,
) -> tuple[Consumer, ...]:
    """The `top` members by energy, the largest first; ties in order."""
    order = members[np.argsort(-energy[members], kind="stable")][:top]
    places, per_joule = order.tolist(), total_j or np.inf
    compute, memory, static = component[:, order]
    return records(
        Consumer,
        id=[ids[i] for i in places],
        type=[kinds[i] for i in places],
        energy_j=energy[order],
        fraction=energy[order] / per_joule,
        cumulative=np.cumsum(energy[order]) / per_joule,
        compute_j=compute,
        memory_j=memory,
        static_j=static,
        latency_s=latency[order],
    )
