"""Divide the energy-delay product: components, largest parts, what fusion saves."""

from __future__ import annotations

from analysis.document import columns
from analysis.reports.edp_report import (
    Component,
    Concentration,
    EdpNode,
    EdpReport,
    ExecutionEdp,
    SideBySide,
    edp_report,
)
from hardware.quantity import percent, quantity
from hwexplorer.declare import DEVICE, Report, Rows, Section, document_of_estimate, summary_text
from hwexplorer.options import TOP
from hwexplorer.state import State

NODES = columns(
    EdpNode,
    "name kind share cumulative edp compute memory static base modifier fused benefit energy_per_inference latency",
)


def _summary(report: EdpReport, state: State) -> tuple[str, ...]:
    first, saved, apart = report.concentration[0], report.saved, report.executions[0]
    kept = "saves" if saved.edp_js >= 0 else "adds"
    return (
        f"EDP {quantity(report.edp_js, 'Js')} = {quantity(report.energy_j_per_inference, 'J')} per inference x "
        f"{quantity(report.latency_s, 's')}",
        f"{first.subgraphs} of {report.n_subgraphs} subgraphs make half of it",
        f"fusion {kept} {quantity(abs(saved.edp_js), 'Js')} of the {quantity(apart.edp_js, 'Js')} that the same "
        f"software takes without it: {saved.round_trips} round trips, "
        f"{quantity(saved.activation_bytes, 'byte')} of activations, {quantity(saved.dram_bytes, 'byte')} of it "
        f"DRAM; {quantity(saved.energy_j_per_inference, 'J')} per inference "
        f"({quantity(saved.memory_j_per_inference, 'J')} of memory), {quantity(saved.latency_s, 's')}",
    )


VERB = Report(
    subject=DEVICE,
    options=(TOP,),
    document=document_of_estimate(edp_report),
    title="Energy-delay product",
    parts=(
        summary_text(_summary),
        Rows(
            "components",
            "By component",
            columns(Component, "name bar share edp energy_per_inference time energy_delay"),
            footer=("time: busy time of kernels by what bounds them; launch and waiting count as static",),
        ),
        Rows("concentration", "How few make how much", columns(Concentration), key=lambda row: percent(row.fraction)),
        Rows(
            "operators",
            lambda document: f"Top {len(document.top_operators)} operators",
            NODES,
            of="top_operators",
            kind="type",
        ),
        Rows(
            "subgraphs",
            lambda document: f"Top {len(document.top_subgraphs)} subgraphs",
            NODES,
            of="top_subgraphs",
            kind="type",
            brief={"footer": ("More: --all (how few make how much, operators, fusion off and on)",)},
        ),
        Rows("executions", "The same software with fusion off and on", columns(ExecutionEdp)),
        Rows("side_by_side", "Each subgraph with fusion off and on", columns(SideBySide), kind="type"),
    ),
    brief_parts=("summary", "components", "subgraphs"),
    main="subgraphs",
    section=Section(40, "Where the energy-delay product goes"),
    examples={"edp": "conv2d --on h100_sxm"},
)
