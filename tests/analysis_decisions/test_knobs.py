"""Elasticities say what re-evaluation says."""

import pytest

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.explore.tuning import KnobRow, knobs
from analysis.model.names import model_ref
from hardware.device_catalog import load_device
from hwexplorer import engine


def _run(device: str, model: str = "resnet18", **scenario: object) -> Estimate:
    workload = engine.model(model_ref.refer(model))
    return estimate(workload, load_device(device), Scenario(**scenario))  # type: ignore[arg-type]


def _rows(result: Estimate) -> dict[str, KnobRow]:
    return {row.name: row for row in knobs(result, result, "", "edp").knobs}


@pytest.mark.parametrize("device", ["h100_sxm", "epyc_9654", "tpu_v4", "kpu_t256{power_limit_w=100}", "hailo8"])
def test_prices_take_their_share_of_the_energy(device: str) -> None:
    """Where power does not bind, the elasticity of a price is what its event takes, and of time nothing. The loops in
    which cores wait are made of scalar instructions: their prices share what these loops take."""
    result = _run(device)
    spent = result.event_energy_j.sum(axis=1) / result.energy_j
    shares = {event.label: share for event, share in zip(result.events, spent, strict=True)}
    rows = [row for row in _rows(result).values() if row.is_price and row.latency == 0]
    assert rows
    waits, beyond = shares.get("pipeline.wait_loop", 0.0), [row.energy - shares[row.name] for row in rows]
    assert min(beyond) >= -0.003
    assert sum(beyond) == pytest.approx(waits, abs=0.01)
    for row in rows:
        assert row.edp == pytest.approx(row.energy, abs=1e-9)


def test_decoding_is_bound_by_memory_and_one_small_image_by_launches() -> None:
    decode = _rows(_run("h100_sxm", "gpt2:decode", precision="fp16"))
    assert decode["memory_bandwidth"].latency < 3 * decode["matrix"].latency
    alone = _rows(_run("h100_sxm"))
    # A kernel starts in cycles of the clock, and in time that is no clock's.
    assert alone["launch_s"].latency - alone["clock_hz"].latency > 0.5
    assert abs(alone["memory_bandwidth"].latency) < 0.2
    assert "synchronous_matrix_rate" not in _rows(_run("a100_sxm"))  # its value 1 names a generation of kernels
