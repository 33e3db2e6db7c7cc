"""A long table in brief: alike rows merged, the largest first, the other rows counted."""

import re
from collections.abc import Callable, Sequence
from math import prod

import msgspec

from analysis.document import Cell, Column
from hardware.base.records import group_by
from hardware.base.text import count_noun, percent
from hwexplorer.views.plain import Row, Table, Text

MOST = 10
_BLOCK_NUMBER = re.compile(r"(?<![A-Za-z0-9])\d+")


class Digest(msgspec.Struct, frozen=True):
    """A rule to shorten a table: keep the rows with most of the column `by`, and add their share in a column `title`.
    `what` names a row. Rows merge if their rounded cells are equal and `alike` returns the same for their names."""

    by: str
    what: str
    title: str = "Time %"
    alike: Callable[[str], str] = lambda name: ""


def summarize(table: Table, digest: Digest) -> Table:
    """Return the table with its `MOST` largest rows of depth 0, alike rows merged with their number."""
    place = next(index for index, column in enumerate(table.columns) if column.key == digest.by)
    groups: dict[tuple[Cell, ...], list[Row]] = {}
    for row in table.rows:
        if not row.depth:
            figures = (float(f"{cell:.3g}") if isinstance(cell, float) else cell for cell in row.cells[1:])
            alike = (name_pattern(str(row.cells[0])), digest.alike(str(row.cells[0])), *figures)
            groups.setdefault(alike, []).append(row)

    def amount(rows: Sequence[Row]) -> float:
        """Return the sum of the column over rows."""
        return sum(value for row in rows if isinstance(value := row.cells[place], float))

    total = sum(map(amount, groups.values())) or 1.0
    ordered = sorted(groups.values(), key=amount, reverse=True)
    largest_few, rest = ordered[:MOST], ordered[MOST:]
    column = Column("share", digest.title, "%", keep=0, help=f"of all {digest.what}s together")
    rows = tuple(
        msgspec.structs.replace(
            example,
            cells=(_merge_names(alike), amount(alike) / total, *example.cells[1:]),
            has_children=False,
        )
        for alike in largest_few
        for example in alike[:1]
    )
    footer = table.footer
    if any(len(alike) > 1 for alike in largest_few):
        footer = (f"×2 and more: figures are of one {digest.what}, but {digest.title} is of all of them", *footer)
    if rest:
        count = count_noun(sum(map(len, rest)), digest.what)
        footer = (f"{count} more, {percent(sum(map(amount, rest)) / total, 1)}: --all", *footer)
    columns = (table.columns[0], column, *table.columns[1:])
    return msgspec.structs.replace(table, columns=columns, rows=rows, footer=footer)


def _merge_names(alike: Sequence[Row]) -> str:
    """Return the first name with the number of rows, or `layers.0-31.q_proj ×32` if names differ in one number."""
    first_name, *others = (str(row.cells[0]) for row in alike)
    return f"{merge_names([first_name, *others])} ×{len(alike)}" if others else first_name


def name_pattern(name: str) -> str:
    """Return a name without the numbers of its blocks, `layers.#.mlp` or `layer_#.mlp`: rows with one pattern can
    merge."""
    return _BLOCK_NUMBER.sub("#", name)


def merge_names(names: Sequence[str]) -> str:
    """Return one name for names that differ in the numbers of their blocks, `layers.0-31.q_proj`; else the first."""
    numbers = [sorted(set(map(int, values))) for values in zip(*map(_BLOCK_NUMBER.findall, names), strict=False)]
    if len(set(map(name_pattern, names))) != 1 or prod(map(len, numbers)) != len(names):
        return names[0]
    ranges = iter(numbers)
    return _BLOCK_NUMBER.sub(lambda _: _write_range(next(ranges)), names[0])


def _write_range(numbers: Sequence[int]) -> str:
    least, greatest = numbers[0], numbers[-1]
    is_range = len(numbers) > 1 and greatest - least == len(numbers) - 1
    return f"{least}-{greatest}" if is_range else ",".join(map(str, numbers))


def list_by_kind(table: Table, hint: str, most: int = 0) -> Text:
    """Return the first cells of a table, a line for each kind of row with at most `most` names (0: all)."""
    lines = []
    for kind, rows in group_by(table.rows, lambda row: row.kind).items():
        members = [str(row.cells[0]) for row in rows]
        listing = members[: most or None]
        rest = f", {len(members) - len(listing)} more" if len(listing) < len(members) else ""
        lines.append(f"{kind} ({len(members)}): {', '.join(listing)}{rest}")
    return Text(table.name, table.title, (("", (*lines, hint, *table.notes)),))
