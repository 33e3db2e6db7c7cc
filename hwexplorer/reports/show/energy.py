"""Show where the energy goes: components, power, idle losses, largest consumers."""

from __future__ import annotations

import msgspec

from analysis.document import Column, columns
from analysis.estimate.outline import HOST
from analysis.reports.energy_report import Consumer, EnergyPart, EnergyReport, energy_report
from hardware.quantity import percent, quantity
from hwexplorer import engine
from hwexplorer.declare import NODE, Report, Rows, Section, document_of_estimate, summary_text
from hwexplorer.options import TOP
from hwexplorer.state import State
from hwexplorer.views.captions import category_words, energy_words
from hwexplorer.views.digest import Digest
from hwexplorer.views.plain import Table

# The component `compute` is more than the cause of that name: it includes control and waiting units.
_WORDS = {"compute": "logic", "memory": "data movement", "static": "static power"}
PARTS = (
    Column("name", "Part", role="text", keep=0, of=lambda part: category_words(part.name)),
    *columns(EnergyPart, "bar fraction energy per_inference"),
)
COMPONENTS = (msgspec.structs.replace(PARTS[0], of=lambda part: _WORDS[part.name]), *PARTS[1:])
CONSUMERS = columns(
    Consumer,
    "name kind bar fraction cumulative per_inference compute_per_inference memory_per_inference static_per_inference "
    "latency energy compute memory static",
)


def _short_name(row: Consumer) -> str:
    """Return the subgraph, with the operator if it has another name: `layer1.0.conv1/relu`."""
    if row.id == HOST:
        return "host"
    subgraph, _, operator = row.id.rpartition("/")
    name = operator.rpartition(".")[2]
    return subgraph if subgraph.endswith(name) else f"{subgraph}/{name}".lstrip("/")


_ALIKE = columns(
    Consumer,
    "name per_inference compute_per_inference memory_per_inference static_per_inference latency",
    name={"of": _short_name},
)


def _alike(report: EnergyReport, state: State) -> Table:
    """Return the operators that use most energy, with alike operators merged."""
    digest = Digest("per_inference", "operator", "%")
    part = Rows("alike", "Operators that use most", _ALIKE, of="top_operators", kind="type", digest=digest)
    result = engine.result(state)
    return part(energy_report(result, state.at, result.demand.n + 1), state)


def _summary(report: EnergyReport, state: State) -> tuple[str, ...]:
    watts = {name: quantity(getattr(report, f"{name}_w"), "W") for name in _POWERS}
    return (
        f"{energy_words(report.energy_j, report.batch)} in {quantity(report.latency_s, 's')}",
        f"average power {watts['average_power']}; highest {watts['peak_power']}, in {report.peak_power_kernel}; "
        f"limit {watts['power_limit']}, TDP {watts['tdp']}",
        f"static power of {watts['static_power']} takes {percent(1 - report.efficiency)} of the energy, "
        f"{percent(report.idle_loss_fraction)} in idle units (utilisation {percent(report.utilization, 1)})",
    )


_POWERS = ("average_power", "peak_power", "power_limit", "tdp", "static_power")
_PER_INFERENCE = {"without": lambda report: ("energy", "compute", "memory", "static")}  # columns per batch

VERB = Report(
    subject=NODE,
    options=(TOP,),
    document=document_of_estimate(energy_report),
    title="Energy",
    parts=(
        summary_text(_summary),
        Rows("components", "By component", COMPONENTS, key="name", brief=_PER_INFERENCE),
        Rows("categories", "By category of events", PARTS, key="name"),
        Rows("operators", "Operators that use most", CONSUMERS, of="top_operators", kind="type"),
        _alike,
        Rows("subgraphs", "Subgraphs that use most", CONSUMERS, of="top_subgraphs", kind="type"),
    ),
    brief_parts=("summary", "components", "alike"),
    section=Section(30, "Where the energy goes"),
    examples={"energy": "conv2d --on h100_sxm"},
)
