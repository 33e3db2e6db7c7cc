"""Elasticities and crossovers say what re-evaluation says."""

import math
import re
from random import Random

import pytest

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.metrics import METRICS
from analysis.estimate.scenario import Scenario
from analysis.explore.tuning.elasticities import EFFECT_AWAKE, elasticities
from analysis.explore.tuning.knob_bench import KNOB_METRICS, KnobBench, NodeCost, check_knobs, node_cost
from analysis.explore.tuning.least_change import Turn, crossover
from hardware.device import load_device
from hardware.errors import RequestError
from hwexplorer.engine import Engine

ENGINE = Engine()


def _run(device: str, model: str = "resnet18", **scenario: object) -> Estimate:
    workload = ENGINE.model(ENGINE.refer(model))
    return estimate(workload, load_device(device), Scenario(**scenario))  # type: ignore[arg-type]


@pytest.mark.parametrize("device", ["h100_sxm", "epyc_9654", "tpu_v4", "kpu_t256", "hailo8"])
def test_prices_take_their_share_of_the_energy(device: str) -> None:
    """Where power does not bind, the elasticity of a price is what its event takes, and of time nothing."""
    result = _run(device)
    spent = result.event_energy_j.sum(axis=1) / result.energy_j
    shares = {event.label: share for event, share in zip(result.events, spent, strict=True)}
    rows = [row for row in elasticities(result).elasticities if row.is_price and row.latency == 0]
    assert rows
    for row in rows:
        assert row.energy == pytest.approx(shares[row.name], abs=0.003)
        assert row.edp == pytest.approx(row.energy, abs=1e-9)


def test_decoding_is_bound_by_memory_and_one_small_image_by_launches() -> None:
    decode = {row.name: row for row in elasticities(_run("h100_sxm", "gpt2:decode", precision="fp16")).elasticities}
    assert decode["memory_bandwidth"].latency < 3 * decode["matrix"].latency
    alone = {row.name: row for row in elasticities(_run("h100_sxm")).elasticities}
    # A kernel starts in cycles of the clock, and in time that is no clock's.
    assert alone["launch_s"].latency - alone["clock_hz"].latency > 0.5
    assert abs(alone["memory_bandwidth"].latency) < 0.2


def test_what_wakes_a_fact_wakes_it() -> None:
    result = _run("kpu_t256", batch=8, precision="int8")
    bench = KnobBench(result.workload, result.device, result.scenario)
    told = [row for row in elasticities(result).elasticities if " until units is above " in row.says]
    assert told
    for row in told:
        units = float(row.says.rpartition(" ")[2])
        slopes, before = (
            bench.slopes({"units": n / result.device.units}, row.name) for n in (units * 1.02, units * 0.5)
        )
        assert slopes is not None
        assert before is not None
        assert abs(slopes["latency"]) >= 0.8 * EFFECT_AWAKE > abs(before["latency"])


def test_memory_waits_for_the_host_and_what_nothing_wakes_nothing_wakes() -> None:
    """`memory_bandwidth does nothing until dispatch_s is below 34 us`, and that is so."""
    result = _run("jetson_agx_orin", "mobilenet_v2")
    bench = KnobBench(result.workload, result.device, result.scenario)
    said = {row.name: row.says for row in elasticities(result).elasticities if row.says}
    told = re.fullmatch(r"does nothing until dispatch_s is below ([\d.]+) µs", said["memory_bandwidth"])
    assert told is not None
    edge = float(told[1]) * 1e-6 / result.device.facts["dispatch_s"].value
    below, above = (bench.slopes({"dispatch_s": edge * aside}, "memory_bandwidth") for aside in (0.97, 1.1))
    assert below is not None
    assert above is not None
    assert abs(below["latency"]) >= 0.9 * EFFECT_AWAKE > abs(above["latency"])
    never = {name: says for name, says in said.items() if "however far" in says}
    assert never
    for name, says in never.items():
        for other in says.removeprefix("does nothing however far ").removesuffix(" is turned alone").split(" or "):
            for step in range(-6, 7):
                slope = bench.slopes({other: 2.0**step}, name) if _can_be(bench, {other: 2.0**step}) else None
                assert slope is None or abs(slope["latency"]) < EFFECT_AWAKE or step * _way(bench, other) <= 0


def _can_be(bench: KnobBench, factors: dict[str, float]) -> bool:
    try:
        bench.run(factors)
    except RequestError:
        return False
    return True


def _way(bench: KnobBench, knob: str) -> int:
    """1 where more of it is quicker."""
    slope = bench.slopes({}, knob)
    return 1 if slope is not None and slope["latency"] < 0 else -1


def test_a_node_has_elasticities_of_its_own() -> None:
    result = _run("kpu_t256")
    node = {row.name: row.latency for row in elasticities(result, "layer4.1.conv2").elasticities}
    whole = {row.name: row.latency for row in elasticities(result).elasticities}
    assert node != whole
    with pytest.raises(RequestError, match="unknown node"):
        elasticities(result, "layer9")


def test_the_changed_chip_matches_and_less_of_it_does_not() -> None:
    a, b = _run("kpu_t256"), _run("h100_sxm")
    found = crossover(a, b, ("power_limit_w", "units", "memory_bandwidth", "process_nm"), ("latency", "energy"))
    assert [len(way.knobs) for way in found.ways].count(1) == 4
    for way in found.ways:
        if not way.device:
            assert _gap(_changed(a, way.turns), node_cost(b), ("latency", "energy")) > 0
            continue
        changed = _run(way.device)
        assert changed.latency_s <= b.latency_s
        assert changed.energy_j <= b.energy_j
        less = {turn.knob: turn.factor**0.9 for turn in way.turns}
        assert KnobBench(a.workload, a.device, a.scenario).cost(less).latency_s > b.latency_s
        assert way.size == pytest.approx(math.hypot(*(math.log(turn.factor) for turn in way.turns)), rel=1e-3)


def _changed(a: Estimate, turns: tuple[Turn, ...]) -> NodeCost:
    return KnobBench(a.workload, a.device, a.scenario).cost({turn.knob: turn.factor for turn in turns})


def test_a_chip_that_matches_needs_no_change() -> None:
    a = _run("h100_sxm")
    found = crossover(a, a, ("units", "clock_hz"), ("latency", "energy", "edp"))
    assert found.matches
    assert [way.size for way in found.ways] == [0, 0]
    assert all(turn.factor == 1.0 for way in found.ways for turn in way.turns)


def test_a_pair_is_found_where_no_knob_alone_matches() -> None:
    """A token of a language model on the KPU: neither power nor bandwidth alone, both together."""
    a, b = (_run(name, "llama3_8b:decode", precision="bf16") for name in ("kpu_t256", "h100_sxm"))
    found = crossover(a, b, ("power_limit_w", "units", "memory_bandwidth"), ("latency", "energy"))
    pair, *alone = found.ways
    assert set(pair.knobs) == {"power_limit_w", "memory_bandwidth"}
    assert pair.device
    assert not any(way.device for way in alone)
    assert pair.size == pytest.approx(math.hypot(math.log(4.27), math.log(9.87)), rel=0.01)  # by exhaustive search


@pytest.mark.parametrize("seed", range(4))
def test_a_pair_is_worth_its_second_knob(seed: int) -> None:
    """Of random chips, models and metrics: a pair is smaller than each knob alone, in whatever order they are named,
    both are needed, and the chip that it names matches as it stands."""
    draw = Random(seed)
    names = draw.sample(("h100_sxm", "kpu_t256", "jetson_orin_nano", "tpu_v4", "i7_6700", "hailo8"), 2)
    model, batch = draw.choice(("conv2d", "gemm:256x512x1024", "mlp")), draw.choice((1, 8))
    metrics = tuple(draw.sample(KNOB_METRICS, draw.choice((1, 2))))
    a, b = (_run(name, model, batch=batch) for name in names)
    if (_gap(node_cost(a), node_cost(b), metrics)) <= 0:
        a, b = b, a
    # The time that its host takes to issue an operator does nothing to a compiled model.
    knobs = ("dispatch_s", *draw.sample(sorted({"units", "clock_hz", "memory_bandwidth", "launch_s", "process_nm"}), 3))
    ways = crossover(a, b, knobs, metrics).ways
    again = crossover(a, b, knobs[::-1], metrics).ways
    assert {way.device for way in again} == {way.device for way in ways}
    alone = {way.knobs[0]: way for way in ways if len(way.knobs) == 1}
    assert alone["dispatch_s"].size == 0.0
    bench = KnobBench(a.workload, a.device, a.scenario)
    for way in ways:
        factors = {turn.knob: turn.factor for turn in way.turns}
        assert bool(way.device) == (_gap(bench.cost(factors), node_cost(b), metrics) <= 0)
        if way.device:
            assert _gap(node_cost(_run(way.device, model, batch=batch)), node_cost(b), metrics) <= 0
        if len(way.knobs) == 2 and way.device:
            assert all(not alone[knob].device or alone[knob].size > way.size for knob in way.knobs)
            assert all(_gap(bench.cost({**factors, knob: 1.0}), node_cost(b), metrics) > 0 for knob in way.knobs)


def _gap(one: NodeCost, other: NodeCost, metrics: tuple[str, ...]) -> float:
    return max(math.log(METRICS[name].figure(one) / METRICS[name].figure(other)) for name in metrics)


def test_knobs_that_count_are_whole() -> None:
    ways = crossover(_run("tpu_v4"), _run("h100_sxm"), ("units", "array_rows"), ("latency",)).ways
    assert all(turn.value == int(turn.value or 0) for way in ways for turn in way.turns)


def test_a_wrong_knob_is_one_line() -> None:
    with pytest.raises(RequestError, match="did you mean clock_hz"):
        check_knobs(load_device("h100_sxm"), ("clock_h",))
