"""Explain why one device costs more than another."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from analysis.document import Column
from analysis.estimate.metrics import METRICS
from analysis.explore.attribution import Part, parts_cancel
from analysis.explore.explanation import EXPLAINED, SAME_COST, Explanation
from analysis.explore.explanation import explain as explain_pair
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.declare import Report, Subject
from hwexplorer.options import MODEL, OWN_MODEL, SCENARIO, choice, option
from hwexplorer.state import State, other_device, pinned, replace, split_settings
from hwexplorer.views.digest import merge_names, name_pattern
from hwexplorer.views.plain import Page, Table, Text
from hwexplorer.views.tables import rows

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
    other = pinned(replace(state, pin=text)) if settings else None
    return replace(other or state, devices=(device,), on=device, pin="")


def _document(state: State, a: str | None, b: str | None, measure: str | None) -> Explanation:
    first, second = _states(state, a, b, measure)
    return explain_pair(engine.result(first), engine.result(second), measure or state.metric)


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
    shown = [part for part in parts[:most] if part.difference] or parts[:most]
    rest = [part for part in parts if part not in shown]
    more = [msgspec.structs.replace(_sum_parts(rest), name=f"{len(rest)} more: --all")] if rest else []
    return _part_table(explained, name, [*shown, *more])


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
    explained = _document(state, a, b, measure)
    divisions = (_whole_table(explained, name) for name in explained.groups)
    return Page("explain", _title(explained, state), (_words(explained), *divisions), csv=_all_parts(explained))


# The divisions in brief text, by metric; the sentences are about the first one.
_BRIEF = {"energy": ("family", "subgraph"), "memory": ("kind", "live at the peak")}


def _brief(state: State, a: str | None, b: str | None, measure: str | None) -> Page:
    explained = _document(state, a, b, measure)
    names = _BRIEF.get(explained.metric, ("cause", "subgraph"))
    if abs(explained.ratio - 1.0) < SAME_COST:  # the words say so; parts of no difference say nothing
        return Page("explain", _title(explained, state), (_words(explained),))
    subgraphs = 9 if len(explained.reasons) < 8 else 4  # one screen in all
    tables = (_brief_table(explained, name, most) for name, most in zip(names, (6, subgraphs), strict=True))
    return Page("explain", _title(explained, state), (_words(explained), *tables))


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
