"""Divide the energy-delay product (EDP): causes, power, the largest parts, what fusion saves.

EDP is attributed as in analysis/estimate/tree_figures.py, and to causes as on the screen: a kernel's time belongs to
what bounds it, launching and waiting to launch, and energy to the events that draw it. So `static` is energy that is
drawn whatever happens, and has no time. Efficiency is the dynamic part of the energy; energy lost to idle resources is
static x (1 - utilisation). Peak power is the power of the kernel that draws most.
"""

from typing import Annotated, Any

import msgspec
import numpy as np

from analysis.document import YES_NO, column, columns, none_unless, records
from analysis.estimate import causes, kernel_rows, tree_figures
from analysis.estimate.estimate import Estimate, ratio, weighted_mean
from analysis.estimate.figures import Head, head_fields
from analysis.model.ir.workload import Floats, Ints
from analysis.text.headline import work_word
from hardware.base.text import percent, quantity
from hardware.demand import READ_WEIGHT, WRITE
from hwexplorer import declare, engine, options
from hwexplorer.state import METRICS, State
from hwexplorer.views import plain
from hwexplorer.views.captions import energy_words, metric_word

FRACTIONS = (0.50, 0.80, 0.90, 0.95, 0.99)
_LOOK_NAMES = {cause: look.name for cause, look in zip(causes.CAUSES, plain.LOOKS, strict=True)}


class CausePart(msgspec.Struct, frozen=True, kw_only=True):
    """The part of one cause in the energy, time and EDP of the node; fractions are of the node's."""

    cause: Annotated[str, column("Cause", shown=_LOOK_NAMES)]
    share: Annotated[float, column("of the EDP", "%")]
    edp_js: Annotated[float, column("EDP", "Js", help="attributed: (energy share + time share) / 2")]
    energy_j: float
    energy_j_per_inference: Annotated[float, column("Energy/inf", "J")]
    energy_fraction: Annotated[float, column("of the energy", "%", keep=1)]
    time_s: Annotated[float, column("Time", "s")]
    time_fraction: Annotated[float, column("of the time", "%", keep=1)]


class Concentration(msgspec.Struct, frozen=True):
    """The fewest nodes of a level that make `fraction` of the EDP."""

    fraction: Annotated[float, column("Of the EDP", "%")]
    subgraphs: Annotated[int, column("Subgraphs", "count")]
    subgraphs_fraction: Annotated[float, column("of all", "%")]
    operators: Annotated[int, column("Operators", "count")]
    operators_fraction: Annotated[float, column("of all", "%")]


class EdpNode(msgspec.Struct, frozen=True, kw_only=True):
    """A subgraph or operator. `share` is its part of the model's EDP (or energy or latency, with `--metric`), divided
    among the six causes; `cumulative` the share of this row and all rows above it. `own_edp_js` is its energy per
    inference x its time."""

    id: Annotated[str, column("Node", key="name")]
    type: Annotated[str, column("Kind", key="kind", keep=5)]
    share: Annotated[float, column("Share", "%")]
    cumulative: Annotated[float, column("Cum", "%", keep=1)]
    edp_js: Annotated[float, column("EDP", "Js")]
    own_edp_js: float
    energy_j: float
    energy_j_per_inference: Annotated[float, column("Energy/inf", "J")]
    latency_s: Annotated[float, column("Latency", "s", keep=1)]
    compute: Annotated[float, column("compute", "%", keep=3)]
    on_chip: Annotated[float, column("on-chip", "%", keep=3)]
    dram: Annotated[float, column("DRAM", "%", keep=3)]
    launch: Annotated[float, column("launch", "%", keep=3)]
    throttled: Annotated[float, column("power limit", "%", keep=4)]
    static: Annotated[float, column("static", "%", keep=3)]
    base_edp_js: Annotated[float, column("Base", "Js", key="base", keep=4)]
    architectural_modifier: Annotated[float | None, column("Modifier", "x", key="modifier", keep=2)]
    is_fused: Annotated[bool, column("Fused", key="fused", keep=2, shown=YES_NO)]
    fusion_benefit_js: Annotated[float, column("Fusion", "Js", key="benefit", keep=2, help="EDP that fusion saves")]


class ExecutionEdp(msgspec.Struct, frozen=True, kw_only=True):
    """The node with or without fusion, on the same runtime. A value that kernels exchange moves through memory;
    `activation_bytes` counts both ways, `dram_bytes` DRAM traffic."""

    execution: Annotated[str, column("Fusion", shown={"eager": "off", "fused": "on", "saved": "saved"})]
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


class EdpReport(Head, frozen=True, kw_only=True):
    """The energy-delay product of a node on a device, its energy and power, and what fusion does to it. `saved` is
    the figures without fusion minus those with it; its `values_moved` are round trips through memory."""

    node: str
    metric: str
    edp_js: float
    energy_j: float
    energy_j_per_inference: float
    latency_s: float
    n_subgraphs: int
    n_operators: int
    causes: tuple[CausePart, ...]
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
    concentration: tuple[Concentration, ...]
    top_subgraphs: tuple[EdpNode, ...]
    top_operators: tuple[EdpNode, ...]
    executions: tuple[ExecutionEdp, ...]
    saved: ExecutionEdp


def edp_report(whole: Estimate, path: str = "", metric: str = "edp", top: int = 10) -> EdpReport:
    """Return the report of a node ('' is the model), its largest parts by a metric. It estimates the model with and
    without fusion. Raises RequestError for an unknown node."""
    result, members = tree_figures.estimate_of_node(whole, path), tree_figures.operators_of(whole, path)
    figures, parts, batch = tree_figures.tree(whole), whole.partition, whole.scenario.batch
    part = causes.causes(result).sum_over(members)
    energy, time = float(part.energy_j.sum()), float(part.time_s.sum())
    share = causes.shares_of_causes(part, whole, "edp")
    static = float(part.energy_j[causes.STATIC])
    of_kernels = result.run.utilization[result.demand.kernel[members]]
    busy = min(weighted_mean(of_kernels, result.run.latency_s[members]), 1.0)
    peak_w, peak_kernel = _peak_power(result, path)
    eager, fused = (whole.in_mode(mode) for mode in ("eager", "fused"))
    executions = (_execution(eager, path), _execution(fused, path))
    unfused, joined = (msgspec.structs.asdict(execution) for execution in executions)
    saved = {name: unfused[name] - joined[name] for name in unfused if name != "execution"}
    subgraphs = np.unique(parts.subgraph[members])
    return EdpReport(
        **head_fields(whole, on_device=True),
        node=path,
        metric=metric,
        edp_js=float(share.sum()) * whole.edp_js,
        energy_j=energy,
        energy_j_per_inference=energy / batch,
        latency_s=time,
        n_subgraphs=len(subgraphs),
        n_operators=len(members),
        causes=records(
            CausePart,
            cause=causes.CAUSES,
            share=share / (share.sum() or 1.0),
            edp_js=share * whole.edp_js,
            energy_j=part.energy_j,
            energy_j_per_inference=part.energy_j / batch,
            energy_fraction=part.energy_j / (energy or 1.0),
            time_s=part.time_s,
            time_fraction=part.time_s / (time or 1.0),
        ),
        average_power_w=energy / time if time else 0.0,
        peak_power_w=peak_w,
        peak_power_kernel=peak_kernel,
        static_power_w=static / time if time else 0.0,
        power_limit_w=whole.power_limit_w,
        tdp_w=whole.device.tdp_w * whole.workload.devices,
        dynamic_j=energy - static,
        efficiency=(energy - static) / energy if energy else 0.0,
        utilization=busy,
        idle_loss_j=static * (1.0 - busy),
        idle_loss_fraction=static * (1.0 - busy) / energy if energy else 0.0,
        concentration=_concentration(figures.subgraphs.share[subgraphs], figures.operators.share[members]),
        top_subgraphs=_top(whole, "subgraphs", subgraphs, not path, metric)[:top],
        top_operators=_top(whole, "operators", members, not path, metric)[:top],
        executions=executions,
        saved=ExecutionEdp(execution="saved", **saved),
    )


def _peak_power(result: Estimate, path: str) -> tuple[float, str]:
    rows_of_node = kernel_rows.kernels_of(result, path)
    if not len(rows_of_node):
        return 0.0, ""
    power = ratio(kernel_rows.kernels(result).energy_j[rows_of_node], result.run.kernel_s[rows_of_node])
    return float(power.max()), kernel_rows.kernels(result).id[int(rows_of_node[power.argmax()])]


def _concentration(subgraphs: Floats, operators: Floats) -> tuple[Concentration, ...]:
    found: dict[str, Any] = {}
    for name, share in (("subgraphs", subgraphs), ("operators", operators)):
        of_node = share / (share.sum() or 1.0)
        found[name] = [tree_figures.count_making(of_node, fraction) for fraction in FRACTIONS]
        found[f"{name}_fraction"] = [count / (len(share) or 1) for count in found[name]]
    return records(Concentration, fraction=FRACTIONS, **found)


def _top(whole: Estimate, level: str, chosen: Ints, with_host: bool, metric: str) -> tuple[EdpNode, ...]:
    """Return some nodes of a level, the largest share of the metric first. The work of the host counts as a node."""
    parts, figures = whole.partition, tree_figures.tree_without_host(whole)
    rest, host = causes.causes_without_host(whole)
    by_cause = causes.shares_of_causes(rest, whole, metric)
    rows, ids, kinds = figures.operators, parts.operator_id, whole.workload.operators.kind
    is_fused = figures.fused.tolist()
    if level == "subgraphs":
        rows, ids, kinds = figures.subgraphs, parts.id, parts.kind
        by_cause = np.stack([parts.total(row) for row in by_cause])
        is_fused = [whole.execution == "fused" and len(members) > 1 for members in parts.members]
    if host is not None and with_host:
        of_host = tree_figures.branch_figures(whole, tree_figures.host_branches(whole))
        joined = {name: np.concatenate([getattr(rows, name), getattr(of_host, name)], axis=-1) for name in _OF_LEVEL}
        rows = msgspec.structs.replace(rows, **joined)
        by_cause = np.column_stack([by_cause, causes.shares_of_causes(host, whole, metric).sum(axis=1)])
        chosen, ids, kinds = np.append(chosen, len(ids)), (*ids, tree_figures.HOST), (*kinds, "host")
        is_fused = [*is_fused, False]
    share = by_cause.sum(axis=0)
    order = chosen[np.argsort(-share[chosen], kind="stable")]
    return records(
        EdpNode,
        rows,
        rows=order,
        id=[ids[i] for i in order],
        type=[kinds[i] for i in order],
        share=share[order],
        cumulative=np.cumsum(share[order]),
        energy_j_per_inference=rows.energy_j[order] / whole.scenario.batch,
        is_fused=[is_fused[i] for i in order],
        architectural_modifier=none_unless(~np.isnan(rows.modifier[order]), rows.modifier[order]),
        **dict(zip(causes.CAUSES, by_cause[:, order], strict=True)),
    )


# The figures of a level that the rows have.
_OF_LEVEL = ("latency_s", "energy_j", "edp_js", "own_edp_js", "base_edp_js", "modifier", "fusion_benefit_js")


def _execution(whole: Estimate, path: str) -> ExecutionEdp:
    """Return the figures of a node in one execution mode."""
    result, members = tree_figures.estimate_of_node(whole, path), tree_figures.operators_of(whole, path)
    demand, transfers, batch = result.demand, result.demand.transfers, whole.scenario.batch
    written = demand.per_op((transfers.role == WRITE).astype(np.float64))  # values for other kernels
    activations = demand.per_op(np.where(transfers.role == READ_WEIGHT, 0.0, transfers.size_bytes))
    of_memory = float(result.component_energy_j[1, members].sum())
    energy, latency = float(result.run.energy_j[members].sum()), float(result.run.latency_s[members].sum())
    return ExecutionEdp(
        execution=whole.execution,
        edp_js=float(tree_figures.shares(np.array(energy), np.array(latency), whole)) * whole.edp_js,
        energy_j=energy,
        energy_j_per_inference=energy / batch,
        memory_j=of_memory,
        memory_j_per_inference=of_memory / batch,
        latency_s=latency,
        kernels=len(np.unique(demand.kernel[members])),
        values_moved=int(written[members].sum()),
        activation_bytes=float(activations[members].sum()),
        dram_bytes=float(result.run.mapping.traffic.dram_bytes[members].sum()),
    )


# --- the verb ---------------------------------------------------------------------------------------------------------

NODES = columns(
    EdpNode,
    "name kind share cumulative edp energy_per_inference latency compute on_chip dram launch throttled static base "
    "modifier fused benefit",
)


def _document(state: State, top: int = 10) -> EdpReport:
    return edp_report(engine.result(state), state.at, state.metric, top)


def _summary(report: EdpReport, state: State) -> tuple[str, ...]:
    half, saved, unfused = report.concentration[0], report.saved, report.executions[0]
    watts = {name: quantity(getattr(report, f"{name}_w"), "W") for name in _POWERS}
    energy = energy_words(report.energy_j, report.batch, what=work_word(engine.result(state)))
    product = "half the sum of its shares in energy and time" if report.node else "energy x time"
    return (
        f"EDP {quantity(report.edp_js, 'Js')}, {product}: {energy}, {quantity(report.latency_s, 's')}",
        f"{half.subgraphs} of {report.n_subgraphs} subgraphs make half of the EDP",
        f"average power {watts['average_power']}; highest {watts['peak_power']}, in {report.peak_power_kernel}; "
        f"limit {watts['power_limit']}, TDP {watts['tdp']}",
        f"static power of {watts['static_power']} takes {percent(1 - report.efficiency)} of the energy, "
        f"{percent(report.idle_loss_fraction)} in idle units (utilisation {percent(report.utilization, 1)})",
        f"fusion {'saves' if saved.edp_js >= 0 else 'adds'} {quantity(abs(saved.edp_js), 'Js')} of the "
        f"{quantity(unfused.edp_js, 'Js')} without it on the same software: {saved.values_moved} round trips, "
        f"{quantity(saved.activation_bytes, 'byte')} of activations, {quantity(saved.dram_bytes, 'byte')} of it "
        f"DRAM; {quantity(saved.energy_j_per_inference, 'J')} per inference "
        f"({quantity(saved.memory_j_per_inference, 'J')} of memory), {quantity(saved.latency_s, 's')}",
    )


_POWERS = ("average_power", "peak_power", "power_limit", "tdp", "static_power")


_ORDER, FEW = "order of the parts (default edp)", columns(Concentration)


def _title(what: str) -> Any:
    return lambda report: f"{what} with most {metric_word(report.metric)}; causes are parts of the share"


VERB = declare.Report(
    subject=declare.NODE,
    options=(options.TOP, options.choice("--metric", METRICS, metavar="METRIC", help=_ORDER)),
    document=_document,
    title="Energy-delay product",
    parts=(
        declare.summary_text(_summary),
        declare.Rows("causes", "By cause", columns(CausePart), key="cause"),
        declare.Rows("concentration", "How few make how much", FEW, key=lambda row: percent(row.fraction)),
        declare.Rows("operators", _title("Operators"), NODES, of="top_operators", kind="type"),
        declare.Rows(
            "subgraphs", _title("Subgraphs"), NODES, of="top_subgraphs", kind="type",
            brief={"footer": ("More: --all (how few make how much, operators, fusion off and on)",)},
        ),
        declare.Rows(
            "executions", "The same software with fusion off and on", columns(ExecutionEdp),
            of=lambda report: (*report.executions, report.saved),
        ),
    ),
    brief_parts=("summary", "causes", "subgraphs"),
    main="subgraphs",
    section=declare.Section(40, "Where the energy-delay product goes"),
    examples={"edp": "conv2d --on h100_sxm"},
)  # fmt: skip
