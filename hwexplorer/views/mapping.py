"""How the device under the cursor runs a model: utilisation, bounds, units, and every kernel's grid."""

from __future__ import annotations

from analysis.reports.mapping_report import KernelRow, MappingReport, mapping_report
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views import pieces
from hwexplorer.views.compare import FLAGS
from hwexplorer.views.plain import Column, Report, Row, Table, Text

BOUNDS = (
    Column("bound", "Bound", role="text", keep=0),
    Column("count", "Kernels", "count", keep=0),
    Column("fraction", "%", "%", keep=0),
    Column("time", "Time", "s", keep=0),
    Column("time_fraction", "of time", "%", keep=0),
)
COLUMNS = (
    Column("kernel", "Kernel", role="text", keep=0),
    Column("bound", "B", role="flag", keep=0, help="C compute, M memory, L launch, P power bound"),
    Column("latency", "Latency", "s", keep=0),
    Column("utilization", "Util", "%", keep=0, help="of the peak of the format that runs"),
    Column("rate", "Rate", "FLOP/s", keep=1, help="effective"),
    Column("bandwidth", "DRAM", "byte/s", keep=4, help="effective"),
    Column("runs_on", "Runs on", role="text", keep=3),
    Column("blocks", "Blocks", "count", keep=2, help="pieces of work dealt to units"),
    Column("tile", "Tile", role="text", keep=3),
    Column("split", "Split K", "count", keep=5),
    Column("waves", "Waves", "count", keep=2),
    Column("units", "Units", "count", keep=1),
    Column("units_fraction", "Active", "%", keep=1),
    Column("occupancy", "Occ", "%", keep=2, help="resident warps over the maximum"),
    Column("sentence", "What it does", role="text", keep=6),
)


def document(state: State) -> MappingReport:
    return mapping_report(engine.result(state), state.at)


def view(state: State) -> Report:
    found = document(state)
    kept = [c for c, column in enumerate(COLUMNS) if column.key != "occupancy" or found.occupancy is not None]
    rows = tuple(Row(row.id, tuple(_cells(row)[c] for c in kept), kind=row.type) for row in found.rows)
    parts = (
        _summary(found),
        pieces.distribution(
            "utilization", "Utilisation of kernels", "Utilisation", "time", {"Kernels": found.utilization}
        ),
        Table("bounds", "What bounds kernels", BOUNDS, tuple(
            Row(b.bound, (b.bound, b.count, b.fraction, b.time_s, b.time_fraction)) for b in found.bounds
        )),
        Table("kernels", "Kernels", tuple(COLUMNS[c] for c in kept), rows),
    )  # fmt: skip
    name = state.at or engine.workload(state).name
    return Report("mapping", f"Mapping of {name} on {engine.device(state.on).name}, batch {state.batch}", parts)


def _summary(found: MappingReport) -> Text:
    lines = [
        f"{found.kernels} kernels in {quantity(found.latency_s, 's')}",
        f"utilisation {found.average_utilization:.1%} weighed by time, {found.mean_utilization:.1%} counting kernels "
        "alike",
        f"{found.units_active:.1f} of {found.units_total:.0f} {found.unit_name}s active on average "
        f"({found.units_active_fraction:.0%})",
    ]
    if found.occupancy is not None:
        lines.append(f"occupancy {found.occupancy:.0%}: resident warps over the most an SM holds, by time")
    return pieces.facts("summary", "Summary", lines)


def _cells(row: KernelRow) -> tuple[str | float | None, ...]:
    tile = f"{row.tile_m:.0f} x {row.tile_n:.0f}" if row.tile_m else ""
    return (
        row.id, FLAGS[row.bound], row.latency_s, row.utilization, row.effective_flop_per_s, row.effective_byte_per_s,
        f"{row.runs_on} {row.format}", row.blocks, tile, row.split, row.waves, row.units, row.units_fraction,
        row.occupancy, row.sentence,
    )  # fmt: skip
