"""How likely one device beats another where bands overlap, and the one measurement that would settle it.

The logarithm of what would be measured is taken as normal, its middle that of the band; errors of estimates that share
constants (a device, a runtime) move together (odds.toml)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import log, sqrt
from pathlib import Path
from statistics import NormalDist

import msgspec

from analysis.estimate.estimate import Estimate
from hardware import files
from hardware.architectures.data import Constant

BEATS = {"latency": "is quicker", "energy": "takes less energy"}
DOUBT = (0.05, 0.95)  # odds between which a measurement is worth its trouble
_LEAST = 1e-6  # of a figure: where its band begins at nothing


class Odds(msgspec.Struct, frozen=True, kw_only=True):
    """That `device` beats `other` in a metric; in doubt, the `measurement` that would settle it, else empty."""

    metric: str
    device: str
    other: str
    probability: float
    measurement: str


@lru_cache(maxsize=1)
def _constants() -> dict[str, float]:
    rows = files.table(Path(__file__).with_suffix(".toml"))
    return {name: msgspec.convert(row, Constant).value for name, row in rows.items()}


def probability(a: Estimate, b: Estimate, metric: str) -> float:
    """That what would be measured of `a` is less than of `b`, 0 to 1; half for the same run, and the two ways round
    add up to one."""
    (middle_a, spread_a), (middle_b, spread_b) = _logarithm(a, metric), _logarithm(b, metric)
    together = correlation(a, b) * spread_a * spread_b
    spread = sqrt(max(spread_a**2 + spread_b**2 - 2.0 * together, 0.0))
    gap = middle_b - middle_a
    if spread == 0.0:
        return 0.5 if gap == 0.0 else float(gap > 0)
    return 0.5 if gap == 0.0 else NormalDist().cdf(gap / spread)


def _logarithm(one: Estimate, metric: str) -> tuple[float, float]:
    """Middle and standard deviation of the logarithm of what would be measured."""
    return _middle_and_spread(
        *((one.latency_s, one.latency_band_s) if metric == "latency" else (one.energy_j, one.energy_band_j))
    )


def _middle_and_spread(value: float, band: tuple[float, float]) -> tuple[float, float]:
    low, high = (log(max(end, value * _LEAST)) for end in band)
    deviations = NormalDist().inv_cdf(0.5 + _constants()["coverage"] / 2.0)
    return (low + high) / 2.0, (high - low) / 2.0 / deviations


def correlation(a: Estimate, b: Estimate) -> float:
    """Of the errors of two estimates."""
    if a.device.key == b.device.key and a.scenario == b.scenario:
        return 1.0
    if a.device.id == b.device.id and a.runtime.id == b.runtime.id:
        return _constants()["same_device"]
    return _constants()["same_runtime"] if a.runtime.id == b.runtime.id else 0.0


def odds(results: Sequence[Estimate], reference: Estimate) -> tuple[Odds, ...]:
    """Each device against the reference, in each metric, where both could run it."""
    rivals = [each for each in results if each is not reference and each.fits and reference.fits]
    return tuple(_odds(each, reference, metric) for each in rivals for metric in BEATS)


def odds_of_being_best(one: Estimate, rivals: Sequence[Estimate], metric: str) -> float:
    """That `one` beats all its rivals, at most: that it beats the one that comes closest."""
    return min((probability(one, each, metric) for each in rivals if each is not one), default=1.0)


def odds_below(value: float, band: tuple[float, float], limit: float) -> float:
    """That what would be measured of a figure with such a band is at most a limit."""
    middle, spread = _middle_and_spread(value, band)
    return NormalDist(middle, spread).cdf(log(limit)) if spread else float(log(limit) >= middle)


def _odds(a: Estimate, b: Estimate, metric: str) -> Odds:
    chance = probability(a, b, metric)
    settled = "" if not DOUBT[0] < chance < DOUBT[1] else _measurement(a, b, metric)
    return Odds(metric=metric, device=a.device.key, other=b.device.key, probability=chance, measurement=settled)


def _measurement(a: Estimate, b: Estimate, metric: str) -> str:
    """What is worth measuring: of what exists, the run whose own figure is the less certain; '' where neither does."""
    real = [each for each in (a, b) if each.device.silicon]
    if not real:
        return ""
    one = max(real, key=lambda each: _logarithm(each, metric)[1])
    run = f"{one.workload.name} at batch {one.scenario.batch}, {one.precision_run}, with {one.runtime.name}"
    return f"{metric} of {run} on {one.device.key}"


def odds_sentence(found: Sequence[Odds]) -> str:
    """`odds 62 % that it is quicker, 90 % that it takes less energy`; '' where nothing is in doubt."""
    doubtful = (each for each in found if DOUBT[0] < each.probability < DOUBT[1])
    said = ", ".join(f"{each.probability:.0%} that it {BEATS[each.metric]}" for each in doubtful)
    return f"odds {said}" if said else ""


def deciding_measurement(found: Sequence[Odds]) -> str:
    """The one measurement that most is to be had from: that of the closest contest; '' where nothing is in doubt."""
    doubtful = [each for each in found if each.measurement]
    if not doubtful:
        return ""
    closest = min(doubtful, key=lambda each: abs(each.probability - 0.5))
    return f"closest call, {closest.device} against {closest.other}: measure the {closest.measurement}"
