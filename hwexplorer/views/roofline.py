"""Every kernel under its roofs: compute, memory and overhead, what bounds it and what would flip it."""

from __future__ import annotations

from analysis.reports.roofline import KernelRoof, OperatorRoof, RooflineReport, roofline
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views import pieces
from hwexplorer.views.compare import FLAGS
from hwexplorer.views.plain import Cell, Column, Report, Row, Table, Text

COLUMNS = (
    Column("kernel", "Kernel", role="text", keep=0),
    Column("bound", "B", role="flag", keep=0, help="C compute, M memory, L launch, P power bound"),
    Column("latency", "Latency", "s", keep=0),
    Column("compute", "Compute", "s", keep=0),
    Column("memory", "Memory", "s", keep=0),
    Column("overhead", "Overhead", "s", keep=1),
    Column("intensity", "Intensity", "FLOP/byte", keep=1, help="per byte of memory traffic; empty: all on chip"),
    Column("ridge", "Ridge", "FLOP/byte", keep=2),
    Column("side", "Side", role="text", keep=3),
    Column("achieved", "Achieved", "FLOP/s", keep=2),
    Column("attainable", "Attainable", "FLOP/s", keep=2),
    Column("efficiency", "of it", "%", keep=2),
    Column("flops", "FLOP", "FLOP", keep=4),
    Column("dram", "DRAM", "byte", keep=4),
    Column("flips", "What would flip it", role="text", keep=5),
)


def document(state: State) -> RooflineReport:
    return roofline(engine.result(state), state.at)


def view(state: State) -> Report:
    found = document(state)
    rows: list[Row] = []
    for kernel in found.kernels:
        rows.append(Row(kernel.id, _kernel(kernel), 0, kernel.operators > 1, kernel.type))
        if kernel.operators > 1:
            rows += [Row(part.id, _part(part), 1, False, part.type) for part in kernel.parts]
    name = state.at or engine.workload(state).name
    return Report(
        "roofline",
        f"Roofline of {name} on {engine.device(state.on).name}, batch {state.batch}",
        (_summary(found), Table("kernels", "Kernels", COLUMNS, tuple(rows))),
    )


def _summary(found: RooflineReport) -> Text:
    bounds = ", ".join(f"{count} {name}" for name, count in found.bound_counts.items() if count)
    peak = found.peaks[found.peak]
    return pieces.facts(
        "summary",
        "Summary",
        (
            f"{found.peak.replace('.', ' ')} peak {quantity(peak, 'FLOP/s')}, memory "
            f"{quantity(found.memory_bandwidth, 'byte/s')}: ridge at {found.ridge:.0f} FLOP/byte",
            f"{len(found.kernels)} kernels in {quantity(found.latency_s, 's')}: {bounds} bound",
            f"{found.left} left of their ridge (memory would bound a perfect kernel), {found.right} right of it",
        ),
    )


def _kernel(row: KernelRoof) -> tuple[Cell, ...]:
    return (
        row.id, FLAGS[row.bound], row.latency_s, row.compute_s, row.memory_s, row.overhead_s, row.intensity, row.ridge,
        row.side, row.achieved_flop_per_s, row.attainable_flop_per_s, row.efficiency, row.flops, row.dram_bytes,
        row.flips,
    )  # fmt: skip


def _part(row: OperatorRoof) -> tuple[Cell, ...]:
    return (
        row.id, FLAGS[row.bound], row.latency_s, row.compute_s, row.memory_s, row.overhead_s, row.intensity, None, "",
        None, None, None, row.flops, row.dram_bytes, "",
    )  # fmt: skip
