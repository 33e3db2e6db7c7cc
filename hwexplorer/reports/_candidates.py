"""Configurations to choose from, as rows: what fronts and searches share."""

from __future__ import annotations

from analysis.document import Column, columns
from analysis.estimate.figures import Figures
from analysis.explore.search.candidates import Candidate
from hwexplorer.declare import Rows
from hwexplorer.views.captions import KNOWN, KNOWN_HELP, MARKED, NOT_MEASURED, figures_lead, trust_words

KEY = ("point.model", "point.device", "point.batch", "point.precision")
KIND = "point.architecture"


def candidate_lead(of: Candidate) -> str:
    """Return the configuration that the row of a candidate leads to."""
    return figures_lead(of.point)


def describe_candidate(of: Candidate) -> str:
    """`hailo10h at batch 1, int8 (measured: 60 rows, 14 % off; odds 55 %)`."""
    point = of.point
    how = NOT_MEASURED if point.trust.level == "engineering" else trust_words(point.trust)
    odds = f"; odds of keeping to the limits {of.odds:.0%}" if isinstance(of.odds, float) else ""
    return f"{MARKED[point.device]} at batch {point.batch}, {point.precision} ({how}{odds})"


COLUMNS = columns(
    Figures,
    "model device batch precision precision_run energy_per_inference latency throughput edp power memory "
    "cost_usd_per_million accuracy known bound",
    *columns(Candidate, "cost_usd_per_million accuracy"),
    Column("known", "T", role="flag", keep=4, of="point.trust.level", shown=KNOWN, help=KNOWN_HELP),
    within="point",
    device={"shown": MARKED},
)
ODDS = Column(
    "odds", "Odds", "%", keep=1, help="that what would be measured keeps to the limits of time and energy, by the bands"
)
# What exists on paper only wins nothing from silicon: it stands below, where it was asked for.
ON_PAPER = Rows(
    "on_paper", "On paper only", COLUMNS, of="design_targets", key=KEY, kind=KIND, optional=True, leads=candidate_lead
)
