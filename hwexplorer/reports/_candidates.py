"""Columns and rows of candidate configurations, for `pareto` and `search`."""

from functools import partial

from analysis.document import Column, columns
from analysis.estimate.figures import Figures
from analysis.explore.odds import describe_odds
from analysis.explore.search.candidates import Candidate
from analysis.text.evidence import EVIDENCE, describe_evidence
from hwexplorer.declare import Rows
from hwexplorer.views.captions import MARKED, figures_lead

KEY = ("point.model", "point.device", "point.batch", "point.precision")


def describe_candidate(of: Candidate) -> str:
    """Write `hailo10h at batch 1, fp32 run as int8 (measured on it: 60 measurements ..; 98 % sure)`."""
    point = of.point
    form = point.precision + f" run as {point.precision_run}" * (point.precision_run != point.precision)
    odds = f"; {describe_odds(of.odds)} to keep the limits" if isinstance(of.odds, float) else ""
    return f"{MARKED[point.device]} at batch {point.batch}, {form} ({describe_evidence(point.trust)}{odds})"


COLUMNS = columns(
    Figures,
    "model device batch precision precision_run energy_per_inference latency throughput edp power memory "
    "cost_usd_per_million accuracy known bound",
    *columns(Candidate, "cost_usd_per_million accuracy"),
    Column("known", "Evidence", role="text", keep=1, of="point.trust.level", shown=EVIDENCE),
    within="point",
    device={"shown": MARKED},
    edp=0,
)
ODDS = Column("odds", "Odds", "%", keep=2, help="odds that a measurement keeps the limits of time and energy")
# Rows of candidates; each row opens its configuration on the screen.
candidate_rows = partial(Rows, key=KEY, kind="point.architecture", leads=lambda of: figures_lead(of.point))
# Designs on paper do not compete with existing devices, so they have a table of their own.
ON_PAPER = candidate_rows("on_paper", "On paper only", COLUMNS, of="design_targets", optional=True, first=5)
