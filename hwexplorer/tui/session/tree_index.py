"""Ways through a tree given as a flat table: parents, subtrees, the heaviest path, matches; and what keys do to its
branches. All pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from hwexplorer.state import EACH, MORE, State, node, replace
from hwexplorer.tui.session import row_query
from hwexplorer.views.plain import Table

TIMES = "×"  # in the name of a row of repeats


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
        while below := self.children(here):
            here = max(below, key=self.share)
        return here


def open_heaviest(state: State, index: TreeIndex) -> State:
    """Return the state with the cursor on the heaviest operator and all above it open, unless it says where to look."""
    if state.at or state.open:
        return state
    leaf = index.heaviest("")
    return replace(state, at=leaf, open=tuple(sorted(index.ancestors(leaf) - {""})))


def open_branches(index: TreeIndex, opened: Collection[str], at: str) -> set[str]:
    """Return the open branches: what was opened, and whatever keeps the cursor in sight."""
    return set(opened) | index.ancestors(at)


def next_match(table: Table, text: str, start: str, step: int) -> str | None:
    """Return the key of the next row, from `start` on and around, that fits `text` (row_query.py); step 0 may stay.

    Raises RequestError for a condition that cannot be."""
    matches = row_query.matching_rows(table, text)
    if not matches:
        return None
    here = next((place for place, row in enumerate(table.rows) if row.key == start), 0)
    if step < 0:
        before = [m for m in matches if m < here]
        return table.rows[(before or matches)[-1]].key
    after = [m for m in matches if m > here or (step == 0 and m == here)]
    return table.rows[(after or matches)[0]].key


def more_key(parent: str) -> str:
    """Return the key of the row that stands for the small children of a branch."""
    return f"{parent}/{MORE}" if parent else MORE


def folds_above(key: str, tree: TreeIndex, folded: TreeIndex) -> set[str]:
    """Return the keys of the folded rows that hide a node or what it hangs on. `folded` is the tree as shown."""
    hidden = {key, *tree.ancestors(key)} - {""} - folded.place.keys()
    return {more_key(tree.parent[each] or "") for each in hidden if each in tree.place}


def move_to(state: State, key: str, tree: TreeIndex, folded: TreeIndex) -> State:
    """Put the cursor on a node and open what hides it."""
    hiding = tree.ancestors(key) | folds_above(key, tree, folded)
    return replace(state, at=key, open=(*state.open, *sorted(hiding - set(state.open) - {""})))


def visible_ancestor(key: str, tree: TreeIndex, folded: TreeIndex) -> str:
    """Return the row of the folded tree that stands for a node: itself, its branch or the row of folded ones."""
    at = node(key)
    while at and at not in folded.place:
        parent = tree.parent.get(at) or ""
        if more_key(parent) in folded.place:
            return more_key(parent)
        at = parent
    return at


def open_all(state: State, tree: TreeIndex) -> State:
    """Open every branch."""
    return replace(state, open=tuple(sorted(tree.branches(tree.place) - {""})))


def close_all(state: State, tree: TreeIndex) -> State:
    """Close every branch; the cursor goes to the subgraph that it was in."""
    above = [key for key in tree.ancestors(state.at) if key]
    return replace(state, open=(), at=min(above, key=len) if above else state.at)


def toggle_repeats(state: State, tree: TreeIndex) -> State | None:
    """Show the blocks of a row of repeats one by one, or merged again: that of the cursor or the nearest above. Return
    None where there is none."""
    at = node(state.at)
    while at:
        row = tree.table.rows[tree.place[at]]
        if at + EACH in state.open:
            return replace(state, at=at, open=tuple(key for key in state.open if key != at + EACH))
        if row.kind == "group" and TIMES in str(row.cells[0]):
            return replace(state, at=at, open=(*state.open, *{at} - set(state.open), at + EACH))
        at = tree.parent.get(at) or ""
    return None


def unfold_all(state: State) -> State:
    """Close the rows of folded ones that were opened."""
    return replace(state, open=tuple(key for key in state.open if not key.endswith(MORE)))
