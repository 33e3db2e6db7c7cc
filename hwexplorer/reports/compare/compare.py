"""One model on several devices, as a whole or node by node."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from analysis.document import BOUND_HELP, Column, columns
from analysis.estimate.causes import shares
from analysis.estimate.deviations import describe_deviations
from analysis.estimate.estimate import Estimate
from analysis.estimate.metrics import ADDITIVE
from analysis.explore.comparison import Compared, Comparison, device_figures, insights, recommendations
from analysis.explore.comparison import compare as compare_devices
from analysis.explore.node_comparison import Levels, compare_levels
from analysis.explore.odds import BEATS, DOUBT, odds_of_being_best
from hwexplorer import engine
from hwexplorer.configurations import INCLUDE_PAPER, asks_for_paper
from hwexplorer.declare import DEVICES, Report
from hwexplorer.options import BASELINE, choice
from hwexplorer.state import State, pinned
from hwexplorer.text.next_command import command
from hwexplorer.views import levels
from hwexplorer.views.captions import (
    KNOWN,
    KNOWN_HELP,
    NOT_MEASURED,
    band_words,
    bound_counts,
    headline_of_state,
    trust_words,
)
from hwexplorer.views.cause_looks import HELP
from hwexplorer.views.device_cards import cards
from hwexplorer.views.device_limits import check_limits
from hwexplorer.views.plain import Page, Row, Stack, Table, Text
from hwexplorer.views.tables import rows

LEVELS = ("summary", "detailed", "subgraph", "operator")
_MORE_IS_BETTER = ("throughput",)


class _Device(NamedTuple):
    """A row: the run on a device, its figures beside the baseline's, and how the state spells it."""

    spelt: str
    run: Estimate
    figures: Compared
    pinned_edp_js: float

    def per_inference(self, component: str) -> float:
        """Energy of a component ('compute_j' ..) per inference."""
        return float(getattr(self.figures, component)) / self.run.scenario.batch

    def ratio(self, metric: str) -> float:
        """Return the ratio of a metric to that of the baseline."""
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
    Column("known", "T", role="flag", keep=2, of="figures.trust.level", shown=KNOWN, help=KNOWN_HELP),
    Column(
        "causes", "Goes into", role="bar", keep=5, help=f"EDP {HELP}",
        of=lambda row: Stack(shares(row.run, "edp").sum(axis=1).tolist()),
    ),
    Column(
        "precision", "Runs", role="text", keep=5, of="figures.precision_run",
        help="the format most multiply-accumulates run in",
    ),
    Column(
        "trust", "Known", role="text", keep=6, of=lambda row: trust_words(row.run.trust),
        help="measurements of such work, and their median error",
    ),
    Column(
        "band", "Latency band", "s", role="text", keep=6, ends=("latency_low", "latency_high"),
        of=lambda row: band_words(row.run.latency_band_s, row.run.latency_s),
    ),
    Column(
        "energy_band", "Energy band", "J", role="text", keep=6, ends=("energy_low", "energy_high"),
        of=lambda row: band_words(row.run.energy_band_j, row.run.energy_j),
    ),
    within="figures", latency=1, energy_per_inference=1,
    edp={"help": "energy per inference x latency of the batch"},
    throughput={"help": "inferences per second", "title": "Throughput", "keep": 3},
    power={"help": "average over the inference", "keep": 4},
    utilization={"help": "of the peak of the format that runs"},
    memory={"help": "peak: weights and live activations", "keep": 5},
    bound={"help": f"{BOUND_HELP}, most of the time", "title": "Bound", "keep": 2},
)  # fmt: skip
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


ANSWERS = ("best for ", "on paper, best for ")


def comparison(state: State, on_paper: bool = False) -> Comparison:
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
    if level in ("subgraph", "operator"):
        return levels.by_node(state, _by_level(state, level, on_paper))
    table = sort_rows(by_device(state, DETAILED if level == "detailed" else SUMMARY, on_paper), state)
    if level == "detailed":
        steps = tuple(f"next: {command(step)}" for step in comparison(state).next)
        table = msgspec.structs.replace(table, footer=(*table.footer, *steps))
    answers = sum(line.startswith(ANSWERS) for line in table.footer)  # first where it is read from top to bottom
    if not answers:
        return table
    rest = msgspec.structs.replace(table, title="Devices", footer=table.footer[answers:])
    said = Text("answer", "Answer", (("", table.footer[:answers]),))
    return Page("compare", table.title, (said, rest), main=1, cards=cards(state))


def by_device(state: State, columns: tuple[Column, ...] = SUMMARY, on_paper: bool = False) -> Table:
    """One row per device, keyed as in `state.devices`."""
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
    best = (*_best(results), *(_best(results, silicon=False) if asks_for_paper(state, on_paper) else ()))
    footer = (*best, *insights(results, reference))
    notes = (*_marks(results), *results[0].workload.notes)
    return Table("compare", headline_of_state(state), shown, table_rows, footer=footer, notes=notes)


def answers(state: State) -> tuple[str, ...]:
    """Return the sentences that say which device is best and how sure that is; none of one device."""
    return _best(_results(state))


def _best(results: list[Estimate], silicon: bool = True) -> tuple[str, ...]:
    """`best for energy, latency, throughput, balance: Google TPU v4; memory: ...`; nothing to say of one device."""
    rivals = {result.device.key: result for result in results if result.device.silicon is silicon and result.can_win}
    aims: dict[str, list[str]] = {}
    for aim, key in recommendations(results, silicon).items():
        if key and (aim != "memory" or len({result.peak_memory_bytes for result in rivals.values()}) > 1):
            aims.setdefault(key, []).append(aim)
    if len(results) < 2 or not aims:
        return ()
    said = (
        f"{', '.join(those)}: {rivals[key].device.label}{_how_sure(rivals[key], list(rivals.values()), those)}"
        for key, those in aims.items()
    )
    return (ANSWERS[not silicon] + "; ".join(said),)


def _how_sure(best: Estimate, rivals: list[Estimate], aims: list[str]) -> str:
    """` (engineering values; odds 74 % that it is quicker than all others)`; '' where nothing is in doubt."""
    chances = {metric: odds_of_being_best(best, rivals, metric) for metric in BEATS if metric in aims}
    doubts = [f"{BEATS[metric]}: {chance:.0%}" for metric, chance in chances.items() if chance < DOUBT[1]]
    odds = [f"odds that it {', '.join(doubts)}"] * bool(doubts)
    unmeasured = [NOT_MEASURED] * (best.trust.level == "engineering")
    return f" ({'; '.join([*unmeasured, *odds])})" if doubts or unmeasured else ""


def _marks(results: list[Estimate]) -> tuple[str, ...]:
    names: dict[str, list[str]] = {}
    for result in results:
        for mark in describe_deviations(result):
            names.setdefault(mark, []).append(result.device.label)
    return tuple(f"{', '.join(those)}: {mark}" for mark, those in names.items())


def sort_rows(table: Table, state: State) -> Table:
    """The best first; reversed, the worst. `given` is the order of the state."""
    ordered = table.rows
    if state.rank != "given":
        key = {"name": "device", "energy": "energy_per_inference"}.get(state.rank, state.rank)
        place = next(i for i, column in enumerate(table.columns) if column.key == key)

        def value(row: Row) -> tuple[bool, str | float]:
            cell = row.cells[place]
            if isinstance(cell, str):
                return False, cell.casefold()
            return cell is None, float(cell or 0)

        ordered = tuple(sorted(ordered, key=value, reverse=state.rank in _MORE_IS_BETTER))
    return msgspec.structs.replace(table, rows=ordered[::-1] if state.rank_reverse else ordered)


VERB = Report(
    subject=DEVICES,
    options=(
        BASELINE,
        INCLUDE_PAPER,
        choice("--level", LEVELS, default="summary", metavar="LEVEL"),
        choice("--metric", ADDITIVE, metavar="M", help="of subgraphs and operators"),
    ),
    document=_document,
    view=_view,
    view_columns=DETAILED,
    examples={
        "compare": "conv2d",
        "compare_detailed": "conv2d --level detailed --batch 64",
        "compare_subgraph": "resnet_block --level subgraph",
    },
)
