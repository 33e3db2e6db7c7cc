"""Energy by event category and event of one node on one device, with the sum that proves they add up."""

from __future__ import annotations

from analysis.reports.events import EventReport, EventRow
from analysis.reports.events import report as event_report
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views.compare import place
from hwexplorer.views.plain import Column, Row, Table

COLUMNS = (
    Column("event", "Event", role="text", keep=0),
    Column("bar", "Share", "%", role="bar", keep=0),
    Column("fraction", "%", "%", keep=0),
    Column("energy", "Energy", "J", keep=1),
    Column("count", "Count", "SI", role="quantity", keep=2, help="how often, in the unit beside it"),
    Column("unit", "of", role="text", keep=4),
    Column("each", "Each", "J", role="quantity", keep=3, help="energy of one"),
    Column("band", "Band", role="text", keep=5, help="spread of the energy of one"),
    Column("source", "Source", role="text", keep=8),
)


def document(state: State) -> EventReport:
    return event_report(engine.result(state), state.at)


def events(state: State) -> Table:
    """Categories at depth 0 in the taxonomy's order, their events at depth 1."""
    found = document(state)
    rows: list[Row] = []
    for category in dict.fromkeys(row.category for row in found.events):
        members = [row for row in found.events if row.category == category]
        rows.append(_category(category, members, found.total_j))
        rows.extend(_event(row) for row in members)
    rates = ", ".join(f"{_words(name)} {value:.0%}" for name, value in found.rates.items())
    footer = (
        f"sum of {len(found.events)} events = {quantity(found.total_j, 'J', 4)}"
        f" = node ({quantity(sum(row.energy_j for row in found.events), 'J', 4)})",
        f"overhead {found.overhead_j / found.total_j if found.total_j else 0:.0%}; {rates}",
    )
    return Table("events", place(state), COLUMNS, tuple(rows), footer)


def _category(name: str, members: list[EventRow], total: float) -> Row:
    energy = sum(row.energy_j for row in members)
    share = energy / total if total else 0.0
    cells = (_words(name), share, share, energy, None, "", None, "", "")
    return Row(name, cells, 0, True, members[0].component)


def _event(row: EventRow) -> Row:
    spread = f"{row.coefficient_low_j / row.coefficient_j:.2g}-{row.coefficient_high_j / row.coefficient_j:.2g}x"
    cells = (
        _words(row.event), row.fraction, row.fraction, row.energy_j, row.count, row.unit, row.coefficient_j, spread,
        f"{row.quality}: {row.source}",
    )  # fmt: skip
    return Row(f"{row.category}.{row.event}", cells, 1, False, row.component)


def _words(name: str) -> str:
    return name.replace("_", " ")
