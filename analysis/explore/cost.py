"""Money and carbon of inferences: electricity, hire and purchase.

A million inferences cost time x hire, or energy x price of electricity if nothing is hired (hire includes power), plus
time x purchase / (lifetime x duty). For a model divided among a group of devices, both prices are the group's.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import exp, hypot, inf, log
from pathlib import Path
from typing import Annotated, Any

import msgspec

from analysis.document import column
from analysis.estimate.estimate import Estimate
from hardware.base import file_access
from hardware.base.errors import RequestError
from hardware.base.text import plain_number

PATH = Path(__file__).with_name("cost.toml")
PRICES = Path(__file__).with_name("prices.toml")
ELECTRICITY_ONLY = "electricity only"
KINDS = ("hire", "buy")
MILLION = 1e6
J_PER_KWH = 3.6e6
S_PER_HOUR = 3600.0
S_PER_YEAR = 365.25 * 24 * S_PER_HOUR


class Assumption(msgspec.Struct, frozen=True):
    """One setting and its source."""

    name: str
    value: float
    unit: str
    source: str
    quality: str
    low: float | None = None
    high: float | None = None


class CostSettings(msgspec.Struct, frozen=True):
    """USD per kWh, grams CO2 per kWh, energy overhead (PUE), years, share of the lifetime at work. By device: hire in
    USD per hour and purchase price in USD. `given` names the settings that the user set."""

    electricity: float
    carbon: float
    overhead: float
    lifetime: float
    duty: float
    hourly: dict[str, float] = {}
    purchase: dict[str, float] = {}
    given: tuple[str, ...] = ()

    @property
    def working_s(self) -> float:
        """The time that a device works in its lifetime, s."""
        return self.lifetime * S_PER_YEAR * self.duty


class DevicePrice(msgspec.Struct, frozen=True, kw_only=True):
    """The price of one device in USD, to `hire` for an hour or to `buy`: the median of published offers with the lowest
    and the highest, and the date of reading. A price that the user gave has no date."""

    device: str
    kind: str
    value: float
    low: float
    high: float
    offers: int = 1
    date: str = ""
    source: str
    note: str = ""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a million inferences on one device, or on all that a model is divided among. Hire and purchase are
    None if no price is known. `time_s` is of one device."""

    total_usd: Annotated[float, column("USD", help="sum of what is paid for; the price of hire includes power")]
    total_low_usd: float
    total_high_usd: float
    pays_for: Annotated[str, column("Pays for", help="known prices; electricity alone is not the whole cost")]
    kwh: Annotated[float, column("kWh", keep=2)]
    carbon_kg: Annotated[float, column("CO2 kg/1M", keep=4, help="of the electricity of a million inferences")]
    electricity_usd: Annotated[
        float, column("Electricity USD/1M", keep=4, help="of a million inferences; hire includes it")
    ]
    hire_usd: Annotated[float | None, column("Hire USD/1M", keep=5, help="of a million inferences")]
    purchase_usd: Annotated[
        float | None, column("Purchase USD/1M", keep=5, help="share of the price that a million inferences use up")
    ]
    time_s: Annotated[float, column("Time", "s", keep=6, help="of a million inferences on one device")]
    lifetime_inferences: Annotated[
        float,
        column("In a lifetime", "SI", key="lifetime", role="quantity", keep=6, help="inferences one device can run"),
    ]


class Bill(msgspec.Struct, frozen=True, kw_only=True):
    """State what one model costs on several devices, per million of what is `counted`, or per training: `rows` by
    device, which costs least, and for which no price is known."""

    cheapest: str
    counted: str
    assumptions: tuple[Assumption, ...]
    prices: tuple[DevicePrice, ...]
    rows: dict[str, Cost]


def defaults() -> dict[str, Any]:
    """Return the table of cost.toml: value, low, high, unit, source and quality of each setting."""
    return file_access.shipped(PATH)


@lru_cache(maxsize=1)
def _published() -> dict[tuple[str, str], dict[str, Any]]:
    table = file_access.table(PRICES)
    return {
        (device, kind): {**row, "source": table["sources"][row["source"]]}
        for kind in KINDS
        for device, row in table[kind].items()
    }


def hired_devices() -> frozenset[str]:
    """Return the devices with a published price of hire."""
    return frozenset(device for device, kind in _published() if kind == "hire")


def prices(result: Estimate, by: CostSettings) -> tuple[DevicePrice, ...]:
    """Return the known prices of a device: given ones, else published hire, else a published list price. A changed
    device has no published price; a power mode, a cap or a lock has the price of its device."""
    key = result.device.key
    chip = key if result.device.changes else result.device.id
    given = tuple(
        DevicePrice(device=key, kind=kind, value=usd, low=usd, high=usd, source="given")
        for kind, prices in zip(KINDS, (by.hourly, by.purchase), strict=True)
        if (usd := prices.get(key, prices.get(chip))) is not None
    )
    rows = ((kind, _published().get((chip, kind))) for kind in KINDS)
    return given or tuple(DevicePrice(device=key, kind=kind, **row) for kind, row in rows if row)[:1]


def settings(
    given: Mapping[str, float] | None = None,
    hourly: Mapping[str, float] | None = None,
    purchase: Mapping[str, float] | None = None,
) -> CostSettings:
    """Return the defaults with given values in their place. Raises RequestError for an invalid value."""
    values = {name: float(entry["value"]) for name, entry in defaults().items()}
    values |= given or {}
    for name, least in {"electricity": 0.0, "carbon": 0.0, "overhead": 1.0}.items():  # an overhead of 1 is none
        if values[name] < least:
            raise RequestError(f"{name} {values[name]:g}: expected {least:g} or more")
    for name, most in {"lifetime": inf, "duty": 1.0}.items():
        if not 0 < values[name] <= most:
            raise RequestError(f"{name} {values[name]:g}: expected more than 0" + " and at most 1" * (most == 1.0))
    for what, table in (("hourly price", hourly), ("purchase price", purchase)):
        for device, price in (table or {}).items():
            if price < 0:
                raise RequestError(f"{what} of {device} {price:g}: expected 0 or more")
    return CostSettings(**values, hourly=dict(hourly or {}), purchase=dict(purchase or {}), given=tuple(given or ()))


def find_cost(result: Estimate, by: CostSettings) -> Cost:
    """Return the cost of a million inferences, or of a whole training whose epochs are stated, at the known prices of a
    device; without any, of electricity alone."""
    batch, devices, known = result.scenario.batch, result.workload.devices, prices(result, by)
    step = result.workload.training
    times = ((step and step.settings.epochs * step.settings.samples) or MILLION) / batch
    time_s, kwh = result.latency_s * times, result.energy_j * times / J_PER_KWH * by.overhead
    hire, purchase = (next((p.value * devices for p in known if p.kind == kind), None) for kind in KINDS)
    electricity_usd = kwh * by.electricity
    hire_usd = None if hire is None else time_s / S_PER_HOUR * hire
    purchase_usd = None if purchase is None else purchase * time_s / by.working_s
    paid = {"hire": hire_usd, "purchase": purchase_usd, "electricity": electricity_usd if hire_usd is None else None}
    total_usd = sum(usd for usd in paid.values() if usd is not None)
    low, high = (total_usd + _deviation(result, paid, known, side) for side in (0, 1))
    return Cost(
        total_usd=total_usd,
        total_low_usd=low,
        total_high_usd=high,
        pays_for=", ".join(name for name, usd in paid.items() if usd is not None) if known else ELECTRICITY_ONLY,
        kwh=kwh,
        carbon_kg=kwh * by.carbon / 1000.0,
        electricity_usd=electricity_usd,
        hire_usd=hire_usd,
        purchase_usd=purchase_usd,
        time_s=time_s,
        lifetime_inferences=by.working_s * result.throughput_per_s,
    )


def unit_of(counted: str) -> str:
    """Return what a bill is for, `million inferences`, or the training that it counts."""
    return counted if counted.startswith("training") else f"million {counted}"


def _deviation(result: Estimate, paid: Mapping[str, float | None], known: Sequence[DevicePrice], side: int) -> float:
    """Return how far one end of the band is from the total. Payment by the hour varies with time and price, electricity
    with energy, each independently."""
    time, energy = (
        result.latency_band_s[side] / (result.latency_s or 1.0),
        result.energy_band_j[side] / (result.energy_j or 1.0),
    )
    away = (paid["electricity"] or 0.0) * (energy - 1.0)
    for kind, usd in zip(KINDS, (paid["hire"], paid["purchase"]), strict=True):
        for price in known:
            if price.kind == kind and usd:
                ends = hypot(log(time), log((price.low, price.high)[side] / price.value))
                away += usd * (exp(ends if side else -ends) - 1.0)
    return away


def bill_of(results: Sequence[Estimate], by: CostSettings, on_paper: bool = True, counted: str = "inferences") -> Bill:
    """Compute the cost of one model on several devices, per million of what is `counted`. Without `on_paper`, design
    targets are not the cheapest. Raises RequestError for a price of a device that is not compared."""
    keys = [result.device.key for result in results]
    for name in (*by.hourly, *by.purchase):
        if name not in keys:
            raise RequestError(f"a price is given for {name!r}, which is not among the devices ({', '.join(keys)})")
    rows = {result.key: find_cost(result, by) for result in results}
    counted = step.settings.count(counted) if (step := results[0].workload.training) else counted
    rivals = [result for result in results if result.can_win and (on_paper or result.device.silicon)]
    return Bill(
        cheapest=_cheapest(results, rows, rivals, by, counted),
        counted=counted,
        assumptions=tuple(
            Assumption(name, getattr(by, name), entry["unit"], "given", "given")
            if name in by.given
            else Assumption(name=name, **{**entry, "value": getattr(by, name)})
            for name, entry in defaults().items()
        ),
        prices=tuple(dict.fromkeys(price for result in results for price in prices(result, by))),
        rows=rows,
    )


def _cheapest(
    results: Sequence[Estimate], rows: Mapping[str, Cost], rivals: Sequence[Estimate], by: CostSettings, counted: str
) -> str:
    priced = {one.key: rows[one.key] for one in rivals if prices(one, by)}
    unpriced = [one.key for one in results if not prices(one, by)]
    unfit = [one.key for one in results if not one.can_win]
    parts = []
    if priced:
        name = min(priced, key=lambda key: priced[key].total_usd)
        least = priced[name]
        others = [key for key, row in priced.items() if key != name and row.total_low_usd < least.total_high_usd]
        ends = " to ".join(map(plain_number, (least.total_low_usd, least.total_high_usd)))
        which = "is the cheapest of those with a price" if unpriced else "is cheapest"
        parts.append(
            f"{name} {which}: {plain_number(least.total_usd)} USD per {unit_of(counted)} ({ends}; pays for "
            f"{least.pays_for})."
        )
        if results[0].workload.training and results[0].scenario.batch == 1:
            parts.append("That is at batch 1: state one, as batch=256, which usually costs far less.")
        if others:
            parts.append(f"It is not certain: {', '.join(others)} may cost less, as the ranges overlap.")
    if unpriced:
        parts.append(f"No price is known for {', '.join(unpriced)}: only electricity is counted.")
    if unfit:
        parts.append(f"The model does not run on {', '.join(unfit)} (`compare` says why).")
    return " ".join(parts)
