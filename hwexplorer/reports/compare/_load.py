"""A comparison of devices under one load: the verdict, a row and a line for each."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from analysis.serving.serving_report import ServingReport
from hwexplorer.declare import facts
from hwexplorer.reports.show.load import LOADS
from hwexplorer.reports.show.load import VERB as SHOW_LOAD
from hwexplorer.state import State

_SHOWN = "key layout ttft_p50 ttft_p99 tpot_p50 tpot_p99 tokens energy_per_token usd_per_million_tokens utilization"


def _answer(report: ServingReport, state: State) -> Iterator[str]:
    yield from report.answers
    yield from report.not_fitting


_BRIEF = replace(LOADS, title="Devices", columns=tuple(c for c in LOADS.columns if c.key in _SHOWN.split()))

VERB = replace(
    SHOW_LOAD,
    parts=(facts(_answer), replace(LOADS, title="Devices", brief={"columns": _BRIEF.columns}), *SHOW_LOAD.parts[2:]),
    brief_parts=("summary", "loads"),
    examples={},
)
