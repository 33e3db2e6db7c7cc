"""Rules of CI evaluated on estimates: `energy(h100_sxm) < 50mJ`, `share(layer4.*) < 0.5`.

A figure takes a device (`energy(gpu)`), by default the device under test. `share` takes a pattern of node paths
(`layer4.*`) and a device; `ratio` takes a figure and two devices: `ratio(energy, cpu, gpu) > 2`. `change` compares two
results and takes a figure and a pattern: `change(energy, layer4.*) < 5%`. Energy is per inference, latency of the
batch. The verdict on a rule is PASS or FAIL if a measurement would agree with at least 90 % odds, else UNKNOWN.
"""

import math
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec

from analysis.document import column
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.tree_figures import tree
from analysis.explore.constraint import Constraint
from analysis.explore.odds import SURE, correlation, odds_below, ratio_band
from analysis.explore.outcome import Outcome, RuledFigure
from analysis.model.ir import workload
from analysis.text.headline import describe_evidence
from hardware.base.errors import RequestError
from hardware.base.text import percent, quantity

PASS, FAIL, UNKNOWN = "PASS", "FAIL", "UNKNOWN"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A rule with the figure that it constrains, in the SI unit. `holds` is of the figure as estimated. The verdict is
    UNKNOWN if `odds`, the probability that a measurement would satisfy the rule, are neither high nor low; None if the
    error is unknown, as that of memory. `margin` is what is left to the limit, a fraction of it, negative beyond it.
    `next` says what to measure, and what reads the result."""

    rule: Annotated[str, column("Rule")]
    verdict: Annotated[str, column("")]
    holds: bool
    value: float | None
    limit: float
    unit: str
    margin: Annotated[float | None, column("Margin", "%", help="what is left to the limit, a share of it")]
    odds: Annotated[float | None, column("Odds", "%", help="probability that a measurement would satisfy the rule")]
    band: tuple[float, float] | None
    evidence: Annotated[str, column("Evidence", keep=3)]
    says: Annotated[str, column("", keep=2)]
    next: str


class Findings(Head, frozen=True, kw_only=True):
    """The document of `hwexplorer check`. The verdict is the worst of all rules; `holds` is True if every figure as
    estimated satisfies its rule. `devices` and `runtimes` are those of the estimates that the rules used."""

    verdict: str
    holds: bool
    devices: tuple[str, ...]
    runtimes: tuple[str, ...]
    findings: tuple[Finding, ...]


_WITHOUT_ROOM = ("memory", "coverage")  # figures of a model that does not fit into the memory

# (figure, pattern) -> the relative change
Change = Callable[[str, str], float]
FindOutcome = Callable[[str], Outcome]


def check(rules: Sequence[Constraint], find_outcome: FindOutcome) -> Findings:
    """Evaluate rules. `find_outcome(device)` returns the outcome on a device, '' for the one under test. Raises
    RequestError."""
    if not rules:
        raise RequestError('no rule is given: --rule "energy(h100_sxm) < 50mJ"')
    evaluated = evaluate_rules(rules, find_outcome, _reject_change)
    names = dict.fromkeys(name for rule in rules for name in _devices(rule) or ("",))
    results = [find_outcome(name).estimate for name in names]
    evaluated += coverage_findings(results[0].coverage, results[0].rule_coverage.gap)
    return Findings(
        **head_fields(results[0]),
        verdict=worst_verdict(evaluated),
        holds=all(finding.holds for finding in evaluated),
        devices=tuple(dict.fromkeys(result.device.key for result in results)),
        runtimes=tuple(dict.fromkeys(result.runtime.name for result in results)),
        findings=evaluated,
    )


def worst_verdict(findings: Sequence[Finding]) -> str:
    """Return FAIL if one rule fails, else UNKNOWN if one is unknown, else PASS."""
    verdicts = {finding.verdict for finding in findings}
    return next((verdict for verdict in (FAIL, UNKNOWN) if verdict in verdicts), PASS)


def coverage_findings(share: float, gap: str) -> tuple[Finding, ...]:
    """Return a broken rule if `gap` is not empty: figures that cover only part of a model must not pass."""
    rule = Constraint("coverage", ">", workload.least(), text="coverage")
    finding = _judge(rule, RuledFigure(share, "", ""))
    return (msgspec.structs.replace(finding, holds=False, verdict=UNKNOWN, says=gap),) if gap else ()


def _reject_change(figure: str, pattern: str) -> float:
    raise RequestError(f"change({figure}) compares two results: hwexplorer why BEFORE AFTER --rule ..")


def evaluate_rules(rules: Sequence[Constraint], find_outcome: FindOutcome, change: Change) -> tuple[Finding, ...]:
    """Evaluate rules on outcomes and changes. Raises RequestError if one of these does."""
    return tuple(_evaluate(rule, find_outcome, change) for rule in rules)


def _evaluate(rule: Constraint, find_outcome: FindOutcome, change: Change) -> Finding:
    if rule.figure == "change":
        name, *patterns = rule.where
        where = f" of {patterns[0]}" if patterns else ""
        return _judge(rule, RuledFigure(change(name, "".join(patterns)), f"change of {name}{where}", ""))
    outcomes = [find_outcome(device) for device in _devices(rule) or ("",)]
    for outcome in outcomes:
        if not outcome.fits and rule.figure not in _WITHOUT_ROOM:
            return _judge(rule, RuledFigure(math.nan, outcome.describe_lack(), ""))
    result = outcomes[0].estimate
    if rule.figure == "share":
        words = f"EDP share of {rule.where[0]} on {result.device.key}"
        return _judge(rule, RuledFigure(edp_share(result, rule.where[0]), words, describe_evidence(result.trust)))
    figure = rule.where[0] if rule.figure == "ratio" else rule.figure
    ruled = _ratio(figure, *outcomes) if rule.figure == "ratio" else outcomes[0].ruled_figure(figure)
    unsure = max(outcomes, key=lambda outcome: outcome.estimate.trust.band[1] / outcome.estimate.trust.band[0])
    return _judge(rule, ruled, unsure.measurement(figure) if ruled.band is not None else "")


def _devices(rule: Constraint) -> tuple[str, ...]:
    return {"change": (), "share": rule.where[1:], "ratio": rule.where[1:]}.get(rule.figure, rule.where)


def _ratio(figure: str, a: Outcome, b: Outcome) -> RuledFigure:
    """Return the ratio of a figure on two devices, whose errors are correlated."""
    sides = [outcome.ruled_figure(figure) for outcome in (a, b)]
    bands = [(side.value, side.band) for side in sides if side.band is not None and side.value > 0.0]
    return RuledFigure(
        value=sides[0].value / sides[1].value if sides[1].value else math.inf,
        words=f"{figure} of {a.estimate.device.key} over {b.estimate.device.key}",
        evidence="; ".join(dict.fromkeys(side.evidence for side in sides)),
        band=ratio_band(bands, correlation(a.estimate, b.estimate)) if len(bands) == len(sides) else None,
    )


def _odds(rule: Constraint, ruled: RuledFigure) -> float | None:
    """Return the probability that a measurement would satisfy a rule; None if the error of the figure is unknown."""
    if ruled.band is None:
        return None
    if min(ruled.value, rule.amount) <= 0.0:
        return float(rule.holds(ruled.value))
    odds = odds_below(ruled.value, ruled.band, rule.amount)
    return 1.0 - odds if rule.sign.startswith(">") else odds


def _judge(rule: Constraint, ruled: RuledFigure, next: str = "") -> Finding:
    """Return the finding on a figure; NaN if the model does not fit, which breaks any rule."""
    value, unit, odds, is_known = ruled.value, rule.unit, _odds(rule, ruled), not math.isnan(ruled.value)
    holds = is_known and rule.holds(value)
    certain = odds is None or (odds >= SURE if holds else odds <= 1.0 - SURE)
    bound = f"{'as' if holds else 'not'} {rule.sign} {quantity(rule.amount, unit)}"
    says = f"{ruled.words} is {quantity(value, unit)}, {bound}"
    if not certain and ruled.band is not None and odds is not None:
        low, high = (quantity(end, unit) for end in ruled.band)
        says += f"; measured it is expected between {low} and {high}, so the rule has odds of {percent(odds)}"
    room = value - rule.amount if rule.sign.startswith(">") else rule.amount - value
    return Finding(
        rule=rule.text,
        verdict=(PASS if holds else FAIL) if certain else UNKNOWN,
        holds=holds,
        value=value if is_known else None,
        limit=rule.amount,
        unit=unit,
        margin=room / abs(rule.amount) if is_known and rule.amount and math.isfinite(room) else None,
        odds=odds,
        band=ruled.band,
        evidence=ruled.evidence,
        says=says if is_known else ruled.words,
        next=next,
    )


def edp_share(result: Estimate, pattern: str) -> float:
    """Return the EDP share of the operators whose path, id or subgraph's id matches a pattern. Raises RequestError if
    no operator matches."""
    parts = result.partition
    subgraphs = [parts.id[place] for place in parts.subgraph.tolist()]
    names = zip(result.workload.operators.path, parts.operator_id, subgraphs, strict=True)
    matching = [i for i, paths in enumerate(names) if any(fnmatchcase(path, pattern) for path in paths)]
    if not matching:
        raise RequestError(f"no node of {result.workload.name} matches {pattern!r} (`hwexplorer tree` lists them)")
    return float(tree(result).operators.share[matching].sum())
