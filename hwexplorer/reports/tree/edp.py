"""Divide the energy-delay product (EDP): causes, power, the largest parts, what fusion saves.

EDP is attributed as in analysis/estimate/tree_figures.py, and to causes as on the screen: a kernel's time belongs to
what bounds it, launching and waiting to launch, and energy to the events that draw it. So `static` is energy that is
drawn whatever happens, and has no time. Efficiency is the dynamic part of the energy; energy lost to idle resources is
static x (1 - utilisation). Peak power is the power of the kernel that draws most.
"""

from typing import Annotated

import msgspec
import numpy as np

from analysis.document import Column, column, columns, records
from analysis.estimate import causes, kernel_rows, tree_figures
from analysis.estimate.estimate import Estimate, ratio, weighted_mean
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.metrics import ADDITIVE, METRICS
from analysis.wording import work_word
from hardware.base.text import percent, quantity
from hwexplorer import declare, engine, options
from hwexplorer.reports.tree.tree import node
from hwexplorer.state import State
from hwexplorer.views import plain
from hwexplorer.views.captions import energy_words, metric_word
from hwexplorer.views.tables import rows

FIRST = 10  # parts in brief text


class CausePart(msgspec.Struct, frozen=True, kw_only=True):
    """The part of one cause in the energy, time and EDP of the node; fractions are of the node's."""

    cause: Annotated[str, column("Cause", shown=plain.CAUSE_NAMES)]
    share: Annotated[float, column("of the EDP", "%")]
    edp_js: Annotated[float, column("EDP", "Js", help="attributed: (energy share + time share) / 2")]
    energy_j_per_inference: Annotated[float, column("Energy/inf", "J")]
    energy_fraction: Annotated[float, column("of the energy", "%", keep=1)]
    time_s: Annotated[float, column("Time", "s")]
    time_fraction: Annotated[float, column("of the time", "%", keep=1)]


class EdpReport(Head, frozen=True, kw_only=True):
    """The energy-delay product of a node on a device, its energy and power. `half_of_edp` is the fewest subgraphs that
    make half of it; `fusion_benefit_js` is what fusion saves of the EDP that the same software has without it."""

    node: str
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
    efficiency: float
    utilization: float
    idle_loss_fraction: float
    half_of_edp: int
    fusion_benefit_js: float


def edp_report(whole: Estimate, path: str = "") -> EdpReport:
    """Return the report of a node ('' is the model). Raises RequestError for an unknown node."""
    result, members = tree_figures.estimate_of_node(whole, path), tree_figures.operators_of(whole, path)
    figures, parts, batch = tree_figures.tree(whole), whole.partition, whole.scenario.batch
    part = causes.causes(result).sum_over(members)
    energy, time = float(part.energy_j.sum()), float(part.time_s.sum())
    share = causes.shares_of_causes(part, whole, "edp")
    static = float(part.energy_j[causes.STATIC])
    of_kernels = result.run.utilization[result.demand.kernel[members]]
    busy = min(weighted_mean(of_kernels, result.run.latency_s[members]), 1.0)
    chosen, kernels = kernel_rows.kernels_of(result, path), kernel_rows.kernels(result)
    watts = ratio(kernels.energy_j[chosen], result.run.kernel_s[chosen])
    highest = int(chosen[watts.argmax()]) if len(chosen) else None
    subgraphs = np.unique(parts.subgraph[members])
    shares = figures.subgraphs.share[subgraphs]
    return EdpReport(
        **head_fields(whole, on_device=True),
        node=path,
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
            energy_j_per_inference=part.energy_j / batch,
            energy_fraction=part.energy_j / (energy or 1.0),
            time_s=part.time_s,
            time_fraction=part.time_s / (time or 1.0),
        ),
        average_power_w=energy / time if time else 0.0,
        peak_power_w=float(watts.max(initial=0.0)),
        peak_power_kernel="" if highest is None else kernels.id[highest],
        static_power_w=static / time if time else 0.0,
        power_limit_w=whole.power_limit_w,
        tdp_w=whole.device.tdp_w * whole.workload.devices,
        efficiency=(energy - static) / energy if energy else 0.0,
        utilization=busy,
        idle_loss_fraction=static * (1.0 - busy) / energy if energy else 0.0,
        half_of_edp=tree_figures.count_making(shares / (shares.sum() or 1.0), 0.5),
        fusion_benefit_js=float(tree_figures.fusion_benefit(whole)[members].sum()) * (path != tree_figures.HOST),
    )


NODES = (
    Column("name", "Node", role="text", keep=0),
    Column("share", "of the EDP", "%", keep=0),
    Column("edp", "EDP", "Js", keep=0),
    Column("energy_per_inference", "Energy/inf", "J", keep=0),
    Column("latency", "Latency", "s"),
)


def _subgraphs(report: EdpReport, state: State) -> plain.Table:
    """Return the subgraphs of the node with most of the metric of the state."""
    part = node(engine.result(state), state.at)
    parts = [part] if part.kind == "operator" else part.children
    ordered = sorted(parts, key=METRICS[state.metric].figure, reverse=True)
    title = f"Parts with most {metric_word(state.metric)}"
    return plain.Table("subgraphs", title, NODES, rows(NODES, ordered, "id", "type"), first=FIRST)


def _summary(report: EdpReport, state: State) -> tuple[str, ...]:
    fuses = report.execution_run != "eager"
    other_js = report.edp_js + (report.fusion_benefit_js if fuses else -report.fusion_benefit_js)
    average, peak, limit, tdp, static = (
        quantity(getattr(report, f"{name}_w"), "W")
        for name in ("average_power", "peak_power", "power_limit", "tdp", "static_power")
    )
    energy = energy_words(report.energy_j, report.batch, what=work_word(engine.result(state)))
    product = "half the sum of its shares in energy and time" if report.node else "energy x time"
    return (
        f"EDP {quantity(report.edp_js, 'Js')}, {product}: {energy}, {quantity(report.latency_s, 's')}",
        f"{report.half_of_edp} of {report.n_subgraphs} subgraphs make half of the EDP",
        f"average power {average}; highest {peak}, in {report.peak_power_kernel}; limit {limit}, TDP {tdp}",
        f"static power, {static}, takes {percent(1 - report.efficiency)} of the energy; units without work take "
        f"{percent(report.idle_loss_fraction)} (utilisation {percent(report.utilization, 1)})",
        f"{'without' if fuses else 'with'} fusion, on the same software, the EDP would be {quantity(other_js, 'Js')} "
        "(`advise fusion` shows what each fusion saves)",
    )


VERB = declare.Report(
    subject=declare.NODE,
    options=(options.choice("--metric", ADDITIVE, metavar="METRIC", help="order of the parts (default edp)"),),
    document=declare.document_of_estimate(edp_report),
    title="Energy-delay product",
    parts=(
        declare.summary_text(_summary),
        declare.Rows("causes", "By cause", columns(CausePart), key="cause"),
        _subgraphs,
    ),
    brief_parts=("summary", "causes", "subgraphs"),
    main="subgraphs",
    section=declare.Section(40, "Where the energy-delay product goes"),
    examples={"edp": "conv2d --on h100_sxm"},
)  # fmt: skip
