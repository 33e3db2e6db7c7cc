"""Plots people read unzoomed: nothing stands on anything, a device has one colour, one notation, whole legends."""

import re

import pytest

from hwexplorer import engine
from hwexplorer.screen_queries import ScreenQueries
from hwexplorer.state import PLOTS, parse, replace
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.panes import point_of
from hwexplorer.tui.widgets.plot_area import Drawing, _owners, draw
from tests.sampling import for_each
from tests.tui.fake import render
from tests.tui.opened import on_screen

PALETTE = Palette("dark")
STATE = parse("resnet50@b8,fp16?at=layer3.0.conv2")
SIZES = [(52, 14), (76, 20), (120, 40)]


def drawn(name: str, width: int, height: int, model: str = STATE.model) -> tuple[list[str], list[str]]:
    """A plot without and with the point of its cursor."""
    state = replace(STATE, model=model, plot=name)
    plot = ScreenQueries().plot(state)
    return tuple(
        ["".join(s.text for s in line).ljust(width) for line in render(plot, width, height, PALETTE, cursor)]
        for cursor in ("", point_of(state))
    )  # type: ignore[return-value]


@for_each("name", PLOTS)
@for_each(("width", "height"), SIZES)
def test_the_cursor_changes_nothing_but_its_points(name: str, width: int, height: int) -> None:
    before, after = drawn(name, width, height)
    for old, new in zip(before, after, strict=True):
        assert all(now in (was, "◉") for was, now in zip(old, new, strict=True)), (old, new)


async def test_the_frame_of_a_plot_names_the_operator_of_the_cursor() -> None:
    async with on_screen(replace(STATE, pane="why", plot="roofline")) as (app, _):
        assert app.explorer.panes["why"].heading.endswith(f" · {STATE.at}")


@for_each("name", PLOTS)
@for_each(("width", "height"), [(44, 10), (28, 20), *SIZES])
def test_no_point_touches_a_name(name: str, width: int, height: int) -> None:
    assert [line for line in drawn(name, width, height)[0] if re.search(r"\w[•●○]|[•●○]\w", line)] == []


@pytest.mark.parametrize("name", PLOTS)
def test_a_device_has_one_colour_in_all_plots(name: str) -> None:
    plot = ScreenQueries().plot(replace(STATE, plot=name))
    names = {engine.marked_key(device): place for place, device in enumerate(STATE.devices)}
    for owner, series in zip(_owners(plot.series), plot.series, strict=True):
        if series.name in names:
            assert owner == names[series.name]


@pytest.mark.parametrize("name", PLOTS)
def test_the_legend_is_whole_and_axes_have_one_notation(name: str) -> None:
    plot = ScreenQueries().plot(replace(STATE, plot=name))
    drawing = draw(plot, 76, 20, PALETTE)
    assert isinstance(drawing, Drawing)
    told = "".join(segment.text for line in drawing.lines(PALETTE) for segment in line)
    missing = [series.name for series in plot.series if series.name not in told]
    assert not missing  # above, or beside what it names
    labels = [label for each in (drawing.grid.x, drawing.grid.y) for _, label in each.ticks(8)]
    assert not [label for label in labels if "e+" in label or "e-" in label]
