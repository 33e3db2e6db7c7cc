"""Ways through a tree given as a flat table: parents, subtrees, the heaviest path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from hwexplorer.state import MORE
from hwexplorer.views.plain import NUMBERS, Row, Table


class TreeIndex:
    """The place and the parent of every key of a table, and the places right below every place."""

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
        """Return the keys right below a key."""
        return [self.table.rows[place].key for place in self.below[self.place[key]]] if key in self.place else []

    def descendants(self, key: str) -> list[str]:
        """Return the keys of the subtree, without its root."""
        below = rows_below(self.table.rows, self.place[key]) if key in self.place else ()
        return [row.key for row in below]

    def branches(self, keys: Iterable[str]) -> set[str]:
        """Return those of the keys that have children."""
        return {k for k in keys if self.table.rows[self.place[k]].has_children}

    def share(self, key: str) -> float:
        """Return the share of the row in its first bar, 0 without bars."""
        return self.share_at(self.place[key])

    def share_at(self, place: int) -> float:
        """Return the share of the row at a place."""
        value = None if self._share is None else self.table.rows[place].cells[self._share]
        return float(value) if isinstance(value, NUMBERS) else 0.0

    def heaviest(self, key: str) -> str:
        """Return the leaf at the end of the heaviest path down from a key; from a leaf, the same from the top."""
        here = key if key in self.place and self.children(key) else next(iter(self.place), "")
        while below := [key for key in self.children(here) if self.table.rows[self.place[key]].kind != "part"]:
            here = max(below, key=self.share)
        return here


def rows_below(rows: Sequence[Row], place: int) -> tuple[Row, ...]:
    """Return the rows of the subtree of the row at a place, without it."""
    depth = rows[place].depth
    return tuple(takewhile(lambda row: row.depth > depth, rows[place + 1 :]))


def more_key(parent: str) -> str:
    """Return the key of the row that stands for the small children of a branch."""
    return f"{parent}/{MORE}" if parent else MORE
