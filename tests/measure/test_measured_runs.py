"""A published run of a model is found by its estimate, with the figure that was published."""

import random

import pytest

from analysis.estimate.measured_runs import measured_runs, nearest_runs
from analysis.measured import predictions
from analysis.measured.tables import Unpredictable
from hardware.base.errors import RequestError
from hwexplorer import engine, state
from lab import measured_rows


def test_each_predictable_row_is_found_by_its_estimate() -> None:
    rows = random.Random(7).sample(measured_rows.shipped_rows((*measured_rows.MODELS, "own_models.csv.gz")), 50)
    found = 0
    for row in rows:
        try:
            known = predictions.interpret_row(row)
            result = predictions.estimate_row(known)
        except (Unpredictable, RequestError):
            continue
        if known.is_governed:  # estimated at the clocks of short calls
            continue
        runs = measured_runs(result)
        times = [run.latency_s for run in runs if run.source == row["source"]]
        assert known.latency_s is None or pytest.approx(known.latency_s, rel=1e-8) in times, row
        found += 1
    assert found > 10


def test_nearest_runs_are_of_the_same_model_and_size() -> None:
    result = engine.result(state.parse("resnet50@b3,int8/a100_sxm4_80gb"), "a100_sxm4_80gb")
    nearest = nearest_runs(result)
    assert nearest[0].device == "a100_sxm4_80gb"
    assert {(run.model, run.dims) for run in nearest} == {("resnet50", "vision 224 px")}
