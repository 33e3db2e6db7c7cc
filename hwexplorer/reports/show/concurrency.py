"""Show what can run in parallel: stages, critical path, hardware units per subgraph."""

from __future__ import annotations

from analysis.document import Column, columns
from analysis.reports.concurrency_report import (
    ConcurrencyCheck,
    ConcurrencyReport,
    Parallelism,
    Stage,
    SubgraphSplit,
    SubgraphUnits,
    concurrency,
)
from hardware.quantity import percent, quantity
from hardware.sentence import count_noun
from hwexplorer.declare import DEVICE, Report, Rows, Section, document_of_estimate, summary_text
from hwexplorer.state import State
from hwexplorer.views.captions import chain, list_names
from hwexplorer.views.digest import Digest

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
        "Can be divided along",
        role="text",
        keep=3,
        of=lambda units: "; ".join(map(_split, units.splits)),
    ),
)


def _summary(report: ConcurrencyReport, state: State) -> tuple[str, ...]:
    path = report.critical_path
    return (
        f"with its branches run at once the model would be {report.theoretical_speedup:.2f}x as fast",
        f"{count_noun(report.n_stages, 'stage')} of subgraphs, {report.operator_stages} of operators; the widest has "
        f"{count_noun(len(report.widest_subgraphs), 'subgraph')}, or {count_noun(report.widest_operators, 'operator')}",
        f"the critical path has {count_noun(path.operators, 'operator')}, {percent(path.flops_fraction)} of the "
        f"FLOPs and {percent(path.time_fraction)} of the {quantity(report.total_s, 's')}",
        f"it goes through {chain(path.subgraphs, 6)}",
    )


VERB = Report(
    subject=DEVICE,
    document=document_of_estimate(concurrency),
    title="Concurrency",
    parts=(
        summary_text(_summary),
        Rows("parallelism", "Parallelism", columns(Parallelism)),
        Rows("checks", "Checks", columns(ConcurrencyCheck)),
        Rows("stages", "Stages", STAGES),
        Rows(
            "units", lambda report: f"Hardware units ({report.unit_name}s) per subgraph", UNITS, kind="type",
            brief={"digest": Digest("best", "subgraph")},
        ),
    ),
    brief_parts=("summary", "parallelism", "checks", "units"),
    section=Section(60, "What could run at once"),
    examples={"concurrency": "conv2d --on h100_sxm"},
)  # fmt: skip
