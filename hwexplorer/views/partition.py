"""The partition of a model: types, patterns, traffic, parallelism, intensity, dependencies."""

from __future__ import annotations

from analysis.reports.partition_report import PartitionReport, partition_report
from hardware.precision import STORED_BYTES
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views import pieces
from hwexplorer.views.plain import Column, Report, Row, Table, Text

COLUMNS = (
    Column("subgraph", "Subgraph", role="text", keep=0),
    Column("pattern", "Pattern", role="text", keep=3),
    Column("stage", "Stage", "count", keep=2, help="depth in the dependency graph"),
    Column("flops", "FLOP", "FLOP", keep=0),
    Column("ingress", "In", "byte", keep=1, help="activations that enter"),
    Column("egress", "Out", "byte", keep=1, help="results that leave"),
    Column("weights", "Weights", "byte", keep=1),
    Column("internal", "Inside", "byte", keep=4, help="exchanged between its operators"),
    Column("threads", "Threads", "SI", role="quantity", keep=2, help="elements its head writes"),
    Column("intensity", "Intensity", "FLOP/byte", keep=1),
    Column("critical", "P", role="flag", keep=2, help="* on the critical path"),
)


def document(state: State) -> PartitionReport:
    return partition_report(engine.workload(state), state.batch, STORED_BYTES[state.precision])


def view(state: State) -> Report:
    found = document(state)
    spread = {"parallelism": "Threads", "intensity": "FLOP/byte"}
    distributions = [
        pieces.distribution(
            name,
            f"{name.capitalize()} of operators and subgraphs",
            what,
            "FLOPs",
            {"Operators": getattr(found, name).operators, "Subgraphs": getattr(found, name).subgraphs},
        )
        for name, what in spread.items()
    ]
    parts = (
        _summary(found),
        pieces.kinds("operators", "Operators by type", found.operators_by_type),
        pieces.kinds("patterns", "Subgraphs by fusion pattern", found.subgraphs_by_pattern),
        *distributions,
        _subgraphs(found),
    )
    return Report("partition", f"Partition of {engine.workload(state).name}, batch {state.batch}", parts)


def _summary(found: PartitionReport) -> Text:
    path = found.critical_path
    lines = (
        f"{found.n_operators} operators in {found.n_subgraphs} subgraphs; {found.fused_operators} "
        f"({found.fused_fraction:.0%}) share a subgraph with another",
        f"{quantity(found.flops, 'FLOP')}, {quantity(found.macs, 'MAC')}; across borders: "
        f"{quantity(found.ingress_bytes, 'byte')} in, {quantity(found.egress_bytes, 'byte')} out, "
        f"{quantity(found.weight_bytes, 'byte')} weights; inside: {quantity(found.internal_bytes, 'byte')}",
        f"{len(found.edges)} dependencies; longest chain {path.longest_chain} operators",
        f"critical path: {len(path.subgraphs)} subgraphs, {path.operators} operators, "
        f"{quantity(path.flops, 'FLOP')} ({path.flops_fraction:.0%}): {pieces.chain(path.subgraphs)}",
    )
    return pieces.facts("summary", "Summary", lines)


def _subgraphs(found: PartitionReport) -> Table:
    rows = tuple(
        Row(
            s.id,
            (s.id, s.type, s.stage, s.flops, s.ingress_bytes, s.egress_bytes, s.weight_bytes, s.internal_bytes,
             s.threads, s.intensity, "*" if s.on_critical_path else ""),
            kind=s.type,
        )
        for s in found.subgraphs
    )  # fmt: skip
    return Table("subgraphs", "Subgraphs", COLUMNS, rows)
