"""Where the energy goes: components, power, idle losses, top consumers."""

from __future__ import annotations

from analysis.document import Column, columns
from analysis.reports.energy_report import Consumer, EnergyPart, EnergyReport, energy_report
from hardware.quantity import quantity
from hwexplorer.declare import NODE, Report, Rows, Section, document_of_estimate, facts
from hwexplorer.options import TOP
from hwexplorer.state import State
from hwexplorer.views.captions import node_title

PARTS = (
    Column("name", "Part", role="text", keep=0, of=lambda part: part.name.replace("_", " ")),
    *columns(EnergyPart, "bar fraction energy per_inference"),
)
CONSUMERS = columns(Consumer, "name kind bar fraction cumulative energy compute memory static latency")


def _summary(report: EnergyReport, state: State) -> tuple[str, ...]:
    return (
        f"{quantity(report.energy_j, 'J')} in {quantity(report.latency_s, 's')}; "
        f"{quantity(report.energy_j_per_inference, 'J')} per inference",
        f"power {quantity(report.average_power_w, 'W')} on average, {quantity(report.peak_power_w, 'W')} at most "
        f"({report.peak_power_kernel}); limit {quantity(report.power_limit_w, 'W')}, TDP {quantity(report.tdp_w, 'W')}"
        f", static {quantity(report.static_power_w, 'W')}",
        f"efficiency {report.efficiency:.0%}: {quantity(report.dynamic_j, 'J')} of it dynamic",
        f"lost to idle resources: {quantity(report.idle_loss_j, 'J')} ({report.idle_loss_fraction:.0%}) = static x "
        f"(1 - utilisation {report.utilization:.1%})",
    )


VERB = Report(
    subject=NODE,
    options=(TOP,),
    document=document_of_estimate(energy_report),
    title=lambda document, state: node_title("Energy", state),
    parts=(
        facts(_summary),
        Rows("components", "By component", PARTS, key="name"),
        Rows("categories", "By category of events", PARTS, key="name"),
        Rows("operators", "Operators that use most", CONSUMERS, of="top_operators", kind="type"),
        Rows("subgraphs", "Subgraphs that use most", CONSUMERS, of="top_subgraphs", kind="type"),
    ),
    section=Section(30, "Where the energy goes"),
    examples={"energy": "conv2d --on h100_sxm"},
)
