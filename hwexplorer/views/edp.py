"""Energy-delay product: components, concentration, top nodes, eager and fused side by side."""

from __future__ import annotations

from analysis.reports.edp_report import TOP, EdpReport, Node, edp_report
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views import pieces
from hwexplorer.views.plain import Column, Report, Row, Table, Text

COMPONENTS = (
    Column("name", "Component", role="text", keep=0),
    Column("bar", "Share", "%", role="bar", keep=1),
    Column("share", "%", "%", keep=0),
    Column("edp", "EDP", "Js", keep=0, help="attributed: (energy share + time share) / 2"),
    Column("energy", "Energy", "J", keep=1),
    Column("time", "Time", "s", keep=1),
    Column("energy_delay", "Energy x time", "Js", keep=2, help="its energy times the whole time"),
)
CONCENTRATION = (
    Column("fraction", "Of the EDP", "%", keep=0),
    Column("subgraphs", "Subgraphs", "count", keep=0),
    Column("subgraphs_fraction", "of all", "%", keep=0),
    Column("operators", "Operators", "count", keep=0),
    Column("operators_fraction", "of all", "%", keep=0),
)
NODES = (
    Column("name", "Node", role="text", keep=0),
    Column("kind", "Kind", role="text", keep=4),
    Column("share", "Share", "%", keep=0),
    Column("cumulative", "Cum", "%", keep=1),
    Column("edp", "EDP", "Js", keep=0),
    Column("compute", "Compute", "Js", keep=2),
    Column("memory", "Memory", "Js", keep=2),
    Column("static", "Static", "Js", keep=2),
    Column("base", "Base", "Js", keep=3),
    Column("modifier", "Modifier", "x", keep=3),
    Column("fused", "F", role="flag", keep=3, help="F fused with another operator, S a kernel of its own"),
    Column("benefit", "Fusion", "Js", keep=3, help="EDP that fusing takes off"),
    Column("energy", "Energy", "J", keep=4),
    Column("latency", "Latency", "s", keep=4),
)
EXECUTIONS = (
    Column("execution", "Execution", role="text", keep=0),
    Column("edp", "EDP", "Js", keep=0),
    Column("energy", "Energy", "J", keep=0),
    Column("memory", "Mem. energy", "J", keep=1),
    Column("latency", "Latency", "s", keep=0),
    Column("kernels", "Kernels", "count", keep=1),
    Column("values", "Values moved", "count", keep=1),
    Column("activations", "Activations", "byte", keep=2),
    Column("dram", "DRAM", "byte", keep=1),
)
SIDE_BY_SIDE = (
    Column("subgraph", "Subgraph", role="text", keep=0),
    Column("eager", "Eager", "Js", keep=0),
    Column("fused", "Fused", "Js", keep=0),
    Column("benefit", "Benefit", "Js", keep=0),
    Column("eager_share", "Eager", "%", keep=2),
    Column("fused_share", "Fused", "%", keep=2),
    Column("eager_energy", "Eager", "J", keep=3),
    Column("fused_energy", "Fused", "J", keep=3),
    Column("eager_latency", "Eager", "s", keep=3),
    Column("fused_latency", "Fused", "s", keep=3),
    Column("trips", "Trips saved", "count", keep=1, help="values no longer written and read back"),
    Column("dram", "DRAM saved", "byte", keep=1),
)


def document(state: State, top: int = TOP) -> EdpReport:
    return edp_report(engine.result(state), top)


def view(state: State, top: int = TOP) -> Report:
    found = document(state, top)
    name = engine.workload(state).name
    return Report(
        "edp",
        f"Energy-delay product of {name} on {engine.device(state.on).name}, batch {state.batch}",
        (
            _summary(found),
            _components(found),
            _concentration(found),
            _nodes("operators", f"Top {len(found.top_operators)} operators", found.top_operators),
            _nodes("subgraphs", f"Top {len(found.top_subgraphs)} subgraphs", found.top_subgraphs),
            _executions(found),
            _side_by_side(found),
        ),
        main=4,
    )


def _summary(found: EdpReport) -> Text:
    first = found.concentration[0]
    saved = found.saved
    kept = "saves" if saved.edp_js >= 0 else "adds"
    return pieces.facts(
        "summary",
        "Summary",
        (
            f"EDP {quantity(found.edp_js, 'Js')} = {quantity(found.energy_j_per_inference, 'J')} per inference x "
            f"{quantity(found.latency_s, 's')}",
            f"{first.subgraphs} of {found.n_subgraphs} subgraphs make half of it",
            f"fusing {kept} {quantity(abs(saved.edp_js), 'Js')}: {saved.round_trips} round trips, "
            f"{quantity(saved.activation_bytes, 'byte')} of activations, {quantity(saved.dram_bytes, 'byte')} of it "
            f"DRAM; {quantity(saved.energy_j, 'J')} ({quantity(saved.memory_j, 'J')} of memory), "
            f"{quantity(saved.latency_s, 's')}",
        ),
    )


def _components(found: EdpReport) -> Table:
    rows = tuple(
        Row(c.name, (c.name, c.share, c.share, c.edp_js, c.energy_j, c.time_s, c.energy_delay_js))
        for c in found.components
    )
    note = "time: busy time of kernels by what bounds them; launch and waiting count as static"
    return Table("components", "By component", COMPONENTS, rows, (note,))


def _concentration(found: EdpReport) -> Table:
    rows = tuple(
        Row(f"{c.fraction:.0%}", (c.fraction, c.subgraphs, c.subgraphs_fraction, c.operators, c.operators_fraction))
        for c in found.concentration
    )
    return Table("concentration", "How few make how much", CONCENTRATION, rows)


def _nodes(name: str, title: str, nodes: tuple[Node, ...]) -> Table:
    rows = tuple(
        Row(
            n.id,
            (n.id, n.type, n.share, n.cumulative, n.edp_js, n.compute_edp_js, n.memory_edp_js, n.static_edp_js,
             n.base_edp_js, n.architectural_modifier, "F" if n.is_fused else "S", n.fusion_benefit_js, n.energy_j,
             n.latency_s),
            kind=n.type,
        )
        for n in nodes
    )  # fmt: skip
    return Table(name, title, NODES, rows)


def _executions(found: EdpReport) -> Table:
    rows = tuple(
        Row(
            e.execution,
            (e.execution, e.edp_js, e.energy_j, e.memory_j, e.latency_s, e.kernels, e.values_moved,
             e.activation_bytes, e.dram_bytes),
        )
        for e in found.executions
    )  # fmt: skip
    return Table("executions", "Eager and fused", EXECUTIONS, rows)


def _side_by_side(found: EdpReport) -> Table:
    rows = tuple(
        Row(
            s.id,
            (s.id, s.eager_edp_js, s.fused_edp_js, s.benefit_js, s.eager_share, s.fused_share, s.eager_energy_j,
             s.fused_energy_j, s.eager_latency_s, s.fused_latency_s, s.round_trips_saved, s.dram_bytes_saved),
            kind=s.type,
        )
        for s in found.side_by_side
    )  # fmt: skip
    return Table("side_by_side", "Each subgraph under eager and fused", SIDE_BY_SIDE, rows)
