"""What-if devices: changes are made as written, what follows from them follows, wrong ones are one clear line."""

from pathlib import Path

import pytest

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.explore.attribution import explain
from analysis.model.names.model_ref import refer
from hardware.architecture_facts import logic_scale
from hardware.area import area
from hardware.base.errors import RequestError
from hardware.device import CATALOG
from hardware.device_catalog import device_in_mode, load_device, load_devices
from hardware.engines.runtime import runtimes
from hardware.event_prices import coefficients
from hardware.plan import make_plan
from hwexplorer import engine
from tests.sampling import every, for_each


def _run(device: str, model: str = "resnet18", batch: int = 4, precision: str = "fp16", by: str = "own") -> Estimate:
    return estimate(engine.model(refer(model)), load_device(device), Scenario(batch, precision, prices=by))


@every(5)
def test_nothing_changed_is_the_device_itself(nth: int) -> None:
    """Of every device and power mode, every fact, rate and price once its own."""
    bases = load_devices()[0][::nth]
    for base in (device_in_mode(one.file, mode) for one in bases for mode in ("", *one.file.power_modes)):
        assert load_device(base.key + "{}") == base
        same = load_device(f"{base.key}{{{','.join(f'{name}*1' for name in (*base.facts, *base.file.fma_per_clock))}}}")
        assert same.values == base.values
        assert same.peaks == base.peaks
        assert not same.silicon
        a, b = _run(base.key, "conv2d"), _run(same.key, "conv2d")
        assert (a.latency_s, a.energy_j) == (b.latency_s, b.energy_j), base.key


def test_a_change_is_known_by_its_name_wherever_the_device_is() -> None:
    device = load_device("H100 SXM { Memory-Bandwidth * 2, units = 100 }")
    assert device.key == "h100_sxm{memory_bandwidth*2,units=100}"
    assert device.values["memory_bandwidth"] == 2 * 3.35e12
    assert device.units == 100
    assert load_device(device.key) == device
    assert load_device("jetson_agx_orin:30w{units*2}").key == "jetson_agx_orin:30w{units*2}"
    assert device.name == device.label == "NVIDIA H100 SXM5 80GB, memory bandwidth x2, units 100"
    assert device.marked_key == device.key


def test_what_follows_follows() -> None:
    base, wide = load_device("h100_sxm"), load_device("h100_sxm{units*2}")
    assert wide.peaks["matrix", "fp16"] == 2 * base.peaks["matrix", "fp16"]
    assert wide.last_level_bandwidth == 2 * base.last_level_bandwidth
    assert 1.2 < wide.clocked_idle_w / base.clocked_idle_w < 2.0  # its L2 and PHYs are as before
    assert wide.tdp_w == wide.power_limit_w == 700  # an envelope is no silicon
    assert wide.added_idle_w == wide.clocked_idle_w - base.clocked_idle_w
    fast = load_device("h100_sxm{clock_hz*0.5}")
    assert fast.vector_clock_hz == base.vector_clock_hz / 2
    assert fast.active_w == base.active_w
    array = load_device("tpu_v4{array=256x256}")
    assert array.peaks["matrix", "bf16"] == 4 * load_device("tpu_v4").peaks["matrix", "bf16"]
    assert load_device("h100_sxm{memory_bus_bits*2}").memory_bandwidth == 2 * base.memory_bandwidth
    assert load_device("h100_sxm{memory_bandwidth*2}").last_level_bandwidth == base.last_level_bandwidth
    assert load_device("kpu_t256{process_nm=7}").idle_w < load_device("kpu_t256").idle_w
    assert load_device("i7_13700k{l2_bytes*10}").active_w == load_device("i7_13700k").active_w


@pytest.mark.parametrize("change", ["process_nm=90", "l2_bytes*20", "units*3"])
def test_a_changed_chip_keeps_its_limit_and_switches_off_what_was_added(change: str) -> None:
    before, after = _run("h100_sxm", batch=64), _run(f"h100_sxm{{{change}}}", batch=64)
    assert after.power_limit_w == 700
    assert after.average_power_w <= 700 * (1 + 1e-9)
    assert change.startswith("process") or after.latency_s <= before.latency_s * (1 + 1e-9)


def _price(device: str, event: str, precision: str = "fp32") -> float:
    one = load_device(device)
    rows = coefficients(one, make_plan(one, precision, runtimes()["tensorrt"])).rows
    return next(row.value_j for row in rows if f"{row.category}.{row.event}" == event)


def test_a_hair_of_the_node_is_no_other_chip() -> None:
    """A design target's hoped-for prices are not used because its node is changed."""
    here, there = _run("kpu_t256"), _run("kpu_t256{process_nm*0.999}")
    assert there.energy_j == pytest.approx(here.energy_j, rel=0.01)
    assert there.latency_s == pytest.approx(here.latency_s, rel=0.01)


def test_energies_are_facts_too() -> None:
    assert _price("kpu_t256{tile.mac:fp32=2.64pJ}", "tile.mac") == 2.64e-12
    assert _price("kpu_t256{tile.mac:int8=2.64pJ}", "tile.mac") == _price("kpu_t256", "tile.mac")
    assert _price("kpu_t256{tile.mac*3}", "tile.mac") == pytest.approx(3 * _price("kpu_t256", "tile.mac"))
    assert _price("h100_sxm{memory.dram_read/2}", "memory.dram_read") == _price("h100_sxm", "memory.dram_read") / 2
    # Silicon's price and the designer's, each at the new node: neither becomes the other.
    silicon, designer = (_price(f"{base}{{process_nm=7}}", "tile.mac") for base in ("kpu_t256", "kpu_t256:designer"))
    scale = logic_scale(7) / logic_scale(16)
    assert designer == pytest.approx(scale * _price("kpu_t256:designer", "tile.mac"))
    assert 3 * designer < silicon < _price("kpu_t256", "tile.mac")
    assert _run("kpu_t256{tile.mac*2}").energy_j > _run("kpu_t256").energy_j
    vector = _price("tpu_v4", "vector.flop")  # an event, no format of the unit
    assert _price("tpu_v4{vector.flop*2}", "vector.flop") == pytest.approx(2 * vector)


def test_a_higher_clock_takes_a_higher_voltage() -> None:
    assert _price("kpu_t256{clock_hz*1.2}", "tile.mac") > _price("kpu_t256", "tile.mac")


WRONG = {
    "h100_sxm{memory_bandwith*2}": "did you mean memory_bandwidth",
    "h100_sxm{units=0}": "out of range (allowed: 1 to 1e+06 count)",
    "h100_sxm{units*1.1}": "units*1.1: 145.2 is not a whole number (nearest: 145 or 146)",
    "tpu_v4{array=128.5x128}": "not a whole number (nearest: 128 or 129)",
    "h100_sxm{memory_bus_bits*1.00001}": "not a whole number (nearest: 5120 or 5121)",
    "h100_sxm{units=4kg}": "unknown unit 'kg'",
    "h100_sxm{units": "end with a brace",
    "h100_sxm{units}": "expected a name and a value",
    "h100_sxm{units*-1}": "greater than 0",
    "h100_sxm{matrix.fp99*2}": "did you mean fp8 or fp16",
    "h100_sxm{idle_w=900}": "900 W is not below the power limit",
    "h100_sxm{tensor_core.mac:fp99=1pJ}": "fact or event",
    "tpu_v4{array*2}": "expected rows and columns",
    "h100_sxm{memory_bus_bits*2,memory_bandwidth*3}": "over 3 % off",
    "h100{units*2}x": "end with a brace",
    "l4{array=1x1}": "fact or event of l4 'array'",
    "l4{units=\u0661}": "does not start with a number",
    "h101{units*2}": "unknown device",
    "h100_sxm{" + "units*1," * 65 + "}": "65 changes",
    "h100_sxm@900W": "h100_sxm@900W: the power limit is 700 W (allowed: 145.6 to 700 W)",
    "h100_sxm@100W": "h100_sxm@100W: the least that works is 145.6 W (allowed: 145.6 to 700 W)",
    "h100_sxm@0W": "the least that works is 145.6 W",
    "h100_sxm@-400W": "the least that works is 145.6 W",
    "jetson_agx_orin:30w@40W": "jetson_agx_orin:30w@40W: the power limit is 30 W",
    "h100_sxm@2.5GHz": "h100_sxm@2500MHz: the highest clock is 1980 MHz (allowed: 183 to 1980 MHz)",
    "h100_sxm@10MHz": "the least that works is 183 MHz",
    "h100_sxm@400": "@400: expected a power or a clock, as h100_sxm@400W or h100_sxm@1400MHz",
    "h100_sxm@": "@: expected a power or a clock",
    "h100_sxm@W": "does not start with a number",
    "h100_sxm@4tW": "unknown unit",
    "h100_sxm@400W@300W": "h100_sxm: power cap is set twice",
    "h100_sxm@1GHz@2GHz": "h100_sxm: clock lock is set twice",
    "h101@400W": "unknown device 'h101'",
    "h100_sxm@400W{idle_w=450}": "450 W is not below the power limit of 400 W",
}


@for_each("text", WRONG)
def test_a_wrong_change_or_setting_is_one_line(text: str) -> None:
    with pytest.raises(RequestError) as error:
        load_device(text)
    assert WRONG[text] in str(error.value)
    assert "\n" not in str(error.value)


def test_areas_are_those_of_dies() -> None:
    """Dies that the rules were not taken from; what the rules do not see (graphics, fp64, IO dies) is missing."""
    for name, die_mm2 in (("tpu_v1", 331), ("tpu_v4", 600), ("v100_sxm2_16gb", 815), ("h100_sxm", 814)):
        rules = area(load_device(name))
        assert rules.low_mm2 <= die_mm2 <= rules.high_mm2, name
        assert rules.cost_low_usd < rules.cost_usd < rules.cost_high_usd
        assert 0 < rules.yield_share < 1
    assert area(load_device("h100_sxm{units*8}")).dies > 1
    for device in load_devices()[0]:
        assert 0 < area(device).total_mm2 < 3000, device.id


def test_a_file_cannot_state_changes(tmp_path: Path) -> None:
    """They belong to the name: h100_sxm{units*2}."""
    text = (CATALOG / "t4.toml").read_text(encoding="utf-8").replace('id = "t4"', 'id = "mine"')
    (tmp_path / "mine.toml").write_text(f'changes = ["units*2"]\n{text}', encoding="utf-8")
    with pytest.raises(RequestError, match=r"device file mine\.toml: changes: name a changed device by an expression"):
        load_device("mine", (tmp_path,))


def test_a_device_takes_64_changes() -> None:
    with pytest.raises(RequestError, match=r"^65 changes of one device \(allowed: 64\)"):
        load_device(f"t4{{{','.join(['units*1'] * 65)}}}")
    assert load_device(f"t4{{{','.join(['units*1'] * 64)}}}").units == load_device("t4").units


def test_prices_of_one_evidence_move_events_and_no_time() -> None:
    """Measured events take more than bottom-up prices say, but metered power holds those of TPUs (192 W) and CPUs."""
    for device, sign in {"h100_sxm": -1, "xeon_8490h": 0, "tpu_v4": 1, "kpu_t256": 1}.items():
        energy_j = {by: _run(device, by=by).energy_j for by in ("own", "measured", "bottom-up")}
        assert energy_j["own"] == energy_j["measured" if sign < 0 else "bottom-up"]
        assert (energy_j["measured"] > energy_j["bottom-up"]) == (sign != 0) == (len({*energy_j.values()}) > 1)
        assert all(_run(f"{device}{{prices={by}}}").energy_j == energy_j[by] for by in ("measured", "bottom-up"))
    assert _run("tpu_v4{prices=measured}", "bert_base", 8, "bf16").average_power_w < 192
    sides = (explain(_run("h100_sxm"), _run(name), "energy").reasons for name in ("tpu_v4", "tpu_v4{prices=measured}"))
    assert ["how event energies are known" in " ".join(reasons) for reasons in sides] == [True, False]
