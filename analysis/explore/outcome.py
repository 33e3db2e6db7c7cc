"""The outcome of a model on a device, and constraints on its figures: limits and rules of CI.

    constraint := figure "(" argument { "," argument } ")" comparison amount
    comparison := < | <= | > | >=

The limits of a screen (`L<5ms`), the rules of CI (`energy(h100_sxm) < 50mJ`) and the limits of searches are constraints
on METRICS. A figure of a rule takes a device (`energy(gpu)`), by default the device under test. `share` takes a pattern
of node paths (`layer4.*`) and a device; `ratio` takes a figure and two devices: `ratio(energy, cpu, gpu) > 2`. `change`
compares two results and takes a figure and a pattern: `change(energy, layer4.*) < 5%`. Energy is per inference, latency
of the batch. The verdict on a rule is PASS or FAIL if a measurement would agree with at least 90 % odds, else UNKNOWN.
"""

import math
import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, ClassVar

import msgspec

from analysis.document import column
from analysis.estimate import measured_runs
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields, serving
from analysis.estimate.metrics import METRICS, select_metrics
from analysis.estimate.tree_figures import tree
from analysis.explore import odds
from analysis.model.ir import workload
from analysis.wording import describe_evidence, work_word
from hardware.base import text as texts
from hardware.base.errors import RequestError, unknown
from hardware.base.text import Unit, percent, quantity

_CLOSE = 1e-9  # relative: figures nearer than that are equal
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "=": lambda a, b: abs(a - b) <= _CLOSE * max(abs(a), abs(b)),
    "!=": lambda a, b: abs(a - b) > _CLOSE * max(abs(a), abs(b)),
}
_LIMIT = re.compile(r"([A-Za-z]+)(<=|>=|<|>)([^<>=\s]+)")
_RULE = re.compile(r"([A-Za-z_]+)\s*(?:\(([^()<>]*)\))?\s*(<=|>=|<|>)\s*([^<>]+)")
_FORMS = {  # figures with special arguments: least and most, and how they are written
    "share": (1, 2, "a path and optionally a device: share(layer4.*, gpu)"),
    "ratio": (3, 3, "a figure and two devices: ratio(energy, cpu, gpu)"),
    "change": (1, 2, "a figure and optionally a path: change(energy, layer4.*)"),
}


class Constraint(msgspec.Struct, frozen=True):
    """`amount` is in the SI unit of the figure; `where` are the arguments, devices or patterns; `text` is as typed."""

    figure: str
    sign: str
    amount: float
    where: tuple[str, ...] = ()
    text: str = ""

    @property
    def unit(self) -> Unit:
        """The unit of the figure: a factor for a ratio, per cent for shares and changes."""
        if self.figure in METRICS:
            return METRICS[self.figure].unit
        return "x" if self.figure == "ratio" else "%"

    def holds(self, value: float) -> bool:
        """Return whether a figure in its SI unit satisfies the constraint."""
        return COMPARISONS[self.sign](value, self.amount)

    def excess(self, value: float) -> float:
        """Return the factor by which a figure misses the amount; at most 1 if it does not."""
        if self.sign.startswith(">"):
            return self.amount / value if value else float("inf")
        return value / self.amount if self.amount else (float("inf") if value else 1.0)

    def __str__(self) -> str:
        return self.text or f"{self.figure} {self.sign} {quantity(self.amount, self.unit)}"


# --- limits of a screen -------------------------------------------------------------------------------------


def parse_limit(word: str) -> Constraint | None:
    """Return the limit in a word (`L<5ms`), None for any other word. Raises RequestError for an invalid amount."""
    match = _LIMIT.fullmatch(word)
    name = match[1].casefold() if match is not None else ""
    limitable = ((figure, metric) for figure, metric in METRICS.items() if metric.letter)
    found = next(((f, metric) for f, metric in limitable if name in (metric.letter.casefold(), f)), None)
    if match is None or found is None:
        return None
    (figure, metric), (_, sign, amount) = found, match.groups()
    return Constraint(figure, sign, texts.parse_limit(amount, metric.unit), text=f"{metric.letter}{sign}{amount}")


def parse_limits(text: str) -> tuple[Constraint, ...]:
    """Return the limits in a text, separated by spaces or commas. Raises RequestError for anything else."""
    limits = []
    for word in text.replace(",", " ").split():
        if (limit := parse_limit(word)) is None:
            raise RequestError(
                f"limit {word[:40]!r}: expected one of L<5ms, E<1J, P<30W, M<8GB, or under a load ttft<1s or tpot<30ms"
            )
        limits.append(limit)
    return tuple(limits)


# --- rules of CI ----------------------------------------------------------------------------------------------


def parse_rule(text: str) -> Constraint:
    """Return the constraint in a text. Raises RequestError in one line."""
    try:
        match = _RULE.fullmatch(text.strip())
        if match is None:
            raise RequestError("expected a figure, a comparison (<, <=, >, >=) and an amount, e.g. energy(gpu) < 50mJ")
        figure, arguments, sign, amount = match.groups()
        where = tuple(word.strip() for word in arguments.split(",")) if arguments and arguments.strip() else ()
        _check_figure(figure, where)
        unit = METRICS[figure].unit if figure in METRICS else ("" if figure == "ratio" else "%")
        value = texts.parse_limit(amount, "fraction" if unit == "%" else unit)
        return Constraint(figure, sign, value, where, text)
    except RequestError as error:
        raise RequestError(f"rule {text[:120]!r}: {error}") from None


def _check_figure(figure: str, where: tuple[str, ...]) -> None:
    """Raise RequestError for an unknown figure, or for arguments that it does not take."""
    known = (*select_metrics(lambda metric: metric.is_ruled), *_FORMS)
    if figure not in known:
        raise unknown("figure", figure, known)
    least, most, form = _FORMS.get(figure, (0, 1, "one device"))
    if not least <= len(where) <= most:
        raise RequestError(f"{figure} takes {form}")
    if not all(re.fullmatch(r"\S+", word) for word in where):
        raise RequestError(f"an argument is a device or a path, not {', '.join(map(repr, where))[:60]}")
    allowed = {
        "ratio": select_metrics(lambda metric: metric.is_ruled and not metric.is_of_load),
        "change": select_metrics(lambda metric: metric.is_compared),
    }.get(figure)
    if allowed is not None and where[0] not in allowed:
        raise unknown("figure", where[0], allowed)


class RuledFigure(msgspec.Struct, frozen=True):
    """A figure that a rule constrains, its name and evidence in words, and the interval in which a measurement is
    expected, None if its error is unknown."""

    value: float
    words: str
    evidence: str
    band: tuple[float, float] | None = None


def figure_band(one: Estimate, name: str) -> tuple[float, float] | None:
    """Return the band of a metric of an estimate, None if its error is unknown."""
    metric = METRICS[name]
    value, bands = metric.figure(one), {"latency": one.latency_band_s, "energy": one.energy_band_j}
    if not metric.band or not min(one.latency_s, one.energy_j) > 0.0:
        return None
    whole = {"latency": one.latency_s, "energy": one.energy_j}
    low, high = (math.prod(bands[name][end] / whole[name] for name in metric.band.split()) for end in (0, 1))
    return (value / high, value / max(low, odds.LEAST)) if metric.more_is_better else (value * low, value * high)


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of one batch: an estimate. `key` spells the device. ServedOutcome (analysis/serving) is that of a
    load, whose `estimate` is an average step."""

    key: str
    estimate: Estimate
    # True if requests were simulated; such figures have no parts by cause, and no ratios to other settings.
    is_simulated: ClassVar[bool] = False

    @property
    def work(self) -> str:
        """The unit that figures are counted per: inference, prompt, token, request, output token."""
        return work_word(self.estimate)

    @property
    def devices(self) -> int:
        """The number of devices that share the model."""
        return self.estimate.workload.devices

    @property
    def fits(self) -> bool:
        """True if the model and its caches fit into the memory."""
        return self.estimate.fits

    @property
    def competes(self) -> bool:
        """True if the device may be the best of the devices that exist."""
        return self.fits and self.estimate.can_win and self.estimate.device.silicon

    @property
    def sources(self) -> tuple[object, ...]:
        """The records that have figures, the first to be asked first."""
        return serving(self.estimate), self.estimate

    @property
    def answer(self) -> tuple[str, ...]:
        """The lines that state the outcome, if the reasons for the parts do not."""
        return ()

    @property
    def sections(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The sections that a reader of the whole should know beside the parts: headings with lines."""
        return ()

    @property
    def notes(self) -> tuple[str, ...]:
        """The lines that a reader of the parts must know."""
        return tuple(f"measured: {run.figures}, {run.cited}" for run in measured_runs.measured_runs(self.estimate))

    def aim(self, metric: str) -> float:
        """Return the figure that devices are compared by: latency, energy or EDP."""
        return METRICS[metric].figure(self.estimate)

    def figure(self, key: str, missing: float = 0.0) -> float:
        """Return a figure in SI units by its key in a record; `missing` if no record has it, or none is known."""
        value = next((getattr(source, key) for source in self.sources if hasattr(source, key)), None)
        return missing if value is None else float(value)

    def broken_limits(self, limits: Sequence[Constraint]) -> tuple[str, ...]:
        """Return in words the limits that it does not satisfy. A figure that it does not have satisfies none."""
        if not self.fits:
            return ("does not fit",)
        figures = [self.figure(METRICS[limit.figure].key, math.nan) for limit in limits]
        return tuple(str(limit) for limit, value in zip(limits, figures, strict=True) if not limit.holds(value))

    def describe_lack(self) -> str:
        """Say in words that the model does not fit, and by how much."""
        needs, room = quantity(self.estimate.peak_memory_bytes, "byte"), self.estimate.device.memory_bytes
        return f"{self.estimate.workload.name} does not fit on {self.key}: needs {needs}, has {quantity(room, 'byte')}"

    def measurement(self, figure: str) -> str:
        """Return the command that measures a metric, and what reads the result."""
        return odds.describe_measurement(self.estimate, figure)

    def ruled_figure(self, name: str) -> RuledFigure:
        """Return the figure that a rule names. Raises RequestError for a figure of a load."""
        result = self.estimate
        if METRICS[name].is_of_load:
            raise RequestError(f"{name} is a figure of a load, e.g. of llama3_8b:serve,in=1024,out=256,rate=5")
        words = f"{name} of {result.workload.name} on {result.device.key}"
        evidence = describe_evidence(result.trust) if METRICS[name].band else ""
        return RuledFigure(METRICS[name].figure(result), words, evidence, figure_band(result, name))

    def verdict(self, headline: str) -> str:
        """Return the verdict on this device in words; `headline` compares its estimate with others."""
        return headline

    def describe_model(self, model: str) -> str:
        """Return the name of the model with the requests that are estimated, if they are not those of the scenario."""
        return model

    @staticmethod
    def best(
        outcomes: Sequence["Outcome"], metric: str, on_paper: bool = False, unchanged: Sequence[Estimate] = ()
    ) -> tuple[str, ...]:
        """Return which device is best, how sure that is, and what would settle it; nothing if fewer than two compare.
        `unchanged` are estimates of devices before their changes."""
        lines = odds.verdict([outcome.estimate for outcome in outcomes], metric, on_paper, unchanged)
        return lines.lines if lines is not None else ()


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
    verdicts = {finding.verdict for finding in evaluated}
    return Findings(
        **head_fields(results[0]),
        verdict=next((verdict for verdict in (FAIL, UNKNOWN) if verdict in verdicts), PASS),
        holds=all(finding.holds for finding in evaluated),
        devices=tuple(dict.fromkeys(result.device.key for result in results)),
        runtimes=tuple(dict.fromkeys(result.runtime.name for result in results)),
        findings=evaluated,
    )


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
        band=odds.ratio_band(bands, odds.correlation(a.estimate, b.estimate)) if len(bands) == len(sides) else None,
    )


def _odds(rule: Constraint, ruled: RuledFigure) -> float | None:
    """Return the probability that a measurement would satisfy a rule; None if the error of the figure is unknown."""
    if ruled.band is None:
        return None
    if min(ruled.value, rule.amount) <= 0.0:
        return float(rule.holds(ruled.value))
    below = odds.odds_below(ruled.value, ruled.band, rule.amount)
    return 1.0 - below if rule.sign.startswith(">") else below


def _judge(rule: Constraint, ruled: RuledFigure, next: str = "") -> Finding:
    """Return the finding on a figure; NaN if the model does not fit, which breaks any rule."""
    value, unit, chance, is_known = ruled.value, rule.unit, _odds(rule, ruled), not math.isnan(ruled.value)
    holds = is_known and rule.holds(value)
    certain = chance is None or (chance >= odds.SURE if holds else chance <= 1.0 - odds.SURE)
    bound = f"{'as' if holds else 'not'} {rule.sign} {quantity(rule.amount, unit)}"
    says = f"{ruled.words} is {quantity(value, unit)}, {bound}"
    if not certain and ruled.band is not None and chance is not None:
        low, high = (quantity(end, unit) for end in ruled.band)
        says += f"; measured it is expected between {low} and {high}, so the rule has odds of {percent(chance)}"
    room = value - rule.amount if rule.sign.startswith(">") else rule.amount - value
    return Finding(
        rule=rule.text,
        verdict=(PASS if holds else FAIL) if certain else UNKNOWN,
        holds=holds,
        value=value if is_known else None,
        limit=rule.amount,
        unit=unit,
        margin=room / abs(rule.amount) if is_known and rule.amount and math.isfinite(room) else None,
        odds=chance,
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
