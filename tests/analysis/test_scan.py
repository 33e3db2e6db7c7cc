"""A small sample of the scan that `python -m lab.scan` makes by hand, and what larger ones found."""

from analysis.estimate.estimate import estimate
from analysis.estimate.scenario import Scenario
from analysis.model import store
from hardware.device_catalog import load_device
from lab.scan import ROUNDING, scan


def test_runs_keep_their_limits_and_better_hardware_is_never_slower() -> None:
    assert not list(scan(80, seed=2))


def test_better_hardware_is_no_longer_slower_where_scans_found_it() -> None:
    sampling = "mixtral_8x7b:decode,layers=1", "titan_v", "memory_bandwidth*10", Scenario(200, "int8")
    parts = "conv2d", "kpu_t256", "units*4", Scenario(17, "w4a16")  # in its start a chip draws less
    lanes = "resnet50", "kpu_t100", "vector_clock_hz*1.5", Scenario(64, "fp32", "compiled")  # all voltage rises
    transforms = "conv2d", "apple_m1_pro_gpu", "memory_bandwidth*1.1", Scenario(1, "fp32")  # they take arithmetic
    for model, key, change, scenario in (sampling, parts, lanes, transforms):
        before, after = (estimate(store.load(model), load_device(on), scenario) for on in (key, f"{key}{{{change}}}"))
        assert (before.average_power_w >= before.power_limit_w * (1.0 - 1e-6)) == (key in ("titan_v", "kpu_t256"))
        assert after.latency_s <= before.latency_s * (1.0 + ROUNDING)
