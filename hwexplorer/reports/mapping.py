"""How a device runs a model: utilisation, bounds, and each kernel's grid."""

from __future__ import annotations

from analysis.document import BOUND_HELP, BOUND_LETTERS, Column
from analysis.reports.mapping_report import KernelRow, MappingReport, mapping_report
from hardware.quantity import quantity
from hardware.sentence import counted
from hwexplorer.declare import NODE, Report, Rows, Section, facts, of_run
from hwexplorer.reports._buckets import distribution
from hwexplorer.state import State
from hwexplorer.views.words import of_node

BOUNDS = (
    Column("bound", "Bound", role="text", keep=0),
    Column("count", "Kernels", "count", keep=0),
    Column("fraction", "%", "%", keep=0),
    Column("time", "Time", "s", keep=0),
    Column("time_fraction", "of time", "%", keep=0),
)


def _tile(kernel: KernelRow) -> str:
    return f"{kernel.tile_m:.0f} x {kernel.tile_n:.0f}" if kernel.tile_m else ""


KERNELS = (
    Column("kernel", "Kernel", role="text", keep=0, of="id"),
    Column("bound", "B", role="flag", keep=0, shown=BOUND_LETTERS, help=BOUND_HELP),
    Column("latency", "Latency", "s", keep=0),
    Column("utilization", "Util", "%", keep=0, help="of the peak of the format that runs"),
    Column("rate", "Rate", "FLOP/s", keep=1, of="effective_flop_per_s", help="effective"),
    Column("bandwidth", "DRAM", "byte/s", keep=4, of="effective_byte_per_s", help="effective"),
    Column("runs_on", "Runs on", role="text", keep=3, of=lambda kernel: f"{kernel.runs_on} {kernel.format}"),
    Column("blocks", "Blocks", "count", keep=2, help="pieces of work dealt to units"),
    Column("tile", "Tile", role="text", keep=3, of=_tile),
    Column("split", "Split K", "count", keep=5),
    Column("waves", "Waves", "count", keep=2),
    Column("units", "Units", "count", keep=1),
    Column("units_fraction", "Active", "%", keep=1),
    Column("occupancy", "Occ", "%", keep=2, help="resident warps over the maximum"),
    Column("sentence", "What it does", role="text", keep=6),
)


def _summary(report: MappingReport, state: State) -> list[str]:
    lines = [
        f"{counted(report.kernels, 'kernel')} in {quantity(report.latency_s, 's')}",
        f"utilisation {report.average_utilization:.1%} weighed by time, {report.mean_utilization:.1%} counting kernels "
        "alike",
        f"{round(report.units_active, 1):,g} of {report.units_total:,.0f} {report.unit_name}s active on average "
        f"({report.units_active_fraction:.0%})",
    ]
    if report.occupancy is not None:
        lines.append(f"occupancy {report.occupancy:.0%}: resident warps over the most an SM holds, by time")
    return lines


VERB = Report(
    subject=NODE,
    document=of_run(mapping_report),
    title=lambda document, state: of_node("Mapping", state),
    parts=(
        facts(_summary),
        distribution("utilization", "Utilisation of kernels", "Utilisation", "time", {"Kernels": ""}),
        Rows(name="bounds", title="What bounds kernels", columns=BOUNDS),
        Rows(
            name="kernels",
            title="Kernels",
            columns=KERNELS,
            of="rows",
            kind="type",
            without=lambda document: () if document.occupancy is not None else ("occupancy",),
        ),
    ),
    section=Section(10, "How the device runs it"),
    examples={"mapping": "conv2d --on h100_sxm"},
)
