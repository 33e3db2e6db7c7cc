"""Compare devices for one model: latency, energy, EDP, and which is best."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from analysis.document import Column, columns
from analysis.estimate.causes import shares
from analysis.estimate.estimate import Estimate
from analysis.estimate.metrics import ADDITIVE
from analysis.explore.comparison import Compared, Comparison, device_figures, insights
from analysis.explore.comparison import compare as compare_devices
from analysis.explore.node_comparison import Levels, compare_levels
from analysis.text.evidence import EVIDENCE, describe_evidence
from hwexplorer import engine
from hwexplorer.configurations import INCLUDE_PAPER, asks_for_paper
from hwexplorer.declare import DEVICES, Report
from hwexplorer.options import BASELINE, choice
from hwexplorer.reports.compare._brief import brief_table, deviation_notes, device_pages
from hwexplorer.state import RANKS, State, pinned
from hwexplorer.text.next_command import command
from hwexplorer.views import levels
from hwexplorer.views.answer_lines import answer
from hwexplorer.views.captions import band_words, bound_counts, headline_of_state
from hwexplorer.views.cause_looks import HELP
from hwexplorer.views.device_cards import cards
from hwexplorer.views.device_limits import check_limits
from hwexplorer.views.plain import Page, Stack, Table, Text
from hwexplorer.views.tables import rows, sort_by_column

NODES = 25  # rows in the brief text of a comparison node by node
LEVELS = ("summary", "detailed", "subgraph", "operator")
_BESIDE_BRIEF = ("bound", "power", "utilization", "memory", "delta")  # columns that a pane adds


class _Device(NamedTuple):
    """A row: a device as the state spells it, its estimate and figures, and the EDP of the pinned state or 0."""

    spelt: str
    run: Estimate
    figures: Compared
    pinned_edp_js: float

    def per_inference(self, component: str) -> float:
        """Return the energy of a component ('compute_j' ..) per inference."""
        return float(getattr(self.figures, component)) / self.run.scenario.batch

    def ratio(self, metric: str) -> float:
        """Return the ratio of a metric to the metric of the baseline."""
        return self.figures.ratio_to_baseline[metric]


_KEYS = (
    "device latency energy_per_inference edp ratio throughput power utilization memory bound known verdict causes "
    "runtime precision trust band energy_band"
)
_MORE_KEYS = (
    "compute_per_inference memory_per_inference static_per_inference energy weights activations limit tdp kernels "
    "bounds latency_ratio energy_ratio die_mm2 throughput_per_mm2 die_usd"
)
SUMMARY = columns(
    Compared,
    _KEYS,
    Column("device", "Device", role="text", keep=0, of=lambda row: row.run.device.label),
    Column("ratio", "EDP ratio", "x", keep=3, of=lambda row: row.ratio("edp"), help="to the baseline"),
    Column("known", "Evidence", role="text", keep=2, of="figures.trust.level", shown=EVIDENCE),
    Column(
        "causes", "EDP by cause", role="bar", keep=5, help=HELP,
        of=lambda row: Stack(shares(row.run, "edp").sum(axis=1).tolist()),
    ),
    Column(
        "precision", "Format used", role="text", keep=3, of="figures.precision_run",
        help="the format most multiply-accumulates run in",
    ),
    Column(
        "trust", "Backed by", role="text", keep=6, of=lambda row: describe_evidence(row.run.trust),
        help="measurements of such work, and their median error",
    ),
    Column(
        "band", "± of latency", "s", role="text", keep=2, ends=("latency_low", "latency_high"),
        of=lambda row: band_words(row.run.latency_band_s, row.run.latency_s),
    ),
    Column(
        "energy_band", "± of energy", "J", role="text", keep=2, ends=("energy_low", "energy_high"),
        of=lambda row: band_words(row.run.energy_band_j, row.run.energy_j),
    ),
    within="figures", latency=0, energy_per_inference=0, verdict=1, runtime=3,
    edp={"help": "energy per inference x latency of the batch"},
    throughput={"help": "inferences per second", "title": "Rate", "keep": 3},
    power={"help": "average over the inference", "keep": 4},
    utilization={"help": "share of the peak in the format that runs"},
    memory={"help": "peak: weights and live activations", "keep": 5},
    bound={"keep": 4},
)  # fmt: skip
# Columns in the order of reading: rank, cost, runtime and precision, evidence.
_READ = (
    "device verdict latency band energy_per_inference energy_band edp throughput runtime precision known ratio bound "
    "power utilization memory causes trust"
)
READING = tuple(sorted(SUMMARY, key=lambda column: _READ.split().index(column.key)))
DETAILED = SUMMARY + columns(
    Compared,
    _MORE_KEYS,
    Column("compute_per_inference", "Compute/inf", "J", keep=2, of=lambda row: row.per_inference("compute_j")),
    Column("memory_per_inference", "Mem. energy/inf", "J", keep=2, of=lambda row: row.per_inference("memory_j")),
    Column("static_per_inference", "Static/inf", "J", keep=2, of=lambda row: row.per_inference("static_j")),
    Column("kernels", "Kernels", "count", keep=5, of="run.demand.n_kernels"),
    Column(
        "bounds",
        "Bounds",
        role="text",
        keep=5,
        of=lambda row: bound_counts(row.run),
        help="kernels by what bounds them",
    ),
    Column("latency_ratio", "Latency ratio", "x", keep=3, of=lambda row: row.ratio("latency"), help="to the baseline"),
    Column("energy_ratio", "Energy ratio", "x", keep=3, of=lambda row: row.ratio("energy"), help="to the baseline"),
    within="figures",
)
DELTA = Column(
    "delta",
    "vs pin",
    "%",
    role="delta",
    keep=0,
    of=lambda row: row.run.edp_js / row.pinned_edp_js - 1.0,
    help="EDP against the pinned state",
)


def comparison(state: State, on_paper: bool = False) -> Comparison:
    """Return the document of a comparison of the devices of a state."""
    devices = [engine.device(name) for name in state.devices]
    return compare_devices(
        engine.workload(state), devices, engine.scenario(state), engine.device(state.baseline).key,
        asks_for_paper(state, on_paper),
    )  # fmt: skip


def _results(state: State) -> list[Estimate]:
    return [engine.result(state, name) for name in state.devices]


def _document(state: State, level: str, on_paper: bool) -> Comparison | Levels:
    if level in ("subgraph", "operator"):
        return _by_level(state, level, on_paper)
    return comparison(state, on_paper)


def _by_level(state: State, level: str, on_paper: bool) -> Levels:
    reference = engine.result(state, state.baseline)
    return compare_levels(_results(state), reference, level, asks_for_paper(state, on_paper))


def _view(state: State, level: str, on_paper: bool) -> Table | Page:
    """Return the whole answer, with all columns and sentences. CSV has the columns in the order of `SUMMARY`."""
    if level in ("subgraph", "operator"):
        return levels.by_node(state, _by_level(state, level, on_paper))
    table = _sorted_devices(state, level, READING)
    if level == "detailed":
        table = replace(table, footer=(*table.footer, *_steps(state)))
    return replace(_page(state, on_paper, replace(table, title="Devices")), csv=_sorted_devices(state, level, SUMMARY))


def _sorted_devices(state: State, level: str, columns: tuple[Column, ...]) -> Table:
    more = DETAILED[len(SUMMARY) :] if level == "detailed" else ()
    return sort_rows(by_device(state, (*columns, *more)), state)


def _brief(state: State, level: str, on_paper: bool) -> Table | Page:
    """Return the answer with a row and a line for each device; with level `detailed`, a paragraph for each device."""
    if level in ("subgraph", "operator"):
        return replace(_view(state, level, on_paper), first=NODES)
    if level == "detailed":
        return _page(state, on_paper, device_pages(_sorted_devices(state, level, READING), _steps(state)))
    return _page(state, on_paper, brief_table(_results(state), engine.result(state, state.baseline), state.metric))


def _steps(state: State) -> tuple[str, ...]:
    return tuple(f"next: {command(step)}" for step in comparison(state).next)


def _page(state: State, on_paper: bool, view: Table | Text) -> Page:
    """Return a comparison: its title, the verdict, a view, and the cards that HTML shows."""
    said = answer(state, asks_for_paper(state, on_paper))
    parts = (*([Text("answer", "Answer", (("", said),))] if said else []), view)
    return Page("compare", headline_of_state(state), parts, main=len(parts) - 1, cards=cards(state))


def by_device(state: State, columns: tuple[Column, ...] = READING) -> Table:
    """Return one row per device, with the keys of `state.devices`."""
    results, reference = _results(state), engine.result(state, state.baseline)
    other = pinned(state) if state.diff else None
    against = engine.result(other).edp_js if other else 0.0
    items = [
        _Device(name, result, figures, against)
        for name, result, figures in zip(state.devices, results, device_figures(results, reference), strict=True)
    ]
    shown = (*columns, DELTA) if against else columns
    limits = check_limits(state)
    table_rows = rows(
        shown,
        items,
        key="spelt",
        kind="figures.architecture",
        dim=lambda row: row.spelt in limits.failing if limits else not row.run.fits,
    )
    return Table(
        "compare", headline_of_state(state), shown, table_rows,
        footer=insights(results, reference), notes=deviation_notes(results), is_stacked=True,
    )  # fmt: skip


def sort_rows(table: Table, state: State) -> Table:
    """Sort rows by `state.rank`, the best first unless `rank_reverse`; the rank `rank` keeps the order of the table.
    Designs on paper come last."""
    ordered = table.rows
    if state.rank != RANKS[0]:
        key = {"name": "device", "energy": "energy_per_inference"}.get(state.rank, state.rank)
        place = next(i for i, column in enumerate(table.columns) if column.key == key)
        ordered = sort_by_column(table, place, is_falling=state.rank == "throughput").rows
    ordered = ordered[::-1] if state.rank_reverse else ordered
    return replace(table, rows=tuple(sorted(ordered, key=lambda row: not engine.device(row.key).silicon)))


def pane_table(state: State) -> Table:
    """Return a row and a line for each device of a state, with the keys of `state.devices`, sorted by `state.rank`.
    Each line begins with the name of its device."""
    full = by_device(state)
    results = [engine.result(state, name) for name in state.devices]
    brief = brief_table(results, engine.result(state, state.baseline), state.metric)
    cells = {row.key: row.cells for row in brief.rows}
    by_rank = sorted(full.rows, key=lambda row: list(cells).index(engine.device(row.key).key))
    full = sort_rows(replace(full, rows=tuple(by_rank)), state)
    places = [place for place, column in enumerate(full.columns) if column.key in _BESIDE_BRIEF]
    rows = tuple(
        replace(row, cells=(*cells[engine.device(row.key).key], *(row.cells[place] for place in places)))
        for row in full.rows
    )
    # A narrow pane drops these columns before the columns of figures and bands. It keeps deltas.
    beside = (
        column if column.role == "delta" else replace(column, keep=max(5, column.keep))
        for column in map(full.columns.__getitem__, places)
    )
    lines = brief.footer[1:-1]  # without the legend and the hint `MORE`
    return replace(brief, title=full.title, columns=(*brief.columns, *beside), rows=rows, footer=lines)


VERB = Report(
    subject=DEVICES,
    options=(
        BASELINE,
        INCLUDE_PAPER,
        choice("--level", LEVELS, default="summary", metavar="LEVEL", applies_to="batch"),
        choice("--metric", ADDITIVE, metavar="M", help="what --level subgraph and operator compare"),
    ),
    document=_document,
    view=_view,
    brief=_brief,
    view_columns=DETAILED,
    pane=pane_table,
    examples={
        "compare": "conv2d",
        "compare_detailed": "conv2d --level detailed --batch 64",
        "compare_subgraph": "resnet_block --level subgraph",
    },
)
