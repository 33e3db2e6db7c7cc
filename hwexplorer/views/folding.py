"""A tree made short: small rows folded into one that says how many there are and what they make together, and of the
branches only the heaviest open."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from analysis.document import Cell
from hwexplorer.views.plain import NUMBERS, Row, Stack, Table
from hwexplorer.views.table_tree import TreeIndex, more_key

_ADD_UP = ("s", "J", "Js", "byte", "MAC", "FLOP", "count")
_SHARES = ("share", "bar")
ALONE = 0.95  # of a row, from which on its heaviest child says nothing new


def fold_rows(table: Table, percent: float, opened: Collection[str] = ()) -> Table:
    """Return the table with siblings below `percent` as one row at their end, unless its key is in `opened`.

    The heaviest of any siblings is never folded, and one small row alone is not either.
    """
    if not percent or all(column.role != "bar" for column in table.columns):
        return table
    index, least = TreeIndex(table), percent / 100
    adds = [c.role in ("number", "quantity", "bar") and (c.unit in _ADD_UP or c.key in _SHARES) for c in table.columns]

    def fold(place: int) -> Iterator[Row]:
        """Yield the row at a place and all below it."""
        row, below = table.rows[place], index.below[place]
        yield row
        top = max(below, key=index.share_at, default=place)
        small = [child for child in below if child != top and index.share_at(child) < least]
        hidden = small if len(small) > 1 and more_key(row.key) not in opened else []
        for child in below:
            if child not in hidden:
                yield from fold(child)
        if hidden:
            yield _row(table, row.key, [table.rows[child] for child in hidden], adds)

    rows = tuple(each for place, row in enumerate(table.rows) if not row.depth for each in fold(place))
    return msgspec.structs.replace(table, rows=rows) if len(rows) < len(table.rows) else table


def _row(table: Table, parent: str, members: list[Row], adds: list[bool]) -> Row:
    cells: list[Cell] = [f"{len(members)} more"]
    for index, column in enumerate(table.columns[1:], 1):
        numbers = [v for row in members if isinstance(v := row.cells[index], NUMBERS)]
        stacks = [v for v in numbers if isinstance(v, Stack)]
        if adds[index] and numbers:
            cells.append(Stack.sum(stacks) if len(stacks) == len(numbers) else sum(numbers))
        else:
            cells.append("" if column.role in ("text", "flag") else None)
    return Row(more_key(parent), tuple(cells), depth=members[0].depth, has_children=True, kind="more", dim=True)


def open_heaviest_rows(table: Table, most: int) -> Table:
    """Return the rows of a tree, its heaviest branches open as long as there are at most `most` rows."""
    if len(table.rows) <= most:
        return table
    index = TreeIndex(table)
    root = table.rows[0].key
    shown, closed = {root}, [root]
    while closed:
        key = max(closed, key=index.share)
        closed.remove(key)
        below = index.children(key)
        is_divided = table.rows[index.place[key]].kind in ("model", "group") or max(map(index.share, below)) < (
            ALONE * index.share(key)
        )
        if is_divided and len(shown) + len(below) <= most:
            shown.update(below)
            closed += [child for child in below if index.children(child)]
    return msgspec.structs.replace(table, rows=tuple(row for row in table.rows if row.key in shown))
