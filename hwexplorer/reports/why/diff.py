"""Compare two models, states or JSON files: what changed, and where, for people or a pull request.

Exit 1 where a rule is broken: `change(energy) < 5%`, `change(latency, layer3.*) < 10%`, or any rule of `check`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import msgspec

from analysis.document import Column, column, columns, record
from analysis.estimate.metrics import METRICS, select_metrics
from analysis.explore.constraint import parse_rule
from analysis.explore.outcome import Outcome
from analysis.explore.rule_check import Finding, coverage_findings, evaluate_rules
from analysis.explore.saved_result import ComparedResult, ResultSummary, read_result, summarize_estimate
from hardware.base.errors import RequestError, unknown
from hardware.base.text import Unit, percent, quantity
from hwexplorer import engine
from hwexplorer.declare import DEVICE, Report, Rows, summary_text
from hwexplorer.headless.asked_state import is_result
from hwexplorer.options import option
from hwexplorer.reports import check
from hwexplorer.state import State
from hwexplorer.text.number_format import delta

# The figures that are sums over operators.
PARTS = ("energy", "latency", "macs")
_ALL = 0.995  # share of a change that counts as all of it
_HALF = 0.5  # share of a change from which its module is named
_SAME = 1e-9  # relative: below this a difference is rounding


class FigureChange(msgspec.Struct, frozen=True, kw_only=True):
    """A figure on both sides. `change` is relative, None if only `before` is 0; `where` names the main module."""

    figure: str
    title: Annotated[str, column("Figure", key="figure")]
    unit: Unit
    before: float
    after: float
    difference: float
    change: Annotated[float | None, column("Change", role="delta")]
    where: Annotated[str, column("Where", keep=1)]


class TypeCount(msgspec.Struct, frozen=True):
    """The number of operators of a type on both sides."""

    type: Annotated[str, column("Operators")]
    before: Annotated[int, column("Before", "count")]
    after: Annotated[int, column("After", "count")]


class OperatorChange(msgspec.Struct, frozen=True, kw_only=True):
    """An operator that differs: `how` is 'added', 'removed' or 'changed'. Differences in SI units."""

    id: Annotated[str, column("Operator")]
    type: Annotated[str, column("Kind", keep=2)]
    how: Annotated[str, column("", help="added, removed or changed")]
    energy_j: Annotated[float, column("Energy/inf", "J", role="quantity")]
    latency_s: Annotated[float, column("Latency", "s", role="quantity")]
    macs: Annotated[float, column("MACs", "MAC", role="quantity", keep=1)]


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `hwexplorer diff`. `notes` name the settings in which the sides differ."""

    before: ResultSummary
    after: ResultSummary
    changes: tuple[FigureChange, ...]
    operators: tuple[TypeCount, ...]
    places: tuple[OperatorChange, ...]
    notes: tuple[str, ...]
    holds: bool
    findings: tuple[Finding, ...]

    @property
    def incomplete(self) -> str:
        """The reason that figures of a side do not cover its model; '' if they do."""
        return "; ".join(dict.fromkeys(side.incomplete for side in (self.before, self.after) if side.incomplete))


def diff(before: ComparedResult, after: ComparedResult, rules: Callable[[ResultChanges], tuple[Finding, ...]]) -> Diff:
    """Compare two results. `rules` evaluates rules on the changes; too few cost rules on a side break a rule."""
    changes = ResultChanges(before, after)
    gaps = ((side.coverage, side.incomplete and f"{side.model}: {side.incomplete}") for side in (before, after))
    findings = (*rules(changes), *(finding for share, gap in gaps for finding in coverage_findings(share, gap)))
    kinds = [Counter(part.type for part in side.parts) for side in (before, after)]
    differing = [name for name in ("model", "device", "batch", "precision", "execution")
                 if getattr(before, name) != getattr(after, name)]  # fmt: skip
    notes = [f"{name}: {getattr(before, name)} before, {getattr(after, name)} after" for name in differing]
    figures = select_metrics(lambda metric: metric.is_compared)
    missing = [METRICS[name].noun for name in figures if (name in before.figures) != (name in after.figures)]
    return Diff(
        before=record(ResultSummary, before),
        after=record(ResultSummary, after),
        changes=tuple(
            changes.figure_change(name) for name in figures if name in before.figures and name in after.figures
        ),
        operators=tuple(
            TypeCount(name, kinds[0][name], kinds[1][name])
            for name in sorted(kinds[0] | kinds[1])
            if kinds[0][name] != kinds[1][name] and before.parts and after.parts
        ),
        places=changes.operator_changes(),
        notes=(*notes, *(f"one side alone says its {title}" for title in missing)),
        holds=all(finding.holds for finding in findings),
        findings=findings,
    )


class ResultChanges:
    """The changes between two results, by figure and by operator."""

    def __init__(self, before: ComparedResult, after: ComparedResult) -> None:
        self.before, self.after = before, after
        self._has_operators = bool(before.parts and after.parts)

    def figure_change(self, figure: str) -> FigureChange:
        """Return the change of a figure. Raises RequestError if a side does not have it."""
        title = METRICS[figure].noun
        for side in (self.before, self.after):
            if figure not in side.figures:
                raise RequestError(f"the file of {side.model} has no {title}: that of `hwexplorer report` has all")
        a, b = self.before.figures[figure], self.after.figures[figure]
        is_same = abs(b - a) <= _SAME * max(a, b)
        return FigureChange(
            figure=figure,
            title=title,
            unit=METRICS[figure].unit,
            before=a,
            after=b,
            difference=0.0 if is_same else b - a,
            change=0.0 if is_same else relative_difference(a, b),
            where="" if is_same or not self._has_operators else find_module(self._module_differences(figure), b - a),
        )

    def relative_change(self, figure: str, pattern: str) -> float:
        """Return the relative change of the operators whose path matches, of all for an empty pattern; infinity if only
        the value before is 0. Raises RequestError."""
        if not pattern:
            change = self.figure_change(figure).change
        elif figure not in PARTS:
            raise unknown("figure of a part", figure, PARTS)
        else:
            sums = []
            for side in (self.before, self.after):
                matching = [p for p in side.parts if fnmatchcase(p.name, pattern) or fnmatchcase(p.id, pattern)]
                sums.append(sum(getattr(part, figure) for part in matching))
            if not self._has_operators or not any(sums):
                raise RequestError(f"no operator of either side matches {pattern!r}")
            change = relative_difference(*sums)
        return float("inf") if change is None else change

    def _module_differences(self, figure: str) -> dict[str, float]:
        """Return after minus before of an additive figure by module path; empty for others."""
        sums: dict[str, float] = defaultdict(float)
        for sign, side in ((-1.0, self.before), (1.0, self.after)) if figure in PARTS else ():
            for part in side.parts:
                sums[part.name] += sign * getattr(part, figure)
        return sums

    def operator_changes(self) -> tuple[OperatorChange, ...]:
        """Return the operators that differ, the largest difference of energy first."""
        places = []
        old_parts, new_parts = ({part.id: part for part in side.parts} for side in (self.before, self.after))
        for id in dict.fromkeys((*old_parts, *new_parts)) if self._has_operators else ():
            old, new = old_parts.get(id), new_parts.get(id)
            how = "added" if old is None else "removed" if new is None else "changed"
            old_figures, new_figures = ([getattr(p, name) if p else 0.0 for name in PARTS] for p in (old, new))
            is_same = all(abs(b - a) <= _SAME * max(a, b) for a, b in zip(old_figures, new_figures, strict=True))
            types = dict.fromkeys(part.type for part in (old, new) if part)
            if how == "changed" and is_same and len(types) == 1:
                continue
            energy, latency, macs = (b - a for a, b in zip(old_figures, new_figures, strict=True))
            kind = " -> ".join(types)
            places.append(OperatorChange(id=id, type=kind, how=how, energy_j=energy, latency_s=latency, macs=macs))
        return tuple(sorted(places, key=lambda one: (-abs(one.energy_j), -abs(one.latency_s))))


def relative_difference(before: float, after: float) -> float | None:
    """Return the difference over the value before. Return None if only the value before is 0."""
    if before == after:
        return 0.0
    return (after - before) / before if before else None


def find_module(differences: Mapping[str, float], total: float) -> str:
    """Name the deepest module with as much of a change as the modules above it, as `all of it in layer3.2`; '' if no
    module has half of it."""
    prefix, share = "", 1.0
    while total:
        inside: dict[str, float] = defaultdict(float)
        for path, value in differences.items():
            if path.startswith(prefix):
                inside[prefix + path[len(prefix) :].partition(".")[0]] += value
        best = max(inside, key=lambda module: inside[module] / total, default="")
        share_inside = inside.get(best, 0.0) / total
        if not best or best == prefix or share_inside < (_ALL * share if prefix else _HALF):
            break
        prefix, share = f"{best}.", share_inside
    if not prefix:
        return ""
    amount = "more than all" if share > 1 / _ALL else "all" if share >= _ALL else f"{percent(share)}"
    return f"{amount} of it in {prefix[:-1]}"


# --- the verb ---------------------------------------------------------------------------------------------------------

_FIRST = ("EDP", "energy per inference", "latency")  # the figures of the summary
CHANGES = (
    *columns(FigureChange, "figure"),
    Column("before", "Before", role="text", keep=0, of=lambda changed: quantity(changed.before, changed.unit)),
    Column("after", "After", role="text", keep=0, of=lambda changed: quantity(changed.after, changed.unit)),
    *columns(FigureChange, "change where"),
)


def _result(state: State) -> ComparedResult:
    if is_result(state.model):
        return read_result(Path(state.model), engine.device(state.on).key)
    return summarize_estimate(engine.result(state))


def _states(state: State, other: State, rule: list[str] | None) -> tuple[State, ...]:
    return tuple(side for side in (state, other) if not is_result(side.model))


def _document(state: State, other: State, rule: list[str] | None) -> Diff:
    rules = [parse_rule(text) for text in rule or ()]

    def run(device: str) -> Outcome:
        """Return the outcome of the second side on a device. Raises RequestError for a file."""
        if is_result(other.model):
            raise RequestError(f"{other.model} is a file: rules about it begin with change, as change(energy) < 5%")
        return engine.outcome(other, device)

    return diff(_result(state), _result(other), lambda changes: evaluate_rules(rules, run, changes.relative_change))


def _title(found: Diff, state: State) -> str:
    sides = found.before, found.after
    names = ("model", "batch", "precision", "execution", "device")
    model, *words = (" -> ".join(dict.fromkeys(str(getattr(side, name)) for side in sides)) for name in names)
    return f"{model}, batch {words[0]}, {words[1]}, {words[2]} kernels on {words[3]}"


def _summary(found: Diff, state: State) -> tuple[str, ...]:
    words = {
        change.title: f"{'from nothing' if change.change is None else delta(change.change)} {change.title}"
        for change in found.changes
        if change.difference
    }
    headline = ", ".join(words[title] for title in _FIRST if title in words) or ", ".join(words.values())
    return (headline or "nothing changed", *found.notes)


VERB = Report(
    subject=DEVICE,
    options=(
        option("other", metavar="other", help="another model, state, or JSON file of report, tree or compare",
               is_model=True),
        option("--rule", action="append", metavar="RULE", help='e.g. "change(energy) < 5%", "energy(gpu) < 50mJ"'),
    ),
    document=_document,
    title=_title,
    parts=(
        summary_text(_summary),
        Rows("changes", "Figures", CHANGES, key="figure"),
        Rows("operators", "Operators by type", columns(TypeCount), key="type", optional=True, first=5),
        Rows("places", "Operators that changed", columns(OperatorChange), key="id", optional=True, first=8),
        Rows("findings", "Rules", check.COLUMNS, key="rule", optional=True),
    ),
    main="changes",
    states=_states,
    fails=check.broken_rules,
    on_screen=False,
    examples={"diff": 'vgg11 vgg13 --on h100_sxm --rule "change(energy) < 50%"'},
)  # fmt: skip
