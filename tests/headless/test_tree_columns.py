"""The columns of the tree: a share and a figure at every width, in every form, names never cut."""

import csv
import io
import re
from random import Random

import pytest

from hwexplorer.export.render import plain
from hwexplorer.state import State, parse, replace
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.widgets.tree_table import TreeTable
from hwexplorer.views import tree_view
from hwexplorer.views.plain import Table, TreeIndex
from hwexplorer.views.tree_view import tree

STATE = replace(parse("resnet50/h100_sxm"), by="module", sort="share")


def screen(table: Table, width: int) -> list[str]:
    content = TreeTable()
    content.resize(width, 40)
    content.update(table, TreeIndex(table).branches(row.key for row in table.rows))
    return ["".join(part.text for part in content.line(y, Palette("dark"), True)) for y in range(40)]


@pytest.mark.parametrize(("width", "metric"), [(70, "edp"), (46, "energy"), (70, "latency"), (140, "energy")])
def test_screen_has_the_share_and_a_figure_with_its_unit_in_the_head_at_every_width(width: int, metric: str) -> None:
    head, *lines = screen(tree(replace(STATE, metric=metric)), width)
    assert {"edp": "EDP", "energy": "Energy", "latency": "Time"}[metric] + " share %" in head
    assert {"edp": "Time µs", "energy": "mJ", "latency": "Time µs"}[metric] in head
    assert not re.search(r"\d [µmn]( |$)", lines[0])


def test_shares_precede_figures_in_csv_and_markdown_and_fusion_is_last() -> None:
    keys = next(csv.reader(io.StringIO(plain(tree(STATE), "csv"))))
    assert keys[keys.index("share") + 1] == "latency_s"
    assert keys[keys.index("bar_compute") - 2 : keys.index("bar_compute")] == ["modifier", "benefit_js"]
    assert "| EDP share | % | Time µs |" in plain(tree(STATE), "md")


def test_no_kind_of_operator_exceeds_the_peak() -> None:
    table = tree(replace(parse("resnet50/h100_sxm"), by="kind"))
    place = [column.key for column in table.columns].index("utilization")
    assert all(float(row.cells[place] or 0) <= 1 for row in table.rows)


def test_a_device_worse_in_energy_and_time_never_wins_a_row() -> None:
    """Rows are compared by their own energy, time and product, whatever the rest of the model takes."""
    random = Random(7)
    for _ in range(30):
        model, batch = random.choice(("resnet50", "vit_b_16", "mobilenet_v2")), random.choice((1, 8, 64))
        devices = tuple(random.sample(("h100_sxm", "tpu_v4", "xeon_8490h", "jetson_agx_orin", "l4", "i9_13900k"), 3))
        state = State(model=model, batch=batch, precision=random.choice(("fp32", "int8")), devices=devices, heat=True)
        state = replace(state, on=devices[0], by=random.choice(("module", "subgraph")))
        figures = {
            metric: tree_view.heat(tree(replace(state, metric=metric)), replace(state, metric=metric))
            for metric in ("edp", "energy", "latency")
        }
        by_key = {
            name: {row.key: dict(zip([c.key for c in table.columns], row.cells, strict=True)) for row in table.rows}
            for name, table in figures.items()
        }
        for row in figures["edp"].rows:
            wins = by_key["edp"][row.key]["wins"]
            energy, latency = by_key["energy"][row.key], by_key["latency"][row.key]
            for name in devices if wins in devices else ():
                pairs = [(cells[f"on:{name}"], cells[f"on:{wins}"]) for cells in (energy, latency)]
                assert not all(other is not None and other < own * (1 - 1e-9) for other, own in pairs), (state, row.key)
