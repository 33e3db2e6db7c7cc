"""Show how a device runs a model: utilisation, limits, and the grid of each kernel."""

from __future__ import annotations

import re

import msgspec

from analysis.document import Column, columns
from analysis.reports.kernel_rows import describe_host_work
from analysis.reports.mapping_report import Bound, KernelRow, MappingReport, mapping_report
from analysis.reports.run_timeline import run_timeline
from hardware.quantity import percent, quantity
from hardware.sentence import count_noun
from hwexplorer import engine
from hwexplorer.declare import NODE, Report, Rows, Section, document_of_estimate, summary_text
from hwexplorer.reports._buckets import distribution
from hwexplorer.state import State
from hwexplorer.views.digest import Digest

_RUNS_ON = Column("runs_on", "Runs on", role="text", keep=3, of=lambda kernel: f"{kernel.runs_on} {kernel.format}")
_END_OF_WORK = re.compile(r" on | as a |, |: | streamed | behind ")  # follows the work, in every sentence
KERNELS = (
    *columns(KernelRow, "kernel bound latency utilization rate bandwidth"),
    _RUNS_ON,
    *columns(KernelRow, "blocks"),
    Column(
        "tile", "Tile", role="text", keep=3,
        of=lambda kernel: f"{kernel.tile_m:.0f} x {kernel.tile_n:.0f}" if kernel.tile_m else "",
    ),
    *columns(
        KernelRow,
        "split waves units units_fraction occupancy sentence vectorizable_dim vector_width recommended_mapping",
    ),
)  # fmt: skip


def _summary(report: MappingReport, state: State) -> list[str]:
    bounds = ", ".join(f"{b.bound} {b.count} ({percent(b.time_fraction)})" for b in report.bounds if b.count)
    lines = [
        f"{count_noun(report.kernels, 'kernel')} in {quantity(report.latency_s, 's')}; by what limits them, with their "
        f"share of the time: {bounds}",
        f"{percent(report.average_utilization, 1)} of the peak is used on average over time; the mean of the kernels "
        f"is {percent(report.mean_utilization, 1)}",
        f"{round(report.units_active, 1):,g} of {report.units_total:,.0f} {report.unit_name}s active on average "
        f"({percent(report.units_active_fraction)})",
    ]
    if report.occupancy is not None:
        lines.append(f"occupancy {percent(report.occupancy)}: an SM holds that share of the warps it could")
    return [*lines, *describe_host_work(engine.result(state))]


_BRIEF = (
    *columns(KernelRow, "kernel bound latency utilization"),
    _RUNS_ON,
    Column("work", "Work", role="text", keep=1, of=lambda kernel: _END_OF_WORK.split(kernel.sentence)[0]),
    *columns(KernelRow, "occupancy units_fraction", occupancy=4, units_fraction=4),
)


def _timeline(report: MappingReport, state: State) -> str:
    """Return the whole run in the trace event format."""
    return msgspec.json.encode(run_timeline(engine.result(state))).decode() + "\n"


VERB = Report(
    subject=NODE,
    document=document_of_estimate(mapping_report),
    title="Mapping",
    parts=(
        summary_text(_summary),
        distribution("utilization", "Utilisation of kernels", "Utilisation", "time", {"Kernels": ""}),
        Rows("bounds", "What bounds kernels", columns(Bound)),
        Rows(
            "kernels", "Kernels", KERNELS, of="rows", kind="type",
            without=lambda report: () if report.occupancy is not None else ("occupancy",),
            rate_format=lambda report: max(report.rows, key=lambda row: row.flops).format if report.rows else "",
            brief={"title": "Kernels that take most time", "columns": _BRIEF, "digest": Digest("latency", "kernel")},
        ),
    ),
    brief_parts=("summary", "kernels"),
    section=Section(10, "How the device runs it"),
    exports={"perfetto": _timeline},
    examples={"mapping": "conv2d --on h100_sxm"},
)  # fmt: skip
