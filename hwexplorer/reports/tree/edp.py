"""Divide the energy-delay product: components, largest parts, what fusion saves.

EDP is attributed as in analysis/estimate/tree_figures.py. Among components, the busy time of a kernel belongs to
compute or memory, whichever bounds it. The rest (launch, dispatch, waiting) belongs to static power: nothing else is
used then.
"""

from typing import Annotated, Any

import msgspec
import numpy as np

from analysis.document import YES_NO, column, columns, none_unless, record, records
from analysis.estimate.estimate import COMPONENTS, Estimate
from analysis.estimate.evaluation import ratio
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.host_work import divide_host_work
from analysis.estimate.outline import HOST, host_branches
from analysis.estimate.tree_figures import (
    TreeFigures,
    TreeLevel,
    branch_figures,
    count_making,
    cumulative_share,
    shares,
    tree,
    tree_without_host,
)
from analysis.model.ir.workload import Floats
from hardware.base.text import percent, quantity
from hardware.demand import READ_WEIGHT, WRITE
from hwexplorer.declare import DEVICE, Report, Rows, Section, document_of_estimate, summary_text
from hwexplorer.options import TOP
from hwexplorer.state import State

FRACTIONS = (0.50, 0.80, 0.90, 0.95, 0.99)
_FIRST_MEMORY_RESOURCE = 2  # index in hardware.execute.RESOURCES: DRAM and on-chip memory are last


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """The part of compute, memory or static power in energy, time and EDP."""

    name: Annotated[str, column("Component")]
    energy_j: float
    energy_j_per_inference: Annotated[float, column("Energy/inf", "J", keep=1)]
    time_s: Annotated[float, column("Time", "s", keep=1)]
    share: Annotated[float, column("Share", "%", key="bar", role="bar", keep=1), column("%", "%")]
    edp_js: Annotated[float, column("EDP", "Js", help="attributed: (energy share + time share) / 2")]
    energy_delay_js: Annotated[
        float, column("Energy x time", "Js", keep=2, help="energy per inference x time of the whole model")
    ]


class Concentration(msgspec.Struct, frozen=True):
    """The fewest nodes of a level that make `fraction` of the EDP."""

    fraction: Annotated[float, column("Of the EDP", "%")]
    subgraphs: Annotated[int, column("Subgraphs", "count")]
    subgraphs_fraction: Annotated[float, column("of all", "%")]
    operators: Annotated[int, column("Operators", "count")]
    operators_fraction: Annotated[float, column("of all", "%")]


class EdpNode(msgspec.Struct, frozen=True, kw_only=True):
    """A subgraph or operator. `edp_js` is its attributed part of the EDP, split into components; `own_edp_js` is its
    energy per inference x its time."""

    id: Annotated[str, column("Node", key="name")]
    type: Annotated[str, column("Kind", key="kind", keep=4)]
    edp_js: Annotated[float, column("EDP", "Js")]
    share: Annotated[float, column("Share", "%")]
    cumulative: Annotated[float, column("Cum", "%", keep=1)]
    own_edp_js: float
    energy_j: float
    energy_j_per_inference: Annotated[float, column("Energy/inf", "J", keep=4)]
    latency_s: Annotated[float, column("Latency", "s", keep=4)]
    compute_edp_js: Annotated[float, column("Compute", "Js", key="compute", keep=2)]
    memory_edp_js: Annotated[
        float, column("Memory", "Js", key="memory", keep=2, help="energy of moving data, on and off the chip")
    ]
    static_edp_js: Annotated[float, column("Static", "Js", key="static", keep=2)]
    is_fused: Annotated[bool, column("Fused", key="fused", keep=3, shown=YES_NO)]
    base_edp_js: Annotated[float, column("Base", "Js", key="base", keep=3)]
    architectural_modifier: Annotated[float | None, column("Modifier", "x", key="modifier", keep=3)]
    fusion_benefit_js: Annotated[float, column("Fusion", "Js", key="benefit", keep=3, help="EDP that fusion saves")]


class ExecutionEdp(msgspec.Struct, frozen=True, kw_only=True):
    """The model with or without fusion, on the same runtime."""

    execution: Annotated[str, column("Fusion", shown={"eager": "off", "fused": "on"})]
    edp_js: Annotated[float, column("EDP", "Js")]
    energy_j: float
    energy_j_per_inference: Annotated[float, column("Energy/inf", "J")]
    memory_j: float
    memory_j_per_inference: Annotated[float, column("Mem. energy/inf", "J", keep=1)]
    latency_s: Annotated[float, column("Latency", "s")]
    kernels: Annotated[int, column("Kernels", "count", keep=1)]
    values_moved: Annotated[int, column("Values moved", "count", key="values", keep=1)]
    activation_bytes: Annotated[float, column("Activations", "byte", key="activations", keep=2)]
    dram_bytes: Annotated[float, column("DRAM", "byte", keep=1)]


class FusionSavings(msgspec.Struct, frozen=True, kw_only=True):
    """Figures without fusion minus figures with it, on the same runtime. A round trip is a value that fusion keeps on
    chip instead of writing and reading it back. `activation_bytes` counts both ways, `dram_bytes` DRAM traffic."""

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
    """One subgraph without fusion and with it."""

    id: Annotated[str, column("Subgraph", key="subgraph")]
    type: str
    eager_edp_js: Annotated[float, column("Off", "Js", key="eager")]
    fused_edp_js: Annotated[float, column("On", "Js", key="fused")]
    benefit_js: Annotated[float, column("Benefit", "Js")]
    eager_share: Annotated[float, column("Off", "%", keep=2)]
    fused_share: Annotated[float, column("On", "%", keep=2)]
    eager_energy_j: float
    eager_energy_j_per_inference: Annotated[float, column("Off/inf", "J", keep=3)]
    fused_energy_j: float
    fused_energy_j_per_inference: Annotated[float, column("On/inf", "J", keep=3)]
    eager_latency_s: Annotated[float, column("Off", "s", keep=3)]
    fused_latency_s: Annotated[float, column("On", "s", keep=3)]
    round_trips_saved: Annotated[
        int, column("Trips saved", "count", key="trips", keep=1, help="values that are no longer written and read back")
    ]
    dram_bytes_saved: Annotated[float, column("DRAM saved", "byte", key="dram", keep=1)]


class EdpReport(Head, frozen=True, kw_only=True):
    """The energy-delay product of a model on a device, and what fusion does to it."""

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
    saved: FusionSavings
    side_by_side: tuple[SideBySide, ...]


def edp_report(result: Estimate, top: int = 10) -> EdpReport:
    """Return the report of a model on a device. It estimates the model with and without fusion."""
    figures, parts = tree(result), result.partition
    tree_alone = tree_without_host(result)
    eager, fused = (result.in_mode(mode) for mode in ("eager", "fused"))
    modes = (_execution(eager), _execution(fused))
    alike = (name for name in FusionSavings.__struct_fields__ if name != "round_trips")
    saved = {name: getattr(modes[0], name) - getattr(modes[1], name) for name in alike}
    of_operators = component_shares(divide_host_work(result)[0])
    of_subgraphs = np.stack([parts.total(row) for row in of_operators])
    is_fused = [result.execution == "fused" and len(members) > 1 for members in parts.members]
    kinds = result.workload.operators.kind
    return record(
        EdpReport,
        result,
        **head_fields(result, on_device=True),
        n_subgraphs=len(parts.id),
        n_operators=result.workload.n_operators,
        components=_components(result),
        concentration=_concentration(figures),
        top_subgraphs=_top(result, tree_alone.subgraphs, parts.id, parts.kind, is_fused, of_subgraphs, top),
        top_operators=_top(
            result, tree_alone.operators, parts.operator_id, kinds, tree_alone.fused.tolist(), of_operators, top
        ),
        executions=modes,
        saved=FusionSavings(round_trips=modes[0].values_moved - modes[1].values_moved, **saved),
        side_by_side=_side_by_side(eager, fused),
    )


def component_shares(result: Estimate) -> Floats:
    """Return shares of the EDP by component and operator, shape (3, n), summing to 1."""
    return shares(result.component_energy_j, component_seconds(result), result)


def component_seconds(result: Estimate) -> Floats:
    """Return each operator's time by component, shape (3, n): compute, memory, static."""
    run, demand = result.run, result.demand
    kernel = demand.kernel
    throttled = ratio(run.kernel_s, run.unthrottled_s, 1.0)
    waiting = np.minimum(demand.head * (run.overhead_s * throttled)[kernel], run.latency_s)
    busy = run.latency_s - waiting
    by_memory = run.resource[kernel] >= _FIRST_MEMORY_RESOURCE
    return np.stack([np.where(by_memory, 0.0, busy), np.where(by_memory, busy, 0.0), waiting])


def _components(result: Estimate) -> tuple[Component, ...]:
    energy_j, share = result.component_energy_j.sum(axis=1), np.array([row.sum() for row in component_shares(result)])
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


def _concentration(figures: TreeFigures) -> tuple[Concentration, ...]:
    columns: dict[str, Any] = {}
    for name, share in (("subgraphs", figures.subgraphs.share), ("operators", figures.operators.share)):
        columns[name] = [count_making(share, fraction) for fraction in FRACTIONS]
        columns[f"{name}_fraction"] = [count / (len(share) or 1) for count in columns[name]]
    return records(Concentration, fraction=FRACTIONS, **columns)


def _top(
    result: Estimate, level: TreeLevel, ids: tuple[str, ...], kinds: tuple[str, ...], is_fused: list[bool],
    by_component: Floats, top: int,
) -> tuple[EdpNode, ...]:  # fmt: skip
    """Return the `top` nodes of a level by share of the EDP. The work of the host counts as a node."""
    _, host = divide_host_work(result)
    if host is not None:
        level = _join_levels(level, branch_figures(result, host_branches(result)))
        ids, kinds, is_fused = (*ids, HOST), (*kinds, "host"), [*is_fused, False]
        by_component = np.column_stack([by_component, component_shares(host).sum(axis=1)])
    order = np.argsort(-level.share, kind="stable")[:top]
    compute, memory, static = by_component[:, order] * result.edp_js
    return records(
        EdpNode,
        level,
        rows=order,
        id=[ids[i] for i in order],
        type=[kinds[i] for i in order],
        energy_j_per_inference=level.energy_j[order] / result.scenario.batch,
        compute_edp_js=compute,
        memory_edp_js=memory,
        static_edp_js=static,
        is_fused=[is_fused[i] for i in order],
        architectural_modifier=none_unless(~np.isnan(level.modifier[order]), level.modifier[order]),
    )


def _join_levels(level: TreeLevel, more: TreeLevel) -> TreeLevel:
    """Return the nodes of both; `cumulative` runs over all of them."""
    fields = TreeLevel.__struct_fields__
    joined_columns = {name: np.concatenate([getattr(level, name), getattr(more, name)], axis=-1) for name in fields}
    return TreeLevel(**joined_columns | {"cumulative": cumulative_share(joined_columns["share"])})


def _values_written(result: Estimate) -> Floats:
    """Return how many values each operator writes to memory for other kernels, shape (n,)."""
    demand = result.demand
    return demand.per_op((demand.transfers.role == WRITE).astype(np.float64))


def _execution(result: Estimate) -> ExecutionEdp:
    demand = result.demand
    activations = demand.transfers.size_bytes[demand.transfers.role != READ_WEIGHT]
    return record(
        ExecutionEdp,
        result,
        memory_j=result.component_j["memory"],
        memory_j_per_inference=result.component_j["memory"] / result.scenario.batch,
        kernels=demand.n_kernels,
        values_moved=int(_values_written(result).sum()),
        activation_bytes=float(activations.sum()),
        dram_bytes=float(result.run.mapping.traffic.dram_bytes.sum()),
    )


def _side_by_side(eager: Estimate, fused: Estimate) -> tuple[SideBySide, ...]:
    parts = eager.partition
    trips = parts.total(_values_written(eager)) - parts.total(_values_written(fused))
    dram = [parts.total(estimate.run.mapping.traffic.dram_bytes) for estimate in (eager, fused)]
    columns: dict[str, Any] = {}
    for mode, level in (("eager", tree(eager).subgraphs), ("fused", tree(fused).subgraphs)):
        columns |= {f"{mode}_{name}": getattr(level, name) for name in ("edp_js", "share", "energy_j", "latency_s")}
        columns[f"{mode}_energy_j_per_inference"] = level.energy_j / eager.scenario.batch
    return records(
        SideBySide,
        id=parts.id,
        type=parts.kind,
        benefit_js=columns["eager_edp_js"] - columns["fused_edp_js"],
        round_trips_saved=[round(trip) for trip in trips.tolist()],
        dram_bytes_saved=dram[0] - dram[1],
        **columns,
    )


# --- the verb ---------------------------------------------------------------------------------------------------------

NODES = columns(
    EdpNode,
    "name kind share cumulative edp compute memory static base modifier fused benefit energy_per_inference latency",
)


def _summary(report: EdpReport, state: State) -> tuple[str, ...]:
    half, saved, unfused = report.concentration[0], report.saved, report.executions[0]
    effect = "saves" if saved.edp_js >= 0 else "adds"
    return (
        f"EDP {quantity(report.edp_js, 'Js')} = {quantity(report.energy_j_per_inference, 'J')} per inference x "
        f"{quantity(report.latency_s, 's')}",
        f"{half.subgraphs} of {report.n_subgraphs} subgraphs make half of it",
        f"fusion {effect} {quantity(abs(saved.edp_js), 'Js')} of the {quantity(unfused.edp_js, 'Js')} that the same "
        f"software takes without it: {saved.round_trips} round trips, "
        f"{quantity(saved.activation_bytes, 'byte')} of activations, {quantity(saved.dram_bytes, 'byte')} of it "
        f"DRAM; {quantity(saved.energy_j_per_inference, 'J')} per inference "
        f"({quantity(saved.memory_j_per_inference, 'J')} of memory), {quantity(saved.latency_s, 's')}",
    )


VERB = Report(
    subject=DEVICE,
    options=(TOP,),
    document=document_of_estimate(edp_report),
    title="Energy-delay product",
    parts=(
        summary_text(_summary),
        Rows(
            "components",
            "By component",
            columns(Component, "name bar share edp energy_per_inference time energy_delay"),
            footer=("time: busy time of kernels by what bounds them; launch and waiting count as static",),
        ),
        Rows("concentration", "How few make how much", columns(Concentration), key=lambda row: percent(row.fraction)),
        Rows(
            "operators",
            lambda document: f"Top {len(document.top_operators)} operators",
            NODES,
            of="top_operators",
            kind="type",
        ),
        Rows(
            "subgraphs",
            lambda document: f"Top {len(document.top_subgraphs)} subgraphs",
            NODES,
            of="top_subgraphs",
            kind="type",
            brief={"footer": ("More: --all (how few make how much, operators, fusion off and on)",)},
        ),
        Rows("executions", "The same software with fusion off and on", columns(ExecutionEdp)),
        Rows("side_by_side", "Each subgraph with fusion off and on", columns(SideBySide), kind="type"),
    ),
    brief_parts=("summary", "components", "subgraphs"),
    main="subgraphs",
    section=Section(40, "Where the energy-delay product goes"),
    examples={"edp": "conv2d --on h100_sxm"},
)
