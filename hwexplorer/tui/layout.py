"""Where the panes are for a screen of some size: a pure function, so that any resize is just another call."""

from __future__ import annotations

from typing import Literal

import msgspec

Mode = Literal["grid", "tabs", "tiny"]
Box = tuple[int, int, int, int]  # x, y, width, height


class Layout(msgspec.Struct, frozen=True):
    """`boxes` of what is on screen, by name: panes, and `head`, `tabs`, `foot`."""

    mode: Mode
    boxes: dict[str, Box]


def arrange(width: int, height: int, pane: str, zoom: bool, devices: int = 4) -> Layout:
    """The grid from 100x30, one pane under a line of tabs from 60x16, below that a tree and a status line."""
    if width < 60 or height < 16:
        return _tiny(width, height, pane)
    if width < 100 or height < 30 or zoom:
        boxes = {
            "head": (0, 0, width, 1),
            "tabs": (0, 1, width, 1),
            pane: (0, 2, width, height - 3),
            "foot": (0, height - 1, width, 1),
        }
        return Layout("tabs", boxes)
    return Layout("grid", _grid(width, height, devices))


def _tiny(width: int, height: int, pane: str) -> Layout:
    boxes: dict[str, Box] = {pane: (0, 0, width, max(1, height - 1))}
    if height > 1:
        boxes["foot"] = (0, height - 1, width, 1)
    return Layout("tiny", boxes)


def _grid(width: int, height: int, devices: int) -> dict[str, Box]:
    """Models | Compare above; Tree over Why on the left, Events over Plot on the right."""
    body = height - 2
    top = min(max(8, devices + 6), body // 3)
    models = max(26, min(40, width // 5))
    left = max(60, width * 57 // 100)
    rest = body - top
    why = max(9, rest * 36 // 100)
    plot = max(11, rest * 48 // 100)
    return {
        "head": (0, 0, width, 1),
        "models": (0, 1, models, top),
        "compare": (models, 1, width - models, top),
        "tree": (0, 1 + top, left, rest - why),
        "why": (0, 1 + top + rest - why, left, why),
        "events": (left, 1 + top, width - left, rest - plot),
        "plot": (left, 1 + top + rest - plot, width - left, plot),
        "foot": (0, height - 1, width, 1),
    }
