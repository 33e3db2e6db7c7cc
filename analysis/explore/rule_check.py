"""Rules of CI evaluated on estimates: `energy(h100_sxm) < 50mJ`, `share(layer4.*) < 0.5`.

A figure takes a device (`energy(gpu)`), by default the device under test. `share` takes a pattern of node paths
(`layer4.*`) and a device; `ratio` takes a figure and two devices: `ratio(energy, cpu, gpu) > 2`. `change` compares two
results and takes a figure and a pattern: `change(energy, layer4.*) < 5%`. Energy is per inference, latency of the
batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec

from analysis.document import column
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.metrics import METRICS
from analysis.estimate.tree_figures import tree
from analysis.explore.constraint import Constraint
from analysis.model.ir import coverage
from hardware.errors import RequestError
from hardware.quantity import quantity


class Finding(msgspec.Struct, frozen=True):
    """A rule with the figure that it constrains, in the SI unit, and whether it holds."""

    rule: Annotated[str, column("Rule")]
    holds: Annotated[bool, column("", key="verdict", shown={True: "pass", False: "FAIL"})]
    value: float
    limit: float
    unit: str
    says: Annotated[str, column("", keep=2)]


class Findings(Head, frozen=True, kw_only=True):
    """The document of `hwexplorer check`. `devices` and `runtimes` are those of the estimates that the rules used."""

    holds: bool
    devices: tuple[str, ...]
    runtimes: tuple[str, ...]
    findings: tuple[Finding, ...]


# (figure, pattern) -> the relative change
Change = Callable[[str, str], float]
# (device, figure) -> the figure of the load that the device serves, and its description; None without a load
Loaded = Callable[[str, str], tuple[float, str] | None]


def check(rules: Sequence[Constraint], run: Callable[[str], Estimate], find_load: Loaded = lambda *_: None) -> Findings:
    """Evaluate rules. `run(device)` returns the estimate on a device, '' for the one under test; `find_load` returns a
    figure of the load that it serves. Raises RequestError."""
    if not rules:
        raise RequestError('no rule is given: --rule "energy(h100_sxm) < 50mJ"')
    evaluated = evaluate_rules(rules, run, _reject_change, find_load)
    results = [run(name) for name in dict.fromkeys(name for rule in rules for name in _devices(rule) or ("",))]
    evaluated += coverage_findings(results[0].coverage, results[0].rule_coverage.gap)
    return Findings(
        **head_fields(results[0]),
        holds=all(finding.holds for finding in evaluated),
        devices=tuple(dict.fromkeys(result.device.key for result in results)),
        runtimes=tuple(dict.fromkeys(result.runtime.name for result in results)),
        findings=evaluated,
    )


def coverage_findings(share: float, gap: str) -> tuple[Finding, ...]:
    """Return a broken rule if `gap` is not empty: figures that cover only part of a model must not pass."""
    return (Finding("coverage", False, share, coverage.least(), "%", gap),) if gap else ()


def _reject_change(figure: str, pattern: str) -> float:
    raise RequestError(f"change({figure}) compares two results: hwexplorer diff BEFORE AFTER --rule ..")


def evaluate_rules(
    rules: Sequence[Constraint], run: Callable[[str], Estimate], change: Change, find_load: Loaded = lambda *_: None
) -> tuple[Finding, ...]:
    """Evaluate rules on estimates, changes and loads. Raises RequestError if one of these does."""
    return tuple(_evaluate(rule, run, change, find_load) for rule in rules)


def _evaluate(rule: Constraint, run: Callable[[str], Estimate], change: Change, find_load: Loaded) -> Finding:
    of_load = find_load((_devices(rule) or ("",))[0], rule.figure)
    value, what = of_load or _figure(rule, run, change)
    holds, unit = rule.holds(value), rule.unit
    bound = f"{'as' if holds else 'not'} {rule.sign} {quantity(rule.amount, unit)}"
    return Finding(rule.text, holds, value, rule.amount, unit, f"{what} is {quantity(value, unit)}, {bound}")


def _devices(rule: Constraint) -> tuple[str, ...]:
    return {"change": (), "share": rule.where[1:], "ratio": rule.where[1:]}.get(rule.figure, rule.where)


def _figure(rule: Constraint, run: Callable[[str], Estimate], change: Change) -> tuple[float, str]:
    """Return the figure that a rule constrains, and its description."""
    if rule.figure == "change":
        name, *patterns = rule.where
        where = f" of {patterns[0]}" if patterns else ""
        return change(name, "".join(patterns)), f"change of {name}{where}"
    results = [run(device) for device in _devices(rule) or ("",)]
    if rule.figure == "ratio":
        a, b = (METRICS[rule.where[0]].figure(result) for result in results)
        keys = " over ".join(result.device.key for result in results)
        return a / b if b else float("inf"), f"{rule.where[0]} of {keys}"
    result = results[0]
    if rule.figure == "share":
        return edp_share(result, rule.where[0]), f"EDP share of {rule.where[0]} on {result.device.key}"
    if not METRICS[rule.figure].is_figure_of(result):
        raise RequestError(f"{rule.figure} is a figure of a load, e.g. of llama3_8b:serve,in=1024,out=256,rate=5")
    return METRICS[rule.figure].figure(result), f"{rule.figure} of {result.workload.name} on {result.device.key}"


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
