"""The taxonomies: complete, unique, priced everywhere, and never an event that is always zero."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from hardware import known_architectures
from hardware.device_catalog import load_device, load_devices
from hardware.event_prices import coefficients
from hardware.plan import make_plan
from hardware.precision import FORMATS, NAMES
from hardware.scaling import table as constants
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
    for one in known_architectures.every():
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
    return [
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
def test_static_and_clock_prices_come_from_the_device(name: str) -> None:
    device = load_device(name)
    prices = coefficients(device, make_plan(device, "fp32"))
    assert prices.value[-2:].sum() == pytest.approx(max(device.idle_w, device.clocked_idle_w))
    stated = device.file.facts
    full = prices.value[device.arch.timed_rows].sum() * stated["units"].value * stated["clock_hz"].value
    # Clocks alone never exhaust the limit: work has to fit below it in every mode.
    above_rest = device.power_limit_w - prices.value[-2:].sum()
    assert full == pytest.approx(min(device.active_w, constants()["clock_share"]["value"] * above_rest))
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
    """At 624 of 1301 MHz: V = 1 - 0.4 (1 - 0.48), squared; memory and static power have voltages of their own."""
    full, half = load_device("jetson_agx_orin"), load_device("jetson_agx_orin:30w")
    voltage = 1 - constants()["voltage"]["slope"] * (1 - half.clock_hz / full.clock_hz)
    assert 0.7 < voltage < 0.9
    runs = make_plan(full, "fp16")
    before, after = coefficients(full, runs).value, coefficients(half, runs).value
    for event, a, b in zip(full.arch.events, before, after, strict=True):
        if event.family not in ("static", "clock"):  # the clock's share is capped by the limit of the mode as well
            expected = 1.0 if event.family == "dram" else voltage**2
            assert b == pytest.approx(a * expected), event.name


@pytest.mark.parametrize("architecture", MINIMA)
def test_what_the_clock_drives_adds_up_to_it(architecture: str) -> None:
    """Its power is the device's, however it is split; each share has a spread and a source."""
    arch = known_architectures.get(architecture)
    parts, events = arch.data.clock, [arch.events[row] for row in arch.timed_rows]
    assert [event.name for event in events] == list(parts)
    assert sum(part.value for part in parts.values()) == pytest.approx(1.0)
    for part in parts.values():
        assert 0 < part.low <= part.value <= part.high < 1
        assert part.source
        assert part.works in ("matrix", "vector", "compute", "chip", "dram")
    assert all(event.component == "memory" for event in events if parts[event.name].works in ("chip", "dram"))
