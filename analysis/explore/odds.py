"""Odds that one device beats another when their bands overlap.

The logarithm of a measured figure is taken as normally distributed, centred in the logarithm of the band. Errors of
estimates that share constants (a device, a runtime) are correlated (odds.toml)."""

from collections.abc import Sequence
from math import exp, log, sqrt
from pathlib import Path
from statistics import NormalDist

import msgspec

from analysis.estimate.estimate import Estimate
from hardware.base import file_access
from hardware.base.text import percent

BEATS = {"latency": "is faster", "energy": "needs less energy"}
DOUBT = (0.05, 0.95)  # odds between which a comparison is in doubt
LOWEST, MOST = 0.01, 0.99  # the odds that are stated at most: bands have tails
SAFE = 0.75  # odds of keeping limits from which a configuration leads a search
_CONSTANTS = Path(__file__).with_suffix(".toml")
LEAST = 1e-6  # fraction of a figure, taken as the low end of a band that begins at 0


class Odds(msgspec.Struct, frozen=True, kw_only=True):
    """The probability that `device` beats `other` in a metric."""

    metric: str
    device: str
    other: str
    probability: float


def _constant(name: str) -> float:
    return float(file_access.shipped(_CONSTANTS)[name]["value"])


def probability(a: Estimate, b: Estimate, metric: str) -> float:
    """Return the probability, 0 to 1, that `a` would be measured below `b`; 0.5 for the same estimate."""
    return odds_of_less(_logarithm(a, metric), _logarithm(b, metric), correlation(a, b))


def odds_of_less(a: tuple[float, float], b: tuple[float, float], correlated: float) -> float:
    """Return the probability that `a` is less than `b`, each the mean and standard deviation of a logarithm."""
    (middle_a, spread_a), (middle_b, spread_b) = a, b
    covariance = correlated * spread_a * spread_b
    spread = sqrt(max(spread_a**2 + spread_b**2 - 2.0 * covariance, 0.0))
    gap = middle_b - middle_a
    if gap == 0.0:
        return 0.5
    return _bound(NormalDist().cdf(gap / spread) if spread else float(gap > 0))


def _bound(probability: float) -> float:
    return min(max(probability, LOWEST), MOST)


def _logarithm(one: Estimate, metric: str) -> tuple[float, float]:
    """Return mean and standard deviation of the logarithm of the measured figure. A device that takes longer than
    estimated also takes more energy, so for EDP the deviations of both factors add up."""
    latency = middle_and_spread(one.latency_s, one.latency_band_s)
    energy = middle_and_spread(one.energy_j, one.energy_band_j)
    if metric == "edp":
        return latency[0] + energy[0], latency[1] + energy[1]
    return latency if metric == "latency" else energy


def wider_band(sides: Sequence[Estimate], metric: str) -> Estimate:
    """Return the estimate with the wider band."""
    return max(sides, key=lambda side: _logarithm(side, metric)[1])


def middle_and_spread(value: float, band: tuple[float, float]) -> tuple[float, float]:
    """Return mean and standard deviation of the logarithm of a figure with such a band."""
    low, high = (log(max(end, value * LEAST)) for end in band)
    return (low + high) / 2.0, (high - low) / 2.0 / _deviations()


def _deviations() -> float:
    """Return the half-width of a band in standard deviations."""
    return NormalDist().inv_cdf(0.5 + _constant("coverage") / 2.0)


def ratio_band(sides: Sequence[tuple[float, tuple[float, float]]], correlated: float) -> tuple[float, float]:
    """Return the band of the first of two figures over the second, each with its band."""
    first, second = (middle_and_spread(*side) for side in sides)
    return _band_of_less(first, second, correlated)


def metric_ratio_band(a: Estimate, b: Estimate, metric: str) -> tuple[float, float]:
    """Return the band of a metric of `a` over that of `b`."""
    return _band_of_less(_logarithm(a, metric), _logarithm(b, metric), correlation(a, b))


def _band_of_less(a: tuple[float, float], b: tuple[float, float], correlated: float) -> tuple[float, float]:
    (middle_a, spread_a), (middle_b, spread_b) = a, b
    half = _deviations() * sqrt(max(spread_a**2 + spread_b**2 - 2.0 * correlated * spread_a * spread_b, 0.0))
    return exp(middle_a - middle_b - half), exp(middle_a - middle_b + half)


def correlation(a: Estimate, b: Estimate) -> float:
    """Return the correlation of the errors of two estimates."""
    if a.device.key == b.device.key and a.scenario == b.scenario:
        return 1.0
    if a.device.id == b.device.id and a.runtime.id == b.runtime.id:
        return _constant("same_device")
    return _constant("same_runtime") if a.runtime.id == b.runtime.id else 0.0


def odds(results: Sequence[Estimate], reference: Estimate) -> tuple[Odds, ...]:
    """Compare each device that the model fits on with the reference, in each metric."""
    rivals = [result for result in results if result is not reference and result.fits and reference.fits]
    return tuple(_odds(result, reference, metric) for result in rivals for metric in BEATS)


def odds_below(value: float, band: tuple[float, float], limit: float) -> float:
    """Return the probability that a figure with such a band would be measured at most at a limit."""
    middle, spread = middle_and_spread(value, band)
    return _bound(NormalDist(middle, spread).cdf(log(limit)) if spread else float(log(limit) >= middle))


def _odds(a: Estimate, b: Estimate, metric: str) -> Odds:
    return Odds(metric=metric, device=a.device.key, other=b.device.key, probability=probability(a, b, metric))


def odds_sentence(found: Sequence[Odds]) -> str:
    """Write `41 % chance it is faster, 90 % sure it needs less energy`; '' if nothing is in doubt."""
    doubtful = (odds for odds in found if DOUBT[0] < odds.probability < DOUBT[1])
    return ", ".join(f"{describe_odds(odds.probability)} it {BEATS[odds.metric]}" for odds in doubtful)


def describe_odds(probability: float) -> str:
    """Write `90 % sure`, or `40 % chance` below one half."""
    return f"{percent(probability)} {'sure' if probability >= 0.5 else 'chance'}"
