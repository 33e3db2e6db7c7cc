"""Power caps and clock locks of chips that exist: how they are written, what they change, and what they leave."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.explore.cost import prices, settings
from analysis.model.names.model_ref import refer
from analysis.wording import rank_words
from hardware.device import Device, least_cap_w, power_caps
from hardware.device_catalog import catalogue_devices, load_device
from hardware.engines.runtime import MODES
from hwexplorer import configurations, engine
from tests.sampling import every, for_each

DEVICES = catalogue_devices()
POINTS = ("h100_sxm", "rtx_4090", "xeon_8490h", "tpu_v4", "kpu_t256", "jetson_agx_orin:30w", "hailo8")
ROUNDING = 1 + 1e-9
WORK = (("resnet18", 1, "fp16"), ("resnet18", 64, "int8"), ("attention_head", 8, "bf16"), ("conv2d", 16, "fp32"))


def _run(device: Device, work: tuple[str, int, str] = WORK[1]) -> Estimate:
    model, batch, precision = work
    return estimate(engine.model(refer(model)), device, Scenario(batch=batch, precision=precision))


SPELLINGS = {
    "h100_sxm@400W": "h100_sxm@400W",
    "H100@400w": "h100_sxm@400W",
    "H100 SXM @ 400 W": "h100_sxm@400W",
    "h100_sxm@0.4kW": "h100_sxm@400W",
    "h100_sxm@1.4ghz": "h100_sxm@1400MHz",
    "h100_sxm@1400MHZ@400W": "h100_sxm@400W@1400MHz",
    "Jetson AGX Orin:30w@20w": "jetson_agx_orin:30w@20W",
    "jetson_agx_orin:pm2@20W": "jetson_agx_orin:30w@20W",
    "h100_sxm{units*2}@400W": "h100_sxm@400W{units*2}",
    "h100_sxm@400W { units * 2 }": "h100_sxm@400W{units*2}",
    "Intel(R) Xeon(R) W-2155 CPU @ 3.30GHz": "xeon_w2155",
}


@for_each("text", SPELLINGS)
def test_each_spelling_has_one_key(text: str) -> None:
    device = load_device(text)
    assert device.key == SPELLINGS[text]
    assert load_device(device.key) == device


def test_a_set_chip_remains_the_chip() -> None:
    """Its evidence, its price, its power at rest and its prices at a nominal clock are its own; it is ranked."""
    free, capped, locked = (load_device(f"h100_sxm{setting}") for setting in ("", "@400W", "@1400MHz"))
    assert (capped.power_limit_w, capped.sustained_w, capped.tdp_w) == (400, 400, 700)
    assert locked.clock_hz == locked.matrix_clock_hz == locked.vector_clock_hz == pytest.approx(1.4e9)
    assert locked.voltage_at(locked.clock_hz) < free.voltage_at(free.clock_hz) == capped.voltage_at(capped.clock_hz)
    results = [_run(device) for device in (free, capped, locked)]
    for result in results:
        device = result.device
        assert (device.id, device.silicon, device.changes, device.file) == ("h100_sxm", True, "", free.file)
        assert all(getattr(device, name) == getattr(free, name) for name in ("idle_w", "clocked_idle_w", "active_w"))
        assert result.trust == results[0].trust
        assert [price.value for price in prices(result, settings())] == [3.99]
    assert sorted(rank_words(results, "energy")) == ["1st", "2nd", "3rd"]
    assert capped.label == capped.name == "NVIDIA H100 SXM5 80GB at 400 W"
    assert load_device("jetson_agx_orin:30w@20W@500MHz").label == "NVIDIA Jetson AGX Orin 64GB 30w at 20 W and 500 MHz"
    assert load_device("h100_sxm@1980MHz").values == free.values  # a lock bounds the clock
    assert load_device("xeon_8490h@2200MHz").matrix_clock_hz == load_device("xeon_8490h").matrix_clock_hz


def test_a_cap_holds_whatever_else_changes() -> None:
    assert load_device("h100_sxm@400W{units*2}").power_limit_w == 400
    assert load_device("h100_sxm@400W{power_limit_w=500}").power_limit_w == 500
    assert not load_device("h100_sxm@400W{units*2}").silicon
    assert load_device("h100_sxm{power_limit_w=400}").file.changes == ("power_limit_w=400",)


@every(18)
def test_a_lower_cap_is_never_faster_and_holds(nth: int) -> None:
    for device, work in ((device, work) for device in DEVICES[::nth] for work in WORK):
        latency_s = 0.0
        for key in [*power_caps(device)][::-1]:
            result = _run(load_device(key), work)
            assert result.average_power_w <= result.device.power_limit_w * ROUNDING, (key, work)
            assert result.latency_s * ROUNDING >= latency_s, (key, work)
            latency_s = result.latency_s


@every(18)
def test_a_lower_clock_is_never_faster(nth: int) -> None:
    for device, work in ((device, work) for device in DEVICES[::nth] for work in WORK):
        clocks = [device.clock_hz / 1e6 * share for share in (0.999, 0.8, 0.5, 0.2)]
        results = [_run(load_device(f"{device.key}@{clock:g}MHz"), work) for clock in clocks]
        for quick, slow in pairwise((_run(device, work), *results)):
            assert quick.latency_s <= slow.latency_s * 1.02, (device.key, work)


@every(9)
def test_drawn_devices_are_never_slower_at_a_higher_clock(nth: int) -> None:
    """Devices, models, formats and runtimes are drawn as widely as users do. A lock or a lower clock makes no
    chip quicker by more than 2 %, which it may win where tiles are chosen at its clock."""
    draw, failed = Random(35), []
    models = ("resnet18", "mobilenet_v2", "densenet121", "vgg16", "attention_head", "transformer_block")
    for _ in range(900 // nth):
        device, model, batch = draw.choice(DEVICES), draw.choice(models), draw.choice((1, 16, 256))
        scenario = Scenario(
            batch, draw.choice(("fp32", "fp16", "bf16", "int8", "fp8", "tf32")), draw.choice(("auto", *MODES)),
            draw.choice(("nchw", "channels_last")),
        )  # fmt: skip
        lock = device.least_clock_hz + draw.random() * (device.clock_hz - device.least_clock_hz)
        keys = (
            device.key,
            f"{device.key}@{lock / 1e6:.1f}MHz",
            f"{device.key}{{clock_hz*{draw.uniform(0.3, 0.95):.2f}}}",
        )
        workload = engine.model(refer(model))
        free, *slower = (estimate(workload, load_device(key), scenario).latency_s for key in keys)
        failed += [(key, model, scenario) for key, latency_s in zip(keys[1:], slower, strict=True)
                   if free > latency_s * 1.02]  # fmt: skip
    assert not failed


def test_a_cap_and_a_lock_agree() -> None:
    """At a lower clock a product reaches more of its peak, whatever lowered it."""
    for name, cap, lock in (("h100_sxm", "280W", "660MHz"), ("tpu_v4", "140W", "800MHz")):
        capped, locked = (_run(load_device(f"{name}@{setting}")) for setting in (cap, lock))
        assert capped.average_power_w == pytest.approx(locked.average_power_w, rel=0.1)
        assert capped.latency_s == pytest.approx(locked.latency_s, rel=0.15)


def test_a_cap_that_nothing_reaches_changes_nothing() -> None:
    free, capped = (_run(load_device(f"h100_sxm{cap}"), WORK[0]) for cap in ("", "@650W"))
    assert free.average_power_w < 600
    assert (free.latency_s, free.energy_j) == (capped.latency_s, capped.energy_j)


@given(st.sampled_from(POINTS), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_round_trip(name: str, power: float, clock: float) -> None:
    device = load_device(name)
    least_w = least_cap_w(device)
    least_hz = device.least_clock_hz
    watts = least_w + power * (device.power_limit_w - least_w)
    megahertz = (least_hz + clock * (device.clock_hz - least_hz)) / 1e6
    point = load_device(f"{name}@{megahertz:.9f}mhz@{watts:.9f}w")
    assert load_device(point.key) == point
    assert point.power_limit_w == pytest.approx(watts, rel=1e-5)


def test_caps_of_a_search_are_round_and_end_without_one() -> None:
    caps = [*power_caps(load_device("h100_sxm"))]
    assert caps == [*(f"h100_sxm@{watts}W" for watts in (280, 340, 400, 460, 520, 580, 640)), "h100_sxm"]
    changed = configurations.devices(["h100_sxm{process_nm*1.6}"], power_modes=False, caps=True)
    assert changed == tuple(f"{name}{{process_nm*1.6}}" for name in caps)
