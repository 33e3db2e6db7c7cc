"""Advice as a table: each change with what it saves, measured by running the model with it."""

from __future__ import annotations

from analysis.decide.advise import Advice
from analysis.decide.advise import advise as find_advice
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views.plain import Column, Report, Row, Table, Text

COLUMNS = (
    Column("change", "Change", role="text", keep=0),
    Column("energy", "Energy/inf", "J", keep=1),
    Column("saved_energy", "Energy", "%", role="delta", keep=0, help="per inference, against now"),
    Column("latency", "Latency", "s", keep=1, help="of the whole batch"),
    Column("saved_latency", "Latency", "%", role="delta", keep=0, help="of the batch, against now"),
    Column("throughput", "Inf/s", "1/s", keep=2),
    Column("throughput_ratio", "Rate", "x", keep=2, help="throughput against now"),
    Column("memory", "Memory", "byte", keep=2),
    Column("saved_memory", "Memory", "%", role="delta", keep=1),
    Column("why", "What happens", role="text", keep=5),
)


def found(state: State, aim: str = "energy", devices: tuple[str, ...] = ()) -> Advice:
    """Advice for the device under the cursor; replacements are the other devices of the state, or those given."""
    names = devices or state.devices
    return find_advice(engine.result(state), [engine.device(name) for name in names], aim)


def view(document: Advice) -> Report:
    """The first row is now; changes below it, the best first."""
    now = document.now
    rows = [
        Row(
            "now",
            (
                "now", now.energy_j_per_inference, None, now.latency_s, None, now.throughput_per_s, 1.0,
                now.peak_memory_bytes, None, "",
            ),
        )
    ]  # fmt: skip
    rows += [
        Row(
            s.change,
            (
                s.change, s.after.energy_j_per_inference, -s.saved_energy_fraction, s.after.latency_s,
                -s.saved_latency_fraction, s.after.throughput_per_s, s.throughput_ratio, s.after.peak_memory_bytes,
                -s.saved_memory_fraction, s.why,
            ),
        )
        for s in document.suggestions
    ]  # fmt: skip
    lines = [
        f"{s.change}: saves {quantity(s.saved_energy_j, 'J')} per inference, {quantity(s.saved_latency_s, 's')} of "
        f"latency, {quantity(s.saved_memory_bytes, 'byte')}; {s.command}"
        for s in document.suggestions
    ]
    sections = [("Savings, and the commands that show them", tuple(lines) or ("nothing tried helps",))]
    if document.without_avail:
        sections.append(("Tried without avail", document.without_avail))
    title = (
        f"{document.model} on {document.device}: batch {document.batch}, {document.precision}, "
        f"{document.execution_run}; {document.tried} changes run, sorted by {document.aim}"
    )
    return Report("advise", title, (Table("advise", "", COLUMNS, tuple(rows)), Text("savings", "", tuple(sections))), 0)
