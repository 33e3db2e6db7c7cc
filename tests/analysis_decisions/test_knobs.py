"""Elasticities and crossovers say what re-evaluation says."""

import math
import re
from itertools import combinations
from random import Random

import pytest

from analysis.estimate.engine import Engine
from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.explore.tuning.elasticities import WAKES, elasticities
from analysis.explore.tuning.knob_bench import METRICS, Bench, Cost, checked, cost
from analysis.explore.tuning.least_change import crossover
from hardware.device import load
from hardware.errors import RequestError

ENGINE = Engine()


def _run(device: str, model: str = "resnet18", **scenario: object) -> Estimate:
    workload = ENGINE.model(ENGINE.refer(model))
    return estimate(workload, load(device), Scenario(**scenario))  # type: ignore[arg-type]


@pytest.mark.parametrize("device", ["h100_sxm", "xeon_8490h", "tpu_v4", "kpu_t256", "hailo8"])
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
    bench = Bench(result.workload, result.device, result.scenario)
    told = [row for row in elasticities(result).elasticities if " until units is above " in row.says]
    assert told
    for row in told:
        units = float(row.says.rpartition(" ")[2])
        slopes, before = (
            bench.slopes({"units": n / result.device.units}, row.name) for n in (units * 1.02, units * 0.5)
        )
        assert slopes is not None
        assert before is not None
        assert abs(slopes["latency"]) >= 0.8 * WAKES > abs(before["latency"])


def test_memory_waits_for_the_host_and_what_nothing_wakes_nothing_wakes() -> None:
    """`memory_bandwidth does nothing until dispatch_s is below 15 us`, and that is so."""
    result = _run("jetson_agx_orin", "mobilenet_v2", precision="fp16")
    bench = Bench(result.workload, result.device, result.scenario)
    said = {row.name: row.says for row in elasticities(result).elasticities if row.says}
    told = re.fullmatch(r"does nothing until dispatch_s is below ([\d.]+) µs", said["memory_bandwidth"])
    assert told is not None
    edge = float(told[1]) * 1e-6 / result.device.facts["dispatch_s"].value
    below, above = (bench.slopes({"dispatch_s": edge * aside}, "memory_bandwidth") for aside in (0.97, 1.1))
    assert below is not None
    assert above is not None
    assert abs(below["latency"]) >= 0.9 * WAKES > abs(above["latency"])
    never = {name: says for name, says in said.items() if "however far" in says}
    assert never
    for name, says in never.items():
        for other in says.removeprefix("does nothing however far ").removesuffix(" is turned alone").split(" or "):
            for step in range(-6, 7):
                slope = bench.slopes({other: 2.0**step}, name) if _can_be(bench, {other: 2.0**step}) else None
                assert slope is None or abs(slope["latency"]) < WAKES or step * _way(bench, other) <= 0


def _can_be(bench: Bench, factors: dict[str, float]) -> bool:
    try:
        bench.run(factors)
    except RequestError:
        return False
    return True


def _way(bench: Bench, knob: str) -> int:
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
    found = crossover(
        a, b, [("units", "matrix", "clock_hz", "memory_bandwidth"), ("process_nm",)], ("latency", "energy")
    )
    way, no_way = found.ways
    assert way.device
    assert not no_way.device
    changed = _run(way.device)
    assert changed.latency_s <= b.latency_s
    assert changed.energy_j <= b.energy_j
    half = {turn.knob: turn.factor**0.9 for turn in way.turns}
    assert Bench(a.workload, a.device, a.scenario).cost(half).latency_s > b.latency_s
    assert way.size == pytest.approx(math.hypot(*(math.log(turn.factor) for turn in way.turns)), rel=1e-3)


def test_a_chip_that_matches_needs_no_change() -> None:
    a = _run("h100_sxm")
    found = crossover(a, a, [("units",), ("clock_hz", "units")], ("latency", "energy", "edp"))
    assert found.matches
    assert [way.size for way in found.ways] == [0, 0]
    assert all(turn.factor == 1.0 for way in found.ways for turn in way.turns)


@pytest.mark.parametrize("seed", range(4))
def test_more_knobs_are_never_worse_and_idle_ones_stay(seed: int) -> None:
    """Of random chips, models and metrics: the least change by a set of knobs is at most that by any subset, in
    whatever order they are named; every knob that it turns is needed; the chip that it names matches as it stands."""
    draw = Random(seed)
    names = draw.sample(("h100_sxm", "kpu_t256", "jetson_orin_nano", "tpu_v4", "i7_6700", "hailo8"), 2)
    model, batch = draw.choice(("conv2d", "gemm:256x512x1024", "mlp")), draw.choice((1, 8))
    metrics = tuple(draw.sample(METRICS, draw.choice((1, 2))))
    a, b = (_run(name, model, batch=batch) for name in names)
    if (_gap(cost(a), cost(b), metrics)) <= 0:
        a, b = b, a
    # The time that its host takes to issue an operator does nothing to a compiled model.
    knobs = ("dispatch_s", *draw.sample(sorted({"units", "clock_hz", "memory_bandwidth", "launch_s", "process_nm"}), 3))
    sets = [part for size in (3, 4) for part in combinations(knobs, size)]
    found = {frozenset(way.knobs): way for way in crossover(a, b, [*sets, knobs[1:2]], metrics).ways}
    whole = found[frozenset(knobs)]
    for way in found.values():
        assert way.device == "" or (whole.device and whole.size <= way.size)
    assert whole.turns[0].factor == 1.0
    again = crossover(a, b, [tuple(reversed(knobs))], metrics).ways[0]
    assert (again.device, again.size) == (whole.device, whole.size)
    if whole.device:
        assert _gap(cost(_run(whole.device, model, batch=batch)), cost(b), metrics) <= 0
        factors = {turn.knob: turn.factor for turn in whole.turns if turn.factor != 1.0}
        bench = Bench(a.workload, a.device, a.scenario)
        for knob in factors:
            assert _gap(bench.cost({**factors, knob: 1.0}), cost(b), metrics) > 0


def _gap(one: Cost, other: Cost, metrics: tuple[str, ...]) -> float:
    return max(math.log(one.of(metric) / other.of(metric)) for metric in metrics)


def test_knobs_that_count_are_whole() -> None:
    way = crossover(_run("tpu_v4"), _run("h100_sxm"), [("units", "array_rows")], ("latency",)).ways[0]
    assert all(turn.value == int(turn.value or 0) for turn in way.turns)
    with pytest.raises(RequestError, match=r"7 knobs are turned together \(allowed: 6\)"):
        crossover(_run("tpu_v4"), _run("h100_sxm"), [tuple("abcdefg")], ("latency",))


def test_a_wrong_knob_is_one_line() -> None:
    with pytest.raises(RequestError, match="did you mean clock_hz"):
        checked(load("h100_sxm"), ("clock_h",))
