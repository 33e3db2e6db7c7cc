"""Compare two models, states or JSON files: what changed, and where, for people or a pull request.

Exit 1 where a rule is broken: `change(energy) < 5%`, `change(latency, layer3.*) < 10%`, or any rule of `check`.
"""

from __future__ import annotations

from pathlib import Path

from analysis.document import Column, columns
from analysis.explore.constraint import parse_rule
from analysis.explore.outcome import Outcome
from analysis.explore.result_diff import Diff, FigureChange, OperatorChange, TypeCount, diff
from analysis.explore.rule_check import evaluate_rules
from analysis.explore.saved_result import ComparedResult, read_result, summarize_estimate
from hardware.errors import RequestError
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.declare import DEVICE, Report, Rows, summary_text
from hwexplorer.headless.asked_state import is_result
from hwexplorer.options import option
from hwexplorer.reports import check
from hwexplorer.state import State
from hwexplorer.text.number_format import delta

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
    try:
        device = engine.device(other.model).key
    except RequestError:  # not a device, as expected
        return tuple(each for each in (state, other) if not is_result(each.model))
    raise RequestError(f"{device} is a device, not a model: why {state.model} --on {device}, or name two devices")


def _document(state: State, other: State, rule: list[str] | None) -> Diff:
    rules = [parse_rule(text) for text in rule or ()]

    def run(device: str) -> Outcome:
        """Return the outcome of the second side on a device. Raises RequestError for a file."""
        if is_result(other.model):
            raise RequestError(f"{other.model} is a file: rules about it begin with change, as change(energy) < 5%")
        return engine.outcome(other, device)

    return diff(_result(state), _result(other), lambda changes: evaluate_rules(rules, run, changes.relative_change))


def _title(found: Diff, state: State) -> str:
    names = dict.fromkeys((found.before.model, found.after.model))
    after = found.after
    return f"{' -> '.join(names)}, batch {after.batch}, {after.precision}, {after.execution} kernels on {after.device}"


def _summary(found: Diff, state: State) -> tuple[str, ...]:
    said = {
        changed.title: f"{'from nothing' if changed.change is None else delta(changed.change)} {changed.title}"
        for changed in found.changes
        if changed.difference
    }
    headline = ", ".join(said[title] for title in _FIRST if title in said) or ", ".join(said.values())
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
