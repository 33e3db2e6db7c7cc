"""The layout of the panes on a screen of a given size, as a pure function: a resize is just another call."""

Box = tuple[int, int, int, int]  # x, y, width, height
_MAIN = ("models", "compare", "tree")  # the tree, and panes that are never to the right of it
KNOBS_HEIGHT = 18  # a screen this high has a line for the device above its knobs, which name it too
CARD_WIDTH = 40  # a screen this wide has room for a device and two of its figures in a line
GAP_HEIGHT = 30  # a screen this high has a line to spare before the devices on paper
EVENTS_HEIGHT = 34  # a body this high has room for a plot below all kinds of events
TREE_EDGES = 6  # lines of a tree that are no rows: its frame, heads and remarks
HEAT_MAX = 14  # lines that show the blocks of most models
HEAT_WIDTH, HEAT_HEIGHT = 64, 26  # a tree this large has room below it for its blocks on every device


def answer_lines(width: int, height: int, devices: int) -> int:
    """Return the height of the answer above the devices; 0 for one device, which leaves no choice."""
    return 0 if devices == 1 else 2 if height < 24 else 3 if width >= 100 else 4 if width >= 60 else 6


def strip_lines(width: int, height: int, devices: int) -> int:
    """Return the height of the strip: the answer, the heads, a line for each device."""
    lines = answer_lines(width, height, devices) + 1 + devices
    return lines if devices == 1 else min(lines + (height >= GAP_HEIGHT), height // 3 + 2)


def arrange(width: int, height: int, pane: str, zoom: bool, devices: int = 4, split: int = 0) -> dict[str, Box]:
    """Return the boxes of the visible panes and of `head`, `cards`, `heat`, `tabs` and `foot`. From 80x20 on, cards are
    above the tree and the panes that explain it. A smaller or zoomed screen has one pane under tabs; below 60x16 it has
    one pane under the cards if the screen is GAP_HEIGHT high, else under a line of figures. The models (except on a
    large screen) and the table of devices are visible only with focus. The tree is `split` cells wider than usual."""
    if width < 60 or height < 16:
        return _tiny(width, height, pane, devices)
    around: dict[str, Box] = {"head": (0, 0, width, 1), "foot": (0, height - 1, width, 1)}
    if width < 80 or height < 20 or zoom:
        has_line = pane != "knobs" or height >= KNOBS_HEIGHT
        lines = strip_lines(width, height, devices) if height >= GAP_HEIGHT and not zoom else int(has_line)
        above = 2 + lines
        around |= {"tabs": (0, 1, width, 1)} | ({"cards": (0, 2, width, lines)} if lines else {})
        return {**around, pane: (0, above, width, height - above - 1)}
    top = 1 if pane == "models" and height < GAP_HEIGHT else strip_lines(width, height, devices)
    is_large = width >= 180 and height >= 50
    if pane == "compare":  # all devices, and as many lines about them as there is room for
        top = min(devices + 10, (height - 2) // 2)
    around["compare" if pane == "compare" else "cards"] = (0, 1, width, top)
    x = 0
    if pane == "models" or is_large:
        x = max(30, min(44, width // (5 if is_large else 2)))
        around["models"] = (0, 1 + top, x, height - 2 - top)
    body = (x, 1 + top, width - x, height - 2 - top)
    is_grid = body[2] >= 76 and body[3] >= (20 if width >= 100 else 40)
    boxes = around | (_grid(body, pane, split) if is_grid else _small(body, pane, split))
    x, y, wide, tall = boxes["tree"]
    if devices > 1 and wide >= HEAT_WIDTH and tall >= HEAT_HEIGHT:  # the heat pane takes a part of the tree's box
        matrix = min(HEAT_MAX, tall // 3)
        boxes |= {"tree": (x, y, wide, tall - matrix), "heat": (x, y + tall - matrix, wide, matrix)}
    return boxes


def _tiny(width: int, height: int, pane: str, devices: int) -> dict[str, Box]:
    above = int(width >= CARD_WIDTH and height >= 16)
    boxes: dict[str, Box] = {"cards": (0, 0, width, 1)} if above else {}
    if above and height >= GAP_HEIGHT:
        top = strip_lines(width, height, devices)
        above, boxes = 1 + top, {"head": (0, 0, width, 1), "cards": (0, 1, width, top)}
    boxes[pane] = (0, above, width, max(1, height - 1 - above))
    if height > 1:
        boxes["foot"] = (0, height - 1, width, 1)
    return boxes


def _bound_width(width: int, left: int) -> int:
    """Return the width of the tree that leaves room for it and for the panes to the right of it."""
    return max(width // 4, min(left, width * 3 // 4))


def _small(body: Box, pane: str, split: int) -> dict[str, Box]:
    """Return the tree, and one pane next to it: the focused one, else why. The focused one is wider."""
    x, y, width, height = body
    if width < 60:
        return {"tree": body}
    is_side = pane not in _MAIN
    left = _bound_width(width, (width * 2 // 5 if is_side else width * 3 // 5) + split)
    side = pane if is_side else "why"
    return {"tree": (x, y, left, height), side: (x + left, y, width - left, height)}


def _grid(body: Box, pane: str, split: int) -> dict[str, Box]:
    """Return the tree on the left and, on the right, why above events above the plot. A low body has only one of the
    last two. The focused pane has the most room. Any other focused pane is shown above why."""
    x, y, width, height = body
    left = _bound_width(width, max(40, width * (64 if pane in _MAIN or width >= 100 else 40) // 100) + split)
    right = (x + left, width - left)
    boxes: dict[str, Box] = {"tree": (x, y, left, height)}
    panes = ("why", "events", "plot") if height >= EVENTS_HEIGHT else ("why", "plot" if pane == "plot" else "events")
    shares = {"why": 36, "events": 36, "plot": 28} if len(panes) == 3 else {panes[0]: 50, panes[1]: 50}
    if pane not in (*_MAIN, "why", "events", "plot"):
        panes, shares = (pane, "why"), {pane: 70, "why": 30}
    elif pane in panes and len(panes) == 3:
        shares = {name: 46 if name == pane else 27 for name in panes}
    at = y
    for place, name in enumerate(panes):
        tall = y + height - at if place == len(panes) - 1 else height * shares[name] // 100
        boxes[name] = (right[0], at, right[1], tall)
        at += tall
    return boxes
