"""Energy-delay product: by component, by node, how concentrated, and what fusion does to it.

EDP is attributed by the Shapley value of the product, (e/E + t/T) / 2 (estimate/tree.py). For components the same
rule needs a time of each: the busy time of a kernel belongs to compute or to memory, whichever bounds it; the rest
(launch, dispatch, waiting) belongs to static power, the only one at work then. `energy_delay_js` beside it is the
component's energy times the whole time, which adds up as well but leaves the time out of account.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np

from analysis.document import column, records
from analysis.estimate.estimate import COMPONENTS, Estimate, estimate
from analysis.estimate.figures import Head, about
from analysis.estimate.tree import Level, Tree, how_many, told, tree
from analysis.model.ir.workload import Floats
from hardware.demand import READ_WEIGHT, WRITE

TOP = 10
FRACTIONS = (0.50, 0.80, 0.90, 0.95, 0.99)
_FIRST_MEMORY_RESOURCE = 2  # of hardware.execute.RESOURCES: DRAM and on-chip memory


class Component(msgspec.Struct, frozen=True, kw_only=True):
    name: Annotated[str, column("Component")]
    energy_j: float
    energy_j_per_inference: Annotated[float, column("Energy/inf", "J", key="energy_per_inference", keep=1)]
    time_s: Annotated[float, column("Time", "s", keep=1)]
    share: Annotated[float, column("Share", "%", key="bar", role="bar", keep=1), column("%", "%")]
    edp_js: Annotated[float, column("EDP", "Js", help="attributed: (energy share + time share) / 2")]
    energy_delay_js: Annotated[
        float, column("Energy x time", "Js", keep=2, help="its energy per inference times the whole time")
    ]


class Concentration(msgspec.Struct, frozen=True):
    """The fewest nodes of a level that make `fraction` of the EDP."""

    fraction: Annotated[float, column("Of the EDP", "%")]
    subgraphs: Annotated[int, column("Subgraphs", "count")]
    subgraphs_fraction: Annotated[float, column("of all", "%")]
    operators: Annotated[int, column("Operators", "count")]
    operators_fraction: Annotated[float, column("of all", "%")]


class EdpNode(msgspec.Struct, frozen=True, kw_only=True):
    """A subgraph or operator; `edp_js` attributed, split into components; `own_edp_js` its own energy
    per inference x time."""

    id: Annotated[str, column("Node", key="name")]
    type: Annotated[str, column("Kind", key="kind", keep=4)]
    edp_js: Annotated[float, column("EDP", "Js")]
    share: Annotated[float, column("Share", "%")]
    cumulative: Annotated[float, column("Cum", "%", keep=1)]
    own_edp_js: float
    energy_j: float
    energy_j_per_inference: Annotated[float, column("Energy/inf", "J", key="energy_per_inference", keep=4)]
    latency_s: Annotated[float, column("Latency", "s", keep=4)]
    compute_edp_js: Annotated[float, column("Compute", "Js", key="compute", keep=2)]
    memory_edp_js: Annotated[
        float, column("Memory", "Js", key="memory", keep=2, help="of moving data, on the chip and beside it")
    ]
    static_edp_js: Annotated[float, column("Static", "Js", key="static", keep=2)]
    is_fused: Annotated[
        bool,
        column(
            "F",
            key="fused",
            role="flag",
            keep=3,
            shown={True: "F", False: "S"},
            help="F fused with another operator, S a kernel of its own",
        ),
    ]
    base_edp_js: Annotated[float, column("Base", "Js", key="base", keep=3)]
    architectural_modifier: Annotated[float | None, column("Modifier", "x", key="modifier", keep=3)]
    fusion_benefit_js: Annotated[float, column("Fusion", "Js", key="benefit", keep=3, help="EDP that fusing takes off")]


class ExecutionEdp(msgspec.Struct, frozen=True, kw_only=True):
    """The model under one execution mode."""

    execution: Annotated[str, column("Execution")]
    edp_js: Annotated[float, column("EDP", "Js")]
    energy_j: float
    energy_j_per_inference: Annotated[float, column("Energy/inf", "J", key="energy_per_inference")]
    memory_j: float
    memory_j_per_inference: Annotated[float, column("Mem. energy/inf", "J", key="memory_per_inference", keep=1)]
    latency_s: Annotated[float, column("Latency", "s")]
    kernels: Annotated[int, column("Kernels", "count", keep=1)]
    values_moved: Annotated[int, column("Values moved", "count", key="values", keep=1)]
    activation_bytes: Annotated[float, column("Activations", "byte", key="activations", keep=2)]
    dram_bytes: Annotated[float, column("DRAM", "byte", keep=1)]


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """Eager less fused. A round trip is a value that eager writes and reads back and fused keeps on chip; its bytes
    both ways, and the part of all bytes that memory no longer carries."""

    round_trips: int
    activation_bytes: float
    dram_bytes: float
    memory_j: float
    memory_j_per_inference: float
    energy_j: float
    energy_j_per_inference: float
    latency_s: float
    edp_js: float


class SideBySide(msgspec.Struct, frozen=True, kw_only=True):
    """One subgraph under both modes."""

    id: Annotated[str, column("Subgraph", key="subgraph")]
    type: str
    eager_edp_js: Annotated[float, column("Eager", "Js", key="eager")]
    fused_edp_js: Annotated[float, column("Fused", "Js", key="fused")]
    benefit_js: Annotated[float, column("Benefit", "Js")]
    eager_share: Annotated[float, column("Eager", "%", keep=2)]
    fused_share: Annotated[float, column("Fused", "%", keep=2)]
    eager_energy_j: float
    eager_energy_j_per_inference: Annotated[float, column("Eager/inf", "J", key="eager_energy_per_inference", keep=3)]
    fused_energy_j: float
    fused_energy_j_per_inference: Annotated[float, column("Fused/inf", "J", key="fused_energy_per_inference", keep=3)]
    eager_latency_s: Annotated[float, column("Eager", "s", keep=3)]
    fused_latency_s: Annotated[float, column("Fused", "s", keep=3)]
    round_trips_saved: Annotated[
        int, column("Trips saved", "count", key="trips", keep=1, help="values no longer written and read back")
    ]
    dram_bytes_saved: Annotated[float, column("DRAM saved", "byte", key="dram", keep=1)]


class EdpReport(Head, frozen=True, kw_only=True):
    edp_js: float
    energy_j: float
    energy_j_per_inference: float
    latency_s: float
    n_subgraphs: int
    n_operators: int
    components: tuple[Component, ...]
    concentration: tuple[Concentration, ...]
    top_subgraphs: tuple[EdpNode, ...]
    top_operators: tuple[EdpNode, ...]
    executions: tuple[ExecutionEdp, ...]
    saved: Saved
    side_by_side: tuple[SideBySide, ...]


def edp_report(result: Estimate, top: int = TOP) -> EdpReport:
    """The report of a model on a device; runs the model in the other execution mode beside it."""
    figures = tree(result)
    shares = component_shares(result)
    eager, fused = (_in(result, mode) for mode in ("eager", "fused"))
    modes = (_execution(eager), _execution(fused))
    return EdpReport(
        **about(result, on_device=True),
        edp_js=result.edp_js,
        energy_j=result.energy_j,
        energy_j_per_inference=result.energy_j_per_inference,
        latency_s=result.latency_s,
        n_subgraphs=len(result.partition.id),
        n_operators=result.workload.n_operators,
        components=_components(result, shares),
        concentration=_concentration(figures),
        top_subgraphs=_subgraphs(figures, shares, top),
        top_operators=_operators(figures, shares, top),
        executions=modes,
        saved=_saved(*modes),
        side_by_side=_side_by_side(eager, fused),
    )


def component_shares(result: Estimate) -> Floats:
    """Shares of the EDP by component and operator, shape (3, n), summing to 1."""
    time = component_seconds(result)
    energy = result.component_energy_j
    return 0.5 * (energy / (result.energy_j or 1.0) + time / (result.latency_s or 1.0))


def component_seconds(result: Estimate) -> Floats:
    """Each operator's time by the component it belongs to, shape (3, n): compute, memory, static."""
    run, demand = result.run, result.demand
    kernel = demand.kernel
    throttled = np.where(run.unthrottled_s > 0, run.kernel_s / np.where(run.unthrottled_s > 0, run.unthrottled_s, 1), 1)
    waiting = np.minimum(demand.head * (run.overhead_s * throttled)[kernel], run.latency_s)
    busy = run.latency_s - waiting
    by_memory = run.resource[kernel] >= _FIRST_MEMORY_RESOURCE
    return np.stack([np.where(by_memory, 0.0, busy), np.where(by_memory, busy, 0.0), waiting])


def _components(result: Estimate, shares: Floats) -> tuple[Component, ...]:
    energy_j, share = result.component_energy_j.sum(axis=1), np.array([row.sum() for row in shares])
    batch = result.scenario.batch
    return records(
        Component,
        name=COMPONENTS,
        energy_j=energy_j,
        energy_j_per_inference=energy_j / batch,
        time_s=component_seconds(result).sum(axis=1),
        share=share,
        edp_js=share * result.edp_js,
        energy_delay_js=energy_j / batch * result.latency_s,
    )


def _concentration(figures: Tree) -> tuple[Concentration, ...]:
    by_subgraph, by_operator = figures.subgraphs.share, figures.operators.share
    rows = []
    for fraction in FRACTIONS:
        s, o = how_many(by_subgraph, fraction), how_many(by_operator, fraction)
        rows.append(Concentration(fraction, s, s / (len(by_subgraph) or 1), o, o / (len(by_operator) or 1)))
    return tuple(rows)


def _subgraphs(figures: Tree, shares: Floats, top: int) -> tuple[EdpNode, ...]:
    result, parts = figures.estimate, figures.estimate.partition
    by_component = np.stack([parts.total(row) for row in shares])
    fused = [result.execution == "fused" and len(members) > 1 for members in parts.members]
    return _top(figures.subgraphs, parts.id, parts.kind, fused, by_component, result, top)


def _operators(figures: Tree, shares: Floats, top: int) -> tuple[EdpNode, ...]:
    result = figures.estimate
    ids, kinds = result.partition.operator_id, result.workload.operators.kind
    return _top(figures.operators, ids, kinds, figures.fused.tolist(), shares, result, top)


def _top(
    level: Level,
    ids: tuple[str, ...],
    kinds: tuple[str, ...],
    fused: list[bool],
    by_component: Floats,
    result: Estimate,
    top: int,
) -> tuple[EdpNode, ...]:
    """The `top` nodes of a level by share, the largest first; ties in order."""
    order = np.argsort(-level.share, kind="stable")[:top]
    places = order.tolist()
    compute, memory, static = by_component[:, order] * result.edp_js
    return records(
        EdpNode,
        level,
        rows=order,
        id=[ids[i] for i in places],
        type=[kinds[i] for i in places],
        edp_js=level.share[order] * result.edp_js,
        energy_j_per_inference=level.energy_j[order] / result.scenario.batch,
        compute_edp_js=compute,
        memory_edp_js=memory,
        static_edp_js=static,
        is_fused=[fused[i] for i in places],
        architectural_modifier=[told(modifier) for modifier in level.modifier[order].tolist()],
    )


def _in(result: Estimate, mode: str) -> Estimate:
    if result.execution == mode:
        return result
    return estimate(result.workload, result.device, msgspec.structs.replace(result.scenario, execution=mode))


def _written(result: Estimate) -> Floats:
    """Values that each operator's kernel writes for others, counted at the operator, shape (n,)."""
    demand = result.demand
    return demand.per_op((demand.transfers.role == WRITE).astype(np.float64))


def _dram(result: Estimate) -> Floats:
    flow = result.run.mapping.traffic
    return flow.dram_read + flow.dram_write


def _execution(result: Estimate) -> ExecutionEdp:
    demand = result.demand
    activations = demand.transfers.size_bytes[demand.transfers.role != READ_WEIGHT]
    return ExecutionEdp(
        execution=result.execution,
        edp_js=result.edp_js,
        energy_j=result.energy_j,
        energy_j_per_inference=result.energy_j_per_inference,
        memory_j=result.component_j["memory"],
        memory_j_per_inference=result.component_j["memory"] / result.scenario.batch,
        latency_s=result.latency_s,
        kernels=demand.n_kernels,
        values_moved=int(_written(result).sum()),
        activation_bytes=float(activations.sum()),
        dram_bytes=float(_dram(result).sum()),
    )


def _saved(eager: ExecutionEdp, fused: ExecutionEdp) -> Saved:
    alike = (name for name in Saved.__struct_fields__ if name != "round_trips")
    saved = {name: getattr(eager, name) - getattr(fused, name) for name in alike}
    return Saved(round_trips=eager.values_moved - fused.values_moved, **saved)


def _side_by_side(eager: Estimate, fused: Estimate) -> tuple[SideBySide, ...]:
    parts = eager.partition
    before, after = tree(eager).subgraphs, tree(fused).subgraphs
    trips = parts.total(_written(eager)) - parts.total(_written(fused))
    dram = parts.total(_dram(eager)) - parts.total(_dram(fused))
    eager_edp_js, fused_edp_js = before.share * eager.edp_js, after.share * fused.edp_js
    return records(
        SideBySide,
        id=parts.id,
        type=parts.kind,
        eager_edp_js=eager_edp_js,
        fused_edp_js=fused_edp_js,
        benefit_js=eager_edp_js - fused_edp_js,
        eager_share=before.share,
        fused_share=after.share,
        eager_energy_j=before.energy_j,
        eager_energy_j_per_inference=before.energy_j / eager.scenario.batch,
        fused_energy_j=after.energy_j,
        fused_energy_j_per_inference=after.energy_j / eager.scenario.batch,
        eager_latency_s=before.latency_s,
        fused_latency_s=after.latency_s,
        round_trips_saved=[round(trip) for trip in trips.tolist()],
        dram_bytes_saved=dram,
    )
