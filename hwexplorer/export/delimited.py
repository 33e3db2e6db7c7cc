"""Tables as CSV and Markdown. CSV carries SI numbers; Markdown is for people, with a unit per column."""

from __future__ import annotations

import csv
import io
import re

from hardware import text
from hwexplorer.export.text import _column
from hwexplorer.format import safe
from hwexplorer.views.plain import Cell, Page, Plot, Table, Text, View, for_reading


def as_csv(view: View | Page) -> str:
    """One header line, one line per row (point, paragraph), numbers in SI units; of a report its main table."""
    if isinstance(view, Page):
        return as_csv(view.csv or view.parts[view.main])
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if isinstance(view, Table):
        writer.writerow(["key", "depth", *(column.si_name for column in view.columns)])
        writer.writerows([inert(row.key), row.depth, *map(inert, row.cells)] for row in view.rows)
    elif isinstance(view, Plot):
        writer.writerow(["series", "label", "x", "y"])
        for series in view.series:
            labels = series.labels or ("",) * len(series.x)
            rows = zip(labels, series.x, series.y, strict=True)
            writer.writerows([inert(series.name), inert(label), x, y] for label, x, y in rows)
    else:
        writer.writerow(["section", "text"])
        writer.writerows([inert(head), inert(line)] for head, lines in view.sections for line in lines)
    return out.getvalue()


def inert(value: Cell) -> Cell:
    """A cell that a spreadsheet does not run."""
    return text.inert(value) if isinstance(value, str) else value


def as_markdown(view: View | Page) -> str:
    """A Markdown table, or headed lists; the parts of a report a level below its title."""
    if isinstance(view, Page):
        parts = ["\n".join("#" + line if line.startswith("#") else line for line in as_markdown(part).split("\n"))
                 for part in for_reading(view).parts]  # fmt: skip
        return "\n".join([f"# {_md(view.title)}\n", *parts])
    if isinstance(view, Text):
        lines = [f"# {_md(view.title)}"]
        for heading, said in view.sections:
            lines += [*(["", f"## {_md(heading)}"] if heading else []), "", *(f"- {_md(line)}" for line in said)]
        return "\n".join(lines) + "\n"
    if isinstance(view, Plot):
        head = f"| series | label | {_md(view.x_title)} | {_md(view.y_title)} |"
        points = [
            f"| {_md(s.name)} | {_md(label)} | {x:.6g} | {y:.6g} |"
            for s in view.series
            for label, x, y in zip(s.labels or ("",) * len(s.x), s.x, s.y, strict=True)
        ]
        return "\n".join([f"# {_md(view.title)}", "", head, "|---|---|--:|--:|", *points]) + "\n"
    columns = [_column(column, index, view.rows) for index, column in enumerate(view.columns)]
    aligned = ["---" if column.role in ("text", "bar", "flag") else "--:" for column in view.columns]
    lines = [f"# {_md(view.title)}", "", _line([column[0] for column in columns]), _line(aligned)]
    lines += [_line([column[r + 1] for column in columns]) for r in range(len(view.rows))]
    lines += ["", *(f"- {_md(line)}" for line in (*view.footer, *view.notes))]
    return "\n".join(lines).rstrip() + "\n"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(_md(cell) for cell in cells) + " |"


def _md(words: str) -> str:
    """No table, page or address begins in a name: `![a](http://..)` would be fetched by whoever reads the file."""
    return re.sub(r"[\\|\[\]]", r"\\\g<0>", safe(words)).replace("<", "&lt;")
