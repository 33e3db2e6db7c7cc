"""Show what limits each kernel, arithmetic, memory or launch, and what would change that."""

from __future__ import annotations

from analysis.document import columns
from analysis.reports.roofline_report import KernelRoof, RooflineReport, describe_launch_dominated, roofline
from hardware.precision import rate_unit
from hardware.quantity import plain_number, quantity
from hardware.sentence import count_noun
from hwexplorer import engine
from hwexplorer.declare import NODE, Report, Rows, Section, summary_text
from hwexplorer.state import State
from hwexplorer.views.digest import Digest
from hwexplorer.views.measured_times import measured_times


def _document(state: State) -> RooflineReport:
    result = engine.result(state)
    times = measured_times(state, result)
    return roofline(result, state.at, times.seconds if times else None)


def _summary(report: RooflineReport, state: State) -> tuple[str, ...]:
    bounds = ", ".join(f"{name} {count}" for name, count in report.bound_counts.items() if count)
    unit, _, form = report.peak.partition(".")
    peak = quantity(report.peaks[report.peak], rate_unit(form))
    intensity = report.average_intensity
    average = (
        f"average intensity {plain_number(intensity)} FLOP per byte of memory"
        if intensity
        else "no bytes leave the chip"
    )
    return (
        describe_launch_dominated(report.launch_dominated, sum(report.bound_counts.values())),
        f"kernels by what limits them, {quantity(report.latency_s, 's')} together: {bounds}",
        f"{average}; the ridge is at {report.ridge:.3g} FLOP/byte: {peak} ({unit} unit, {form}) over "
        f"{quantity(report.memory_bandwidth, 'byte/s')} of memory",
        f"without overhead, memory would limit {count_noun(report.left, 'kernel')} (below the ridge) and arithmetic "
        f"{report.right}",
    )


_MEASURED = ("measured", "ratio", "measured_rate")
_BRIEF = "kernel bound latency measured ratio measured_rate compute memory overhead intensity"

VERB = Report(
    subject=NODE,
    document=_document,
    title="Roofline",
    parts=(
        summary_text(_summary),
        Rows(
            "kernels",
            "Kernels",
            columns(KernelRoof, f"{_BRIEF} ridge side achieved attainable efficiency flops dram flips"),
            kind="type",
            without=lambda report: () if any(row.measured_s is not None for row in report.kernels) else _MEASURED,
            rate_format=lambda report: report.peak.partition(".")[2],
            children=lambda kernel: kernel.parts if kernel.operators > 1 else (),
            brief={"columns": columns(KernelRoof, _BRIEF), "digest": Digest("latency", "kernel")},
        ),
    ),
    section=Section(20, "What bounds each kernel"),
    examples={"roofline": "conv2d --on h100_sxm"},
)
