"""Views as plain text: aligned columns, one unit per column."""

from __future__ import annotations

from collections.abc import Iterable

from hwexplorer.format import delta, quantity, safe, scale_for
from hwexplorer.views.plain import Cell, Column, Plot, Row, Table, Text, View

BAR = 12


def render(view: View, width: int = 0) -> str:
    """A view as text; `width` 0 drops no column."""
    if isinstance(view, Table):
        return table(view, width)
    return prose(view) if isinstance(view, Text) else points(view)


def table(view: Table, width: int = 0) -> str:
    """Title, header, rows indented by depth, footer and notes. Columns that do not fit are dropped by `keep`."""
    cells = [_column(column, index, view.rows) for index, column in enumerate(view.columns)]
    widths = [max(map(len, column)) for column in cells]
    kept = _fit(view.columns, widths, width)
    lines = [safe(view.title), ""] if view.title else []
    for r in range(len(view.rows) + 1):
        parts = []
        for c in kept:
            text = cells[c][r]
            left = view.columns[c].role in ("text", "bar", "flag")
            parts.append(text.ljust(widths[c]) if left else text.rjust(widths[c]))
        lines.append("  ".join(parts).rstrip())
    if view.footer or view.notes:
        lines.append("")
    lines.extend(safe(line) for line in view.footer)
    lines.extend(f"! {safe(note)}" for note in view.notes)
    return "\n".join(lines) + "\n"


def _fit(columns: tuple[Column, ...], widths: list[int], width: int) -> list[int]:
    kept = list(range(len(columns)))
    while width and sum(widths[c] + 2 for c in kept) - 2 > width:
        last = max(kept, key=lambda c: (columns[c].keep, c))
        if columns[last].keep == 0:
            break
        kept.remove(last)
    return kept


def _column(column: Column, index: int, rows: tuple[Row, ...]) -> list[str]:
    """Header and cells of one column as text."""
    values = [row.cells[index] for row in rows]
    if column.role in ("text", "flag"):
        indent = ["  " * row.depth if index == 0 else "" for row in rows]
        return [column.title, *(pad + safe(_plain(value)) for pad, value in zip(indent, values, strict=True))]
    numbers = [float(value) if isinstance(value, int | float) else None for value in values]
    if column.role == "bar":
        return [column.title, *(bar(value) for value in numbers)]
    if column.role == "delta":
        return [column.title, *(delta(value) for value in numbers)]
    if column.role == "quantity":
        return [column.title, *(quantity(value, column.unit) for value in numbers)]
    scale = scale_for(numbers, column.unit)
    label = scale.label if scale.label not in ("", column.title) else ""
    return [f"{column.title} {label}".strip(), *(scale.cell(value) for value in numbers)]


def bar(fraction: float | None) -> str:
    """A fraction as a bar of plain characters."""
    return "" if fraction is None else "#" * round(min(max(fraction, 0.0), 1.0) * BAR)


def _plain(value: Cell) -> str:
    return "" if value is None else str(value)


def prose(view: Text) -> str:
    lines = [safe(view.title), ""]
    for heading, paragraph in view.sections:
        lines.append(heading)
        lines.extend(f"  {safe(line)}" for line in paragraph)
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def points(view: Plot) -> str:
    """A plot as the table of its points."""
    rows = tuple(_points(view))
    columns = (
        Column("series", "Series", role="text", keep=0),
        Column("label", "Label", role="text", keep=1),
        Column("x", view.x_title, view.x_unit, keep=0),
        Column("y", view.y_title, view.y_unit, keep=0),
    )
    return table(Table(view.name, view.title, columns, rows, view.notes))


def _points(view: Plot) -> Iterable[Row]:
    for series in view.series:
        labels = series.labels or ("",) * len(series.x)
        for x, y, label in zip(series.x, series.y, labels, strict=True):
            yield Row(f"{series.name}/{label}", (series.name, label, x, y))
