"""Borders drag: the panes share the room anew, nothing overlaps, and the state does not know."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from hwexplorer.state import PANES, parse
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.layout import Box, arrange
from hwexplorer.tui.split import Split, applied, divide_at, dragged
from tests.tui.fake import Fake


def area(boxes: dict[str, Box]) -> int:
    return sum(width * height for _, _, width, height in boxes.values())


def overlapping(boxes: dict[str, Box]) -> list[tuple[str, str]]:
    def meet(a: Box, b: Box) -> bool:
        return a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3]

    names = sorted(boxes)
    return [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if meet(boxes[a], boxes[b])]


@given(
    st.integers(80, 240), st.integers(20, 70), st.sampled_from(PANES),
    st.lists(st.tuples(*[st.floats(0, 1)] * 4), max_size=5),
)  # fmt: skip
def test_wherever_borders_are_dragged_all_room_is_shared(
    width: int, height: int, pane: str, moves: list[tuple[float, ...]]
) -> None:
    plain, split = arrange(width, height, pane, False).boxes, Split()
    for from_x, from_y, to_x, to_y in moves:
        boxes = applied(plain, split)
        divide = divide_at(boxes, int(from_x * width), int(from_y * height))
        if divide is not None:
            split = dragged(split, boxes, divide, int(to_x * width), int(to_y * height))
    boxes = applied(plain, split)
    assert area(boxes) == area(plain)
    assert overlapping(boxes) == []
    assert all(box[2] > 0 and box[3] > 0 for box in boxes.values())


async def drag(pilot: Pilot[None], start: tuple[int, int], end: tuple[int, int]) -> None:
    """Offsets are of the screen."""
    await pilot.mouse_down(offset=start)
    await pilot.hover(offset=end)
    await pilot.mouse_up(offset=end)
    await pilot.pause()


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_the_border_between_tree_and_side_follows_the_pointer(size: tuple[int, int]) -> None:
    app = HwExplorer(parse("resnet50"), Fake())
    async with app.run_test(size=size) as pilot:
        state, tree, why = app.state, app.explorer.views["tree"], app.explorer.views["why"]
        edge = tree.region.right
        await drag(pilot, (edge - 1, size[1] // 2), (edge - 11, size[1] // 2))
        assert tree.region.right == edge - 11
        assert why.region.x == edge - 11
        assert why.region.right == size[0]
        await pilot.press("z", "z")
        assert tree.region.right == edge - 11  # as long as the program runs
        assert app.state == state
    assert app.session.failures == []


async def test_the_border_between_two_panes_follows_the_pointer() -> None:
    app = HwExplorer(parse("resnet50"), Fake())
    async with app.run_test(size=(120, 40)) as pilot:
        why, events = app.explorer.views["why"], app.explorer.views["events"]
        edge, both = why.region.bottom, why.region.height + events.region.height
        await drag(pilot, (100, edge), (100, edge + 4))
        assert (why.region.bottom, events.region.y) == (edge + 4, edge + 4)
        assert why.region.height + events.region.height == both
        assert app.state.pane == "tree"  # what is dragged is not gone to
        await pilot.click(offset=(100, edge + 4))
        assert app.state.pane == "events"
    assert app.session.failures == []
