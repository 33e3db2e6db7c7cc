"""Divide a model into subgraphs: types, traffic, parallelism, dependencies."""

from __future__ import annotations

from analysis.document import columns
from analysis.reports.partition_report import PartitionReport, Subgraph, partition_report
from hardware.quantity import percent, plain_number, quantity
from hwexplorer import engine
from hwexplorer.declare import MODEL, Report, Rows, Section, summary_text
from hwexplorer.reports._buckets import KINDS, distribution
from hwexplorer.state import State
from hwexplorer.views.captions import chain

LEVELS = {"Operators": "operators", "Subgraphs": "subgraphs"}


def _document(state: State) -> PartitionReport:
    return partition_report(engine.workload(state), state.batch, state.precision)


def _summary(report: PartitionReport, state: State) -> tuple[str, ...]:
    path, moved = report.critical_path, report.ingress_bytes + report.egress_bytes + report.weight_bytes
    intensity = plain_number(report.flops / moved) if moved else "no"
    return (
        f"{report.n_operators} operators in {report.n_subgraphs} subgraphs; {report.fused_operators} "
        f"({percent(report.fused_fraction)}) share a subgraph with another",
        f"{quantity(report.flops, 'FLOP')}, {quantity(report.macs, 'MAC')}; across borders: "
        f"{quantity(report.ingress_bytes, 'byte')} in, {quantity(report.egress_bytes, 'byte')} out, "
        f"{quantity(report.weight_bytes, 'byte')} weights; inside: {quantity(report.internal_bytes, 'byte')}",
        f"average intensity {intensity} FLOP per byte across borders; of a device's memory: show roofline",
        f"{len(report.edges)} dependencies; longest chain {path.longest_chain} operators",
        f"critical path: {len(path.subgraphs)} subgraphs, {path.operators} operators, "
        f"{quantity(path.flops, 'FLOP')} ({percent(path.flops_fraction)}): {chain(path.subgraphs)}",
    )


VERB = Report(
    subject=MODEL,
    document=_document,
    title=lambda document, state: f"Partition of {document.model}, batch {document.batch}, {document.precision}",
    parts=(
        summary_text(_summary),
        Rows("operators", "Operators by type", KINDS, of="operators_by_type"),
        Rows("classes", "Operators by class", KINDS, of="operators_by_class"),
        Rows("patterns", "Subgraphs by fusion pattern", KINDS, of="subgraphs_by_pattern"),
        distribution("parallelism", "Parallelism of operators and subgraphs", "Threads", "FLOPs", LEVELS),
        distribution("intensity", "Intensity of operators and subgraphs", "FLOP/byte", "FLOPs", LEVELS),
        Rows("subgraphs", "Subgraphs", columns(Subgraph), kind="type"),
    ),
    section=Section(0, "What the model is made of"),
    examples={"partition": "conv2d"},
)
