"""Stages, critical path, parallelism, hardware units each subgraph can use."""

from __future__ import annotations

from analysis.document import Column, columns
from analysis.reports.checks import Check
from analysis.reports.concurrency_report import (
    ConcurrencyReport,
    Parallelism,
    Stage,
    SubgraphSplit,
    SubgraphUnits,
    concurrency,
)
from hardware.quantity import quantity
from hwexplorer.declare import DEVICE, Report, Rows, Section, document_of_estimate, facts
from hwexplorer.state import State
from hwexplorer.views.captions import chain, list_names, node_title

STAGES = (
    *columns(Stage, "stage"),
    Column("count", "Subgraphs", "count", keep=0, of=lambda stage: len(stage.subgraphs)),
    *columns(Stage, "flops time serial"),
    Column("subgraphs", "Which", role="text", keep=2, of=lambda stage: list_names(stage.subgraphs)),
)


def _split(split: SubgraphSplit) -> str:
    cost = ""
    if split.repeated_bytes:
        cost = f", {quantity(split.repeated_bytes, 'byte')} repeated"
    elif split.exchanged_bytes:
        cost = f", {quantity(split.exchanged_bytes, 'byte')} exchanged"
    return f"{split.dimension} {split.ways:,}{cost}"


UNITS = (
    *columns(SubgraphUnits),
    Column(
        "splits",
        "Can be divided along (parts; repeated or exchanged for each more)",
        role="text",
        keep=3,
        of=lambda units: "; ".join(map(_split, units.splits)),
    ),
)


def _summary(report: ConcurrencyReport, state: State) -> tuple[str, ...]:
    path = report.critical_path
    return (
        f"{report.n_stages} stages of subgraphs, {report.operator_stages} of operators; widest: "
        f"stage {report.widest_stage} with {len(report.widest_subgraphs)} subgraphs; {report.widest_operators} "
        "operators at once",
        f"critical path: {path.operators} operators; {quantity(path.flops, 'FLOP')} ({path.flops_fraction:.0%}); "
        f"{quantity(path.time_s, 's')} ({path.time_fraction:.0%} of {quantity(report.total_s, 's')})",
        f"through {chain(path.subgraphs)}",
        f"theoretical speed-up of running branches at once: {report.theoretical_speedup:.2f}x",
    )


VERB = Report(
    subject=DEVICE,
    document=document_of_estimate(concurrency),
    title=lambda document, state: node_title("Concurrency", state),
    parts=(
        facts(_summary),
        Rows("parallelism", "Parallelism", columns(Parallelism)),
        Rows("checks", "Consistency checks", columns(Check, "name passed sentence")),
        Rows("stages", "Stages", STAGES),
        Rows("units", lambda document: f"Hardware units ({document.unit_name}s) per subgraph", UNITS, kind="type"),
    ),
    section=Section(60, "What could run at once"),
    examples={"concurrency": "conv2d --on h100_sxm"},
)
