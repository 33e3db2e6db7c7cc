"""Rules that must hold, for CI: `energy(h100_sxm) < 50mJ`, `share(layer4.*) < 0.5`.

    rule   := figure "(" argument { "," argument } ")" comparison amount
    figure := energy | latency | throughput | edp | memory | power | utilization | coverage | share | ratio | change
    comparison := < | <= | > | >=

Figures of a device take the device (`energy(gpu)`); without one, the device under test. `share` takes a pattern of
node paths (`layer4.*`) and a device; `ratio` a figure and two devices: `ratio(energy, cpu, gpu) > 2`; `change`, where
two results are compared, a figure and a pattern: `change(energy, layer4.*) < 5%`. Energy is per inference, latency of
the batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec

from analysis.document import column
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, about
from analysis.estimate.metrics import METRICS
from analysis.estimate.tree import tree
from analysis.model.ir import coverage
from hardware.amount import parse_amount
from hardware.errors import RequestError
from hardware.quantity import Unit, quantity

_OF_RUNS = ("energy", "latency", "throughput", "edp", "memory", "power", "utilization", "coverage")
FIGURES = {name: METRICS[name] for name in _OF_RUNS}
WORDS = (*FIGURES, "share", "ratio", "change")
# What `change` may be of: how it is called, and its unit.
CHANGING: dict[str, tuple[str, Unit]] = {
    "energy": ("energy per inference", "J"),
    "latency": ("latency", "s"),
    "edp": ("EDP", "Js"),
    "memory": ("peak memory", "byte"),
    "macs": ("MACs", "MAC"),
    "flops": ("FLOPs", "FLOP"),
    "operators": ("operators", "count"),
}
COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


class Rule(msgspec.Struct, frozen=True):
    """A parsed rule. `pattern` belongs to share and change, `figure` to what a ratio or a change is of; `devices` are
    as written."""

    text: str
    word: str
    figure: str
    pattern: str
    devices: tuple[str, ...]
    comparison: str
    limit: float


class Finding(msgspec.Struct, frozen=True):
    """What a rule found: the figure in the SI unit, and whether it holds."""

    rule: Annotated[str, column("Rule")]
    holds: Annotated[bool, column("", key="verdict", shown={True: "pass", False: "FAIL"})]
    value: float
    limit: float
    unit: str
    says: Annotated[str, column("", keep=2)]


class Findings(Head, frozen=True, kw_only=True):
    """The document of `hwexplorer check`."""

    holds: bool
    findings: tuple[Finding, ...]


class _RuleReader:
    """The text of a rule and the place that is read. Errors point at a column."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def fail(self, message: str, at: int | None = None) -> RequestError:
        return RuleError(self.text, self.at if at is None else at, message)

    def take(self, pattern: str) -> str | None:
        """What matches here, spaces before it skipped; None where nothing does."""
        self.at += len(self.text[self.at :]) - len(self.text[self.at :].lstrip())
        match = re.compile(pattern).match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        return match[0]


class RuleError(RequestError):
    """A rule that cannot be read: what is wrong, and a caret under the column."""

    def __init__(self, text: str, column: int, message: str) -> None:
        self.text, self.column = text, column
        super().__init__(f"rule {text[:120]!r}, column {column + 1}: {message}")

    def picture(self) -> tuple[str, str]:
        """The rule in one line, and a caret under the column."""
        return " ".join(self.text.splitlines()), f"{' ' * self.column}^"


def parse_rule(text: str) -> Rule:
    """The rule that a text states. Raises RuleError with the column of what is wrong."""
    reader = _RuleReader(text)
    start = reader.at
    word = reader.take(r"[A-Za-z_]+")
    if word is None:
        raise reader.fail(f"a figure is expected ({', '.join(WORDS)})")
    if word not in WORDS:
        raise reader.fail(f"unknown figure {word!r} (allowed: {', '.join(WORDS)})", reader.at - len(word))
    arguments, places = _arguments(reader)
    at = reader.at
    comparison = reader.take(r"<=|>=|<|>")
    if comparison is None:
        reader.take(r"")
        raise reader.fail("a comparison is expected (<, <=, >, >=)")
    figure, pattern, devices = _meaning(reader, word, arguments, places, start)
    reader.take(r"")
    at = reader.at
    unit = FIGURES[word].unit if word in FIGURES else ("" if word == "ratio" else "%")
    try:
        limit = parse_amount(text[at:], "fraction" if unit == "%" else unit)
    except RequestError as error:
        raise reader.fail(str(error), at) from None
    return Rule(text, word, figure, pattern, devices, comparison, limit)


def _arguments(reader: _RuleReader) -> tuple[list[str], list[int]]:
    """The arguments in parentheses, none where there are none, and the columns they begin at."""
    if reader.take(r"\(") is None:
        return [], []
    words: list[str] = []
    places: list[int] = []
    while True:
        reader.take(r"")
        places.append(reader.at)
        word = reader.take(r"[^,()\s<>]+")
        if word is None:
            if not words and reader.take(r"\)") is not None:
                return [], []
            raise reader.fail("an argument is expected: a device or a path")
        words.append(word)
        if reader.take(r"\)") is not None:
            return words, places
        if reader.take(r",") is None:
            raise reader.fail("',' or ')' is expected")


def _meaning(
    reader: _RuleReader, word: str, arguments: list[str], places: list[int], start: int
) -> tuple[str, str, tuple[str, ...]]:
    """Figure, pattern and devices of a rule, with their number checked."""
    if word == "share":
        if not 1 <= len(arguments) <= 2:
            raise reader.fail("share takes a path and, if need be, a device: share(layer4.*, gpu)", start)
        return "edp", arguments[0], tuple(arguments[1:])
    if word == "change":
        if not 1 <= len(arguments) <= 2:
            raise reader.fail("change takes a figure and, if need be, a path: change(energy, layer4.*)", start)
        if arguments[0] not in CHANGING:
            raise reader.fail(f"unknown figure {arguments[0]!r} (allowed: {', '.join(CHANGING)})", places[0])
        return arguments[0], "".join(arguments[1:]), ()
    if word == "ratio":
        if len(arguments) != 3:
            raise reader.fail("ratio takes a figure and two devices: ratio(energy, cpu, gpu)", start)
        if arguments[0] not in FIGURES:
            raise reader.fail(f"unknown figure {arguments[0]!r} (allowed: {', '.join(FIGURES)})", places[0])
        return arguments[0], "", tuple(arguments[1:])
    if len(arguments) > 1:
        raise reader.fail(f"{word} takes one device", places[1])
    return word, "", tuple(arguments)


# change(figure, pattern): a fraction.
Change = Callable[[str, str], float]


def check(rules: Sequence[Rule], run: Callable[[str], Estimate]) -> Findings:
    """Evaluate rules. `run(device)` gives the estimate on a device, '' on the one under test.

    Raises RequestError where a rule names an unknown device or a path that no node has."""
    if not rules:
        raise RequestError('no rule is given: --rule "energy(h100_sxm) < 50mJ"')
    evaluated = findings(rules, run, _nothing_before)
    first = run(rules[0].devices[0] if rules[0].devices else "")
    evaluated += incomplete(first.coverage, first.covered.gap)
    return Findings(**about(first), holds=all(finding.holds for finding in evaluated), findings=evaluated)


def incomplete(share: float, gap: str) -> tuple[Finding, ...]:
    """The rule that figures of a part hold nothing about the whole, where a gap is said."""
    return (Finding("coverage", False, share, coverage.least(), "%", gap),) if gap else ()


def _nothing_before(figure: str, pattern: str) -> float:
    raise RequestError(f"change({figure}) is of two results: hwexplorer diff BEFORE AFTER --rule ..")


def findings(rules: Sequence[Rule], run: Callable[[str], Estimate], change: Change) -> tuple[Finding, ...]:
    """What rules find of estimates, and of changes. Raises RequestError as both do."""
    return tuple(_finding(rule, run, change) for rule in rules)


def _finding(rule: Rule, run: Callable[[str], Estimate], change: Change) -> Finding:
    value, unit, what = _value(rule, run, change)
    holds = COMPARE[rule.comparison](value, rule.limit)
    verdict = "holds" if holds else "is broken"
    says = f"{what} is {quantity(value, unit)}: {rule.comparison} {quantity(rule.limit, unit)} {verdict}"
    return Finding(rule.text, holds, value, rule.limit, unit, says)


def _value(rule: Rule, run: Callable[[str], Estimate], change: Change) -> tuple[float, str, str]:
    """The figure of a rule, the unit it is shown in, and what it is."""
    if rule.word == "change":
        where = f" of {rule.pattern}" if rule.pattern else ""
        return change(rule.figure, rule.pattern), "%", f"change of {rule.figure}{where}"
    device = rule.devices[0] if rule.devices else ""
    if rule.word == "ratio":
        figure = FIGURES[rule.figure]
        a, b = run(device), run(rule.devices[1])
        below = figure.of(b)
        value = figure.of(a) / below if below else float("inf")
        return value, "x", f"{rule.figure} of {a.device.key} over {b.device.key}"
    result = run(device)
    if rule.word == "share":
        return share(result, rule.pattern), "%", f"EDP share of {rule.pattern} on {result.device.key}"
    figure = FIGURES[rule.word]
    return figure.of(result), figure.unit, f"{rule.word} of {result.workload.name} on {result.device.key}"


def share(result: Estimate, pattern: str) -> float:
    """The EDP share of the operators whose path, or whose subgraph's, matches a pattern. Raises RequestError where
    none does."""
    parts, names = result.partition, result.workload.operators.path
    matching = [
        i
        for i, name in enumerate(names)
        if any(fnmatchcase(path, pattern) for path in (name, parts.id[int(parts.subgraph[i])], parts.operator_id[i]))
    ]
    if not matching:
        raise RequestError(f"no node of {result.workload.name} matches {pattern!r} (`hwexplorer tree` lists them)")
    return float(tree(result).operators.share[matching].sum())
