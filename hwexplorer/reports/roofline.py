"""Every kernel under its roofs: what bounds it, what would flip it."""

from __future__ import annotations

from analysis.document import BOUND_HELP, BOUND_LETTERS, Column
from analysis.reports.roofline import RooflineReport, roofline
from hardware.quantity import quantity
from hardware.sentence import counted
from hwexplorer import engine
from hwexplorer.declare import NODE, Report, Rows, Section, facts
from hwexplorer.state import State
from hwexplorer.views import traced
from hwexplorer.views.words import of_node

KERNELS = (
    Column("kernel", "Kernel", role="text", keep=0, of="id"),
    Column("bound", "B", role="flag", keep=0, shown=BOUND_LETTERS, help=BOUND_HELP),
    Column("latency", "Latency", "s", keep=0),
    Column("measured", "Measured", "s", keep=0, help="of the trace that the state names"),
    Column("ratio", "Ratio", "x", keep=0, help="measured over predicted"),
    Column("measured_rate", "Reached", "FLOP/s", keep=2, of="measured_flop_per_s", help="as measured"),
    Column("compute", "Compute", "s", keep=0),
    Column("memory", "Memory", "s", keep=0, help="time at the slowest memory"),
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


def _document(state: State) -> RooflineReport:
    result = engine.result(state)
    return roofline(result, state.at, traced.seconds(state, result))


def _without(report: RooflineReport) -> tuple[str, ...]:
    seen = any(kernel.measured_s is not None for kernel in report.kernels)
    return () if seen else ("measured", "ratio", "measured_rate")


def _summary(report: RooflineReport, state: State) -> tuple[str, ...]:
    bounds = ", ".join(f"{count} {name}" for name, count in report.bound_counts.items() if count)
    return (
        f"{report.peak.replace('.', ' ')} peak {quantity(report.peaks[report.peak], 'FLOP/s')}, memory "
        f"{quantity(report.memory_bandwidth, 'byte/s')}: ridge at {report.ridge:.0f} FLOP/byte",
        f"{counted(len(report.kernels), 'kernel')} in {quantity(report.latency_s, 's')}: {bounds} bound",
        f"{report.left} left of their ridge (memory would bound a perfect kernel), {report.right} right of it",
    )


VERB = Report(
    subject=NODE,
    document=_document,
    title=lambda document, state: of_node("Roofline", state),
    parts=(
        facts(_summary),
        Rows(
            name="kernels",
            title="Kernels",
            columns=KERNELS,
            kind="type",
            without=_without,
            children=lambda kernel: kernel.parts if kernel.operators > 1 else (),
        ),
    ),
    section=Section(20, "What bounds each kernel"),
    examples={"roofline": "conv2d --on h100_sxm"},
)
