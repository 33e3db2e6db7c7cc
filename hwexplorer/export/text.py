"""Views as plain text: aligned columns, one unit per column."""

from collections.abc import Iterator

from msgspec.structs import replace

from analysis.document import Cell, Column
from hardware.base.text import count_noun, quantity, safe
from hwexplorer.views import layout, plain
from hwexplorer.views.tables import keep_columns

BAR = 12
STEPS = 32
POINTS = 12  # rows of a plot in brief text
NAME_LEAST = 16


def render(view: plain.View | plain.Page, width: int = 0, is_whole: bool = True) -> str:
    """Return a view as text; `width` 0 drops no column. Tables have their first rows unless `is_whole`."""
    if isinstance(view, plain.Page):
        said = [part for part in view.parts if is_whole or getattr(part, "rows", True) or part.title]
        # A table without rows and title says nothing, and points of a plot would fill pages.
        parts = (render(part, width, is_whole) for part in said if not isinstance(part, plain.Plot))
        return "\n".join(["\n".join(_wrapped(safe(view.title), width)) + "\n", *parts])
    if isinstance(view, plain.Table):
        return table(view if is_whole else _first_rows(view), width)
    return prose(view, width) if isinstance(view, plain.Text) else points(view, width, is_whole)


def _first_rows(view: plain.Table) -> plain.Table:
    """Return the table with its first rows, and a line that counts the others. It has no column that is empty in every
    row or names the only model, which the title does."""

    def is_said(place: int) -> bool:
        """Return True if the cells of a column say something."""
        cells = {row.cells[place] for row in view.rows}
        return not cells <= {None, ""} and not (view.columns[place].key == "model" and len(cells) == 1)

    places = [place for place in range(len(view.columns)) if is_said(place)] if view.rows else []
    if len(places) < len(view.columns) and places:
        view = keep_columns(view, places)
    hidden = len(view.rows) - view.first
    if not view.first or hidden <= 0:
        return view
    footer = (f"{count_noun(hidden, 'row')} more: --all", *view.footer)
    return replace(view, rows=view.rows[: view.first], footer=footer)


def table(view: plain.Table, width: int = 0) -> str:
    """Return title, header, rows indented by depth, footer and notes. Columns that do not fit are dropped by `keep` and
    named; a stacked table shows them below the others."""
    cells = columns_as_text(view)
    lines = [*_wrapped(safe(view.title), width), ""] if view.title else []
    printed, rest = [0], list(range(1, len(view.columns)))
    while rest and (len(printed) == 1 or view.is_stacked):
        fitting = layout.fit_places(
            [view.columns[c] for c in (0, *rest)],
            [max(map(layout.width_of, cells[c])) for c in (0, *rest)],
            width,
            view.is_stacked,
        )
        if len(fitting) == 1:
            break
        block = [(0, *rest)[place] for place in fitting]
        lines += ["", *_lines(view, cells, block, width)] if len(printed) > 1 else _lines(view, cells, block, width)
        printed += block[1:]
        rest = [c for c in rest if c not in block]
    if len(printed) == 1:
        lines += _lines(view, cells, printed, width)
    shown = [view.columns[c] for c in printed if view.columns[c].help]
    tail = [f"{c.title}: {c.help}" for c in shown if c.role == "bar" or (c.role, c.unit) == ("quantity", "x")]
    if rest and view.rows:
        names = ", ".join(dict.fromkeys(view.columns[c].title for c in rest))
        tail.append(f"{count_noun(len(rest), 'column')} more ({names}): widen, or --format csv")
    tail += [safe(line) for line in view.footer]
    tail += [f"! {safe(note)}" for note in view.notes]
    if tail:
        lines.append("")
    for line in tail:
        lines.extend(_wrapped(line, width))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _lines(view: plain.Table, cells: list[list[str]], kept: list[int], width: int) -> list[str]:
    """Return the head and the rows of some columns. If these do not fit, the first one is shortened."""
    widths = {c: max(map(layout.width_of, cells[c])) for c in kept}
    gap = "  " if not width or sum(widths.values()) + 2 * len(kept) - 2 <= width else " "
    lead = kept[0]
    excess_width = sum(widths.values()) + len(gap) * (len(kept) - 1) - width
    if width and excess_width > 0:
        widths[lead] = max(widths[lead] - excess_width, NAME_LEAST)
        cells[lead] = [layout.shorten(text, widths[lead], True) for text in cells[lead]]
    lines = []
    for r in range(len(view.rows) + 1):
        parts = []
        for c in kept:
            text = cells[c][r]
            space = " " * (widths[c] - layout.width_of(text))
            parts.append(text + space if view.columns[c].role in layout.LEFT else space + text)
        lines.append(gap.join(parts).rstrip())
    return lines


def _wrapped(line: str, width: int, indent: str = "") -> list[str]:
    """Return the line in pieces that fit, all but the first indented by two more; in one piece if `width` is 0."""
    return [indent + part for part in (layout.wrap_evenly(line, max(width, 20) - len(indent), 2) if width else [line])]


def columns_as_text(view: plain.Table) -> list[list[str]]:
    """Return each column of a table as text, its head first; the first is indented by depth."""
    measures = [layout.measure(view.columns, place, view.rows) for place in range(len(view.columns))]
    columns = [[one.header, *(_cell(one, row.cells[place]) for row in view.rows)] for place, one in enumerate(measures)]
    if columns and view.columns[0].role == "text":
        columns[0][1:] = ["  " * row.depth + name for row, name in zip(view.rows, columns[0][1:], strict=True)]
    return columns


def _cell(measure: layout.Measure, value: Cell) -> str:
    """Return a cell as text; a bar beside an amount follows it."""
    if measure.column.role != "bar":
        return measure.write(value)
    amount = isinstance(value, float) and layout.is_amount(measure.column)
    return f"{measure.scale.cell(float(value or 0)):>{measure.scale.width}} {bar(value)}" if amount else bar(value)


def bar(fraction: Cell) -> str:
    """Return a fraction as a bar, by cause for a `Stack`."""
    if isinstance(fraction, plain.Stack):
        return plain.cause_bar(fraction.parts, BAR)
    return "█" * round(min(max(fraction, 0.0), 1.0) * BAR) if isinstance(fraction, int | float) else ""


def sections(view: plain.Text) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the sections of a text, its steps after the first as bars by cause."""
    if not view.steps:
        return view.sections
    widest = max(len(step.name) for step in view.steps)
    lines = tuple(
        f"{step.name:<{widest}}  {quantity(step.seconds, 's'):>8}  "
        f"{' ' * round(step.start * STEPS)}{plain.cause_bar(step.bar.parts, STEPS)}".rstrip()
        for step in view.steps
    )
    steps = "Where the time goes", (*lines, f"by cause: {plain.HELP}")
    return (*view.sections[:1], steps, *view.sections[1:])


def prose(view: plain.Text, width: int = 0) -> str:
    """Return a text as its title and headed paragraphs."""
    lines = [*_wrapped(safe(view.title), width), ""] if view.title else []
    for heading, paragraph in sections(view):
        lines.extend(_wrapped(safe(heading), width) if heading else [])
        for line in paragraph:
            lines.extend(_wrapped(safe(line), width, "  "))
        lines.append("")
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def points(view: plain.Plot, width: int = 0, is_whole: bool = True) -> str:
    """Return a plot as the table of its points, the first ones unless `is_whole`."""
    rows = tuple(plain.Row("/".join(point[:2]), point) for point in list_points(view))
    columns = (
        Column("series", "Series", role="text", keep=0),
        Column("label", "Label", role="text", keep=1),
        Column("x", view.x_title, view.x_unit, keep=0),
        Column("y", view.y_title, view.y_unit, keep=0),
    )
    listing = plain.Table(view.name, view.title, columns, rows, notes=view.notes, first=POINTS)
    return table(listing if is_whole else _first_rows(listing), width)


def list_points(view: plain.Plot) -> Iterator[tuple[str, str, float, float]]:
    """Yield the points of a plot: series, label, x and y."""
    for series in view.series:
        labels = series.labels or ("",) * len(series.x)
        yield from zip((series.name,) * len(series.x), labels, series.x, series.y, strict=True)
