"""What falls back from an accelerator: a table whose names exist, pieces, crossings, and times that add up."""

import pytest

from analysis.explore.divided_run import SUPPORT
from analysis.model.ir.workload import KINDS
from analysis.model.operators import cost_rules
from hardware.base import file_access
from hardware.base.errors import RequestError
from hwexplorer import engine
from hwexplorer.reports.show.fallback import VERB
from hwexplorer.state import State


def _fallback(model, unit, rest=None):
    return VERB.document(State(model=model, devices=(unit,)), rest)


def test_a_model_of_which_all_runs_takes_the_time_of_the_unit():
    report = _fallback("efficientnet_b0", "rk3588_npu")
    assert (report.refused, report.unknown, report.pieces, report.crossings) == (0, 0, 1, 0)
    assert report.divided.latency_s == pytest.approx(report.whole_s)
    assert report.rest_device == "rk3588_cpu"


def test_the_pool_of_resnet_falls_back_to_the_gpu_of_the_module():
    report = _fallback("resnet50", "jetson_orin_dla")
    assert (report.refused, report.pieces, report.crossings) == (1, 2, 2)
    assert report.crossing_bytes == (2048 * 49 + 2048) * 2  # fp16: what the pool reads, and its result
    run = report.divided
    assert report.rest_device == "jetson_agx_orin"
    assert run.latency_s == pytest.approx(run.unit_s + run.rest_s + run.crossing_s)


def test_softmax_runs_on_the_dla_of_orin_only():
    orin, xavier = (_fallback("swin_t", unit) for unit in ("jetson_orin_dla", "jetson_xavier_dla"))
    rows = [{row.operator: row.status for row in report.groups} for report in (orin, xavier)]
    assert [row["softmax"] for row in rows] == ["runs", "refuses"]
    assert xavier.refused > orin.refused
    assert orin.pieces == xavier.pieces == 16


def test_an_edge_tpu_runs_one_piece():
    report = _fallback("mobilenet_v3_large", "coral_edge_tpu", "raspberry_pi_4")
    assert report.pieces == 1
    assert report.refused + report.follow > 0.9 * report.operators
    assert _fallback("mobilenet_v2", "coral_edge_tpu").refused == 0


def test_a_rest_without_a_device_has_no_time():
    report = _fallback("mobilenet_v3_large", "coral_edge_tpu")
    assert (report.divided, report.rest_fits) == (None, None)


def test_the_rest_needs_room_for_what_is_left_to_it(monkeypatch):
    report = _fallback("mobilenet_v3_large", "coral_edge_tpu", "raspberry_pi_4")
    assert report.rest_fits
    assert 2 * 5.4e6 < report.divided.rest_bytes < 2 * 5.5e6 + 10e6  # bf16 weights, and activations
    small = engine.device("raspberry_pi_4{memory_bytes=10e6}")
    assert not _fallback("mobilenet_v3_large", "coral_edge_tpu", small.key).rest_fits


def test_a_device_without_a_compiler_is_refused():
    with pytest.raises(RequestError, match="is not known; name a unit like coral_edge_tpu"):
        _fallback("resnet18", "h100_sxm")


@pytest.mark.parametrize("table", file_access.shipped(SUPPORT)["compiler"].values(), ids=lambda table: table["name"])
def test_the_table_names_operators_that_exist(table):
    names = {*table.get("runs", "").split(), *table.get("refuses", {}), *table.get("also_refuses", {})}
    assert [name for name in sorted(names) if name not in KINDS and name not in cost_rules._RULES] == []
