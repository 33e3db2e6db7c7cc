"""Count hardware events (operations, bytes, cycles) and their energy."""

from collections import defaultdict
from contextlib import suppress
from operator import attrgetter
from typing import Annotated

import msgspec

from analysis.document import Column, column, columns, record
from analysis.estimate import causes, tree_figures
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields
from analysis.explore import difference
from analysis.wording import work_word
from hardware.base.errors import RequestError
from hardware.base.records import group_by, memoize
from hardware.base.text import percent
from hwexplorer import declare, engine
from hwexplorer.reports import why
from hwexplorer.state import State, pinned, replace
from hwexplorer.views import captions, plain
from hwexplorer.views.tables import name_work, rows

FOLD = 1.0  # share in % below which brief text merges the events of a family


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """One event. Count and energy are per batch unless the name says otherwise; `fraction` is of the node's energy. The
    band varies the price at a fixed count; `coefficient_j` is the mean price at the voltages at which it happened.
    `is_dynamic` events are paid for work, not for time. `cause` is one of CAUSES, `family` one of FAMILIES, which all
    architectures share."""

    category: str
    event: str
    count: float
    unit: Annotated[str, column("Unit", keep=2, help="what is counted")]
    energy_j: Annotated[float, column("Energy/batch", "J", keep=9)]
    energy_j_per_inference: Annotated[float, column("Energy/inf", "J")]
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


class EventReport(Head, frozen=True, kw_only=True):
    """All events of a node on a device; `total_j` is their exact sum over the batch. Rates are fractions."""

    node: str
    total_j: float
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
            fraction=energy / total if total else 0.0,
            coefficient_j=(each_j := energy / count if count else price.value_j),
            coefficient_low_j=each_j * (price.low_j / (price.value_j or 1.0)),
            coefficient_high_j=each_j * (price.high_j / (price.value_j or 1.0)),
            cause=causes.CAUSES[causes.cause_of_family(causes.family_of(event))],
            family=causes.family_of(event),
            is_dynamic=event.is_dynamic,
        )
        for price, event, count, energy in price_rows
    )
    return EventReport(
        **head_fields(result, on_device=True),
        node=path,
        total_j=total,
        overhead_j=sum(row.energy_j for row, event in zip(rows, result.events, strict=True) if event.is_overhead),
        events=rows,
        rates=causes.event_rates(result, members),
    )


class EventGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The sum of the events of a family, a row above theirs; `component` is that of the largest."""

    name: str
    component: str
    energy_j: float
    energy_j_per_inference: float
    fraction: float
    events: list[EventRow]


def _name(row: EventRow | EventGroup) -> str:
    return row.name if isinstance(row, EventGroup) else captions.fact_words(f"{row.category}.{row.event}")


def _by_cause(row: EventRow | EventGroup) -> plain.Stack:
    if isinstance(row, EventGroup):
        return plain.Stack.sum(map(_by_cause, row.events))
    return plain.Stack([row.fraction * (row.cause == cause) for cause in causes.CAUSES])


def _key(row: EventRow | EventGroup) -> str:
    return row.name if isinstance(row, EventGroup) else f"{row.category}.{row.event}"


COLUMNS = (
    Column("event", "Event", role="text", keep=0, of=_name),
    Column("bar", "Share", "%", role="bar", keep=1, of=lambda row: _by_cause(row),
           help=f"share of the node, by cause: {plain.HELP}"),
    *columns(EventRow, "fraction energy_per_inference"),
    Column("count", "Count", "SI", role="quantity", keep=2, help="in the unit beside it",
           of=lambda row: plain.Amount(row.count, "s") if row.unit == "s" else row.count),
    *columns(EventRow, "unit"),
    Column("each", "Each", "J", role="quantity", keep=3, help="energy of one, or power",
           of=lambda row: captions.amount_of_one(row.coefficient_j, row.unit)),
    Column(
        "band", "Band", "J", role="text", keep=5, help="spread of the energy of one", ends=("each_low", "each_high"),
        of=lambda row: plain.Band(
            f"{row.coefficient_low_j / row.coefficient_j:.2g}-{row.coefficient_high_j / row.coefficient_j:.2g}x",
            row.coefficient_low_j, row.coefficient_high_j,
        ),
    ),
    Column("source", "Source", role="text", keep=8, of=lambda row: f"{row.quality}: {row.source}"),
    *columns(EventRow, "energy"),
)  # fmt: skip


_SUMMED = ("energy_j", "energy_j_per_inference", "fraction")
_NOTHING = dict.fromkeys(("count", "energy_j", "energy_j_per_inference", "fraction"), 0.0)  # only the pin has it


def document(state: State) -> EventReport:
    """Return the events of the node."""
    return event_report(engine.result(state), state.at)


def view(state: State, *left_out: str) -> plain.Table:
    """Return the events of the state in the families that all architectures share, the largest energy first, without
    some columns. With a pin, more columns have the energy of the pinned state and the change."""
    report, there, base = document(state), None, pinned(state)
    with suppress(RequestError):  # the model of the pin may not have the node
        there = None if base is None else document(replace(base, at=state.at))
    groups = group_by(sorted(report.events, key=lambda row: -row.energy_j), attrgetter("family"))
    columns = COLUMNS
    if there is not None:
        energies: dict[str, float] = defaultdict(float)
        own_keys = set(map(_key, report.events))
        for row in there.events:
            energies[_key(row)] += row.energy_j_per_inference
            energies[row.family] += row.energy_j_per_inference
            if _key(row) not in own_keys:
                groups.setdefault(row.family, []).append(msgspec.structs.replace(row, **_NOTHING))
        place = next(i for i, column in enumerate(COLUMNS) if column.key == "energy_per_inference") + 1
        columns = (*COLUMNS[:place], *_columns_of_pin(energies), *COLUMNS[place:])
    columns = tuple([column for column in columns if column.key not in left_out])
    families = [
        EventGroup(
            name=name,
            component=events[0].component,
            events=events,
            **{figure: sum(getattr(event, figure) for event in events) for figure in _SUMMED},
        )
        for name, events in groups.items()
    ]
    families.sort(key=lambda group: -group.energy_j)
    result = engine.result(state)
    names = {"units_busy": f"active {result.device.unit_name}s", "dynamic_fraction": "dynamic energy"}
    named = {"overhead": report.overhead_j / (report.total_j or 1.0), **report.rates}
    rates = (f"{names.get(name, name).replace('_', ' ')} {percent(value)}" for name, value in named.items())
    table_rows = rows(columns, families, key=_key, kind="component", children=lambda group: group.events)
    table = plain.Table("events", captions.place_in_words(state), columns, table_rows, (", ".join(rates),))
    return name_work(table, work_word(result))


def _columns_of_pin(energies: dict[str, float]) -> tuple[Column, Column]:
    def change(row: EventRow | EventGroup) -> float | None:
        """Return the change from the pinned energy, if both devices have such an event."""
        base, own = energies.get(_key(row)), row.energy_j_per_inference
        return own / base - 1.0 if base and own else None

    return (
        Column(
            "there", "pin", "J", keep=0, of=lambda row: energies.get(_key(row)), scale="energy_per_inference",
            help="the same on the pinned device",
        ),
        Column("delta", "vs pin", "%", role="delta", keep=0, of=change, help="against the pinned state"),
    )  # fmt: skip


def _view_without(state: State, *keys: str) -> plain.Table:
    """Return the view without these columns, nor the energy of the batch if that is one inference."""
    return view(state, *keys, *["energy"] * (engine.result(state).scenario.batch == 1))


def brief(state: State) -> plain.Table:
    """Return the events with the small ones of each family merged, without their sources."""
    return plain.fold_rows(_view_without(state, "source"), FOLD)


def _pane(state: State) -> plain.Table:
    """Return the view without remarks, and bars without their numbers. With the whole screen, return the view, or the
    families of several devices."""
    if compares_devices(state):
        results = [engine.result(state, name) for name in state.devices]
        return why.family_table(difference.compare_in_turn(results, state.at), engine.outcome(state).work)
    if state.zoom:
        return view(state)
    table = _view_without(state, "fraction")
    bars = (msgspec.structs.replace(column, unit="") if column.role == "bar" else column for column in table.columns)
    return msgspec.structs.replace(table, columns=tuple(bars), footer=())


def compares_devices(state: State) -> bool:
    """Return True if the pane has room for a column of each device: all of the screen, and no pin to compare with."""
    return state.zoom and len(state.devices) > 1 and not state.pin


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
