"""Tables as CSV and Markdown. CSV carries SI numbers; Markdown is for people, with a unit per column."""

import csv
import io
import re
from collections.abc import Iterator, Sequence

from analysis.document import Cell
from analysis.estimate.causes import CAUSES
from hardware.base import text
from hardware.base.text import safe
from hwexplorer.export.text import columns_as_text, list_points, sections
from hwexplorer.views import layout, plain
from hwexplorer.views.tables import keep_columns, repeats_bar


def as_csv(view: plain.View | plain.Page) -> str:
    """Return a header line and a line per row (point, paragraph), numbers in SI units; for a report its main table."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(map(inert, line) for line in grid(view))
    return file.getvalue()


def grid(view: plain.View | plain.Page) -> Iterator[Sequence[Cell]]:
    """Yield the lines of CSV as values, the column names first."""
    if isinstance(view, plain.Page):
        yield from grid(view.csv or view.parts[view.main])
    elif isinstance(view, plain.Table):
        stacks = [
            i
            for i, column in enumerate(view.columns)
            if not layout.is_amount(column) and any(isinstance(row.cells[i], plain.Stack) for row in view.rows)
        ]
        by_cause = [f"{view.columns[i].key}_{cause}" for i in stacks for cause in CAUSES]
        # A bar whose number the next column repeats is not a column of its own.
        kept = keep_columns(view, [i for i in range(len(view.columns)) if not repeats_bar(view, i + 1)])
        yield "key", "depth", *(name for column in kept.columns for name in column.si_names), *by_cause
        for row, cells in zip(view.rows, kept.rows, strict=True):
            yield row.key, row.depth, *_values(kept, cells), *(part for i in stacks for part in _parts(row.cells[i]))
    elif isinstance(view, plain.Plot):
        yield "series", "label", "x", "y"
        yield from list_points(view)
    else:
        yield "section", "text"
        yield from ((heading, line) for heading, lines in view.sections for line in lines)


def _parts(value: Cell) -> Sequence[Cell]:
    return value.parts if isinstance(value, plain.Stack) else ("",) * len(CAUSES)


def _values(table: plain.Table, row: plain.Row) -> Iterator[Cell]:
    """Yield the cells of a row. A band has two cells, low and high, which are None if the band is missing."""
    for column, value in zip(table.columns, row.cells, strict=True):
        if column.ends:
            yield from (value.low, value.high) if isinstance(value, plain.Band) else (None, None)
        else:
            yield value


def inert(value: Cell) -> Cell:
    """Return a cell that a spreadsheet does not execute as a formula."""
    return text.inert(value) if isinstance(value, str) else value


def as_markdown(view: plain.View | plain.Page) -> str:
    """Return a Markdown table or headed lists. The parts of a report are one heading level below its title."""
    if isinstance(view, plain.Page):
        parts = ["\n".join("#" + line if line.startswith("#") else line for line in as_markdown(part).split("\n"))
                 for part in view.parts if not isinstance(part, plain.Plot)]  # fmt: skip
        return "\n".join([f"# {_md(view.title)}\n", *parts])
    if isinstance(view, plain.Text):
        lines = [f"# {_md(view.title)}"] if view.title else []
        for heading, texts in sections(view):
            items = (f"    {safe(line)}" if view.is_drawing else f"- {_md(line)}" for line in texts)
            lines += [*(["", f"## {_md(heading)}"] if heading else []), "", *items]
        return "\n".join(lines) + "\n"
    if isinstance(view, plain.Plot):
        head = f"| series | label | {_md(view.x_title)} | {_md(view.y_title)} |"
        points = [f"| {_md(series)} | {_md(label)} | {x:.6g} | {y:.6g} |" for series, label, x, y in list_points(view)]
        return "\n".join([f"# {_md(view.title)}", "", head, "|---|---|--:|--:|", *points]) + "\n"
    columns = columns_as_text(view)
    aligned = ["---" if column.role in layout.LEFT else "--:" for column in view.columns]
    lines = [f"# {_md(view.title)}", ""] if view.title else []
    lines += [_line([column[0] for column in columns]), _line(aligned)]
    lines += [_line([column[r + 1] for column in columns]) for r in range(len(view.rows))]
    lines += ["", *(f"- {_md(line)}" for line in (*view.footer, *view.notes))]
    return "\n".join(lines).rstrip() + "\n"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(_md(cell) for cell in cells) + " |"


def _md(words: str) -> str:
    """Escape text that would begin a table, a tag or a link: a viewer would fetch `![a](http://..)`."""
    escaped = re.sub(r"[\\|\[\]]", r"\\\g<0>", safe(words)).replace("<", "&lt;")
    return re.sub(r"(?i)\b(www)\.", r"\1&#46;", escaped)
