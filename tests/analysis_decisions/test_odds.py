"""Odds: two ways round add up to one, the same run is even, a wider gap is surer, shared constants move together."""

from math import log
from pathlib import Path
from statistics import NormalDist

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.figures import describe_deviations
from analysis.estimate.scenario import Scenario
from analysis.explore import odds
from analysis.explore.odds import BEATS, LIKELY, SURE, correlation, middle_and_spread, probability, verdict
from hardware.base import file_access
from hardware.device_catalog import load_device
from tests.analysis import grid
from tests.models import load_once


def run(name: str, runtime: str = "auto", batch: int = 1) -> Estimate:
    return estimate(load_once("resnet18"), load_device(name), Scenario(batch, "fp16", runtime))


NAMES = ("xeon_8490h", "h100_sxm", "a100_sxm4_80gb", "jetson_agx_orin", "jetson_agx_orin:30w", "tpu_v4", "hailo8")


@pytest.mark.parametrize("metric", BEATS)
def test_the_two_ways_round_add_up_to_one(metric: str) -> None:
    runs = [run(name) for name in NAMES]
    for a in runs:
        assert probability(a, a, metric) == 0.5
        for b in runs:
            assert probability(a, b, metric) + probability(b, a, metric) == pytest.approx(1.0, abs=1e-12)
            assert correlation(a, b) == correlation(b, a)


@given(st.floats(0.01, 100), st.floats(1.001, 10))
def test_a_wider_gap_is_surer(scale: float, more: float) -> None:
    a, b = run("h100_sxm"), run("a100_sxm4_80gb")

    def slower(by: float) -> Estimate:
        fast, slow = b.latency_band_s
        return msgspec.structs.replace(b, latency_s=b.latency_s * by, latency_band_s=(fast * by, slow * by))

    assert probability(a, slower(scale * more), "latency") >= probability(a, slower(scale), "latency")


def test_shared_constants_move_together() -> None:
    """The same gap is surer between devices that share a runtime: what is wrong with one is wrong with both."""
    a, b = run("h100_sxm"), run("a100_sxm4_80gb")
    runtime = run("h100_sxm", "torch_compile").runtime
    other = msgspec.structs.replace(b, setup=msgspec.structs.replace(b.setup, runtime=runtime))
    slower = [
        msgspec.structs.replace(each, latency_band_s=tuple(1.1 * end for end in a.latency_band_s))
        for each in (b, other)
    ]
    shared, apart = (probability(a, each, "latency") for each in slower)
    assert 0.5 < apart < shared


def test_the_verdict_speaks_by_odds_and_evidence() -> None:
    """Sure is "leads", likely "probably leads", less is too close to call; data sheets alone are named."""
    for names in (("l4", "t4"), ("h100_sxm", "h200_sxm"), ("h100_sxm", "tpu_v4"), ("h100_sxm", "a100_sxm4_80gb")):
        found = verdict([run(name) for name in names])
        assert found is not None
        first = found.lines[0]
        assert first.startswith("Too close to call") is (found.odds < LIKELY)
        assert (" leads: " in first) is (found.odds >= LIKELY)
        assert (" probably " in first) is (LIKELY <= found.odds < SURE)
        assert ("data sheet" in first) is found.is_predicted
        assert bool(found.measurement) is (found.odds < SURE or found.is_predicted)


@pytest.mark.parametrize(
    "sides",
    [  # no vision by ONNX Runtime on GPUs was measured, and no training on TPUs
        (("resnet50", "h100_sxm", "onnxruntime"), ("resnet50", "l40s", "onnxruntime")),
        (("resnet50", "h100_sxm", "onnxruntime"), ("resnet50", "l40s", "tensorrt")),
        (("resnet50:train", "h100_sxm", "auto"), ("resnet50:train", "tpu_v4", "auto")),
        (("resnet50", "h100_sxm", "unknown"), ("resnet50", "l40s", "tensorrt")),
    ],
)
def test_against_a_chip_without_relatives_a_verdict_states_no_odds(sides: tuple[tuple[str, str, str], ...]) -> None:
    found = verdict([grid.run(model, device, 1, "fp16", execution) for model, device, execution in sides])
    assert found is not None
    first, second, *_ = found.lines
    assert first.startswith("Unknown: nothing like ")
    assert "% sure" not in first
    assert second.startswith("To be sure: measure ")


def test_code_is_captured_before_a_time_in_words_names_it() -> None:
    workload = msgspec.structs.replace(load_once("resnet18"), name="net.py:make")
    words = odds.describe_measurement(estimate(workload, load_device("tpu_v4"), Scenario(1, "fp16")), "latency")
    captured = "`hwexplorer capture net.py:make --input 1x3x224x224 -o net.msgpack.gz`"
    assert f'{captured}; `hwexplorer calibrate tpu_v4 "TIME ms net.msgpack.gz batch 1"' in words


def test_nothing_is_said_of_one_device_and_a_design_is_never_best() -> None:
    assert verdict([run("h100_sxm")]) is None
    found = verdict([run("h100_sxm"), run("l4"), run("kpu_t256")], "energy")
    assert found is not None
    assert found.best != "kpu_t256"
    assert found.lines[-1].startswith("On paper: KPU-T256") == (run("kpu_t256").energy_j < run(found.best).energy_j)


def test_changed_facts_are_hypothetical_and_compared_with_the_device_as_it_is() -> None:
    changed = run("h100_sxm{memory_bandwidth*2}")
    found = verdict([run("tpu_v4"), changed], unchanged=[run("h100_sxm")])
    assert found is not None
    assert found.best == "tpu_v4"
    as_it_is = verdict([run("tpu_v4"), run("h100_sxm")])
    assert as_it_is is not None
    assert [line for line in found.lines if "What if" not in line] == list(as_it_is.lines)
    assert found.lines[1].startswith("What if H100 had memory bandwidth x2: EDP -")
    assert " % against H100; TPU v4 still has " in found.lines[1]
    assert "what if: facts were changed" in describe_deviations(changed)


def test_what_is_less_likely_than_not_is_never_sure() -> None:
    assert [odds.describe_odds(chance) for chance in (0.41, 0.5, 0.9)] == ["41 % chance", "50 % sure", "90 % sure"]


def test_a_band_holds_the_share_of_measurements_that_it_states() -> None:
    low, high = 0.5, 3.0
    measured = NormalDist(*middle_and_spread(1.0, (low, high)))
    stated = file_access.shipped(Path(odds.__file__).with_suffix(".toml"))["coverage"]["value"]
    assert measured.cdf(log(high)) - measured.cdf(log(low)) == pytest.approx(stated)
