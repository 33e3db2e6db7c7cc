"""Tables of the rows of a document, whose columns name the fields that are the sources of cells, and long tables in
brief: alike rows merged, the largest first, the other rows counted.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import compress
from math import prod
from operator import attrgetter
from typing import Any

import msgspec

from analysis.document import Cell, Column
from hardware.base.records import group_by
from hardware.base.text import count_noun, percent
from hwexplorer.state import replace
from hwexplorer.views import plain

# The source of the key of a row: a field, several fields joined by `/`, or a function of the row.
Named = str | tuple[str, ...] | Callable[[Any], str]


def cell_reader(column: Column) -> Callable[[Any], Cell]:
    """Return the function that reads the cell of a column from a row of a document."""
    field = column.of or column.si_name
    read: Callable[[Any], Any] = attrgetter(field) if isinstance(field, str) else field
    shown = column.shown
    if shown is None:
        return read
    return (lambda item: shown(read(item))) if callable(shown) else (lambda item: shown[read(item)])


def rows(
    columns: Sequence[Column],
    items: Iterable[Any],
    key: Named = "",
    kind: str = "",
    dim: Callable[[Any], bool] | None = None,
    children: Callable[[Any], Sequence[Any]] | None = None,
    leads: Callable[[Any], str] | None = None,
) -> tuple[plain.Row, ...]:
    """Return a row for each item, keyed by its first cell unless a `key` is given. The rows of its `children` follow;
    with `children`, a cell is empty if the item does not have the field."""
    readers = [(cell_reader(column), column.role) for column in columns]
    sort = attrgetter(kind) if kind else lambda item: ""

    def row(item: Any, depth: int, has_children: bool) -> plain.Row:
        """Return the row of an item."""
        cells = list[Cell]()
        for read, role in readers:
            try:
                cells.append(read(item))
            except AttributeError:
                if children is None:
                    raise
                cells.append("" if role == "text" else None)  # which differs from zero
        key_of_row = row_key(item, key) if key else str(cells[0])
        return plain.Row(
            key_of_row, tuple(cells), depth=depth, has_children=has_children, kind=sort(item),
            dim=dim is not None and dim(item), leads=leads(item) if leads is not None else "",
        )  # fmt: skip

    result: list[plain.Row] = []
    for item in items:
        inner = children(item) if children is not None else ()
        result.append(row(item, 0, bool(inner)))
        result.extend(row(child, 1, False) for child in inner)
    return tuple(result)


def keep_columns(table: plain.Table, kept: Sequence[int]) -> plain.Table:
    """Return the table with the columns at these places."""
    taken = [place in kept for place in range(len(table.columns))]
    rows = tuple([replace(row, cells=tuple(compress(row.cells, taken))) for row in table.rows])
    return replace(table, columns=tuple(compress(table.columns, taken)), rows=rows)


def repeats_bar(table: plain.Table, index: int) -> bool:
    """Return True if a column, headed `%`, repeats the percentages of the bar to its left."""
    columns = table.columns
    return 0 < index < len(columns) and columns[index].title == "%" and columns[index - 1].role == "bar"


def sort_by_column(table: plain.Table, place: int, is_falling: bool = False) -> plain.Table:
    """Return a flat table sorted by the column at a place, rows without a value last."""

    def value(row: plain.Row) -> float | str:
        """Return the sort key of a row."""
        cell = row.cells[place]
        return cell.casefold() if isinstance(cell, str) else float(cell or 0)

    rows_with_value = [row for row in table.rows if row.cells[place] not in (None, "")]
    rest = [row for row in table.rows if row.cells[place] in (None, "")]
    return replace(table, rows=(*sorted(rows_with_value, key=value, reverse=is_falling), *rest))


def row_key(item: Any, key: Named) -> str:
    """Return the key that identifies a row."""
    if callable(key):
        return key(item)
    if isinstance(key, str):
        return str(getattr(item, key))
    values = (attrgetter(field)(item) for field in key)
    return "/".join("" if value is None else str(value) for value in values)


MOST = 10
_BLOCK_NUMBER = re.compile(r"(?<![A-Za-z0-9])\d+")


class Digest(msgspec.Struct, frozen=True):
    """A rule to shorten a table: keep the rows with most of the column `by`, and add their share in a column `title`.
    `what` names a row. Rows merge if their rounded cells are equal and only numbers of blocks in their names differ."""

    by: str
    what: str
    title: str = "Time %"


def summarize(table: plain.Table, digest: Digest) -> plain.Table:
    """Return the table with its `MOST` largest rows of depth 0, alike rows merged with their number."""
    place = next(index for index, column in enumerate(table.columns) if column.key == digest.by)
    groups: dict[tuple[Cell, ...], list[plain.Row]] = {}
    for row in table.rows:
        if not row.depth:
            figures = (float(f"{cell:.3g}") if isinstance(cell, float) else cell for cell in row.cells[1:])
            groups.setdefault((name_pattern(str(row.cells[0])), *figures), []).append(row)

    def amount(rows: Sequence[plain.Row]) -> float:
        """Return the sum of the column over rows."""
        return sum(value for row in rows if isinstance(value := row.cells[place], float))

    total = sum(map(amount, groups.values())) or 1.0
    ordered = sorted(groups.values(), key=amount, reverse=True)
    largest_few, rest = ordered[:MOST], ordered[MOST:]
    column = Column("share", digest.title, "%", keep=0, help=f"of all {digest.what}s together")
    rows = tuple(
        msgspec.structs.replace(
            example,
            cells=(merge_names([str(row.cells[0]) for row in alike]), amount(alike) / total, *example.cells[1:]),
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


def name_pattern(name: str) -> str:
    """Return a name without the numbers of its blocks, `layers.#.mlp` or `layer_#.mlp`: rows with one pattern can
    merge."""
    return _BLOCK_NUMBER.sub("#", name)


def merge_names(names: Sequence[str]) -> str:
    """Return one name for names that differ in the numbers of their blocks, else the first, with how many they are:
    `layers.0-31.q_proj ×32`."""
    name, times = names[0], f" ×{len(names)}" if len(names) > 1 else ""
    numbers = [sorted(set(map(int, values))) for values in zip(*map(_BLOCK_NUMBER.findall, names), strict=False)]
    if len(set(map(name_pattern, names))) == 1 and prod(map(len, numbers)) == len(names):
        ranges = iter(numbers)
        name = _BLOCK_NUMBER.sub(lambda _: _write_range(next(ranges)), name)
    return name + times


def _write_range(numbers: Sequence[int]) -> str:
    least, greatest = numbers[0], numbers[-1]
    is_range = len(numbers) > 1 and greatest - least == len(numbers) - 1
    return f"{least}-{greatest}" if is_range else ",".join(map(str, numbers))


def list_by_kind(table: plain.Table, hint: str, most: int = 0) -> plain.Text:
    """Return the first cells of a table, a line for each kind of row with at most `most` names (0: all)."""
    lines = []
    for kind, rows in group_by(table.rows, lambda row: row.kind).items():
        members = [str(row.cells[0]) for row in rows]
        listing = members[: most or None]
        rest = f", {len(members) - len(listing)} more" if len(listing) < len(members) else ""
        lines.append(f"{kind} ({len(members)}): {', '.join(listing)}{rest}")
    return plain.Text(table.name, table.title, (("", (*lines, hint, *table.notes)),))


def name_work(table: plain.Table, word: str) -> plain.Table:
    """Return the table with a title and heads that name what is counted, a word for it: `Energy/request J`."""
    names = {"/inf": f"/{word}", "Inf/s": f"{word.capitalize()}s/s", "per inference": f"per {word}",
             "Inferences": f"{word.capitalize()}s"}  # fmt: skip
    rename = partial(re.sub, "|".join(names), lambda found: names[found[0]])
    columns = tuple(msgspec.structs.replace(column, title=rename(column.title)) for column in table.columns)
    return table if word == "inference" else msgspec.structs.replace(table, title=rename(table.title), columns=columns)
