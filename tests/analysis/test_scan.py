"""A small sample of the scan that `python -m lab.scan` makes by hand, and what larger ones found."""

import pytest

from analysis.estimate.estimate import estimate
from analysis.estimate.scenario import Scenario
from analysis.model import store
from hardware.device_catalog import load_device
from lab.scan import ROUNDING, scan


def test_runs_keep_their_limits_and_better_hardware_is_never_slower() -> None:
    assert not list(scan(80, seed=2))


@pytest.mark.parametrize(
    ("model", "device", "change", "scenario"),
    [
        ("mixtral_8x7b:decode,layers=1", "titan_v", "memory_bandwidth*10", Scenario(batch=200, precision="int8")),
        ("resnet18", "i9_9900k", "memory_bandwidth*4", Scenario(batch=2, precision="w4a16", execution="compiled")),
        ("bert_base", "xeon_8270", "last_level_bandwidth*4", Scenario(batch=8, precision="w4a16", execution="eager")),
    ],
    ids=["sampling", "threads", "threads_on_chip"],
)
def test_quicker_memory_is_never_slower_at_the_power_limit(
    model: str, device: str, change: str, scenario: Scenario
) -> None:
    workload = store.load(model)
    before, after = (estimate(workload, load_device(key), scenario) for key in (device, f"{device}{{{change}}}"))
    assert before.average_power_w == pytest.approx(before.power_limit_w)
    assert after.latency_s <= before.latency_s * (1.0 + ROUNDING)
