"""Why A costs more than B: the reasons in words, then the same difference divided in several ways."""

from __future__ import annotations

import msgspec

from analysis.decide.division import Part
from analysis.decide.explain import Explanation
from analysis.decide.explain import explain as explain_pair
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views.plain import Column, Report, Row, Table, Text

SHOWN = 25  # rows of a long division; the rest is one row
_TITLES = {
    "component": "By component",
    "family": "By event family",
    "subgraph": "By subgraph",
    "cause": "By cause",
    "kind": "By kind of memory",
    "live at the peak": "What is live at the peak",
    "factor": "By factor (Shapley: each difference times the mean of the other factor)",
}


def explanation(a: State, b: State, metric: str) -> Explanation:
    """A against B: each state's model on its device under the cursor."""
    return explain_pair(engine.result(a), engine.result(b), metric)


def default(state: State) -> Explanation:
    """The device under the cursor against the baseline, or the next one where it is the baseline."""
    others = [name for name in (state.baseline, *state.devices) if name != state.on]
    other = others[0] if others else state.on
    return explain_pair(engine.result(state), engine.result(state, other), state.metric)


def view(found: Explanation) -> Report:
    """The reasons and one table for each division; all rows are in CSV's main table."""
    unit = found.unit
    a, b = _label(found, True), _label(found, False)
    title = f"{found.model}: {found.metric} of {a} against {b}"
    sign = "more" if found.difference >= 0 else "less"
    head = (
        f"{a} {quantity(found.a.value, unit)}, {b} {quantity(found.b.value, unit)}: "
        f"{quantity(abs(found.difference), unit)} {sign}, ratio {quantity(found.ratio, 'x')}",
    )
    words = Text("explain", "", (("Difference", head), ("Why", found.reasons)))
    tables = [_table(name, group, unit, a, b) for name, group in found.groups.items()]
    return Report("explain", title, (words, *tables, _everything(found, unit, a, b)), -1)


def _label(found: Explanation, first: bool) -> str:
    side, other = (found.a, found.b) if first else (found.b, found.a)
    if side.device != other.device:
        return side.device
    return f"{side.device}@b{side.batch},{side.precision},{side.execution_run}"


def _columns(unit: str, a: str, b: str) -> tuple[Column, ...]:
    return (
        Column("part", "Part", role="text", keep=0),
        Column("a", a, unit, role="quantity", keep=0),  # type: ignore[arg-type]
        Column("b", b, unit, role="quantity", keep=0),  # type: ignore[arg-type]
        Column("difference", "Difference", unit, role="quantity", keep=0),  # type: ignore[arg-type]
        Column("fraction", "Part of it", "%", keep=0, help="of the whole difference; negative parts work against it"),
    )


def _table(name: str, group: tuple[Part, ...], unit: str, a: str, b: str) -> Table:
    shown = group if len(group) <= SHOWN else group[: SHOWN - 1]
    rest = group[len(shown) :]
    rows = [Row(part.name, _cells(part)) for part in shown]
    if rest:
        sums = [sum(getattr(part, field) for part in rest) for field in ("a", "b", "difference", "fraction")]
        rows.append(Row("rest", (f"{len(rest)} more", *sums), dim=True))
    total = sum(part.difference for part in group)
    footer = (f"sum of {len(group)} parts = {quantity(total, unit, 4)}",)
    return Table(name, _TITLES[name], _columns(unit, a, b), tuple(rows), footer)


def _cells(part: Part) -> tuple[str, float, float, float, float]:
    return (part.name, part.a, part.b, part.difference, part.fraction)


def _everything(found: Explanation, unit: str, a: str, b: str) -> Table:
    """Every part of every division: what CSV carries. For people it repeats, so it is left without rows there."""
    columns = (Column("division", "Division", role="text", keep=0), *_columns(unit, a, b))
    rows = tuple(
        Row(f"{name}/{part.name}", (name, *_cells(part))) for name, group in found.groups.items() for part in group
    )
    return Table("all", "All parts", columns, rows)


def tables_only(report: Report, form: str) -> Report:
    """The report without the table that only CSV needs."""
    return report if form == "csv" else msgspec.structs.replace(report, parts=report.parts[:-1])
