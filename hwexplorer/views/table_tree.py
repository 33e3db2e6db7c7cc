"""Ways through a tree given as a flat table: parents, subtrees, the heaviest path."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from hwexplorer.state import MORE
from hwexplorer.views.plain import Table


class TreeIndex:
    """The place and the parent of every key of a table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.place: dict[str, int] = {}
        self.parent: dict[str, str | None] = {}
        self._children: defaultdict[str | None, list[str]] = defaultdict(list)
        path: list[str] = []
        for place, row in enumerate(table.rows):
            del path[row.depth :]
            self.place[row.key] = place
            above = self.parent[row.key] = path[-1] if path else None
            self._children[above].append(row.key)
            path += [row.key] * (row.depth + 1 - len(path))
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
        return self._children.get(key, [])

    def descendants(self, key: str) -> list[str]:
        """Return the keys of the subtree, without its root."""
        if key not in self.place:
            return []
        rows = self.table.rows
        start = self.place[key]
        keys = []
        for row in rows[start + 1 :]:
            if row.depth <= rows[start].depth:
                break
            keys.append(row.key)
        return keys

    def branches(self, keys: Iterable[str]) -> set[str]:
        """Return those of the keys that have children."""
        return {k for k in keys if self.table.rows[self.place[k]].has_children}

    def share(self, key: str) -> float:
        """Return the share of the row in its first bar, 0 without bars."""
        if self._share is None:
            return 0.0
        value = self.table.rows[self.place[key]].cells[self._share]
        return float(value) if isinstance(value, int | float) else 0.0

    def heaviest(self, key: str) -> str:
        """Return the leaf at the end of the heaviest path down from a key; from a leaf, the same from the top."""
        here = key if key in self.place and self.children(key) else next(iter(self.place), "")
        while below := [key for key in self.children(here) if self.table.rows[self.place[key]].kind != "part"]:
            here = max(below, key=self.share)
        return here


def more_key(parent: str) -> str:
    """Return the key of the row that stands for the small children of a branch."""
    return f"{parent}/{MORE}" if parent else MORE
