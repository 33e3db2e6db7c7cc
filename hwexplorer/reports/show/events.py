"""Architectural energy events of a node."""

from __future__ import annotations

import msgspec

from analysis.document import Cell, Column, columns
from analysis.estimate.causes import CAUSES
from analysis.estimate.tree import find_node
from analysis.reports.event_report import EventReport, EventRow, event_report
from hardware.errors import RequestError
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.declare import NODE, Report, Section
from hwexplorer.options import option
from hwexplorer.state import State, pinned, replace
from hwexplorer.views.captions import place_in_words
from hwexplorer.views.cause_looks import HELP
from hwexplorer.views.plain import Band, Row, Stack, Table
from hwexplorer.views.tables import rows


class _Category(msgspec.Struct, frozen=True):
    """The events of a category in one row, above each of them."""

    event: str
    energy_j: float
    fraction: float
    component: str
    events: list[EventRow]


def _words(name: str) -> str:
    return name.replace("_", " ")


def _spread(row: EventRow) -> Band:
    low, high = row.coefficient_low_j, row.coefficient_high_j
    return Band(f"{low / row.coefficient_j:.2g}-{high / row.coefficient_j:.2g}x", low, high)


def _by_cause(row: EventRow | _Category) -> Stack:
    if isinstance(row, _Category):
        return Stack.sum(_by_cause(event) for event in row.events)
    return Stack([row.fraction * (row.cause == cause) for cause in CAUSES])


def _key(row: EventRow | _Category) -> str:
    return row.event if isinstance(row, _Category) else f"{row.category}.{row.event}"


COLUMNS = (
    Column("event", "Event", role="text", keep=0, of=lambda row: _words(row.event)),
    Column("bar", "Share", "%", role="bar", keep=1, of=lambda row: _by_cause(row), help=f"of the node, {HELP}"),
    *columns(EventRow, "fraction energy waits count unit each"),
    Column(
        "band", "Band", "J", role="text", keep=5, of=_spread, help="spread of the energy of one",
        ends=("each_low", "each_high"),
    ),
    Column("source", "Source", role="text", keep=8, of=lambda row: f"{row.quality}: {row.source}"),
)  # fmt: skip
DELTA = Column("delta", "vs pin", "%", role="delta", keep=0, help="energy against the pinned state")


def document(state: State) -> EventReport:
    """Return the events of the node, without clocks and static power where the state says so."""
    report = event_report(engine.result(state), state.at)
    if not state.dynamic:
        return report
    kept = [row for row in report.events if row.is_dynamic]
    total = sum(row.energy_j for row in kept) or 1.0
    return replace(report, events=tuple(replace(row, fraction=row.energy_j / total) for row in kept))


def view(state: State) -> Table:
    """The events of the state; with a pin shown, the energy there beside them, in the same unit. What only one side
    has is empty on the other, and no change: unlike machines have unlike events."""
    table = events(state)
    other = pinned(state) if state.diff else None
    if other is None:
        return table
    there = engine.result(other)
    try:
        find_node(there, state.at)
    except RequestError:  # another model, which has no such node
        return table
    return _join_pinned(table, events(other), there.device.id)


def events(state: State) -> Table:
    """Categories at depth 0 in the taxonomy's order, their events at depth 1."""
    report = document(state)
    members: dict[str, list[EventRow]] = {}
    for row in report.events:
        members.setdefault(row.category, []).append(row)
    shown_j = sum(row.energy_j for row in report.events)
    categories = []
    for name, events in members.items():
        energy = sum(row.energy_j for row in events)
        share = energy / shown_j if shown_j else 0.0
        categories.append(_Category(name, energy, share, events[0].component, events))
    rates = ", ".join(f"{_words(name)} {value:.0%}" for name, value in report.rates.items())
    footer = (
        _sum(report, shown_j, state.dynamic),
        f"overhead {report.overhead_j / report.total_j if report.total_j else 0:.0%}; {rates}",
    )
    table_rows = rows(COLUMNS, categories, key=_key, kind="component", children=lambda category: category.events)
    return Table("events", place_in_words(state), COLUMNS, table_rows, footer=footer)


def _sum(report: EventReport, shown_j: float, is_dynamic: bool) -> str:
    said = f"sum of {len(report.events)} events = {quantity(shown_j, 'J', 4)}"
    if not is_dynamic:
        return f"{said}, node {quantity(report.total_j, 'J', 4)}"
    share = shown_j / report.total_j if report.total_j else 0.0
    return f"{said}, dynamic: {share:.0%} of the node ({quantity(report.total_j, 'J', 4)}); clocks and static left out"


# --- against the pin ----------------------------------------------------------------------------------------


def _join_pinned(here: Table, there: Table, name: str) -> Table:
    place = next(i for i, column in enumerate(here.columns) if column.key == "energy")
    energy = {row.key: row.cells[place] for row in there.rows}
    known = {row.key for row in here.rows}
    missing: dict[str, list[Row]] = {}
    for row in there.rows:
        if row.key not in known:
            missing.setdefault(row.key.partition(".")[0], []).append(row)
    column = Column("there", name, "J", keep=0, help="the same on the pinned device", scale="energy")
    rows: list[Row] = []

    def with_other(row: Row, cells: tuple[Cell, ...]) -> Row:
        mine, other = cells[place], energy.get(row.key)
        change = None
        if isinstance(mine, float) and isinstance(other, float) and other:
            change = mine / other - 1
        both = (*cells[: place + 1], other, change, *cells[place + 1 :])
        return msgspec.structs.replace(row, cells=both)

    def only_there(row: Row) -> Row:
        """Nothing of it here; what it is called and counted in there."""
        return with_other(row, (row.cells[0], *(_empty(column) for column in here.columns[1:])))

    for index, row in enumerate(here.rows):
        rows.append(with_other(row, row.cells))
        ends = index + 1 == len(here.rows) or here.rows[index + 1].depth == 0
        if ends:
            category = row.key.partition(".")[0]
            rows += [only_there(each) for each in missing.pop(category, []) if each.depth]
    rows += [only_there(row) for others in missing.values() for row in others]
    footer = (here.footer[0], f"{name}: {there.footer[0]}", *here.footer[1:])
    columns = (*here.columns[: place + 1], column, DELTA, *here.columns[place + 1 :])
    return msgspec.structs.replace(here, columns=columns, rows=tuple(rows), footer=footer)


def _empty(column: Column) -> Cell:
    """A cell of an event that this machine does not have: no text and no number, which is not a number of zero."""
    return "" if column.role in ("text", "flag") else None


VERB = Report(
    subject=NODE,
    options=(
        option(
            "--dynamic",
            action="store_true",
            help="only what is paid for work done, rescaled: without clocks and static power",
        ),
    ),
    document=document,
    view=view,
    view_columns=COLUMNS,
    section=Section(80, "Architectural events"),
    examples={"events": "conv2d --on h100_sxm", "events_dynamic": "conv2d --on h100_sxm --dynamic"},
)
