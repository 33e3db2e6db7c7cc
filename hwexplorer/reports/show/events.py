"""Count hardware events (operations, bytes, cycles) and their energy."""

from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
import numpy as np

from analysis.document import Column, column, columns, record
from analysis.estimate import causes, tree_figures
from analysis.estimate.estimate import Estimate, weighted_mean
from analysis.estimate.figures import Head, head_fields
from analysis.text.headline import work_word
from hardware.architecture_facts import Event
from hardware.base import text
from hardware.base.errors import RequestError
from hardware.base.records import group_by, memoize
from hardware.demand import Ints
from hardware.event_prices import Coefficient
from hardware.map_demand import architecture_of
from hardware.mapping.common import units_in_all
from hwexplorer import declare, engine
from hwexplorer.reports import why
from hwexplorer.state import State, pinned
from hwexplorer.views import captions, plain
from hwexplorer.views.tables import empty_cell, keep_columns, rows

MOST = 12  # events in brief text


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """One event. Count and energy are per batch unless the name says otherwise; `fraction` is of the node's energy. The
    band varies the price at a fixed count; `coefficient_j` is the mean price at the voltages at which it happened.
    `is_dynamic` events are paid for work, not for time. `waits` is the share of the cycles of an event by time in which
    the units it serves are idle (None for other events). `cause` is one of CAUSES, `family` one of FAMILIES, which all
    architectures share."""

    category: str
    event: str
    count: Annotated[float, column("Count", "SI", role="quantity", keep=2, help="in the unit of the next column")]
    unit: Annotated[str, column("of", keep=2)]
    energy_j: Annotated[float, column("Energy/batch", "J", keep=9)]
    energy_j_per_inference: Annotated[float, column("Energy/inf", "J")]
    energy_low_j: float
    energy_high_j: float
    fraction: Annotated[float, column("%", "%")]
    coefficient_j: Annotated[float, column("Each", "J", key="each", role="quantity", keep=3, help="energy of one")]
    coefficient_low_j: float
    coefficient_high_j: float
    source: str
    quality: str
    component: str
    cause: str
    family: str
    is_dynamic: bool
    waits: Annotated[
        float | None,
        column("Waits", "%", keep=4, help="share of its cycles in which the units it serves are idle"),
    ]


class EventReport(Head, frozen=True, kw_only=True):
    """All events of a node on a device; `total_j` is their exact sum over the batch. Rates are fractions."""

    node: str
    total_j: float
    total_j_per_inference: float
    overhead_j: float
    events: tuple[EventRow, ...]
    rates: dict[str, float]


@memoize(keep=8)
def event_report(result: Estimate, path: str = "") -> EventReport:
    """Return the events of a node ('' is the model). Raises RequestError for an unknown node."""
    members, result = tree_figures.operators_of(result, path), tree_figures.estimate_of_node(result, path)
    counts, energies = causes.sum_events(result, members)
    total, batch = float(energies.sum()), result.scenario.batch
    price_rows = zip(result.run.prices.rows, result.events, counts.tolist(), energies.tolist(), strict=True)
    rows = tuple(
        record(
            EventRow,
            price,
            event,
            count=count,
            energy_j=energy,
            energy_j_per_inference=energy / batch,
            energy_low_j=energy * _relative(price.low_j, price),
            energy_high_j=energy * _relative(price.high_j, price),
            fraction=energy / total if total else 0.0,
            coefficient_j=(each_j := energy / count if count else price.value_j),
            coefficient_low_j=each_j * _relative(price.low_j, price),
            coefficient_high_j=each_j * _relative(price.high_j, price),
            cause=causes.CAUSES[causes.cause_of_event(event)],
            family=causes.family_of(event),
            is_dynamic=event.is_dynamic,
            waits=_idle_share(result, members, event, count),
        )
        for price, event, count, energy in price_rows
    )
    return EventReport(
        **head_fields(result, on_device=True),
        node=path,
        total_j=total,
        total_j_per_inference=total / batch,
        overhead_j=sum(row.energy_j for row, event in zip(rows, result.events, strict=True) if event.is_overhead),
        events=rows,
        rates=event_rates(result, members),
    )


def _relative(end_j: float, price: Coefficient) -> float:
    return end_j / price.value_j if price.value_j else 1.0


def _idle_share(result: Estimate, members: Ints, event: Event, cycles: float) -> float | None:
    """Return the share of the cycles of an event by time in which the units it serves have no work; None for other
    events."""
    if not event.is_by_time:
        return None
    mapping = result.run.mapping
    matrix_s, vector_s = mapping.matrix_s[0], mapping.vector_s[0]
    seconds = {
        "matrix": matrix_s,
        "vector": vector_s,
        "compute": matrix_s + vector_s,
        "chip": np.broadcast_to(mapping.chip_s, len(matrix_s)),
        "dram": mapping.dram_s[0],
    }
    clocked_s = cycles / (result.device.clock_hz * result.device.units)
    worked_s = float(seconds[event.argument][members].sum())
    return max(1.0 - worked_s / clocked_s, 0.0) if clocked_s else 0.0


def event_rates(result: Estimate, members: Ints) -> dict[str, float]:
    """Return fractions by name: hit rate of the last on-chip level, units busy, dynamic energy, and the rates of the
    architecture."""
    run, flow = result.run, result.run.mapping.traffic
    chip, dram = float(flow.chip_bytes[members].sum()), float(flow.dram_bytes[members].sum())
    time = run.latency_s[members]
    energy = float(run.energy_j[members].sum())
    static = float(result.component_energy_j[2][members].sum())
    weight = time if time.sum() > 0 else np.ones_like(time)
    busy = np.minimum(run.mapping.units / units_in_all(result.device, run.mapping.on_matrix), 1.0)[members]
    values = {
        "last_level_hit_rate": 1.0 - dram / chip if chip else 1.0,
        "units_busy": weighted_mean(busy, weight),
        "dynamic_fraction": 1.0 - static / energy if energy else 0.0,
    }
    arch = result.device.arch
    for name, (misses_of, every) in arch.misses.items():
        misses, total = (float(run.counts[arch.row[label], members].sum()) for label in (misses_of, every))
        values[name] = 1.0 - misses / total if total else 1.0
    if (occupancy := architecture_of(result.device).occupancy) is not None:
        resident = occupancy(result.demand, result.device, run.mapping)[members]
        values["occupancy"] = weighted_mean(resident, weight)
    return values


# --- the verb ---------------------------------------------------------------------------------------------------------


class EventGroup(msgspec.Struct, frozen=True):
    """The sum of the events of a category or family: a row above the rows of its events."""

    name: str
    energy_j: float
    energy_j_per_inference: float
    fraction: float
    events: list[EventRow]

    @property
    def component(self) -> str:
        """The component of the event with the most energy."""
        return self.events[0].component


def _name(row: EventRow | EventGroup) -> str:
    return row.event.replace("_", " ") if isinstance(row, EventRow) else captions.category_words(row.name)


def _spread(row: EventRow) -> plain.Band:
    low, high = row.coefficient_low_j, row.coefficient_high_j
    return plain.Band(f"{low / row.coefficient_j:.2g}-{high / row.coefficient_j:.2g}x", low, high)


def _by_cause(row: EventRow | EventGroup) -> plain.Stack:
    if isinstance(row, EventGroup):
        return plain.Stack.sum(_by_cause(event) for event in row.events)
    return plain.Stack([row.fraction * (row.cause == cause) for cause in causes.CAUSES])


def _key(row: EventRow | EventGroup) -> str:
    return row.name if isinstance(row, EventGroup) else f"{row.category}.{row.event}"


COLUMNS = (
    Column("event", "Event", role="text", keep=0, of=_name),
    Column("bar", "Share", "%", role="bar", keep=1, of=lambda row: _by_cause(row),
           help=f"share of the node, by cause: {plain.HELP}"),
    *columns(EventRow, "fraction energy_per_inference waits count unit"),
    Column("each", "Each", "J", role="quantity", keep=3, help="energy of one, or power",
           of=lambda row: captions.amount_of_one(row.coefficient_j, row.unit)),
    Column(
        "band", "Band", "J", role="text", keep=5, of=_spread, help="spread of the energy of one",
        ends=("each_low", "each_high"),
    ),
    Column("source", "Source", role="text", keep=8, of=lambda row: f"{row.quality}: {row.source}"),
    *columns(EventRow, "energy"),
)  # fmt: skip
_RATES = {"units_busy": "units with work", "dynamic_fraction": "energy that is not static"}
DELTA = Column("delta", "vs pin", "%", role="delta", keep=0, help="energy per inference against the pinned state")


def document(state: State) -> EventReport:
    """Return the events of the node."""
    return event_report(engine.result(state), state.at)


def view(state: State) -> plain.Table:
    """Return the events of the state. With a pin, more columns have the energy of the pinned state and the change.
    Events are grouped by category if both devices have one architecture, else by the families common to all."""
    base = pinned(state) if state.diff else None
    if base is None:
        return _event_table(state)
    pinned_run = engine.result(base)
    try:
        tree_figures.find_node(pinned_run, state.at)
    except RequestError:  # another model, without this node
        return _event_table(state)
    group = "category" if pinned_run.device.arch is engine.result(state).device.arch else "family"
    name = "pin" if base.on == state.on else pinned_run.device.id
    return _join_pinned(_event_table(state, group), _event_table(base, group), name)


def _event_table(state: State, by: str = "category") -> plain.Table:
    """Return the categories or families at depth 0 and their events at depth 1, the largest energy first."""
    report = document(state)
    largest_first = sorted(report.events, key=lambda row: -row.energy_j)
    members: dict[str, list[EventRow]] = group_by(largest_first, lambda row: getattr(row, by))
    sums = ((name, _sum(events, "energy_j"), _sum(events, "fraction"), events) for name, events in members.items())
    groups = [EventGroup(name, energy, energy / report.batch, share, events) for name, energy, share, events in sums]
    groups.sort(key=lambda group: -group.energy_j)
    rates = ", ".join(
        f"{_RATES.get(name, name).replace('_', ' ')} {text.percent(value)}" for name, value in report.rates.items()
    )
    overhead = report.overhead_j / report.total_j if report.total_j else 0.0
    total = captions.energy_words(report.total_j, report.batch, 4, work_word(engine.result(state)))
    footer = (
        f"{len(report.events)} events add up to the node's {total}",
        f"{text.percent(overhead)} of the energy is registers, control, launches and waiting units; {rates}",
    )
    table_rows = rows(COLUMNS, groups, key=_key, kind="component", children=lambda group: group.events)
    table = plain.Table("events", captions.place_in_words(state), COLUMNS, table_rows, footer=footer)
    return captions.name_work(table, engine.result(state))


def _sum(events: Iterable[EventRow], field: str) -> float:
    return float(sum(getattr(event, field) for event in events))


def brief(state: State) -> plain.Table:
    """Return the events with most energy below their groups; the footer has the share of the other events."""
    table = view(state)
    place = {column.key: index for index, column in enumerate(table.columns)}
    sides = [place[key] for key in ("energy_per_inference", "there") if key in place]

    def energy(row: plain.Row) -> float:
        """Return the larger energy of both sides."""
        values = [value for side in sides if isinstance(value := row.cells[side], float)]
        return max(values, default=0.0)

    events = sorted((row for row in table.rows if row.depth), key=energy, reverse=True)
    largest_keys = {row.key for row in events[:MOST] if energy(row)}
    brief_rows: list[plain.Row] = []
    for row in reversed(table.rows):  # a group precedes its events
        if row.key in largest_keys or (not row.depth and brief_rows and brief_rows[-1].depth):
            brief_rows.append(row)
    rest = [row for row in events if row.key not in largest_keys]
    share = sum(value for row in rest if isinstance(value := row.cells[place["fraction"]], float))
    hidden = (f"{text.count_noun(len(rest), 'event')} more, {text.percent(share, 1)}: --all",) if rest else ()
    return msgspec.structs.replace(table, rows=tuple(reversed(brief_rows)), footer=(*hidden, *table.footer))


# --- against the pin ----------------------------------------------------------------------------------------


def _join_pinned(here: plain.Table, there: plain.Table, name: str) -> plain.Table:
    """Return the table with the energy of the other one and the change beside its own. What only the other table has
    follows in its group, by name and energy."""
    place = next(i for i, column in enumerate(here.columns) if column.key == "energy_per_inference") + 1
    energy = {row.key: row.cells[place - 1] for row in there.rows}
    keys = {row.key for row in here.rows}
    blank = tuple(empty_cell(column) for column in here.columns[1:])
    missing = [row for row in there.rows if row.key not in keys]
    only_there = (msgspec.structs.replace(row, cells=(row.cells[0], *blank)) for row in missing)
    group_of = {row.key: group for table in (there, here) for group, row in _with_groups(table.rows)}
    members = group_by((*here.rows, *only_there), lambda row: group_of[row.key])
    rows = []
    for row in (row for group in members.values() for row in group):
        energy_here, energy_there = row.cells[place - 1], energy.get(row.key)
        change = None
        if isinstance(energy_here, float) and isinstance(energy_there, float) and energy_there:
            change = energy_here / energy_there - 1
        cells = (*row.cells[:place], energy_there, change, *row.cells[place:])
        rows.append(msgspec.structs.replace(row, cells=cells))
    column = Column("there", name, "J", keep=0, help="the same on the pinned device", scale="energy_per_inference")
    columns = (*here.columns[:place], column, DELTA, *here.columns[place:])
    footer = (here.footer[0], f"{name}: {there.footer[0]}", *here.footer[1:])
    return msgspec.structs.replace(here, columns=columns, rows=tuple(rows), footer=footer)


def _with_groups(rows: Iterable[plain.Row]) -> Iterator[tuple[str, plain.Row]]:
    """Yield each row with the key of the group above it, or its own if it is one."""
    group = ""
    for row in rows:
        group = group if row.depth else row.key
        yield group, row


def _pane(state: State) -> plain.Table:
    """Return the view, without the energy of the batch if the batch is one inference. With the whole screen, return the
    families of several devices."""
    if compares_devices(state):
        return why.families_on_devices(state)
    table = view(state)
    is_one = engine.result(state).scenario.batch == 1
    return keep_columns(table, [c for c, column in enumerate(table.columns) if not (is_one and column.key == "energy")])


def compares_devices(state: State) -> bool:
    """Return True if the pane has room for a column of each device: all of the screen, and no pin to compare with."""
    return state.zoom and len(state.devices) > 1 and not (state.diff and state.pin)


VERB = declare.Report(
    subject=declare.NODE,
    document=document,
    view=view,
    brief=brief,
    view_columns=COLUMNS,
    pane=_pane,
    section=declare.Section(80, "Architectural events"),
    examples={"events": "conv2d --on h100_sxm"},
)
