"""Causes add up: of every operator, of any node, in time, energy and EDP; and each is what it says."""

import numpy as np
import pytest
from grid import ALL_MODES, BATCHES, DEFAULTS, EXACT, MODELS, catalogue, workload

from analysis.estimate.causes import CAUSES, COMPUTE, DRAM, LAUNCH_CAUSE, STATIC, THROTTLED, causes, shares, steps
from analysis.estimate.estimate import estimate
from analysis.estimate.metrics import ADDITIVE
from analysis.estimate.scenario import Scenario
from analysis.estimate.tree_figures import shares as shapley
from hardware.device_catalog import load_device
from tests.sampling import every, for_each


def _holds(result) -> None:
    of, run = causes(result), result.run
    least = EXACT * result.latency_s
    np.testing.assert_allclose(of.time_s.sum(axis=0), run.latency_s, rtol=EXACT, atol=least)
    np.testing.assert_allclose(of.energy_j.sum(axis=0), run.energy_j, rtol=EXACT, atol=EXACT * result.energy_j)
    assert (of.time_s >= -least).all()
    assert (of.energy_j >= 0).all()
    assert (of.ideal_s <= of.time_s + least).all()
    assert (of.ideal_s >= 0).all()
    assert not of.time_s[STATIC].any()
    assert not of.energy_j[THROTTLED].any()
    total = of.sum_over(slice(None))
    assert total.time_s.sum() == pytest.approx(result.latency_s, rel=EXACT)
    assert total.energy_j.sum() == pytest.approx(result.energy_j, rel=EXACT)
    every = np.arange(result.demand.n)
    for members in (every, every[::3]):  # all, and parts of kernels that others share
        table = steps(result, members)
        assert table.sum() == pytest.approx(run.latency_s[members].sum(), rel=EXACT, abs=least)
        assert (table[:-1] >= -least).all()
        assert table[-1].sum() <= least
    assert total.energy_j[STATIC] == pytest.approx(result.component_j["static"], rel=EXACT)
    for metric in ADDITIVE:
        assert shares(result, metric).sum() == pytest.approx(1.0, rel=EXACT)
    np.testing.assert_allclose(shares(result, "edp").sum(axis=0), shapley(run.energy_j, run.latency_s, result))


@for_each("device", DEFAULTS)
@for_each("mode", ALL_MODES)
def test_causes_add_up_on_every_architecture(device, mode):
    for model in MODELS[:4]:
        for batch in BATCHES:
            _holds(estimate(workload(model), load_device(device), Scenario(batch, "fp16", mode)))


@every(3)
def test_causes_add_up_on_every_device_and_for_a_request(nth):
    for device in catalogue(modes=False)[::nth]:
        _holds(estimate(workload("resnet18"), device, Scenario(8, "int8")))
    for device in DEFAULTS:
        _holds(estimate(workload("llama3_8b:in=128,out=16"), load_device(device), Scenario(4, "w4a16")))


def test_a_cause_is_what_it_says():
    h100 = load_device("h100_sxm")
    eager = causes(estimate(workload("resnet18"), h100, Scenario(1, "fp16", "eager"))).sum_over(slice(None)).time_s
    assert eager.argmax() == LAUNCH_CAUSE  # a small network whose kernels the host cannot issue fast enough
    decode = causes(estimate(workload("llama3_8b:decode"), h100, Scenario(1, "fp16"))).sum_over(slice(None)).time_s
    assert decode.argmax() == DRAM  # one token reads all weights
    busy = estimate(workload("vgg16"), h100, Scenario(256, "fp16", "fused"))
    assert causes(busy).sum_over(slice(None)).time_s.argmax() == COMPUTE
    limited = estimate(workload("llama3_8b"), h100, Scenario(8, "fp16"))
    run, throttled = limited.run, causes(limited).sum_over(slice(None)).time_s[THROTTLED]
    assert throttled == pytest.approx(float((run.kernel_s - run.unthrottled_s).sum()), rel=EXACT)
    assert CAUSES[THROTTLED] == "throttled"
    assert throttled > 0
