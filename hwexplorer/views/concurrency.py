"""What of a model can happen at once, and how many hardware units each subgraph can use."""

from __future__ import annotations

from analysis.reports.concurrency import ConcurrencyReport, Split, concurrency
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views import pieces
from hwexplorer.views.plain import Column, Report, Row, Table, Text

PARALLELISM = (
    Column("level", "Parallelism", role="text", keep=0),
    Column("most", "At most", "SI", role="quantity", keep=0),
    Column("mean", "Typical", "SI", role="quantity", keep=1),
    Column("speedup", "Speed-up", "x", keep=0, help="by itself"),
    Column("meaning", "Of what", role="text", keep=2),
)
STAGES = (
    Column("stage", "Stage", "count", keep=0),
    Column("count", "Subgraphs", "count", keep=0),
    Column("flops", "FLOP", "FLOP", keep=1),
    Column("time", "At once", "s", keep=0, help="the slowest of them"),
    Column("serial", "In turn", "s", keep=1, help="one after another"),
    Column("subgraphs", "Which", role="text", keep=2),
)
UNITS = (
    Column("subgraph", "Subgraph", role="text", keep=0),
    Column("threads", "Threads", "SI", role="quantity", keep=2),
    Column("minimum", "Minimum", "count", keep=0, help="units for half of the best speed"),
    Column("optimal", "Optimal", "count", keep=0, help="units within 5 % of the best time"),
    Column("total", "Of", "count", keep=1),
    Column("best", "Best", "s", keep=1),
    Column("time", "At optimal", "s", keep=2),
    Column("splits", "Can be divided along (parts; repeated or exchanged for each more)", role="text", keep=3),
)


def document(state: State) -> ConcurrencyReport:
    return concurrency(engine.result(state))


def view(state: State) -> Report:
    found = document(state)
    parts = (
        _summary(found),
        Table(
            "parallelism",
            "Parallelism",
            PARALLELISM,
            tuple(Row(p.level, (p.level, p.most, p.mean, p.speedup, p.meaning)) for p in found.parallelism),
        ),
        pieces.checks(found.checks),
        _stages(found),
        _units(found),
    )
    name = engine.workload(state).name
    return Report("concurrency", f"Concurrency of {name} on {engine.device(state.on).name}, batch {state.batch}", parts)


def _summary(found: ConcurrencyReport) -> Text:
    path = found.critical_path
    lines = (
        f"{found.n_stages} stages of subgraphs, {found.operator_stages} of operators; widest: "
        f"stage {found.widest_stage} with {len(found.widest_subgraphs)} subgraphs; {found.widest_operators} operators "
        "at once",
        f"critical path: {path.operators} operators; {quantity(path.flops, 'FLOP')} ({path.flops_fraction:.0%}); "
        f"{quantity(path.time_s, 's')} ({path.time_fraction:.0%} of {quantity(found.total_s, 's')})",
        f"through {pieces.chain(path.subgraphs)}",
        f"theoretical speed-up of running branches at once: {found.theoretical_speedup:.2f}x",
    )
    return pieces.facts("summary", "Summary", lines)


def _stages(found: ConcurrencyReport) -> Table:
    rows = tuple(
        Row(
            str(s.stage),
            (s.stage, len(s.subgraphs), s.flops, s.time_s, s.serial_s, pieces.listed(s.subgraphs)),
        )
        for s in found.stages
    )
    return Table("stages", "Stages", STAGES, rows)


def _units(found: ConcurrencyReport) -> Table:
    rows = tuple(
        Row(
            u.id,
            (u.id, u.threads, u.minimum, u.optimal, u.units_total, u.best_s, u.optimal_s,
             "; ".join(map(_split, u.splits))),
            kind=u.type,
        )
        for u in found.units
    )  # fmt: skip
    return Table("units", f"Hardware units ({found.unit_name}s) per subgraph", UNITS, rows)


def _split(split: Split) -> str:
    cost = ""
    if split.repeated_bytes:
        cost = f", {quantity(split.repeated_bytes, 'byte')} repeated"
    elif split.exchanged_bytes:
        cost = f", {quantity(split.exchanged_bytes, 'byte')} exchanged"
    return f"{split.dimension} {split.ways:,}{cost}"
