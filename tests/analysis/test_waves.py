"""Requests that do not fit into memory together run in waves: never as if they fitted."""

from itertools import pairwise

import grid
import numpy as np
import pytest

from analysis.estimate.estimate import estimate
from analysis.estimate.figures import describe_deviations, serving
from analysis.estimate.peak_memory import Memory
from analysis.estimate.scenario import Scenario
from analysis.model import store
from hardware.device_catalog import load_device
from tests.sampling import for_each

REQUEST = "llama3_8b:request,in=2048,out=2048"
DEVICE = "a100_sxm4_40gb"


def test_requests_that_do_not_fit_run_in_waves() -> None:
    all_64 = grid.run(REQUEST, DEVICE, 64, "fp16", "auto")
    half = grid.run(REQUEST, DEVICE, all_64.wave_batch, "fp16", "auto")
    assert all_64.waves == 2
    assert all_64.fits
    assert all_64.latency_s == pytest.approx(2 * half.latency_s)
    assert all_64.energy_j == pytest.approx(2 * half.energy_j)
    assert all_64.peak_memory_bytes == half.peak_memory_bytes
    assert any("2 waves of 32" in phrase for phrase in describe_deviations(all_64))
    served, of_half = serving(all_64), serving(half)
    assert served is not None
    assert of_half is not None
    assert served.largest_batch == of_half.largest_batch
    assert served.time_per_output_token_s == pytest.approx(of_half.time_per_output_token_s)


def test_more_requests_never_finish_sooner_nor_serve_faster_than_memory_allows() -> None:
    workload = store.ready(REQUEST)
    assert workload is not None
    results = [
        estimate(workload, grid.device(DEVICE), Scenario(batch, "fp16")) for batch in (16, 32, 34, 35, 48, 64, 200)
    ]
    assert all(a.latency_s < b.latency_s for a, b in pairwise(results))
    most = max(result.throughput_per_s for result in results if result.waves == 1)
    assert all(result.throughput_per_s <= most * 1.001 for result in results if result.waves > 1)


@for_each(
    ("device", "model", "precision"),
    [
        (device, model, ("int8", "bf16")[(i + j) % 2])
        for i, device in enumerate(("kpu_t256", "kpu_t64", "tpu_v4", "tpu_v5e", "snapdragon_8_elite_npu"))
        for j, model in enumerate(("resnet18", "efficientnet_b0", "swin_t", "bert_base", "conv2d"))
    ],
)
def test_a_compiler_splits_batches_so_that_a_larger_one_never_has_a_lower_rate(
    device: str, model: str, precision: str
) -> None:
    results = [grid.run(model, device, batch, precision, "auto") for batch in (1, 3, 13, 14, 26, 27, 35, 96)]
    for small, large in pairwise(results):
        assert large.latency_s > small.latency_s
        assert large.latency_s / large.scenario.batch <= small.latency_s / small.scenario.batch * (1 + 1e-9)
        if large.part:
            assert any(f"parts of {large.part}" in phrase for phrase in describe_deviations(large))


def test_what_cannot_hold_one_request_does_not_fit() -> None:
    result = grid.run(REQUEST, "rtx_4090", 4, "fp32", "auto")
    assert (result.waves, result.fits, result.can_win) == (1, False, False)


def test_what_never_fits_is_one_wave_and_slower_with_more() -> None:
    workload = store.ready("deepseek_v3:request,layers=4,in=64,out=8,ep=8", None)
    assert workload is not None
    device = load_device("raspberry_pi_4")
    results = [estimate(workload, device, Scenario(batch, "q5_1kv8", "transformers")) for batch in range(1, 11)]
    assert {result.waves for result in results} == {1}
    assert [result.latency_s for result in results] == sorted(result.latency_s for result in results)


def test_caches_and_activations_grow_with_the_batch_and_weights_do_not() -> None:
    none = np.zeros(0)
    held = Memory(
        peak_bytes=10.0, weight_bytes=4.0, activation_peak_bytes=6.0, workspace_peak_bytes=0.0, peak_at=0,
        timeline=none, workspace=none,
    )  # fmt: skip
    assert held.largest_batch(2, 19.0) == 5
    assert held.largest_batch(2, 3.0) == 0
