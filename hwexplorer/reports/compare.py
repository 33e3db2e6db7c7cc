"""Compare devices for one model: latency, energy, EDP, cost, and which is best; in whole or node by node."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from analysis.document import Column, columns
from analysis.estimate import figures, metrics
from analysis.estimate.causes import shares
from analysis.estimate.estimate import Estimate
from analysis.explore import comparison
from analysis.explore.cost import ELECTRICITY_ONLY, Bill, Cost, bill_of, settings, unit_of
from analysis.wording import describe_evidence, short_name
from hardware.base.errors import RequestError
from hardware.base.text import plain_number
from hardware.what_if import with_unchanged
from hwexplorer import engine, options
from hwexplorer.configurations import INCLUDE_PAPER, asks_for_paper
from hwexplorer.declare import DEVICES, Report
from hwexplorer.reports._under_load import under_load
from hwexplorer.state import State, pinned
from hwexplorer.text.next_command import command
from hwexplorer.views import captions, device_rows, plain, tree_view
from hwexplorer.views.answer_lines import answer
from hwexplorer.views.tables import cell_reader, keep_columns, name_work
from hwexplorer.views.tables import rows as make_rows

_Price = tuple[str, float]


def _price(text: str) -> _Price:
    """Parse `DEV=USD`. Raises RequestError."""
    name, equals, usd = text.rpartition("=")
    if not equals or not name:
        raise RequestError(f"{text[:40]!r}: expected DEVICE=USD, e.g. h100_sxm=2.5")
    return name, options.amount("USD")(usd)


_option = partial(options.option, applies_to="batch", group="what it costs")
COST_OPTIONS = (
    _option("--cost", action="store_true", help="hire, purchase, electricity and carbon of a million inferences"),
    _option("--hourly", type=_price, action="append", metavar="DEV=USD", help="hire per hour, power included"),
    _option("--price", type=_price, action="append", metavar="DEV=USD", help="purchase price"),
    _option("--electricity", type=options.amount("USD"), metavar="USD", help="price of a kWh"),
    _option("--carbon", type=options.amount(""), metavar="G", help="grams of CO2 per kWh"),
    _option(
        "--overhead", type=options.amount(""), metavar="X", help="energy of the data centre per that of the device"
    ),
    _option("--lifetime", type=options.amount(""), metavar="YEARS", help="lifetime of a device in years"),
    _option("--duty", type=options.amount("fraction"), metavar="X", help="share of its lifetime on this work: 0.5"),
)


def find_bill(
    state: State,
    on_paper: bool,
    cost: bool = False,
    hourly: list[_Price] | None = None,
    price: list[_Price] | None = None,
    **given: float | None,
) -> Bill | None:
    """Return what the devices of a state cost; None if neither the cost nor a price is asked for."""
    assumed = {name: value for name, value in given.items() if value is not None}
    if not (cost or hourly or price or assumed):
        return None
    hire, purchase = ({engine.device(name).key: usd for name, usd in prices or ()} for prices in (hourly, price))
    results = [engine.result(state, name) for name in state.devices]
    return bill_of(results, settings(assumed, hire, purchase), on_paper, f"{engine.outcome(state).work}s")


_RANGE = Column(
    "band", "Range USD", role="text", keep=1, help="over the bands of time and energy and over the prices offered",
    of=lambda cost: f"{plain_number(cost.total_low_usd)} - {plain_number(cost.total_high_usd)}",
)  # fmt: skip
COST_COLUMNS = columns(
    Cost, "total_usd band pays_for electricity_usd hire_usd purchase_usd carbon_kg kwh time lifetime", _RANGE,
    carbon_kg=1, electricity_usd=2, hire_usd=2, purchase_usd=2,
)  # fmt: skip


def cost_columns(bill: Bill, is_whole: bool = True) -> tuple[Column, ...]:
    """Return the columns of costs, whose rows are the devices of a comparison."""
    more = ("kwh", "time") if bill.counted.startswith("training") else ("electricity_usd", "carbon_kg")
    brief = ("total_usd", "band", "pays_for", *more)
    chosen = COST_COLUMNS if is_whole else tuple(column for column in COST_COLUMNS if column.key in brief)
    read = {column.key: cell_reader(column) for column in chosen}
    return tuple(replace(one, of=lambda row, key=one.key: read[key](bill.rows[row.run.key])) for one in chosen)


def _assumptions(bill: Bill, is_whole: bool) -> plain.Text:
    """Return prices and assumptions; the whole text adds ranges, offers and sources."""
    prices, values = [], []
    for p in bill.prices:
        paid = f"{p.device}: {p.value:g} USD {'an hour' if p.kind == 'hire' else 'to buy'}"
        if is_whole:
            band = f" ({p.low:g} - {p.high:g})" if p.low < p.high else ""
            notes = filter(None, (f"{p.offers} offers" if p.offers > 1 else "", p.date, p.note, p.source))
            paid += f"{band}, {', '.join(notes)}"
        prices.append(paid)
    for a in bill.assumptions:
        band = f" ({a.low:g} - {a.high:g})" if is_whole and a.low is not None else ""
        values.append(f"{a.name} {a.value:g} {a.unit}{band}" + f" [{a.quality}: {a.source}]" * is_whole)
    if not is_whole:
        prices = [", ".join(prices)]
        values = [", ".join(values), "Ranges and sources: --all. Your own: --hourly, --price .."]
    blocks = (("Prices", tuple(prices)), ("Assumptions", tuple(values)))
    return plain.Text("assumptions", "", blocks[not bill.prices :])


NODES = 25  # rows in the brief text of a comparison node by node
LEVELS = ("summary", "detailed", "subgraph", "operator")
FITS_NOT = ": does not fit: "  # marks a note that the line of its device repeats
MORE = "More: --all (memory, power, utilisation, causes, all sentences), --level detailed, --format csv"


# Columns in the order of reading: cost, runtime and precision, evidence, then the details.
_KEYS = (
    "device latency band energy_per_inference energy_band edp throughput runtime precision known ratio bound power "
    "utilization memory causes trust energy weights activations limit tdp kernels bounds"
)


COLUMNS = columns(
    comparison.Compared,
    _KEYS,
    Column("device", "Device", role="text", keep=0, of="run.device.label"),
    Column("ratio", "EDP ratio", "x", keep=3, help="to the baseline",
           of=lambda row: row.figures.ratio_to_baseline["edp"]),
    Column("known", "Evidence", role="text", keep=2, of="evidence"),
    Column(
        "causes", "EDP by cause", role="bar", keep=5, help=plain.HELP,
        of=lambda row: plain.Stack(shares(row.run, "edp").sum(axis=1).tolist()),
    ),
    Column(
        "precision", "Format used", role="text", keep=2, of="figures.precision_run",
        help="the format most multiply-accumulates run in",
    ),
    Column(
        "trust", "Backed by", role="text", keep=6, of=lambda row: describe_evidence(row.run.trust),
        help="measurements of such work, and their median error",
    ),
    Column(
        "band", "± of latency", "s", role="text", keep=2, ends=("latency_low", "latency_high"),
        of=lambda row: captions.band_words(row.run.latency_band_s, row.run.latency_s),
    ),
    Column(
        "energy_band", "± of energy", "J", role="text", keep=2, ends=("energy_low", "energy_high"),
        of=lambda row: captions.band_words(row.run.energy_band_j, row.run.energy_j),
    ),
    Column("kernels", "Kernels", "count", keep=5, of="run.demand.n_kernels"),
    Column("bounds", "Bounds", role="text", keep=5, of=lambda row: captions.bound_counts(row.run),
           help="kernels by what bounds them"),
    within="figures", latency=0, energy_per_inference=0, runtime=2,
    edp={"help": "energy per inference x latency of the batch"},
    throughput={"help": "inferences per second", "title": "Rate", "keep": 3},
    power={"help": "average over the inference", "keep": 4},
    utilization={"help": "share of the peak in the format that runs"},
    memory={"help": "peak: weights and live activations", "keep": 5},
    bound={"keep": 4},
)  # fmt: skip


def compare_devices(state: State, on_paper: bool = False) -> comparison.Comparison:
    """Return the document of a comparison of the devices of a state."""
    devices = [engine.device(name) for name in state.devices]
    return comparison.compare(
        engine.workload(state), devices, engine.scenario(state), engine.device(state.baseline).key,
        asks_for_paper(state, on_paper),
    )  # fmt: skip


class ComparedNode(msgspec.Struct, frozen=True):
    """A node with its costs by device: latency_s, energy_j_per_inference and own_edp_js, None if it does not run there.
    `winner` is the existing device with the least by metric, '' in a tie or if a kernel hides the node on one."""

    id: str
    type: str
    devices: dict[str, dict[str, float | None]]
    winner: dict[str, str]


class Levels(figures.Head, frozen=True, kw_only=True):
    """The document of `hwexplorer compare --level subgraph|operator`. The start of a run is a node too."""

    level: str
    devices: tuple[str, ...]
    rows: tuple[ComparedNode, ...]


def _levels(state: State, level: str) -> Levels:
    """Return what the table of each metric has, in the order of execution."""
    tables = {name: _by_node(replace(state, metric=name), level, "graph") for name in ("latency", "energy", "edp")}
    keys = {name: engine.device(name).key for name in with_unchanged(state.devices)}
    columns = [[column.key.partition(":")[2] for column in table.columns] for table in tables.values()]
    fields, rows = ("latency_s", "energy_j_per_inference", "own_edp_js"), []
    for same in zip(*(table.rows for table in tables.values()), strict=True):
        costs = [dict(zip(names, row.cells, strict=True)) for names, row in zip(columns, same, strict=True)]
        devices = {
            key: {field: None if of[name] is None else float(of[name]) for field, of in zip(fields, costs, strict=True)}
            for name, key in keys.items()
        }
        winner = {metric: keys.get(str(row.cells[-1]), "") for metric, row in zip(tables, same, strict=True)}
        rows.append(ComparedNode(same[0].key, same[0].kind, devices, winner))
    head = figures.head_fields(engine.result(state))
    return Levels(**head, level=level, devices=tuple(keys.values()), rows=tuple(rows))


def _by_node(state: State, level: str, sort: str = "share") -> plain.Table:
    """Return the tree with a column for each device, in rows of subgraphs or of operators alone."""
    table = tree_view.view(replace(state, by="subgraph", sort=sort, descending=True, heat=True, pin=""))
    is_of_level = {"subgraph": lambda row: row.depth == 1, "operator": lambda row: row.depth and not row.has_children}
    flat = tuple(
        replace(
            row, cells=(row.cells[0] if row.kind == "host" else row.key, *row.cells[1:]), depth=0, has_children=False
        )
        for row in filter(is_of_level[level], table.rows)
    )
    title = f"{captions.headline_of_state(state)}: {metrics.METRICS[state.metric].noun} by {level}"
    table = replace(table, name="compare", title=title, rows=flat, first=NODES)
    return keep_columns(table, [place for place, column in enumerate(table.columns) if column.role != "bar"])


def _document(state: State, level: str, on_paper: bool, **costs: Any) -> comparison.Comparison | Levels:
    if level in ("subgraph", "operator"):
        return _levels(state, level)
    bill = find_bill(state, asks_for_paper(state, on_paper), **costs)
    found = compare_devices(state, on_paper)
    return found if bill is None else replace(found, cost=bill)


def _view(state: State, level: str, on_paper: bool, **costs: Any) -> plain.Table | plain.Page:
    """Return the whole answer, with all columns and sentences."""
    if level in ("subgraph", "operator"):
        return _by_node(state, level)
    bill = find_bill(state, asks_for_paper(state, on_paper), **costs)
    columns = COLUMNS + (() if bill is None else cost_columns(bill))
    devices = sorted(device_rows.device_rows(state, state.baseline), key=lambda row: row.order)
    footer = comparison.insights([row.run for row in devices], devices[0].reference)
    footer += tuple(f"next: {command(step)}" for step in compare_devices(state).next)
    table = name_work(by_device(state, device_rows.sort_rows(devices, state), columns), engine.outcome(state).work)
    table = replace(table, title="Devices", footer=footer, notes=_deviation_notes([row.run for row in devices]))
    return _page(state, on_paper, table, bill, is_whole=True)


def _brief(state: State, level: str, on_paper: bool, **costs: Any) -> plain.Table | plain.Page:
    """Return the answer with a row and a line for each device; with level `detailed`, all columns; with
    costs, a row with the cost of each."""
    if level != "summary":
        return _view(state, level, on_paper, **costs)
    bill = find_bill(state, asks_for_paper(state, on_paper), **costs)
    if bill is not None:
        # Devices that run the model first, then those with a price, then the cheapest; ranks are of another metric.
        paid = [(bill.rows[row.run.key], row) for row in device_rows.device_rows(state, state.baseline)]
        paid.sort(key=lambda pair: (not pair[1].run.can_win, pair[0].pays_for == ELECTRICITY_ONLY, pair[0].total_usd))
        devices = [row for _, row in paid]
        table = by_device(state, devices, (*_brief_columns(devices)[:3:2], *cost_columns(bill, is_whole=False)))
        return _page(state, on_paper, replace(table, title=f"Per {unit_of(bill.counted)}"), bill)
    table = pane_table(state, state.devices)
    return _page(state, on_paper, replace(table, title="Devices", footer=(*table.footer, MORE)))


def _page(
    state: State, on_paper: bool, view: plain.Table | plain.Text, bill: Bill | None = None, is_whole: bool = False
) -> plain.Page:
    """Return a comparison: its title, the verdict, a view, what a bill rests on, and the cards that HTML shows."""
    answer_lines = (*([bill.cheapest] if bill is not None else []), *answer(state, asks_for_paper(state, on_paper)))
    parts = (*([plain.Text("answer", "Answer", (("", answer_lines),))] if answer_lines else []), view)
    return plain.Page(
        "compare",
        captions.headline_of_state(state),
        (*parts, *([_assumptions(bill, is_whole)] if bill is not None else [])),
        main=len(parts) - 1,
        cards=device_rows.cards(state),
    )


def by_device(state: State, devices: Sequence[device_rows.DeviceRow], columns: tuple[Column, ...]) -> plain.Table:
    """Return one row per device, with the keys of `state.devices`, and against the pin if there is one."""
    pinned_state = pinned(state)
    pinned_edp_js = engine.result(pinned_state).edp_js if pinned_state else 0.0
    delta = Column("delta", "vs pin", "%", role="delta", keep=0, help="EDP against the pinned state",
                   of=lambda row: row.run.edp_js / pinned_edp_js - 1.0)  # fmt: skip
    all_columns = (*columns, *[delta] * bool(pinned_edp_js))
    limits = device_rows.check_limits(state)
    table_rows = make_rows(
        all_columns, devices, key="key", kind="figures.architecture",
        dim=lambda row: row.key in limits.failing if limits else not row.run.fits,
    )  # fmt: skip
    return plain.Table("compare", captions.headline_of_state(state), all_columns, table_rows, is_stacked=True)


def pane_table(state: State, described: Sequence[str] = ()) -> plain.Table:
    """Return a row for each device of a state, with the keys of `state.devices`, sorted by `state.rank`, and a line for
    each that is to be described, by default the one under the cursor. Lines begin with the names of devices."""
    devices = sorted(device_rows.device_rows(state, state.baseline), key=lambda row: row.order)
    # A narrow pane drops these columns before the columns of figures and bands.
    extra = (replace(column, keep=5) for column in COLUMNS if column.key in ("power", "utilization", "memory"))
    table = by_device(state, device_rows.sort_rows(devices, state), (*_brief_columns(devices), *extra))
    shown = (row for row in devices if row.key in (described or (state.on,)))
    lines = tuple(comparison.device_sentence(row.run, row.phrase, row.reference) for row in shown)
    # The notes are without their reasons, and without what the lines of devices say.
    notes = (note for note in _deviation_notes([row.run for row in devices]) if FITS_NOT not in note)
    return replace(table, footer=lines, notes=tuple(re.sub(r" \([^()]*\)$", "", note) for note in notes))


def _brief_columns(rows: Sequence[device_rows.DeviceRow]) -> tuple[Column, ...]:
    """Return the columns of a comparison in brief: rank, figures with their bands, software and evidence."""
    word = captions.metric_word(rows[0].metric)
    ratio = f"{word[0].upper()}{word[1:]} / {rows[0].reference.device.id}"
    return (
        Column("device", "Device", role="text", keep=0, of="run.key"),
        Column("place", "Rank", role="text", keep=0),
        Column("ratio", ratio, "x", keep=2, help="over that of the baseline"),
        *device_rows.figure_columns(rows),
        Column("software", "Software", role="text", keep=3,
               of=lambda row: f"{row.run.runtime.name.removesuffix(' compiler')} ({row.run.precision_run})"),
        Column("evidence", "Evidence", role="text", keep=2),
        *[Column("measured", "Measured", role="text", keep=1)] * any(row.measured for row in rows),
    )  # fmt: skip


def _deviation_notes(results: Sequence[Estimate]) -> tuple[str, ...]:
    """Return each deviation from the request, once with all devices that have it, and the notes of the model."""
    names: dict[str, list[str]] = {}
    for result in results:
        for mark in figures.describe_deviations(result):
            names.setdefault(mark, []).append(short_name(result.device))
    return (*(f"{', '.join(device_names)}: {mark}" for mark, device_names in names.items()), *results[0].workload.notes)


VERB = Report(
    subject=DEVICES,
    served=lambda _: under_load().VERB,
    options=(
        options.BASELINE,
        INCLUDE_PAPER,
        options.choice("--level", LEVELS, default="summary", metavar="LEVEL", applies_to="batch"),
        options.choice("--metric", metrics.ADDITIVE, metavar="M", help="what --level subgraph and operator compare"),
        *COST_OPTIONS,
    ),
    document=_document,
    view=_view,
    brief=_brief,
    view_columns=COLUMNS,
    pane=pane_table,
    examples={
        "compare": "conv2d",
        "compare_detailed": "conv2d --level detailed --batch 64",
        "compare_cost": "conv2d --on h100_sxm,tpu_v4 --cost",
        "compare_subgraph": "resnet_block --level subgraph",
    },
)
