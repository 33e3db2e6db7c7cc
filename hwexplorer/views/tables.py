"""Tables of the rows of a document. The field that a column names is the source of its cells."""

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from operator import attrgetter
from typing import Any

from analysis.document import Cell, Column
from hwexplorer.state import replace
from hwexplorer.views.plain import NUMBERS, Row, Table

SAME = 1e-9  # sums in another order differ by less
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
) -> tuple[Row, ...]:
    """Return a row for each item, keyed by its first cell unless a `key` is given. The rows of its `children` follow;
    with `children`, a cell is empty if the item does not have the field."""
    readers = [cell_reader(column) for column in columns]
    if children is not None:
        readers = [_lenient(column, read) for column, read in zip(columns, readers, strict=True)]

    sort = attrgetter(kind) if kind else lambda item: ""

    def row(item: Any, depth: int, has_children: bool) -> Row:
        """Return the row of an item."""
        cells = tuple(read(item) for read in readers)
        key_of_row = row_key(item, key) if key else str(cells[0])
        return Row(
            key_of_row, cells, depth=depth, has_children=has_children, kind=sort(item),
            dim=dim is not None and dim(item), leads=leads(item) if leads is not None else "",
        )  # fmt: skip

    result: list[Row] = []
    for item in items:
        inner = children(item) if children is not None else ()
        result.append(row(item, 0, bool(inner)))
        result.extend(row(child, 1, False) for child in inner)
    return tuple(result)


def _lenient(column: Column, read: Callable[[Any], Cell]) -> Callable[[Any], Cell]:
    def cell(item: Any) -> Cell:
        """Return the cell of an item, an empty one if the item lacks the field."""
        try:
            return read(item)
        except AttributeError:
            return empty_cell(column)

    return cell


def keep_columns(table: Table, kept: Sequence[int]) -> Table:
    """Return the table with the columns at these places."""
    taken = [place in kept for place in range(len(table.columns))]
    rows = tuple([replace(row, cells=tuple(compress(row.cells, taken))) for row in table.rows])
    return replace(table, columns=tuple(compress(table.columns, taken)), rows=rows)


def repeats_bar(table: Table, index: int) -> bool:
    """Return True if a column repeats the percentages of the bar to its left."""
    if not 0 < index < len(table.columns) or table.columns[index - 1].role != "bar" or table.columns[index].unit != "%":
        return False
    pairs = [(row.cells[index - 1], row.cells[index]) for row in table.rows]
    others = [(a, b) for a, b in pairs if a != b]
    return all(isinstance(a, NUMBERS) and isinstance(b, NUMBERS) and abs(a - b) < SAME for a, b in others)


def sort_by_column(table: Table, place: int, is_falling: bool = False) -> Table:
    """Return a flat table sorted by the column at a place, rows without a value last."""

    def value(row: Row) -> float | str:
        """Return the sort key of a row."""
        cell = row.cells[place]
        return cell.casefold() if isinstance(cell, str) else float(cell or 0)

    rows_with_value = [row for row in table.rows if row.cells[place] not in (None, "")]
    rest = [row for row in table.rows if row.cells[place] in (None, "")]
    return replace(table, rows=(*sorted(rows_with_value, key=value, reverse=is_falling), *rest))


def empty_cell(column: Column) -> Cell:
    """Return an empty cell: '' in a column of text, else None, which differs from zero."""
    return "" if column.role == "text" else None


def row_key(item: Any, key: Named) -> str:
    """Return the key that identifies a row."""
    if callable(key):
        return key(item)
    if isinstance(key, str):
        return str(getattr(item, key))
    values = (attrgetter(field)(item) for field in key)
    return "/".join("" if value is None else str(value) for value in values)
