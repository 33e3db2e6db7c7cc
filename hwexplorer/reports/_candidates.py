"""Configurations to choose from, as rows: what fronts and searches share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwexplorer.declare import Rows
from hwexplorer.views.plain import Column
from hwexplorer.views.words import FLAGS, FLAGS_HELP, KNOWN, KNOWN_HELP, MARKED, leads

if TYPE_CHECKING:
    from analysis.decide.choose import Candidate

KEY = ("point.model", "point.device", "point.batch", "point.precision")
KIND = "point.architecture"


def configuration(of: Candidate) -> str:
    """Where its row leads."""
    return leads(of.point)


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
    Column("cost_usd_per_million", "USD/1M", keep=4, help="electricity of a million inferences"),
    Column("accuracy", "Accuracy", keep=3, help="published, of the default weights in fp32"),
    Column("known", "T", role="flag", keep=4, of="point.trust.level", shown=KNOWN, help=KNOWN_HELP),
    Column("bound", "B", role="flag", keep=4, of="point.bound", shown=FLAGS, help=FLAGS_HELP),
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
