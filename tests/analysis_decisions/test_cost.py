"""Cost: the formulas by hand, and defaults with sources."""

import math
import re

import pytest
from decisions import DEFAULTS, hwexplorer, run

from analysis.explore.cost import PRICES, bill_of, defaults, find_cost, settings
from hardware.base import file_access
from hardware.base.errors import RequestError
from hardware.device_catalog import catalogue_devices


def test_a_million_inferences_by_hand() -> None:
    result = run("resnet18", "h100_sxm", 8)
    by = settings({"electricity": 0.2, "carbon": 100, "overhead": 1.5}, {"h100_sxm": 3.0}, {"h100_sxm": 30_000})
    row = find_cost(result, by)
    kwh = result.energy_j / 8 * 1e6 / 3.6e6 * 1.5
    hours = result.latency_s / 8 * 1e6 / 3600
    assert math.isclose(row.kwh, kwh)
    assert math.isclose(row.electricity_usd, kwh * 0.2)
    assert math.isclose(row.carbon_kg, kwh * 0.1)
    assert math.isclose(row.hire_usd or 0, hours * 3.0)
    assert math.isclose(row.purchase_usd or 0, 30_000 * hours / (4 * 365.25 * 24))
    assert math.isclose(row.total_usd, (row.hire_usd or 0) + (row.purchase_usd or 0))  # hire pays for the power
    assert row.total_low_usd <= row.total_usd <= row.total_high_usd


def test_a_group_costs_what_all_its_devices_do() -> None:
    result = run("llama3_8b:decode,tp=4", "h100_sxm")
    row = find_cost(result, settings(None, {"h100_sxm": 3.0}, {"h100_sxm": 30_000}))
    hours = result.latency_s * 1e6 / 3600
    assert math.isclose(row.kwh, result.energy_j * 1e6 / 3.6e6)
    assert math.isclose(row.hire_usd or 0, 4 * hours * 3.0)
    assert math.isclose(row.purchase_usd or 0, 4 * 30_000 * hours / (4 * 365.25 * 24))


def test_rows_of_a_training_are_sorted_by_its_cost_and_apart_by_the_number_of_devices() -> None:
    text = hwexplorer("compare", "resnet50:train,batch=256", "--on", "l40s,h100_sxm,h100_sxm*8", "--cost").out
    rows = re.findall(r"^(\S+) +[\d.]+ +([\d.]+)", text, re.M)
    assert {name for name, _ in rows} == {"l40s", "h100_sxm", "h100_sxm*8"}
    assert [float(usd) for _, usd in rows] == sorted(float(usd) for _, usd in rows)
    assert float(dict(rows)["h100_sxm*8"]) > 2 * float(dict(rows)["h100_sxm"])  # small shares wait for the host


def test_published_prices_are_dated_have_sources_and_are_of_devices_there_are() -> None:
    table, known = file_access.table(PRICES), {device.id for device in catalogue_devices((), True)}
    for kind in ("hire", "buy"):
        assert set(table[kind]) <= known
        for row in table[kind].values():
            assert 0 < row["low"] <= row["value"] <= row["high"]
            assert row["offers"] >= 1
            assert re.fullmatch(r"20\d\d-\d\d-\d\d", row["date"])
            assert table["sources"][row["source"]]


def test_a_device_without_a_price_says_electricity_only() -> None:
    results = [run("resnet18", on) for on in DEFAULTS]
    report = bill_of(results, settings())
    row = report.rows
    assert row["xeon_8490h"].pays_for == "electricity only"
    assert row["xeon_8490h"].total_usd == row["xeon_8490h"].electricity_usd
    assert row["h100_sxm"].pays_for == "hire"
    assert row["h100_sxm"].total_usd == row["h100_sxm"].hire_usd
    assert row["h100_sxm"].total_low_usd < row["h100_sxm"].total_usd < row["h100_sxm"].total_high_usd
    assert "xeon_8490h" in report.cheapest.partition("No price is known")[2]
    altered = bill_of([run("resnet18", "h100_sxm{units*2}")], settings())
    assert altered.prices == ()


def test_every_default_has_a_source() -> None:
    for entry in defaults().values():
        assert all(entry[name] for name in ("source", "quality", "unit"))
        assert entry["low"] <= entry["value"] <= entry["high"]


@pytest.mark.parametrize(
    "given", [{"electricity": -1}, {"overhead": 0.5}, {"lifetime": 0}, {"duty": 0}, {"duty": 1.5}, {"carbon": -1}]
)
def test_settings_that_cannot_be(given: dict[str, float]) -> None:
    with pytest.raises(RequestError, match="expected"):
        settings(given)


def test_a_device_that_cannot_run_it_is_named_and_not_the_cheapest() -> None:
    bill = bill_of([run("llama3_8b:decode", on, precision="fp32") for on in ("h100_sxm", "rtx_4090")], settings())
    assert bill.rows["rtx_4090"].total_usd < bill.rows["h100_sxm"].total_usd
    assert bill.cheapest.startswith("h100_sxm is cheapest: ")
    assert "does not run on rtx_4090" in bill.cheapest
