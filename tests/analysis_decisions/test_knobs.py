"""Elasticities and crossovers say what re-evaluation says."""

import math

import pytest

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.metrics import METRICS
from analysis.estimate.scenario import Scenario
from analysis.explore.tuning.knob_bench import ModelCost, change_knobs, check_knobs, model_cost
from analysis.explore.tuning.knob_curve import KnobRow, find_knee, knobs
from hardware.device_catalog import load_device
from hardware.errors import RequestError
from hwexplorer import engine
from hwexplorer.reports.tune.crossover import Turn, _least_change, crossover


def _run(device: str, model: str = "resnet18", **scenario: object) -> Estimate:
    workload = engine.model(engine.refer(model))
    return estimate(workload, load_device(device), Scenario(**scenario))  # type: ignore[arg-type]


def _rows(result: Estimate) -> dict[str, KnobRow]:
    return {row.name: row for row in knobs(result, result, "", "edp").knobs}


@pytest.mark.parametrize("device", ["h100_sxm", "epyc_9654", "tpu_v4", "kpu_t256", "hailo8"])
def test_prices_take_their_share_of_the_energy(device: str) -> None:
    """Where power does not bind, the elasticity of a price is what its event takes, and of time nothing."""
    result = _run(device)
    spent = result.event_energy_j.sum(axis=1) / result.energy_j
    shares = {event.label: share for event, share in zip(result.events, spent, strict=True)}
    rows = [row for row in _rows(result).values() if row.is_price and row.latency == 0]
    assert rows
    for row in rows:
        assert row.energy == pytest.approx(shares[row.name], abs=0.003)
        assert row.edp == pytest.approx(row.energy, abs=1e-9)


def test_decoding_is_bound_by_memory_and_one_small_image_by_launches() -> None:
    decode = _rows(_run("h100_sxm", "gpt2:decode", precision="fp16"))
    assert decode["memory_bandwidth"].latency < 3 * decode["matrix"].latency
    alone = _rows(_run("h100_sxm"))
    # A kernel starts in cycles of the clock, and in time that is no clock's.
    assert alone["launch_s"].latency - alone["clock_hz"].latency > 0.5
    assert abs(alone["memory_bandwidth"].latency) < 0.2
    assert "synchronous_matrix_rate" not in _rows(_run("a100_sxm"))  # its value 1 names a generation of kernels


def test_the_changed_chip_matches_and_less_of_it_does_not() -> None:
    a, b = _run("kpu_t256"), _run("h100_sxm")
    found = crossover(a, b, ("power_limit_w", "units", "memory_bandwidth", "process_nm"), ("latency", "energy"))
    assert len(found.ways) == 4
    for way in found.ways:
        if not way.device:
            assert _gap(_changed(a, way.turns), model_cost(b), ("latency", "energy")) > 0
            continue
        changed = _run(way.device)
        assert changed.latency_s <= b.latency_s
        assert changed.energy_j <= b.energy_j
        less = {turn.knob: turn.factor**0.9 for turn in way.turns}
        assert change_knobs(a, less).latency_s > b.latency_s
        assert way.size == pytest.approx(math.hypot(*(math.log(turn.factor) for turn in way.turns)), rel=1e-3)


def _changed(a: Estimate, turns: tuple[Turn, ...]) -> ModelCost:
    return model_cost(change_knobs(a, {turn.knob: turn.factor for turn in turns}))


def test_a_chip_that_matches_needs_no_change() -> None:
    a = _run("h100_sxm")
    found = crossover(a, a, ("units", "clock_hz"), ("latency", "energy", "edp"))
    assert found.matches
    assert [way.size for way in found.ways] == [0, 0]
    assert all(turn.factor == 1.0 for way in found.ways for turn in way.turns)


def _gap(one: ModelCost, other: ModelCost, metrics: tuple[str, ...]) -> float:
    return max(math.log(METRICS[name].figure(one) / METRICS[name].figure(other)) for name in metrics)


def test_knobs_that_count_are_whole() -> None:
    ways = crossover(_run("tpu_v4"), _run("h100_sxm"), ("units", "array_rows"), ("latency",)).ways
    assert all(turn.value == int(turn.value or 0) for way in ways for turn in way.turns)


def test_a_wrong_knob_is_one_line() -> None:
    with pytest.raises(RequestError, match="did you mean clock_hz"):
        check_knobs(load_device("h100_sxm"), ("clock_h",))


def test_half_a_bandwidth_needs_twice_the_bandwidth() -> None:
    """The least factor lies between two of those tried first, 1.68 and 2.18."""
    half, whole = (
        _run(name, "llama3_8b:decode,kv=1024", precision="fp16")
        for name in ("h100_sxm{memory_bandwidth*0.5}", "h100_sxm")
    )
    (way,) = crossover(half, whole, ("memory_bandwidth",), ("latency",)).ways
    assert way.turns[0].factor == pytest.approx(2.0, rel=1e-3)


def test_a_curve_has_its_knee_where_it_flattens_and_a_straight_one_has_none() -> None:
    assert find_knee([(1, 8), (2, 4), (4, 2), (8, 1.95), (16, 1.9)]) == 4
    assert find_knee([(1, 8), (2, 4), (4, 2), (8, 1)]) is None


def test_the_least_change_closes_the_gap_and_is_no_larger_than_needed() -> None:
    for needed in (0.3, -0.8):
        change, matches = _least_change(lambda tried, needed=needed: abs(needed) - math.copysign(1, needed) * tried)
        assert matches
        assert abs(needed) <= abs(change) < abs(needed) * 1.001
    assert _least_change(lambda tried: 1.0 - 0.01 * tried)[1] is False
