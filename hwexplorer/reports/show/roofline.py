"""Every kernel under its roofs: what bounds it, what would flip it."""

from __future__ import annotations

from analysis.document import columns
from analysis.reports.roofline_report import KernelRoof, RooflineReport, roofline
from hardware.quantity import quantity
from hardware.sentence import count_noun
from hwexplorer import engine
from hwexplorer.declare import NODE, Report, Rows, Section, facts
from hwexplorer.state import State
from hwexplorer.views.captions import node_title
from hwexplorer.views.measured_times import measured_times


def _document(state: State) -> RooflineReport:
    result = engine.result(state)
    times = measured_times(state, result)
    return roofline(result, state.at, times.seconds if times else None)


def _unmeasured_columns(report: RooflineReport) -> tuple[str, ...]:
    seen = any(kernel.measured_s is not None for kernel in report.kernels)
    return () if seen else ("measured", "ratio", "measured_rate")


def _summary(report: RooflineReport, state: State) -> tuple[str, ...]:
    bounds = ", ".join(f"{count} {name}" for name, count in report.bound_counts.items() if count)
    return (
        f"{report.peak.replace('.', ' ')} peak {quantity(report.peaks[report.peak], 'FLOP/s')}, memory "
        f"{quantity(report.memory_bandwidth, 'byte/s')}: ridge at {report.ridge:.0f} FLOP/byte",
        f"{count_noun(len(report.kernels), 'kernel')} in {quantity(report.latency_s, 's')}: {bounds} bound",
        f"{report.left} left of their ridge (memory would bound a perfect kernel), {report.right} right of it",
    )


VERB = Report(
    subject=NODE,
    document=_document,
    title=lambda document, state: node_title("Roofline", state),
    parts=(
        facts(_summary),
        Rows(
            "kernels",
            "Kernels",
            columns(
                KernelRoof,
                "kernel bound latency measured ratio measured_rate compute memory overhead intensity ridge side "
                "achieved attainable efficiency flops dram flips",
            ),
            kind="type",
            without=_unmeasured_columns,
            children=lambda kernel: kernel.parts if kernel.operators > 1 else (),
        ),
    ),
    section=Section(20, "What bounds each kernel"),
    examples={"roofline": "conv2d --on h100_sxm"},
)
