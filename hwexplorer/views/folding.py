"""A tree made short: small rows folded into one that says how many there are and what they make together, and of the
branches only the heaviest open."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from analysis.document import Cell
from hwexplorer.views.plain import Row, Stack, Table
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
    hidden = _hidden(TreeIndex(table), percent / 100, opened)
    if not hidden:
        return table
    adds = [c.role in ("number", "quantity", "bar") and (c.unit in _ADD_UP or c.key in _SHARES) for c in table.columns]
    rows: list[Row] = []
    pending: list[tuple[int, Row]] = []  # (depth of the siblings, the row for them): goes after their last one
    skip = 1 << 30
    for place, row in enumerate(table.rows):
        while pending and row.depth < pending[-1][0]:
            rows.append(pending.pop()[1])
        if row.depth > skip:
            continue
        skip = 1 << 30
        if place in hidden:
            skip = row.depth
            parent, members, last = hidden[place]
            if last:
                pending.append((row.depth, _row(table, parent, members, row.depth, adds)))
            continue
        rows.append(row)
    rows.extend(row for _, row in reversed(pending))
    return msgspec.structs.replace(table, rows=tuple(rows))


def _hidden(index: TreeIndex, least: float, opened: Collection[str]) -> dict[int, tuple[str, tuple[int, ...], bool]]:
    """Return by place of a folded row (parent, all folded with it, is it the last of them)."""
    hidden: dict[int, tuple[str, tuple[int, ...], bool]] = {}
    for parent in index.place:
        members = index.children(parent)
        top = max(members, key=index.share, default="")
        small = tuple(index.place[m] for m in members if m != top and index.share(m) < least)
        if len(small) > 1 and more_key(parent) not in opened:
            hidden |= {m: (parent, small, m == small[-1]) for m in small}
    return hidden


def _row(table: Table, parent: str, members: tuple[int, ...], depth: int, adds: list[bool]) -> Row:
    cells: list[Cell] = []
    for index, add in enumerate(adds):
        values = [table.rows[m].cells[index] for m in members]
        numbers = [v for v in values if isinstance(v, int | float)]
        text = table.columns[index].role in ("text", "flag")
        stacks = [v for v in values if isinstance(v, Stack)]
        if add and numbers:
            cells.append(Stack.sum(stacks) if len(stacks) == len(numbers) else sum(numbers))
        else:
            cells.append("" if text else None)
    cells[0] = f"{len(members)} more"
    return Row(more_key(parent), tuple(cells), depth=depth, has_children=True, kind="more", dim=True)


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
