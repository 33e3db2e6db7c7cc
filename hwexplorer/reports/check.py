"""Check rules such as "energy(gpu) < 50mJ": PASS, FAIL or UNKNOWN, with margin, odds and what to measure next.

Exit 0: every figure as estimated satisfies its rule; 1: one does not, or figures cover only a part of the model; 2: the
request was wrong. The verdict also counts the odds: a figure near its limit is UNKNOWN, and exits as its estimate does.
"""

from functools import partial
from typing import Any

from analysis.document import Column, columns
from analysis.explore import outcome
from hardware.base.text import quantity
from hwexplorer import declare, engine
from hwexplorer.options import option
from hwexplorer.state import State

COLUMNS = (
    *columns(outcome.Finding, "verdict rule"),
    Column("found", "Found", role="text", keep=0, of=lambda finding: quantity(finding.value, finding.unit)),
    *columns(outcome.Finding, "margin odds evidence says"),
)


def _document(state: State, rule: list[str] | None) -> outcome.Findings:
    return outcome.check([outcome.parse_rule(text) for text in rule or ()], partial(engine.outcome, state))


def broken_rules(document: Any) -> str:
    """Return the broken rules of a document with findings as text; '' if all hold."""
    return "; ".join(finding.says for finding in getattr(document, "findings", ()) if not finding.holds)


def _tally(document: outcome.Findings, state: State) -> tuple[str, ...]:
    holding = sum(finding.holds for finding in document.findings)
    tally = f"{document.verdict}: {holding} of {len(document.findings)} rules hold as estimated"
    unknown = [finding for finding in document.findings if finding.verdict == outcome.UNKNOWN]
    return (tally, *dict.fromkeys(f"To settle {finding.rule}: {finding.next}." for finding in unknown if finding.next))


VERB = declare.Report(
    subject=declare.DEVICE,
    options=(
        option(
            "--rule", action="append", metavar="RULE",
            help='e.g. "energy(h100_sxm) < 50mJ", "share(layer4.*) < 0.5"; exit 1 if a figure as estimated breaks it, '
            "whatever the verdict says of its odds",
        ),
    ),
    document=_document,
    parts=(
        declare.Rows(
            "check",
            lambda ran: (
                f"{ran.model}, batch {ran.batch}, {ran.precision}, "
                f"{', '.join(ran.runtimes)}{f', {ran.prices} prices' * bool(ran.prices)} on {', '.join(ran.devices)}"
            ),
            COLUMNS, of="findings", key="rule", footer=_tally,
        ),
    ),
    fails=broken_rules,
    on_screen=False,
    examples={"check": 'conv2d --rule "energy(h100_sxm) < 1J"'},
)  # fmt: skip
