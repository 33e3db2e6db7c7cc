"""The taxonomies: complete, unique, priced everywhere, and never an event that is always zero."""

from itertools import combinations

import numpy as np
import pytest

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from hardware import known_architectures
from hardware.architecture_facts import price_table as constants
from hardware.device_catalog import load_device, load_devices
from hardware.event_prices import coefficients
from hardware.plan import make_plan
from hardware.precision import FORMATS, NAMES
from tests.models import load_once
from tests.sampling import for_each

# Design, section 5: events and categories at least.
MINIMA = {"cpu": (20, 5), "gpu": (30, 7), "tpu": (20, 6), "npu": (20, 6), "kpu": (25, 8)}
DEVICES = [device.id for device in load_devices()[0]]


@pytest.mark.parametrize("architecture", MINIMA)
def test_taxonomy_is_complete(architecture: str) -> None:
    table = known_architectures.get(architecture).events
    events, categories = MINIMA[architecture]
    assert len(table) >= events
    assert len({event.category for event in table}) >= categories
    labels = [f"{event.category}.{event.name}" for event in table]
    assert len(set(labels)) == len(labels)
    assert known_architectures.get(architecture).row == {label: i for i, label in enumerate(labels)}
    assert {event.component for event in table} == {"compute", "memory", "static"}
    assert any(event.is_overhead for event in table)
    names = {event.name for event in table}
    assert {"dram_read", "dram_write"} <= names, "reads and writes apart"
    assert [event.component for event in table[-2:]] == ["static", "static"]
    assert all(event.component != "static" for event in table[:-2])


def test_reads_and_writes_are_apart() -> None:
    for one in known_architectures.ALL.values():
        table = one.events
        for event in (event for event in table if event.component == "memory"):
            for one, other in (("read", "write"), ("load", "store")):
                if event.name.endswith(f"_{one}") or event.name == one:
                    twin = event.name.removesuffix(one) + other
                    assert any(e.name == twin and e.category == event.category for e in table), event


@pytest.fixture(scope="module", params=MINIMA)
def cases(request: pytest.FixtureRequest) -> list[Estimate]:
    """Every precision in both modes, of two models on the default device of an architecture."""
    device = load_device(request.param)
    served = [estimate(load_once("llama3_8b:decode,layers=1"), device, Scenario(8, "bf16", "vllm"))]
    return served * (device.architecture == "gpu") + [
        estimate(load_once(model), device, Scenario(8, precision, mode))
        for model in ("mobilenet_v2", "transformer_block")
        for precision in NAMES
        for mode in ("eager", "fused")
    ]


def test_no_event_is_always_zero(cases: list[Estimate]) -> None:
    counts = np.stack([result.run.counts.sum(axis=1) for result in cases])
    assert (counts >= 0).all()
    assert np.isfinite(counts).all()
    never = [label for label, row in cases[0].device.arch.row.items() if counts[:, row].max() == 0]
    assert not never


def test_no_event_is_paid_twice(cases: list[Estimate]) -> None:
    """No two events of one category have the same counts and price source in every case; except that every
    token that enters the network of a KPU leaves it."""
    results = cases[::4] + cases[1::4]
    counts = np.concatenate([result.run.counts for result in results], axis=1)
    rows, table = results[0].run.prices.rows, results[0].events
    twins = {("token_injection", "token_extraction")}
    for i in range(len(table) - 2):
        for j in range(i + 1, len(table) - 2):
            pair = (rows[i].event, rows[j].event)
            same = np.array_equal(counts[i], counts[j]) and table[i].category == table[j].category
            priced = (table[i].family, table[i].argument) == (table[j].family, table[j].argument)
            priced = priced and not table[i].is_by_time  # shares of one power
            assert not (same and priced) or pair in twins, pair


@for_each("name", DEVICES)
def test_every_event_of_every_device_has_a_sourced_price(name: str) -> None:
    device = load_device(name)
    for precision in NAMES[DEVICES.index(name) % 3 :: 3]:  # each device in a third of the formats
        prices = coefficients(device, make_plan(device, precision))
        assert len(prices.rows) == len(device.arch.events)
        assert (prices.low <= prices.value).all(), precision
        assert (prices.value <= prices.high).all(), precision
        assert (prices.low >= 0).all()
        assert (prices.value > 0).all()
        for row, event in zip(prices.rows, device.arch.events, strict=True):
            assert row.source, row
            assert row.quality in ("data sheet", "published", "fitted", "assumed", "derived", "design target"), row
            assert row.unit == event.count


@for_each("name", DEVICES)
def test_prices_are_ordered_as_physics_orders_them(name: str) -> None:
    """A byte of DRAM costs more than a byte of any on-chip memory; wider products cost more than narrower."""
    device = load_device(name)
    prices = coefficients(device, make_plan(device, "fp32"))
    table = device.arch.events
    dram = max(v for v, e in zip(prices.value, table, strict=True) if e.family == "dram")
    for value, event in zip(prices.value, table, strict=True):
        if "sram" in event.family and device.memory_technology != "none":
            assert value < dram, f"{event.name} {value:.3g} J/byte, DRAM {dram:.3g}"
    products = [i for i, e in enumerate(table) if e.family in ("mac", "tensor_mac") and e.argument == "matrix"]
    plans = [make_plan(device, precision) for precision in ("fp32", "bf16", "int8")]
    macs = [(FORMATS[plan.matrix].bits, coefficients(device, plan).value[products]) for plan in plans]
    for (wide_bits, wide), (narrow_bits, narrow) in combinations(macs, 2):
        if narrow_bits < wide_bits:  # int8 runs as fp16 where there are no products of it
            assert (narrow <= wide * (1 + 1e-12)).all()


@for_each("name", DEVICES)
def test_static_prices_and_those_by_time_come_from_the_device(name: str) -> None:
    device = load_device(name)
    prices = coefficients(device, make_plan(device, "fp32"))
    assert prices.value[-2:].sum() == pytest.approx(max(device.idle_w, device.clocked_idle_w))
    stated = device.file.facts
    rows = [row for row in device.arch.timed_rows if row not in device.arch.wait_rows]
    full = prices.value[rows].sum() * stated["units"].value * stated["clock_hz"].value
    # They never exhaust the limit: work has to fit below it in every mode.
    above_rest = device.power_limit_w - prices.value[-2:].sum()
    assert full == pytest.approx(min(device.active_w, constants()["by_time_share"]["value"] * above_rest))
    assert full < above_rest


@for_each("name", DEVICES)
def test_a_slower_power_mode_never_makes_an_event_dearer(name: str) -> None:
    """Fewer units and lower clocks: an event costs as much as before, or less where the voltage falls too."""
    device = load_device(name)
    events = device.arch.events
    fixed = [i for i, event in enumerate(events) if event.component != "static"]
    base = coefficients(device, make_plan(device, "fp16")).value[fixed]
    for mode in device.file.power_modes:
        here = load_device(f"{name}:{mode}")
        if here.clock_hz <= device.clock_hz:
            moved = coefficients(here, make_plan(here, "fp16")).value[fixed]
            assert (moved <= base * (1 + 1e-9)).all(), [events[i].name for i in np.flatnonzero(moved > base)]


def test_voltage_follows_the_clock_of_a_power_mode() -> None:
    """At 624 of 1301 MHz the voltage falls on chip; memory and static power have voltages of their own."""
    full, half = load_device("jetson_agx_orin"), load_device("jetson_agx_orin:30w")
    voltage = half.voltage_at(half.clock_hz) / full.voltage_at(full.clock_hz)
    assert 0.6 < voltage < 0.9
    runs = make_plan(full, "fp16")
    before, after = coefficients(full, runs).value, coefficients(half, runs).value
    for event, a, b in zip(full.arch.events, before, after, strict=True):
        if event.component != "static" and not event.is_by_time:  # whose share is capped by the limit of the mode
            expected = voltage**2 if event.is_on_chip else 1.0
            assert b == pytest.approx(a * expected), event.name
    slow, fast = (coefficients(load_device(name), runs).value for name in ("rtx_4090@1400MHz", "rtx_4090"))
    place = {event.name: i for i, event in enumerate(full.arch.events)}
    assert slow[place["l2_read"]] < 0.9 * fast[place["l2_read"]]
    assert slow[place["dram_controller"]] == fast[place["dram_controller"]]  # wires to GDDR


def test_prices_follow_the_activity_of_the_data() -> None:
    """Zeros take 0.17 to 0.7 of what random data take; instructions take as much."""
    random, zeros = (load_device(f"h100_sxm{{data_activity={share}}}") for share in (1, 1e-9))
    rows = [coefficients(each, make_plan(each, "bf16")) for each in (random, zeros)]
    for event, full, none in zip(random.arch.events, rows[0].value, rows[1].value, strict=True):
        assert none == pytest.approx(full * random.arch.data.zeros.get(event.label, (1.0,))[0]), event.label


@pytest.mark.parametrize("architecture", MINIMA)
def test_shares_by_time_add_up_and_stand_in_architectural_categories(architecture: str) -> None:
    """What busy units take by time is divided among events beside those that are counted; no row is called clock."""
    arch = known_architectures.get(architecture)
    shares, rows = arch.data.by_time, [row for row in arch.timed_rows if row not in arch.wait_rows]
    events = [arch.events[row] for row in rows]
    assert {event.name for event in events} == set(shares) or (not shares and len(events) == 1)
    assert not shares or sum(share.value for share in shares.values()) == pytest.approx(1.0)
    counted = {event.category for event in arch.events if not event.is_by_time}
    for event in events:
        assert event.name.endswith("_by_time")
        assert event.category in counted
        assert event.argument in ("matrix", "vector", "compute", "chip", "dram")
        assert (event.component == "memory") == (event.argument in ("chip", "dram"))
    for share in shares.values():
        assert 0 < share.low <= share.value <= share.high < 1
        assert share.source
