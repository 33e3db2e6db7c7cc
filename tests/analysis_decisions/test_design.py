"""Design search: what it finds is what one finds by evaluating each design alone, whoever computes it."""

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.explore.mission import Mission, Task, divide_tasks
from analysis.explore.outcome import Constraint
from analysis.explore.tuning import KNOB_METRICS
from analysis.model.names import model_ref
from hardware.area import area
from hardware.base.errors import RequestError
from hardware.device_catalog import load_device
from hwexplorer import engine
from hwexplorer_annexes.silicon.design import (
    DesignKnob,
    DesignReport,
    DesignStudy,
    parse_knob,
    search_designs,
)
from tests.models import load_once

KPU = load_device("kpu_t256")


def _find(task: Task, key: str) -> Estimate:
    return estimate(load_once(task.model), load_device(key), Scenario(precision=task.precision))


def _tasks(**weights: float) -> tuple[Task, ...]:
    return tuple(Task(model=model, rate_hz=rate, precision="int8") for model, rate in weights.items())


def _study(*knobs: str, **others: object) -> DesignStudy:
    tasks = _tasks(conv2d=1.0, resnet18=3.0)
    given = {"tasks": tasks, "metric": "edp", **others}
    return DesignStudy(base=KPU, knobs=tuple(parse_knob(KPU, one) for one in knobs), find=_find, **given)  # type: ignore[arg-type]


def _found(study: DesignStudy) -> DesignReport:
    return search_designs(study, most=1000)


def test_each_design_is_the_device_evaluated_alone() -> None:
    found = _found(_study("units=128..512", "array=16|32", "clock_hz=1G..1.4G"))
    assert found.evaluated == 3 * 2 * 2
    assert found.refused == 0
    for design in found.best[:4]:
        device = load_device(design.device)
        costs = []
        for model, cost in zip(("conv2d", "resnet18"), design.costs, strict=True):
            alone = estimate(engine.model(model_ref.refer(model)), device, Scenario(precision="int8"))
            assert cost.latency_s == pytest.approx(alone.latency_s, rel=1e-12)
            assert cost.energy_j_per_inference == pytest.approx(alone.energy_j_per_inference, rel=1e-12)
            costs.append(cost.edp_js)
        ratios = [edp / was.edp_js for edp, was in zip(costs, found.as_it_is.costs, strict=True)]
        assert design.score == pytest.approx((ratios[0] * ratios[1] ** 3) ** 0.25)
        assert design.area_mm2 == area(device).total_mm2


KNOBS = ("units=16..256", "array=8|16|32", "clock_hz=0.5G..1.4G", "process_nm=28|16|7", "tile_memory_bytes=8192|32768")


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.sampled_from(KNOBS), min_size=1, max_size=2, unique=True),
    st.sampled_from(KNOB_METRICS),
    st.tuples(st.floats(0.1, 30.0), st.floats(0.1, 30.0)),
    st.sampled_from([(), (Constraint("power", "<=", 12.0),), (Constraint("area", "<=", 400.0),)]),
    st.booleans(),
)
def test_the_best_is_least_and_on_the_front(
    knobs: list[str], metric: str, rates: tuple[float, float], limits: tuple[Constraint, ...], is_mission: bool
) -> None:
    tasks = _tasks(conv2d=rates[0], resnet18=rates[1])
    asked = Mission(task=tasks) if is_mission else None
    study = _study(*knobs, metric=metric, tasks=tasks, limits=limits, asked=asked)
    try:
        found = _found(study)
    except RequestError:  # the limits exclude all
        reject()
    totals = [(one.total.latency_s, one.total.energy_j_per_inference, one.area_mm2) for one in found.best]
    front = [not any(a != b and np.less_equal(a, b).all() for a in totals) for b in totals]
    scores = [one.score for one in found.best]
    assert scores == sorted(scores)
    assert found.front == tuple(one for one, is_on_it in zip(found.best, front, strict=True) if is_on_it)
    assert found.best[0] in found.front


def test_limits_hold_and_say_what_they_exclude() -> None:
    """A limit of power lowers the clock, one of area excludes designs, even a better one, which is named."""
    free = _found(_study("units=64..1024"))
    area_mm2 = sorted(design.area_mm2 for design in free.best)[1]
    limits = (Constraint("power", "<=", 15.0), Constraint("area", "<=", area_mm2))
    small = _found(_study("units=64..1024", limits=limits))
    assert (len(free.best), len(small.best), small.refused) == (5, 2, 3)
    assert all(design.power_w <= 15.0 and design.area_mm2 <= area_mm2 for design in small.best)
    assert small.excluded is not None
    assert small.excluded.score < small.best[0].score
    assert all(sum(design.binds.values()) == pytest.approx(1.0) for design in small.best)
    impossible = _found(_study("idle_w=1|2|40"))
    assert (impossible.evaluated, impossible.refused) == (3, 1)
    assert "power limit" in impossible.why_refused
    with pytest.raises(RequestError, match="none of 5 designs can be: its die is larger than allowed"):
        _found(_study("units=64..1024", limits=(Constraint("area", "<=", 1.0),)))


@pytest.mark.parametrize("metric", ["energy", "latency", "edp"])
def test_a_second_of_a_design_is_that_of_its_mission(metric: str) -> None:
    """Rest and duty count, so a search ranks as the mission does."""
    asked = Mission(task=_tasks(conv2d=30.0, resnet18=10.0))
    found = _found(_study("units=16..256", "array=16|32", asked=asked, tasks=asked.task, metric=metric))
    for design in found.best:
        answer = divide_tasks(asked, (load_device(design.device),), _find)
        assert design.total.energy_j_per_inference == pytest.approx(answer.power_w)
        assert design.rest_w >= answer.rest_w > 0.0
        busy_s = sum(cost.latency_s * task.rate_hz for cost, task in zip(design.costs, asked.task, strict=True))
        assert design.total.latency_s == pytest.approx(busy_s)
    many = Mission(task=_tasks(conv2d=1e5, resnet18=1e5))
    with pytest.raises(RequestError, match="a frame"):
        _found(_study("units=128|256", asked=many, tasks=many.task))


def test_the_tile_count_for_15_w_within_the_envelope() -> None:
    """256 tiles have the least EDP within 15 W, 128 have less than 15 % more, on two thirds of the area; the limit
    holds at every node and size of memory, and a newer node or more bandwidth is never worse."""
    five = _tasks(resnet18=1, mobilenet_v2=1, vit_b_16=1, efficientnet_b0=1, bert_base=1)
    limits = (Constraint("power", "<=", 15.0),)
    study = _study("units=16..1024", limits=limits, tasks=five)
    designs = {design.changes: design for design in _found(study).best}
    best, half = designs["units=256"], designs["units=128"]
    assert best == next(iter(designs.values()))
    assert 1.0 < half.score / best.score < 1.15
    assert half.area_mm2 < 0.7 * best.area_mm2
    knobs = ("units=64..1024", "process_nm=28|16|7|5", "tile_memory_bytes=8192|32768")
    found = _found(_study(*knobs, limits=limits))
    assert all(design.power_w <= 15.0 * (1 + 1e-9) for design in found.best)
    score = {design.values: design.score for design in found.best}
    for (units, node, memory), edp in score.items():
        assert edp >= score[units, {28: 16, 16: 7, 7: 5, 5: 5}[node], memory]


def test_steps_of_a_grid() -> None:
    assert parse_knob(KPU, "units=64..500").values == (64, 128, 256, 500)
    assert parse_knob(KPU, "units=64|100").values == (64, 100)
    assert parse_knob(KPU, "Scratchpad-Bytes=16M..32M") == DesignKnob("scratchpad_bytes", (16e6, 32e6))
    assert parse_knob(KPU, "tile.mac:int8=0.05pJ..0.2pJ").values == pytest.approx((0.05e-12, 0.1e-12, 0.2e-12))


@pytest.mark.parametrize("text", ["units", "units=", "units=4..2", "units=a..b", "unit=1..2", "units=0..4"])
def test_a_wrong_range_is_one_line(text: str) -> None:
    with pytest.raises(RequestError):
        parse_knob(KPU, text)
