"""A tree given as a flat table: parents, subtrees, the heaviest path, and shorter forms of the tree."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

import msgspec

from analysis.document import Cell
from hardware.base.records import memoize
from hwexplorer.views.plain import NUMBERS, Row, Stack, Table


class TreeIndex:
    """The place and the parent of every key of a table, and the places of the children of every place."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.place: dict[str, int] = {}
        self.parent: dict[str, str | None] = {}
        self.below: list[list[int]] = [[] for _ in table.rows]
        path: list[int] = []
        for place, row in enumerate(table.rows):
            del path[row.depth :]
            self.place[row.key] = place
            self.parent[row.key] = table.rows[path[-1]].key if path else None
            if path:
                self.below[path[-1]].append(place)
            path += [place] * (row.depth + 1 - len(path))
        self._share = next((i for i, c in enumerate(table.columns) if c.role == "bar"), None)

    def ancestors(self, key: str) -> set[str]:
        """Return the keys of all branches above a key."""
        keys: set[str] = set()
        above = self.parent.get(key)
        while above is not None:
            keys.add(above)
            above = self.parent.get(above)
        return keys

    def children(self, key: str) -> list[str]:
        """Return the keys of the children of a key."""
        return [self.table.rows[place].key for place in self.below[self.place[key]]] if key in self.place else []

    def descendants(self, key: str) -> list[str]:
        """Return the keys of the subtree, without its root."""
        descendant_rows = rows_below(self.table.rows, self.place[key]) if key in self.place else ()
        return [row.key for row in descendant_rows]

    def branches(self, keys: Iterable[str]) -> set[str]:
        """Return the keys that have children."""
        return {k for k in keys if k in self.place and self.table.rows[self.place[k]].has_children}

    def share(self, key: str) -> float:
        """Return the share of the row in its first bar, 0 without bars."""
        return self.share_at(self.place[key])

    def share_at(self, place: int) -> float:
        """Return the share of the row at a place."""
        value = None if self._share is None else self.table.rows[place].cells[self._share]
        return float(value) if isinstance(value, NUMBERS) else 0.0

    def heaviest(self, key: str) -> str:
        """Return the leaf at the end of the heaviest path down from a key, or from the root if the key is a leaf."""
        path_end = key if key in self.place and self.children(key) else next(iter(self.place), "")
        while child_keys := [key for key in self.children(path_end) if self.table.rows[self.place[key]].kind != "part"]:
            path_end = max(child_keys, key=self.share)
        return path_end


@memoize()
def index_tree(table: Table) -> TreeIndex:
    """Return the index of a table."""
    return TreeIndex(table)


def rows_below(rows: Sequence[Row], place: int) -> tuple[Row, ...]:
    """Return the rows below the row at a place."""
    depth = rows[place].depth
    return tuple(takewhile(lambda row: row.depth > depth, rows[place + 1 :]))


_ADD_UP = ("s", "J", "Js", "byte", "MAC", "FLOP", "count")
_SHARES = ("share", "bar")
MORE = "~more"  # suffix of the key of a row that sums several small rows
ALONE = 0.95  # share of a row from which its heaviest child says nothing new


def fold_rows(table: Table, percent: float) -> Table:
    """Return the table with siblings below `percent` merged into one row after the others.

    The heaviest sibling is never folded, nor is a single small row.
    """
    if all(column.role != "bar" for column in table.columns):
        return table
    index, least = TreeIndex(table), percent / 100
    adds = [c.role in ("number", "quantity", "bar") and (c.unit in _ADD_UP or c.key in _SHARES) for c in table.columns]

    def fold(place: int) -> Iterator[Row]:
        """Yield the row at a place and all below it."""
        row, child_places = table.rows[place], index.below[place]
        yield row
        top = max(child_places, key=index.share_at, default=place)
        small = [child for child in child_places if child != top and index.share_at(child) < least]
        hidden = small if len(small) > 1 else []
        for child in child_places:
            if child not in hidden:
                yield from fold(child)
        if hidden:
            yield _row(table, row.key, [table.rows[child] for child in hidden], adds)

    rows = tuple(folded for place, row in enumerate(table.rows) if not row.depth for folded in fold(place))
    return msgspec.structs.replace(table, rows=rows) if len(rows) < len(table.rows) else table


def _row(table: Table, parent: str, members: list[Row], adds: list[bool]) -> Row:
    cells: list[Cell] = [f"{len(members)} more"]
    for index, column in enumerate(table.columns[1:], 1):
        numbers = [v for row in members if isinstance(v := row.cells[index], NUMBERS)]
        stacks = [v for v in numbers if isinstance(v, Stack)]
        if adds[index] and numbers:
            cells.append(Stack.sum(stacks) if len(stacks) == len(numbers) else sum(numbers))
        else:
            cells.append("" if column.role == "text" else None)
    key = f"{parent}/{MORE}" if parent else MORE
    return Row(key, tuple(cells), depth=members[0].depth, has_children=True, kind="more", dim=True)


def open_heaviest_rows(table: Table, most: int) -> Table:
    """Return at most `most` rows of a tree by opening its heaviest branches first."""
    if len(table.rows) <= most:
        return table
    index = TreeIndex(table)
    root = table.rows[0].key
    shown_keys, closed = {root}, [root]
    while closed:
        key = max(closed, key=index.share)
        closed.remove(key)
        child_keys = index.children(key)
        is_divided = table.rows[index.place[key]].kind in ("model", "group") or max(map(index.share, child_keys)) < (
            ALONE * index.share(key)
        )
        if is_divided and len(shown_keys) + len(child_keys) <= most:
            shown_keys.update(child_keys)
            closed += [child for child in child_keys if index.children(child)]
    return msgspec.structs.replace(table, rows=tuple(row for row in table.rows if row.key in shown_keys))
