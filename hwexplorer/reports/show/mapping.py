"""How a device runs a model: utilisation, bounds, and each kernel's grid."""

from __future__ import annotations

from analysis.document import Column, columns
from analysis.reports.mapping_report import Bound, KernelRow, MappingReport, mapping_report
from hardware.quantity import quantity
from hardware.sentence import count_noun
from hwexplorer.declare import NODE, Report, Rows, Section, document_of_estimate, facts
from hwexplorer.reports._buckets import distribution
from hwexplorer.state import State
from hwexplorer.views.captions import node_title


def _tile(kernel: KernelRow) -> str:
    return f"{kernel.tile_m:.0f} x {kernel.tile_n:.0f}" if kernel.tile_m else ""


KERNELS = (
    *columns(KernelRow, "kernel bound latency utilization rate bandwidth"),
    Column("runs_on", "Runs on", role="text", keep=3, of=lambda kernel: f"{kernel.runs_on} {kernel.format}"),
    *columns(KernelRow, "blocks"),
    Column("tile", "Tile", role="text", keep=3, of=_tile),
    *columns(KernelRow, "split waves units units_fraction occupancy sentence"),
)


def _summary(report: MappingReport, state: State) -> list[str]:
    lines = [
        f"{count_noun(report.kernels, 'kernel')} in {quantity(report.latency_s, 's')}",
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
    document=document_of_estimate(mapping_report),
    title=lambda document, state: node_title("Mapping", state),
    parts=(
        facts(_summary),
        distribution("utilization", "Utilisation of kernels", "Utilisation", "time", {"Kernels": ""}),
        Rows("bounds", "What bounds kernels", columns(Bound)),
        Rows(
            "kernels",
            "Kernels",
            KERNELS,
            of="rows",
            kind="type",
            without=lambda document: () if document.occupancy is not None else ("occupancy",),
        ),
    ),
    section=Section(10, "How the device runs it"),
    examples={"mapping": "conv2d --on h100_sxm"},
)
