"""A small sample of the scan that `python -m lab.scan` makes by hand, and what larger ones found."""

import pytest

from analysis.estimate.estimate import estimate
from analysis.estimate.scenario import Scenario
from analysis.model import store
from hardware.device_catalog import load_device
from lab.scan import ROUNDING, scan


def test_runs_keep_their_limits_and_better_hardware_is_never_slower() -> None:
    assert not list(scan(80, seed=2))


def test_quicker_memory_is_never_slower_where_a_server_samples_at_the_power_limit() -> None:
    workload = store.load("mixtral_8x7b:decode,layers=1")
    keys, scenario = ("titan_v", "titan_v{memory_bandwidth*10}"), Scenario(batch=200, precision="int8")
    before, after = (estimate(workload, load_device(key), scenario) for key in keys)
    assert before.average_power_w == pytest.approx(before.power_limit_w)
    assert after.latency_s <= before.latency_s * (1.0 + ROUNDING)
