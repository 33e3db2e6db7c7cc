"""Energy-delay product: components, concentration, top nodes, eager against fused."""

from __future__ import annotations

from analysis.document import Column
from analysis.reports.edp_report import EdpReport, edp_report
from hardware.quantity import quantity
from hwexplorer.declare import DEVICE, Report, Rows, Section, facts, of_run
from hwexplorer.options import TOP
from hwexplorer.state import State
from hwexplorer.views.words import of_node

COMPONENTS = (
    Column("name", "Component", role="text", keep=0),
    Column("bar", "Share", "%", role="bar", keep=1, of="share"),
    Column("share", "%", "%", keep=0),
    Column("edp", "EDP", "Js", keep=0, help="attributed: (energy share + time share) / 2"),
    Column("energy_per_inference", "Energy/inf", "J", keep=1, of="energy_j_per_inference"),
    Column("time", "Time", "s", keep=1),
    Column("energy_delay", "Energy x time", "Js", keep=2, help="its energy per inference times the whole time"),
)
CONCENTRATION = (
    Column("fraction", "Of the EDP", "%", keep=0),
    Column("subgraphs", "Subgraphs", "count", keep=0),
    Column("subgraphs_fraction", "of all", "%", keep=0),
    Column("operators", "Operators", "count", keep=0),
    Column("operators_fraction", "of all", "%", keep=0),
)
NODES = (
    Column("name", "Node", role="text", keep=0, of="id"),
    Column("kind", "Kind", role="text", keep=4, of="type"),
    Column("share", "Share", "%", keep=0),
    Column("cumulative", "Cum", "%", keep=1),
    Column("edp", "EDP", "Js", keep=0),
    Column("compute", "Compute", "Js", keep=2, of="compute_edp_js"),
    Column("memory", "Memory", "Js", keep=2, of="memory_edp_js", help="of moving data, on the chip and beside it"),
    Column("static", "Static", "Js", keep=2, of="static_edp_js"),
    Column("base", "Base", "Js", keep=3, of="base_edp_js"),
    Column("modifier", "Modifier", "x", keep=3, of="architectural_modifier"),
    Column(
        "fused", "F", role="flag", keep=3, of="is_fused", shown={True: "F", False: "S"},
        help="F fused with another operator, S a kernel of its own",
    ),
    Column("benefit", "Fusion", "Js", keep=3, of="fusion_benefit_js", help="EDP that fusing takes off"),
    Column("energy_per_inference", "Energy/inf", "J", keep=4, of="energy_j_per_inference"),
    Column("latency", "Latency", "s", keep=4),
)  # fmt: skip
EXECUTIONS = (
    Column("execution", "Execution", role="text", keep=0),
    Column("edp", "EDP", "Js", keep=0),
    Column("energy_per_inference", "Energy/inf", "J", keep=0, of="energy_j_per_inference"),
    Column("memory_per_inference", "Mem. energy/inf", "J", keep=1, of="memory_j_per_inference"),
    Column("latency", "Latency", "s", keep=0),
    Column("kernels", "Kernels", "count", keep=1),
    Column("values", "Values moved", "count", keep=1, of="values_moved"),
    Column("activations", "Activations", "byte", keep=2, of="activation_bytes"),
    Column("dram", "DRAM", "byte", keep=1),
)
SIDE_BY_SIDE = (
    Column("subgraph", "Subgraph", role="text", keep=0, of="id"),
    Column("eager", "Eager", "Js", keep=0, of="eager_edp_js"),
    Column("fused", "Fused", "Js", keep=0, of="fused_edp_js"),
    Column("benefit", "Benefit", "Js", keep=0),
    Column("eager_share", "Eager", "%", keep=2),
    Column("fused_share", "Fused", "%", keep=2),
    Column("eager_energy_per_inference", "Eager/inf", "J", keep=3, of="eager_energy_j_per_inference"),
    Column("fused_energy_per_inference", "Fused/inf", "J", keep=3, of="fused_energy_j_per_inference"),
    Column("eager_latency", "Eager", "s", keep=3),
    Column("fused_latency", "Fused", "s", keep=3),
    Column("trips", "Trips saved", "count", keep=1, of="round_trips_saved",
           help="values no longer written and read back"),
    Column("dram", "DRAM saved", "byte", keep=1, of="dram_bytes_saved"),
)  # fmt: skip


def _summary(report: EdpReport, state: State) -> tuple[str, ...]:
    first, saved = report.concentration[0], report.saved
    kept = "saves" if saved.edp_js >= 0 else "adds"
    return (
        f"EDP {quantity(report.edp_js, 'Js')} = {quantity(report.energy_j_per_inference, 'J')} per inference x "
        f"{quantity(report.latency_s, 's')}",
        f"{first.subgraphs} of {report.n_subgraphs} subgraphs make half of it",
        f"fusing {kept} {quantity(abs(saved.edp_js), 'Js')}: {saved.round_trips} round trips, "
        f"{quantity(saved.activation_bytes, 'byte')} of activations, {quantity(saved.dram_bytes, 'byte')} of it "
        f"DRAM; {quantity(saved.energy_j_per_inference, 'J')} per inference "
        f"({quantity(saved.memory_j_per_inference, 'J')} of memory), {quantity(saved.latency_s, 's')}",
    )


VERB = Report(
    subject=DEVICE,
    options=(TOP,),
    document=of_run(edp_report),
    title=lambda document, state: of_node("Energy-delay product", state),
    parts=(
        facts(_summary),
        Rows(
            name="components",
            title="By component",
            columns=COMPONENTS,
            footer=("time: busy time of kernels by what bounds them; launch and waiting count as static",),
        ),
        Rows(
            name="concentration",
            title="How few make how much",
            columns=CONCENTRATION,
            key=lambda row: f"{row.fraction:.0%}",
        ),
        Rows(
            name="operators",
            title=lambda document: f"Top {len(document.top_operators)} operators",
            columns=NODES,
            of="top_operators",
            kind="type",
        ),
        Rows(
            name="subgraphs",
            title=lambda document: f"Top {len(document.top_subgraphs)} subgraphs",
            columns=NODES,
            of="top_subgraphs",
            kind="type",
        ),
        Rows(name="executions", title="Eager and fused", columns=EXECUTIONS),
        Rows(name="side_by_side", title="Each subgraph under eager and fused", columns=SIDE_BY_SIDE, kind="type"),
    ),
    main="subgraphs",
    section=Section(40, "Where the energy-delay product goes"),
    examples={"edp": "conv2d --on h100_sxm"},
)
