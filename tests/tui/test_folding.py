"""Folded rows: what they stand for is neither lost nor counted twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.document import Column
from hwexplorer.screen_queries import ScreenQueries
from hwexplorer.state import parse
from hwexplorer.views.plain import MORE, Row, Table, TreeIndex, fold_rows
from tests.tui.fake import Fake
from tests.tui.opened import on_screen

TABLES = [Fake().tree(parse("resnet50@b8")), ScreenQueries().tree(parse("mobilenet_v2@b8?sort=share"))]


def bar(table: Table) -> int:
    return next(i for i, column in enumerate(table.columns) if column.role == "bar")


@pytest.mark.parametrize("table", TABLES)
@given(percent=st.floats(0.01, 50))
def test_every_level_adds_up_as_before(table: Table, percent: float) -> None:
    short = fold_rows(table, percent)
    share = bar(table)
    before, after = TreeIndex(table), TreeIndex(short)
    for parent in before.place:
        if parent in after.place and (below := before.children(parent)):
            whole = sum(float(table.rows[before.place[key]].cells[share]) for key in below)  # type: ignore[arg-type]
            now = sum(float(short.rows[after.place[key]].cells[share]) for key in after.children(parent))  # type: ignore[arg-type]
            assert now == pytest.approx(whole)
    for row in short.rows:
        if row.key.endswith(MORE):
            assert int(str(row.cells[0]).split()[0]) >= 2
    assert len({row.key for row in short.rows}) == len(short.rows)


@pytest.mark.parametrize(
    ("opened", "at"),
    [("at=layer1", "layer1"), ("by=kind&at=layer1.0-1.conv1&open=layer1", "layer1.0-1.conv1")],
)
async def test_the_cursor_is_on_a_row_of_the_tree(opened: str, at: str) -> None:
    async with on_screen(f"resnet18?{opened}") as (app, _):
        assert (app.state.by, app.state.at, app.explorer.outline.key) == ("module", at, at)


def test_rows_of_one_key_are_folded_each_where_it_stands() -> None:
    """An operator is a kernel of its own in one layer and a part of another's kernel in the next."""
    columns = (Column("name", "Node", role="text"), Column("bar", "Share", "%", role="bar"))
    shares = [("", 1.0, 0), ("norm", 0.001, 1), ("dot", 0.9, 1), ("norm", 0.5, 2), ("q", 0.4, 2), ("add", 0.002, 1)]
    rows = tuple(Row(key, (key, share), depth=depth, has_children=key in ("", "dot")) for key, share, depth in shares)
    folded = fold_rows(Table("tree", "", columns, rows), 1.0)
    assert [row.key for row in folded.rows] == ["", "dot", "norm", "q", MORE]
