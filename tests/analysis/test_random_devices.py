"""Physics of random what-if devices: any chip of the catalogue with a few facts at an eighth to eight times theirs.

Some at each run; `HWEXPLORER_DEVICES=10000 pytest tests/analysis/test_random_devices.py` takes as many, from a new seed
with `--hypothesis-seed N`."""

import math
import os

import grid
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from test_estimate_conservation import check_sums
from test_estimate_physics import check_physics

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.explore.tuning import change_knobs, facts
from hardware.base.errors import RequestError
from hardware.device_catalog import catalogue_devices, load_device

MANY = settings(
    max_examples=int(os.environ.get("HWEXPLORER_DEVICES", "40")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
IDS = tuple(device.id for device in catalogue_devices())
UNLIMITED = "tdp_w=1e5,power_limit_w=1e5,sustained_w=1e5"
MODELS = ("conv2d", "mlp", "attention_head", "resnet18", "mobilenet_v2")
FACTOR = st.floats(-3.0, 3.0).map(lambda power: 2.0**power)


@st.composite
def _changes(draw: st.DrawFn, changes: str = "") -> tuple[Estimate, dict[str, float]]:
    """A model on a device, and what some of its facts are multiplied with."""
    device = load_device(draw(st.sampled_from(IDS)) + changes)
    names = draw(st.lists(st.sampled_from(facts(device)), min_size=1, max_size=4, unique=True))
    batch, precision = draw(st.sampled_from((1, 16))), draw(st.sampled_from(("fp32", "fp16", "int8")))
    workload, scenario = grid.workload(draw(st.sampled_from(MODELS))), Scenario(batch=batch, precision=precision)
    return estimate(workload, device, scenario), {name: draw(FACTOR) for name in names}


def _run(unchanged: Estimate, factors: dict[str, float]) -> Estimate:
    """Without an example where such a chip cannot be: more power at rest than its limit, a bus that contradicts it."""
    try:
        return change_knobs(unchanged, factors)
    except RequestError:
        reject()


@MANY
@given(_changes())
def test_physics_holds(asked: tuple[Estimate, dict[str, float]]) -> None:
    result = _run(*asked)
    check_physics(result)
    check_sums(result)
    asked_for = load_device(result.device.key)
    assert result.device in (asked_for, asked_for.without_added)
    for low, high in (result.latency_band_s, result.energy_band_j):
        assert 0 < low <= high < float("inf")


def _longer_joins_s(before: Estimate, after: Estimate) -> float:
    """Return what the threads of more cores take at most to fork and join: once a kernel, and where a framework's
    convolution rearranges its tensors in each of those regions."""
    if "thread_join_s" not in before.device.facts:
        return 0.0
    regions = before.demand.n_kernels * (1 + before.device.arch.constants.plain_reorder_regions)
    doublings = math.log2(max(after.device.units / before.device.units, 1.0))
    return before.device.facts["thread_join_s"].value * doublings * regions


@MANY
@given(_changes(f"{{{UNLIMITED}}}"), st.sampled_from(("units", "clock_hz", "memory_bandwidth")), st.floats(1.0, 3.0))
def test_more_is_never_slower_without_a_limit_of_power(
    asked: tuple[Estimate, dict[str, float]], knob: str, more: float
) -> None:
    unchanged, factors = asked
    factors = {name: factor for name, factor in factors.items() if not name.endswith("_w")}
    before = _run(unchanged, factors)
    after = _run(unchanged, {**factors, knob: factors.get(knob, 1.0) * more})
    assert after.latency_s <= before.latency_s * (1 + 1e-9) + _longer_joins_s(before, after)
