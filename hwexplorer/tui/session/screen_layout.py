"""Where the panes are for a screen of some size: a pure function, so that any resize is just another call."""

from __future__ import annotations

from typing import Literal

import msgspec

Mode = Literal["grid", "small", "tabs", "tiny"]
Box = tuple[int, int, int, int]  # x, y, width, height
_MAIN = ("models", "compare", "tree")  # those that do not stand beside the tree
NARROWEST = 25  # cells of a card
TALL = 5  # lines of a card


def lines_of(width: int, height: int, devices: int) -> int:
    """Return the lines of the strip: of cards where they fit side by side, else one for each device."""
    if height >= 30 and devices * NARROWEST <= width:
        return TALL
    return min(devices, max(1, (height - 2) // 5))


class Layout(msgspec.Struct, frozen=True):
    """`boxes` of what is on screen, by name: panes, and `head`, `cards`, `heat`, `tabs`, `foot`."""

    mode: Mode
    boxes: dict[str, Box]


def arrange(width: int, height: int, pane: str, zoom: bool, devices: int = 4) -> Layout:
    """Cards above the tree and what explains it from 80x20; below that, or zoomed, one pane under a line of tabs; in
    less than 60x16 a tree and a status line. The models and the table of devices open where they are gone to."""
    if width < 60 or height < 16:
        return _tiny(width, height, pane)
    around: dict[str, Box] = {"head": (0, 0, width, 1), "foot": (0, height - 1, width, 1)}
    if width < 80 or height < 20 or zoom:
        return Layout("tabs", {**around, "tabs": (0, 1, width, 1), pane: (0, 2, width, height - 3)})
    cards = lines_of(width, height, devices)
    is_large = width >= 180 and height >= 50
    table = 0
    if pane == "compare" or is_large:  # all devices, and of what is said about them as much as there is room for
        table = min(devices + 8 + is_large, max((height - 2) // 3, min(devices + 4, (height - 2) // 2)))
    top = cards
    if table:
        top = table + (cards if is_large else 0)
        around["compare"] = (0, 1 + top - table, width, table)
    if not table or is_large:
        around["cards"] = (0, 1, width, cards)
    x = 0
    if pane == "models" or is_large:
        x = max(30, min(44, width // 5))
        around["models"] = (0, 1 + top, x, height - 2 - top)
    body = (x, 1 + top, width - x, height - 2 - top)
    mode: Mode = "grid" if body[2] >= 76 and body[3] >= (20 if width >= 100 else 40) else "small"
    boxes = around | (_grid(body, pane) if mode == "grid" else _small(body, pane))
    if is_large:  # under the tree, whose place it shares
        x, y, wide, tall = boxes["tree"]
        matrix = min(16, tall // 3)
        boxes |= {"tree": (x, y, wide, tall - matrix), "heat": (x, y + tall - matrix, wide, matrix)}
    return Layout(mode, boxes)


def _tiny(width: int, height: int, pane: str) -> Layout:
    boxes: dict[str, Box] = {pane: (0, 0, width, max(1, height - 1))}
    if height > 1:
        boxes["foot"] = (0, height - 1, width, 1)
    return Layout("tiny", boxes)


def _small(body: Box, pane: str) -> dict[str, Box]:
    """The tree, and one pane beside it: the one gone to, else why. The one gone to is the wider."""
    x, y, width, height = body
    if width < 60:
        return {"tree": body}
    is_side = pane not in _MAIN
    left = width * 2 // 5 if is_side else width * 3 // 5
    side = pane if is_side else "why"
    return {"tree": (x, y, left, height), side: (x + left, y, width - left, height)}


def _grid(body: Box, pane: str) -> dict[str, Box]:
    """The tree on the left; on the right why over events over the plot, the one gone to the largest, and the wider
    where there is little room; of the last two one where it is low; or any other over why."""
    x, y, width, height = body
    left = max(40, width * (60 if pane in _MAIN or width >= 100 else 40) // 100)
    right = (x + left, width - left)
    boxes: dict[str, Box] = {"tree": (x, y, left, height)}
    panes = ("why", "events", "plot") if height >= 27 else ("why", "plot" if pane == "plot" else "events")
    is_other = pane not in (*_MAIN, "why", "events", "plot")
    if is_other:
        panes = (pane, "why")
    at = y
    for place, name in enumerate(panes):
        left_over = y + height - at
        share = (
            70 if is_other else 46 if pane == name else 27 if pane in panes and len(panes) == 3 else 100 // len(panes)
        )
        tall = left_over if place == len(panes) - 1 else height * share // 100
        boxes[name] = (right[0], at, right[1], tall)
        at += tall
    return boxes
