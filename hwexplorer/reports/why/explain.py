"""Explain why one device costs more than another.

The parts of the difference add up; in words stands each cause that explains a tenth of it.
"""

from collections.abc import Sequence

import msgspec

from analysis.document import Column, record
from analysis.estimate.causes import static_power_w
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Figures, figures
from analysis.estimate.metrics import ADDITIVE, METRICS
from analysis.explore.attribution import Groups, Part, attribute, attribute_to_software, parts_cancel
from analysis.text.difference_sentences import difference_sentence, name_side, under_utilisation
from analysis.text.headline import short_name
from hardware.base.errors import RequestError, unknown
from hardware.base.text import Unit, percent, quantity
from hwexplorer import engine
from hwexplorer.declare import Report, Subject
from hwexplorer.options import MODEL, OWN_MODEL, SCENARIO, choice, option
from hwexplorer.state import State, other_device, pinned, replace, split_settings
from hwexplorer.views.digest import merge_names, name_pattern
from hwexplorer.views.plain import Page, Table, Text
from hwexplorer.views.tables import rows

EXPLAINED = (*ADDITIVE, "memory")
SAME_COST = 0.001  # a smaller difference, as a fraction, is none
WORTH_NAMING = 0.1  # share of the difference from which a cause is named


class ExplainedSide(Figures, frozen=True, kw_only=True):
    """One side: its figures, and the `value` that is explained, in the unit of the metric."""

    value: float
    static_power_w: float


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `hwexplorer explain`. Each of `groups` adds up to the difference. Energy and EDP are per
    inference; so is memory if the batches differ (`per_inference`)."""

    model: str
    metric: str
    unit: Unit
    per_inference: bool
    a: ExplainedSide
    b: ExplainedSide
    difference: float
    ratio: float
    reasons: tuple[str, ...]
    groups: Groups


def explain(a: Estimate, b: Estimate, metric: str = "edp") -> Explanation:
    """Explain A against B, two estimates of one model. Raises RequestError for an unknown metric."""
    if metric not in EXPLAINED:
        raise unknown("metric", metric, EXPLAINED)
    if a.workload.name != b.workload.name or a.partition.id != b.partition.id:
        raise RequestError(f"explain compares one model: {a.workload.name} and {b.workload.name} are two")
    per_inference = metric in ("edp", "energy") or a.scenario.batch != b.scenario.batch
    groups = attribute(a, b, metric, per_inference)
    values = _value(a, metric, per_inference), _value(b, metric, per_inference)
    sides = [
        record(ExplainedSide, figures(side), value=value, static_power_w=static_power_w(side))
        for side, value in zip((a, b), values, strict=True)
    ]
    return Explanation(
        model=a.workload.name,
        metric=metric,
        unit=METRICS[metric].unit,
        per_inference=per_inference and metric != "latency",
        a=sides[0],
        b=sides[1],
        difference=values[0] - values[1],
        ratio=values[0] / values[1] if values[1] else 1.0,
        reasons=reasons(a, b, metric, groups, values),
        groups=groups,
    )


def _value(result: Estimate, metric: str, per_inference: bool) -> float:
    return result.energy_j if metric == "energy" and not per_inference else METRICS[metric].figure(result)


def reasons(a: Estimate, b: Estimate, metric: str, groups: Groups, values: tuple[float, float]) -> tuple[str, ...]:
    """Return sentences about the costlier side against the cheaper one, whichever of them is A."""
    if a.device.key == b.device.key and a.scenario == b.scenario:
        return ("both sides are the same",)
    swapped = (values[0], b.device.key) < (values[1], a.device.key)
    more, less = (b, a) if swapped else (a, b)
    high, low = max(values), min(values)
    what = {"energy": "energy", "latency": "time", "memory": "memory", "edp": "energy-delay product"}[metric]
    unit = METRICS[metric].unit
    ratio = high / low if low else float("inf")
    names = name_side(more, less), name_side(less, more)
    amounts = f"{quantity(high, unit)} against {quantity(low, unit)}"
    lines = [f"{names[0]} takes {quantity(ratio, 'x')} the {what} of {names[1]}: {amounts}"]
    if ratio < 1.0 + SAME_COST:
        lines = [f"{names[0]} and {names[1]} take the same {what}, {quantity(high, unit)}"]
    if metric == "memory":
        return (*lines, *_memory_sentences(groups, swapped))
    main = groups["family"] if metric == "energy" else groups["cause"]
    sign, cancel = -1.0 if swapped else 1.0, parts_cancel(main)
    # If parts cancel, their sum is no measure of them, and the largest part is.
    whole = max(abs(p.difference) for p in main) if cancel else abs(values[1] - values[0])

    def size(part: Part) -> str:
        """Return a part as a share of the difference, or as an amount if the parts cancel."""
        return quantity(abs(part.difference), unit) if cancel else f"{percent(abs(part.fraction))}"

    for part in sorted(main, key=lambda p: -sign * p.difference):
        if sign * part.difference < WORTH_NAMING * whole or ratio < 1.0 + SAME_COST:
            break
        is_time = metric == "latency" or part.name.startswith("time: ")
        name = part.name.removeprefix("energy: ").removeprefix("time: ")
        if sentence := difference_sentence(more, less, name, "time" if is_time else "energy"):
            lines.append(f"{size(part)}: {sentence}")
    opposing_parts = [p for p in main if -sign * p.difference > WORTH_NAMING * whole]
    lines.extend(
        f"against it, {part.name} favours {names[0]} by {size(part)}{'' if cancel else ' of the difference'}"
        for part in sorted(opposing_parts, key=lambda p: p.fraction)
    )
    if metric in ("latency", "edp") and (software := attribute_to_software(more, less)):
        lines.append(f"{short_name(more.device)} takes {quantity(software.ratio, 'x')} the time: {software.describe()}")
    lines.extend(under_utilisation(more, less) if metric in ("latency", "edp") else ())
    lines.extend(_paper_band(each) for each in (more, less) if metric != "latency" and not each.device.silicon)
    return tuple(lines)


def _paper_band(side: Estimate) -> str:
    low, high = (quantity(end / side.energy_j, "x") for end in side.energy_band_j)
    return f"prices of {short_name(side.device)} are bottom-up: its energy may be {low} to {high} of that"


def _memory_sentences(groups: Groups, swapped: bool) -> list[str]:
    def describe(part: Part) -> str:
        """Write the bytes of a part on both sides, the larger side first."""
        high, low = (part.b, part.a) if swapped else (part.a, part.b)
        return f"{part.name}: {quantity(high, 'byte')} against {quantity(low, 'byte')}"

    lines = [describe(part) for part in groups["kind"] if part.a or part.b]
    largest_part = groups["live at the peak"][0]
    return [*lines, f"the largest difference is {describe(largest_part)}"] if largest_part.difference else lines


# --- the verb ---------------------------------------------------------------------------------------------------------

_TITLES = {
    "component": "By component",
    "family": "By event family",
    "subgraph": "By subgraph",
    "cause": "By cause",
    "step": "By step from the roofs: ideal, tiles and waves, memory wait, launch, power limit",
    "kind": "By kind of memory",
    "live at the peak": "What is live at the peak",
    "factor": "By factor (Shapley: each difference times the mean of the other factor)",
}


def _states(state: State, a: str | None, b: str | None, measure: str | None) -> tuple[State, State]:
    both = (state.on, other_device(state)) if a is None or b is None else (a, b)
    return _side(state, both[0]), _side(state, both[1])


def _side(state: State, text: str) -> State:
    """Return the state of one side: `h100_sxm`, or with settings `h100_sxm@b8,fp16`."""
    device, settings = split_settings(text)
    engine.device(device)
    pinned_state = pinned(replace(state, pin=text)) if settings else None
    return replace(pinned_state or state, devices=(device,), on=device, pin="")


def _document(state: State, a: str | None, b: str | None, measure: str | None) -> Explanation:
    first, second = _states(state, a, b, measure)
    return explain(engine.result(first), engine.result(second), measure or state.metric)


def _title(explained: Explanation, state: State) -> str:
    a, b = explained.a, explained.b
    metric = METRICS[explained.metric]
    noun = metric.noun if explained.per_inference or explained.metric != "energy" else "energy of the batch"
    settings = f", batch {a.batch}, {a.precision}" if (a.batch, a.precision) == (b.batch, b.precision) else ""
    sides = (f"{side.runtime} on {_label(explained, first)}" for first, side in ((True, a), (False, b)))
    return f"{explained.model}{settings}, {' against '.join(sides)}: {noun}"


def _label(explained: Explanation, first: bool) -> str:
    side, other = (explained.a, explained.b) if first else (explained.b, explained.a)
    if side.device != other.device:
        return side.device
    return f"{side.device}@b{side.batch},{side.precision},{side.execution_run}"


def _words(explained: Explanation) -> Text:
    return Text("explain", "", (("Why", explained.reasons),))


def _columns(explained: Explanation) -> tuple[Column, ...]:
    unit, title = explained.unit, "Attributed" if explained.metric == "edp" else "First - second"
    return (
        Column("part", "Part", role="text", keep=0, of="name"),
        Column("a", _label(explained, True), unit, role="quantity", keep=0, of="a"),
        Column("b", _label(explained, False), unit, role="quantity", keep=0, of="b"),
        Column("difference", title, unit, role="quantity", keep=0, of="difference"),
        Column("fraction", "Of difference", "%", keep=0, help="negative parts work against it"),
    )


def _part_table(explained: Explanation, name: str, group: Sequence[Part], *footer: str) -> Table:
    columns, words = _columns(explained), list(footer)
    if parts_cancel(group):
        columns, whole = columns[:-1], quantity(explained.difference, explained.unit)
        words.append(f"The parts cancel to {whole}, so shares of it say nothing")
    if name == "cause" and explained.metric == "edp":
        words.append("Attributed: difference in one factor times the mean of the other, not that of the two columns")
    return Table(name, _TITLES[name], columns, rows(columns, group), footer=tuple(words))


def _whole_table(explained: Explanation, name: str) -> Table:
    group = explained.groups[name]
    total = quantity(sum(part.difference for part in group), explained.unit, 4)
    return _part_table(explained, name, group, f"sum of {len(group)} parts = {total}")


def _brief_table(explained: Explanation, name: str, most: int) -> Table:
    """Return the largest parts of a division, with alike subgraphs merged, and one row for the other parts."""
    alike: dict[str, list[Part]] = {}
    for part in explained.groups[name]:
        alike.setdefault(
            f"{part.a:.3g} {part.b:.3g} {name_pattern(part.name)}" if name == "subgraph" else part.name, []
        ).append(part)
    parts = sorted(map(_sum_parts, alike.values()), key=lambda part: -abs(part.fraction))
    listed_parts = [part for part in parts[:most] if part.difference] or parts[:most]
    rest = [part for part in parts if part not in listed_parts]
    others = [msgspec.structs.replace(_sum_parts(rest), name=f"{len(rest)} more: --all")] if rest else []
    return _part_table(explained, name, [*listed_parts, *others])


def _sum_parts(parts: Sequence[Part]) -> Part:
    sums = {field: sum(getattr(part, field) for part in parts) for field in ("a", "b", "difference", "fraction")}
    times = f" ×{len(parts)}" if len(parts) > 1 else ""
    return Part(name=merge_names([part.name for part in parts]) + times, **sums)


class _Division(msgspec.Struct, frozen=True):
    division: str
    part: Part


def _all_parts(explained: Explanation) -> Table:
    """Return every part of every division, for CSV only: text has the same parts in a table per division."""
    items = [_Division(name, part) for name, group in explained.groups.items() for part in group]
    columns = (
        Column("division", "Division", role="text", keep=0),
        *(msgspec.structs.replace(column, of=f"part.{column.of or column.key}") for column in _columns(explained)),
    )
    return Table("all", "All parts", columns, rows(columns, items, key=("division", "part.name")))


def _view(state: State, a: str | None, b: str | None, measure: str | None) -> Page:
    explanation = _document(state, a, b, measure)
    divisions = (_whole_table(explanation, name) for name in explanation.groups)
    return Page("explain", _title(explanation, state), (_words(explanation), *divisions), csv=_all_parts(explanation))


# The divisions in brief text, by metric; the sentences are about the first one.
_BRIEF = {"energy": ("family", "subgraph"), "memory": ("kind", "live at the peak")}


def _brief(state: State, a: str | None, b: str | None, measure: str | None) -> Page:
    explanation = _document(state, a, b, measure)
    names = _BRIEF.get(explanation.metric, ("cause", "subgraph"))
    if abs(explanation.ratio - 1.0) < SAME_COST:  # the words say so; parts of no difference say nothing
        return Page("explain", _title(explanation, state), (_words(explanation),))
    subgraphs = 9 if len(explanation.reasons) < 8 else 4  # one screen in all
    tables = (_brief_table(explanation, name, most) for name, most in zip(names, (6, subgraphs), strict=True))
    return Page("explain", _title(explanation, state), (_words(explanation), *tables))


_DEVICE = "a device, optionally with settings: h100_sxm@b8,fp16"
VERB = Report(
    subject=Subject(options=(MODEL, *SCENARIO, *OWN_MODEL), several=True),
    options=(
        option("a", metavar="A", help=_DEVICE),
        option("b", metavar="B", help="another"),
        choice("--metric", EXPLAINED, metavar="M", dest="measure"),
    ),
    document=_document,
    view=_view,
    brief=_brief,
    states=_states,
    examples={
        "explain": "conv2d h100_sxm tpu_v4 --metric energy",
        "explain_latency": "conv2d h100_sxm tpu_v4 --metric latency",
    },
)
