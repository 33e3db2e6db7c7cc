"""Rules and what they found."""

from __future__ import annotations

from analysis.decide.rules import Findings
from hardware.quantity import quantity
from hwexplorer.views.plain import Column, Row, Table

COLUMNS = (
    Column("verdict", "", role="text", keep=0),
    Column("rule", "Rule", role="text", keep=0),
    Column("found", "Found", role="text", keep=0),
    Column("says", "", role="text", keep=2),
)


def view(found: Findings) -> Table:
    """A row per rule; those that are broken say by which figure."""
    rows = tuple(
        Row(f.rule, ("pass" if f.holds else "FAIL", f.rule, quantity(f.value, f.unit), f.says)) for f in found.findings
    )
    broken = sum(not f.holds for f in found.findings)
    footer = f"{len(rows) - broken} of {len(rows)} rules hold"
    title = f"{found.model}: batch {found.batch}, {found.precision}, {found.execution}"
    return Table("check", title, COLUMNS, rows, (footer,))
