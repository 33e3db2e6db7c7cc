"""Live dimensions of language models that follow from others: tokens in a window or its cache, experts touched.

A request is a prefill of `sequence` tokens and `output` - 1 steps of one token each; what differs between its phases
has a name of its own in the second (`DECODING`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

DECODING = "_decoding"
EXPERTS, EXPERT_ROWS = "experts", "expert_rows"
_CLASSES = [step / 2.0 for step in range(-6, 7)]  # of experts by popularity: standard deviations from the mean log-odds
_SHARES = [math.exp(-z * z / 2.0) for z in _CLASSES]
SHARE = "share"  # sequences of the batch that one of several devices attends to


class Routing(msgspec.Struct, frozen=True):
    """Tokens choose `active` of `experts` independently; `devices` have as many of the experts each. Some experts are
    more popular than others: the log-odds of a choice have the standard deviation `spread`."""

    experts: int
    active: int
    devices: int = 1
    spread: float = 0.0

    def mean_load(self, tokens: float) -> float:
        """Return the experts that the mean device reads over those of the busiest."""
        read = msgspec.structs.replace(self, devices=1).expert_load(tokens)[0] / self.devices
        return read / (self.expert_load(tokens)[0] or 1.0)

    def expert_load(self, tokens: float) -> tuple[float, float]:
        """Return the mean number of distinct experts that so many tokens touch, and the tokens at each; of several
        devices the busiest's: its choices are sqrt(2 ln D) standard deviations above the mean m of all D, with the
        variance m of chance and that of the popularity of its experts."""
        chances = popularity(self.experts, self.active, self.spread)
        here, mean, times = self.experts / self.devices, tokens * self.active / self.devices, tokens
        if self.devices > 1 and tokens:
            square = sum(share * chance**2 for share, chance in chances) * (self.experts / self.active) ** 2
            variance = mean + mean**2 * max(square - 1.0, 0.0) / here
            busiest = mean + math.sqrt(2.0 * math.log(self.devices) * variance)
            times *= min(busiest, tokens * min(self.active, here)) / mean
        touched = here * (1.0 - sum(share * (1.0 - chance) ** times for share, chance in chances))
        return touched, times * self.active / self.devices / touched if touched else 0.0


@lru_cache(256)
def popularity(experts: int, active: int, spread: float) -> tuple[tuple[float, float], ...]:
    """Return classes of experts: their share of all experts, and the chance that a token chooses one of them, in the
    mean active / experts."""
    if not spread or active >= experts:
        return ((1.0, active / experts),)
    shares = [share / sum(_SHARES) for share in _SHARES]
    low, high = -50.0, 50.0
    for _ in range(80):  # bisection of the mean log-odds
        middle = (low + high) / 2.0
        chances = [1.0 / (1.0 + math.exp(-middle - spread * z)) for z in _CLASSES]
        mean = sum(share * chance for share, chance in zip(shares, chances, strict=True))
        low, high = (middle, high) if mean < active / experts else (low, middle)
    return tuple(zip(shares, chances, strict=True))


def attended_dim(window: int, phase: str = "") -> str:
    """Return the name of the dimension for tokens that a new one sees through a window, averaged over the new."""
    return f"attended_{window}{phase}"


def cached_dim(window: int, phase: str = "") -> str:
    """Return the name of the symbolic dimension for earlier tokens that a cache keeps for a window."""
    return f"cached_{window}{phase}"


def through_window(window: int, sequence: float, kv: float) -> float:
    """Tokens that a new one sees, itself included, in the mean over `sequence` new ones after `kv` others."""
    growing = min(max(window - kv, 0.0), sequence)  # new tokens before which fewer than a window stand
    return (growing * kv + growing * (growing + 1.0) / 2.0 + (sequence - growing) * window) / sequence


def steps(output: float) -> float:
    """Tokens generated one by one: the first comes with the prefill."""
    return max(output - 1.0, 0.0)


def derived(values: Mapping[str, float], windows: Sequence[int], routing: Routing | None) -> dict[str, float]:
    """Return the dimensions that follow from those given (`batch`, `sequence`, and `kv` or `output`), by name: tokens
    seen through each window and kept for it, experts touched and tokens at each; those of decoding have its suffix."""
    sequence, lengths = values.get("sequence", 1.0), dict[str, float]()
    if routing is not None and routing.devices > 1:
        lengths[SHARE] = math.ceil(values["batch"] / routing.devices)
    # Suffix, new tokens over which windows are averaged, tokens before them, new tokens of one step.
    phases = [("", sequence, values.get("kv", 0.0), sequence)]
    if "output" in values:
        phases.append((DECODING, max(steps(values["output"]), 1.0), sequence, 1.0))
    for suffix, new, before, at_once in phases:
        for window in windows:
            lengths[attended_dim(window, suffix)] = through_window(window, new, before)
            lengths[cached_dim(window, suffix)] = min(before + (new - 1.0) / 2.0 if suffix else before, float(window))
        if routing is not None:
            experts, rows = routing.expert_load(values["batch"] * at_once)
            lengths |= {EXPERTS + suffix: experts, EXPERT_ROWS + suffix: rows}
    return lengths
