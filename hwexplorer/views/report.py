"""Everything about one model on one device: the other views in one, with the checks that hold them together."""

from __future__ import annotations

from typing import Any

import msgspec

from analysis.decide.claims import Claim, claims
from analysis.decide.compare import insights, next_steps
from analysis.reports.checks import checks
from analysis.run.figures import about
from analysis.run.reason import model_reason
from hardware.quantity import quantity
from hwexplorer import documents, engine
from hwexplorer.schema import stamped
from hwexplorer.state import State, replace
from hwexplorer.views import advise, cost, events, plot, plots, reports, tree
from hwexplorer.views.compare import band, title
from hwexplorer.views.plain import Column, Plot, Report, Row, Table, Text, View

# The reports in the order they are read, and what each answers.
SECTIONS = {
    "partition": "What the model is made of",
    "mapping": "How the device runs it",
    "roofline": "What bounds each kernel",
    "energy": "Where the energy goes",
    "edp": "Where the energy-delay product goes",
    "memory": "What is held in memory",
    "concurrency": "What could run at once",
}
CHECKS = (
    Column("verdict", "", role="text", keep=0),
    Column("check", "Check", role="text", keep=0),
    Column("says", "", role="text", keep=0),
)


def view(state: State) -> Report:
    """All parts; CSV carries the tree. `plain` drops the plots for formats that cannot draw."""
    result = engine.result(state)
    tree_view = msgspec.structs.replace(
        tree.tree(replace(state, sort="graph", pin="")), title="Subgraphs and operators"
    )
    parts: list[View] = [_summary(state), _checks(state), plot.roofline(state), tree_view]
    main = len(parts) - 1
    for name, heading in SECTIONS.items():
        parts.append(Text(name, heading, ()))
        parts.extend(reports.build(name, state).parts)
    parts.append(_claims(state))
    parts.append(plots.memory(state))
    parts.append(msgspec.structs.replace(events.events(replace(state, at="")), title="Architectural events"))
    parts.append(plots.batch(state))
    for heading, report in (
        ("What to change", advise.view(advise.found(state))),
        ("What it costs", cost.view(state, cost.found(replace(state, devices=(state.on,))))),
    ):
        parts.append(Text("heading", heading, ()))
        parts.extend(report.parts)
    return Report("report", f"{title(state)} on {result.device.name}", tuple(parts), main)


def plain(report: Report) -> Report:
    """The report without its plots, whose points would be pages of numbers."""
    before = report.parts[: report.main]
    kept = tuple(part for part in report.parts if not isinstance(part, Plot))
    return msgspec.structs.replace(report, parts=kept, main=sum(not isinstance(part, Plot) for part in before))


def _summary(state: State) -> Text:
    result = engine.result(state)
    figures = (
        f"latency {quantity(result.latency_s, 's')} ({band(result.latency_band_s, result.latency_s)})",
        f"energy {quantity(result.energy_j_per_inference, 'J')} per inference "
        f"({band(result.energy_band_j, result.energy_j)}), {result.static_fraction:.0%} of it static",
        f"EDP {quantity(result.edp_js, 'Js')}, {quantity(result.throughput_per_s, '1/s')}, "
        f"{quantity(result.average_power_w, 'W')} of {quantity(result.device.power_limit_w, 'W')}",
        f"utilisation {result.utilization:.1%} of the {result.precision_run} peak; "
        f"{quantity(result.memory.peak_bytes, 'byte')} of {quantity(result.device.memory_bytes, 'byte')} memory",
        f"{result.coverage:.0%} of the operators have a cost rule",
        model_reason(result),
    )
    sections = [("In short", figures), ("Worth noticing", insights([result], result))]
    if result.marks:
        sections.append(("Deviations from what was asked", result.marks))
    sections.append(("Next", next_steps([result], engine.scenario(state))))
    return Text("summary", "Summary", tuple(sections))


def _checks(state: State) -> Table:
    found = checks(engine.result(state))
    rows = tuple(Row(c.name, ("pass" if c.passed else "FAIL", c.name, c.sentence)) for c in found)
    passed = sum(c.passed for c in found)
    return Table("checks", "Checks", CHECKS, rows, (f"{passed} of {len(found)} checks pass",))


def _found(state: State) -> tuple[Claim, ...]:
    return claims(engine.result(state), engine.device)


def _claims(state: State) -> Text:
    """What is often said of inference, and what this model's numbers say."""
    lines = tuple(f"{'holds' if c.holds else 'does not hold'}: {c.claim} - {c.found}" for c in _found(state))
    return Text("claims", "Common claims", (("Common claims, held against these numbers", lines),))


def document(state: State) -> dict[str, Any]:
    """The documents of all parts under one roof, each as its own verb gives it."""
    result = engine.result(state)
    on_one = replace(state, devices=(state.on,), at="", pin="")
    return {
        **about(result, on_device=True),
        "checks": [msgspec.to_builtins(c) for c in checks(result)],
        "claims": [msgspec.to_builtins(c) for c in _found(state)],
        "compare": stamped(documents.compare(replace(on_one, baseline=state.on))),
        "tree": documents.tree(on_one),
        "events": documents.events(on_one),
        **{name: reports.document(name, on_one) for name in SECTIONS},
        "advise": stamped(advise.found(state)),
        "cost": stamped(cost.found(on_one)),
    }
