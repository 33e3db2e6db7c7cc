"""Configurations to choose from, as rows: what fronts and searches share."""

from __future__ import annotations

from analysis.document import BOUND_HELP, BOUND_LETTERS, Column
from analysis.explore.search.candidates import Candidate
from hwexplorer.declare import Rows
from hwexplorer.views.words import KNOWN, KNOWN_HELP, MARKED, NOT_MEASURED, known, leads

KEY = ("point.model", "point.device", "point.batch", "point.precision")
KIND = "point.architecture"


def configuration(of: Candidate) -> str:
    """Where its row leads."""
    return leads(of.point)


def told(of: Candidate) -> str:
    """`hailo10h at batch 1, int8 (measured: 60 rows, 14 % off; odds 55 %)`."""
    point = of.point
    how = NOT_MEASURED if point.trust.level == "engineering" else known(point.trust)
    odds = f"; odds of keeping to the limits {of.odds:.0%}" if isinstance(of.odds, float) else ""
    return f"{MARKED[point.device]} at batch {point.batch}, {point.precision} ({how}{odds})"


COLUMNS = (
    Column("model", "Model", role="text", keep=2, of="point.model"),
    Column("device", "Device", role="text", keep=0, of="point.device", shown=MARKED),
    Column("batch", "Batch", "count", keep=0, of="point.batch"),
    Column("precision", "Asked", role="text", keep=0, of="point.precision"),
    Column("precision_run", "Runs", role="text", keep=5, of="point.precision_run"),
    Column("energy_per_inference", "Energy/inf", "J", keep=0, of="point.energy_j_per_inference"),
    Column("latency", "Latency", "s", keep=0, of="point.latency_s", help="of the whole batch"),
    Column("throughput", "Inf/s", "1/s", keep=2, of="point.throughput_per_s"),
    Column("edp", "EDP", "Js", keep=2, of="point.edp_js"),
    Column("power", "Power", "W", keep=3, of="point.average_power_w"),
    Column("memory", "Memory", "byte", keep=3, of="point.peak_memory_bytes"),
    Column(
        "cost_usd_per_million", "Electricity USD/1M", keep=4, help="of a million inferences; hire and purchase: cost"
    ),
    Column("accuracy", "Accuracy fp32", keep=3, help="published, of the default weights in fp32"),
    Column("known", "T", role="flag", keep=4, of="point.trust.level", shown=KNOWN, help=KNOWN_HELP),
    Column("bound", "B", role="flag", keep=4, of="point.bound", shown=BOUND_LETTERS, help=BOUND_HELP),
)
ODDS = Column(
    "odds", "Odds", "%", keep=1, help="that what would be measured keeps to the limits of time and energy, by the bands"
)
# What exists on paper only wins nothing from silicon: it stands below, where it was asked for.
ON_PAPER = Rows(
    name="on_paper",
    title="On paper only",
    columns=COLUMNS,
    of="design_targets",
    key=KEY,
    kind=KIND,
    optional=True,
    leads=configuration,
)
