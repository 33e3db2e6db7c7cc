"""The columns of the tree: EDP behind the share in every form, the figure of the metric first, names never cut."""

from __future__ import annotations

import csv
import io
import re

import pytest

from hwexplorer.export.render import plain
from hwexplorer.state import parse, replace
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.widgets.tree_table import TreeTable
from hwexplorer.views.plain import Table
from hwexplorer.views.table_tree import TreeIndex
from hwexplorer.views.tree_view import tree

STATE = replace(parse("resnet50/h100_sxm"), by="module", sort="share")


def screen(table: Table, width: int) -> list[str]:
    content = TreeTable()
    content.resize(width, 40)
    content.update(table, TreeIndex(table).branches(row.key for row in table.rows))
    return ["".join(part.text for part in content.line(y, Palette("dark"), True)) for y in range(40)]


@pytest.mark.parametrize(("width", "metric"), [(46, "edp"), (70, "energy"), (70, "latency"), (140, "energy")])
def test_screen_has_edp_and_figure_of_metric_at_every_width(width: int, metric: str) -> None:
    head, *lines = screen(tree(replace(STATE, metric=metric)), width)
    assert "EDP J·s" in head
    assert {"edp": "EDP", "energy": "J/inf", "latency": " s"}[metric] in head.split("hare", 1)[1]
    assert re.search(r"\d\d\.\d µ", lines[0])


def test_edp_follows_the_share_in_csv_and_markdown_and_fusion_is_last() -> None:
    keys = next(csv.reader(io.StringIO(plain(tree(STATE), "csv"))))
    assert keys[keys.index("share") + 1] == "edp_js"
    assert keys[keys.index("bar_compute") - 2 : keys.index("bar_compute")] == ["modifier", "benefit_js"]
    assert "| Share | % | EDP J·s |" in plain(tree(STATE), "md")


def test_rows_of_a_level_add_up_to_the_edp_of_the_model() -> None:
    rows, place = tree(STATE).rows, [c.key for c in tree(STATE).columns].index("edp")
    below = sum(float(row.cells[place] or 0) for row in rows if row.depth == 1)
    assert below == pytest.approx(float(rows[0].cells[place] or 0), rel=1e-12)


def test_every_change_against_the_pin_is_whole() -> None:
    pinned = replace(STATE, by="subgraph", pin="tpu_v4@b1,fp32", diff=True)
    for metric in ("edp", "energy", "latency"):
        assert not any("…" in line.rsplit(" ", 2)[-1] for line in screen(tree(replace(pinned, metric=metric)), 60)[:38])


def test_names_are_whole_at_120_columns_though_deep() -> None:
    lines = screen(tree(replace(STATE, model="mobilenet_v2")), 68)
    assert not any("…" in line for line in lines[1:20])
    assert any("1.0 depthwise " in line for line in lines)


def test_a_count_of_repeats_is_said_once() -> None:
    names = {row.key: str(row.cells[0]) for row in tree(STATE).rows}
    assert names["layer3"] == "layer3 ×6"
    assert names["layer3.0-5.conv2"] == "conv2"
    assert names["layer3.0.downsample.0"] == "downsample.0 conv ×1"


def test_footer_says_which_blocks_make_half() -> None:
    sentence = tree(STATE).footer[0]
    count = int(sentence.split()[0])
    parts = sorted((float(row.cells[1] or 0) for row in tree(STATE).rows if row.depth == 1), reverse=True)
    assert sum(parts[:count]) >= 0.5 > sum(parts[: count - 1])
    assert "half of the EDP: layer3 ×6 " in sentence


def test_modifier_is_blank_where_there_is_next_to_no_work() -> None:
    table = tree(replace(parse("efficientnet_b0/h100_pcie"), by="module"))
    place = [column.key for column in table.columns].index("modifier")
    modifiers = {row.key: row.cells[place] for row in table.rows}
    assert modifiers["features.2-3.0-1.block.2.fc1"] is None
    # The largest: a 1x1 convolution of 0.01 MMAC that waits for its launch, and its SiLU, a kernel of its own.
    assert max(float(value or 0) for value in modifiers.values()) < 150
