"""The views that the screen adds, on the real engine: figures add up, points are linked, nothing is pinned."""

import numpy as np
import pytest

from analysis.estimate.causes import FAMILIES
from hwexplorer import engine
from hwexplorer.reports.show import events
from hwexplorer.screen_queries import ScreenQueries
from hwexplorer.state import PLOTS, parse
from hwexplorer.views import tree_view
from hwexplorer.views.answer_lines import verdict
from hwexplorer.views.plain import Plot
from tests.sampling import for_each

PAIRS = (
    "resnet18@b8,fp16?pin=tpu_v4@b8",
    "vit_b_16@b2?pin=h100_sxm@b64,fp16&on=xeon_8490h",
    "mobilenet_v2@b4,int8?pin=kpu_t256@int8",
    "resnet18@b64?pin=h100_sxm@b1",
)


@for_each("text", PAIRS)
@for_each("metric", ["edp", "energy", "latency"])
def test_the_verdict_is_one_line_about_both_sides(text: str, metric: str) -> None:
    assert [" vs " in line for line in verdict(parse(f"{text}&metric={metric}")).splitlines()] == [True]


def test_the_verdict_of_equals_and_of_other_models() -> None:
    assert verdict(parse("resnet18")) == ""
    assert verdict(parse("resnet18@b8?pin=h100_sxm@b8")) == "nothing differs from the pin"
    assert verdict(parse("resnet18@b8?pin=resnet34/h100_sxm@b8")).startswith("resnet18 vs resnet34: EDP -")
    assert verdict(parse("llama3_8b:decode@b1,kv4096?pin=h100_sxm@b1")).startswith("kv 4096 vs default: EDP +")


def test_events_of_two_architectures_are_compared_by_common_families() -> None:
    state = parse("resnet18@b8/h100_sxm,tpu_v4?pin=tpu_v4@b8")
    families = [row.cells[0] for row in events.view(state).rows if not row.depth]
    assert set(families) == set(FAMILIES) - {"waiting loops"}  # of cores


def test_heat_columns_are_what_each_device_has() -> None:
    state = parse("resnet18@b8?heat=1&metric=energy")
    table = tree_view.view(state)
    names = [column.key for column in table.columns]
    place_of = {
        d: names.index((tree_view.ON if engine.device(d).silicon else tree_view.PAPER) + d) for d in state.devices
    }
    for device, place in place_of.items():
        total = engine.result(state, device).energy_j_per_inference
        assert table.rows[0].cells[place] == pytest.approx(total)
        below = [row.cells[place] for row in table.rows if row.depth == 1]
        assert sum(value or 0.0 for value in below) == pytest.approx(total)  # type: ignore[misc]
    silicon = [d for d in state.devices if engine.device(d).silicon]
    assert len(silicon) == len(state.devices) - 1
    for row in table.rows:
        figures = {d: row.cells[place] for d, place in place_of.items()}
        winner = min((d for d in silicon if figures[d] is not None), key=figures.get)  # type: ignore[arg-type]
        assert row.cells[names.index("wins")] == winner


@for_each("model", ["resnet18@b8,fp16", "gemm@b1", "vit_b_16@b4"])
@for_each("name", PLOTS)
def test_plots(model: str, name: str) -> None:
    state = parse(f"{model}?plot={name}")
    plot = ScreenQueries().plot(state)
    assert isinstance(plot, Plot)
    assert plot.notes
    ids = {"", *engine.result(state).partition.operator_id}
    for series in plot.series:
        assert len(series.x) == len(series.y)
        assert np.isfinite(series.x).all()
        assert np.isfinite(series.y).all()
        for key in series.keys:
            assert key in ids or key.rpartition("@b")[0] in state.devices


def test_the_plots_say_what_the_figures_say() -> None:
    state = parse("resnet18@b8,fp16?plot=batch")
    batch = ScreenQueries().plot(state)
    best = next(series for series in batch.series if series.mark)
    for key, least in zip(best.keys, best.y, strict=True):
        line = next(s for s in batch.series if s.keys and s.name == engine.marked_key(key.rpartition("@b")[0]))
        assert least == min(line.y)
    at_8 = next(s for s in batch.series if s.keys and s.name == "h100_sxm")
    assert at_8.y[at_8.keys.index("h100_sxm@b8")] == pytest.approx(engine.result(state).edp_js)


def test_the_host_counts_in_the_model_on_each_device_that_has_its_work() -> None:
    state = parse("resnet18@b1,fp16/kpu_t256,tpu_v4?pin=tpu_v4@b1,fp16")
    here, there = (engine.result(state, name) for name in ("kpu_t256", "tpu_v4"))
    table = tree_view.tree(state)
    keys = [column.key for column in table.columns]
    place = keys.index("latency_change")
    assert keys[place - 1] == "latency"  # the figure whose change it is
    assert table.rows[0].cells[place] == pytest.approx(here.latency_s / there.latency_s - 1)
    assert keys[keys.index("energy_change") - 1] == "energy_per_inference"
    host = next(
        row for row in tree_view.view(parse("resnet18@b1,fp16/tpu_v4,xeon_8490h?heat=1")).rows if row.kind == "host"
    )
    assert host.cells[-2:] == (None, "tpu_v4")  # the CPU has no such work, and wins nothing by that
