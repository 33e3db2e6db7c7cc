"""Borders between panes that were dragged: where they are now, as parts of the room they divide.

That is no part of the state: another screen has another size. It is kept while the program runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import msgspec

from hwexplorer.state import PANES
from hwexplorer.tui.layout import Box

LEAST_WIDE, LEAST_TALL = 24, 5  # cells and lines of a pane
Boxes = dict[str, Box]
Names = tuple[str, ...]


class Divide(msgspec.Struct, frozen=True):
    """Below pane `place` of a column of panes; with `place` -1 the one between the tree and what stands beside it."""

    names: Names
    place: int = -1


class Split(msgspec.Struct, frozen=True):
    """`left` is the part of the width that the tree has, 0: as it is laid out. `ends` are where the panes of a column
    end, as parts of its height."""

    left: float = 0.0
    ends: Mapping[Names, tuple[float, ...]] = {}


def _columns(boxes: Boxes) -> list[Names]:
    """Panes that stand one below the other, from top to bottom."""
    columns: dict[tuple[int, int], list[str]] = {}
    for name in sorted(boxes, key=lambda name: boxes[name][1]):
        if name in (*PANES, "heat"):
            columns.setdefault((boxes[name][0], boxes[name][2]), []).append(name)
    return [tuple(names) for names in columns.values()]


def _beside_tree(boxes: Boxes) -> tuple[Names, Names]:
    """What stands in the column of the tree, and in the one on its right."""
    x, _, width, _ = boxes.get("tree", (0, 0, 0, 0))
    columns = _columns(boxes)
    left = next((names for names in columns if "tree" in names), ())
    return left, next((names for names in columns if boxes[names[0]][0] == x + width), ())


def applied(boxes: Boxes, split: Split) -> Boxes:
    """The boxes with the borders where they were dragged to."""
    boxes = dict(boxes)
    left, right = _beside_tree(boxes)
    if split.left and left and right:
        start, width = boxes["tree"][0], boxes["tree"][2] + boxes[right[0]][2]
        edge = min(max(round(width * split.left), LEAST_WIDE), width - LEAST_WIDE)
        for name in left:
            boxes[name] = (start, boxes[name][1], edge, boxes[name][3])
        for name in right:
            boxes[name] = (start + edge, boxes[name][1], width - edge, boxes[name][3])
    for names in _columns(boxes):
        if names in split.ends:
            top, height = boxes[names[0]][1], sum(boxes[name][3] for name in names)
            ends = [0, *(round(part * height) for part in split.ends[names])]
            for name, (start, end) in zip(names, pairwise(ends), strict=True):
                boxes[name] = (boxes[name][0], top + start, boxes[name][2], end - start)
    return boxes


def divide_at(boxes: Boxes, x: int, y: int) -> Divide | None:
    """The border at a place of the screen: the lines of both panes belong to it."""
    for names in _columns(boxes):
        for place, (upper, lower) in enumerate(pairwise(names)):
            left, top, width, _ = boxes[lower]
            if left <= x < left + width and y in (top - 1, top) and boxes[upper][1] + boxes[upper][3] == top:
                return Divide(names, place)
    left_names, right = _beside_tree(boxes)
    edge = boxes[right[0]][0] if right else -1
    rows = [(boxes[name][1], boxes[name][1] + boxes[name][3]) for name in left_names]
    if right and x in (edge - 1, edge) and any(first <= y < last for first, last in rows):
        return Divide(right)
    return None


def dragged(split: Split, boxes: Boxes, divide: Divide, x: int, y: int) -> Split:
    """The border is where the pointer is, as far as both sides keep room."""
    first = boxes[divide.names[0]]
    if divide.place < 0:
        start, width = boxes["tree"][0], boxes["tree"][2] + first[2]
        return msgspec.structs.replace(split, left=(x - start) / width)
    heights = [boxes[name][3] for name in divide.names]
    ends = [sum(heights[: place + 1]) for place in range(len(heights))]
    least = ends[divide.place] - heights[divide.place] + LEAST_TALL
    most = ends[divide.place + 1] - LEAST_TALL
    if least <= most:
        ends[divide.place] = min(max(y - first[1], least), most)
    parts = tuple(end / ends[-1] for end in ends)
    return msgspec.structs.replace(split, ends={**split.ends, divide.names: parts})
