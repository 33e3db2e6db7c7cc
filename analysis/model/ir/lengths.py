"""Symbolic dimensions of language models that follow from others: tokens in a window or its cache, experts touched.

A request is a prefill of `sequence` tokens and `output` - 1 steps of one token each. Dimensions that differ between the
two phases have the suffix `DECODING` in the second."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

DECODING = "_decoding"
EXPERTS, EXPERT_ROWS = "experts", "expert_rows"
_CLASSES = [step / 2.0 for step in range(-6, 7)]  # standard deviations of expert log-odds
_SHARES = [math.exp(-z * z / 2.0) for z in _CLASSES]
SHARE = "share"  # sequences of the batch for which one of several devices computes attention


class Routing(msgspec.Struct, frozen=True):
    """The routing of tokens: each chooses `active` of `experts` independently; each of `devices` holds an equal number
    of experts. Popularity differs: the log-odds of a choice have the standard deviation `spread` over experts."""

    experts: int
    active: int
    devices: int = 1
    spread: float = 0.0

    def mean_load(self, tokens: float) -> float:
        """Return the ratio of experts read by the average device to those read by the busiest."""
        read = msgspec.structs.replace(self, devices=1).expert_load(tokens)[0] / self.devices
        return read / (self.expert_load(tokens)[0] or 1.0)

    def expert_load(self, tokens: float) -> tuple[float, float]:
        """Return the mean number of distinct experts that `tokens` touch, and the tokens at each. For D > 1 devices
        both are of the busiest: its number of choices is sqrt(2 ln D) standard deviations above the mean m of all
        devices. The variance is m for chance plus a term for the popularity of its experts."""
        return _expert_load(self, tokens)


@lru_cache(4096)
def _expert_load(routing: Routing, tokens: float) -> tuple[float, float]:
    experts, active, devices = routing.experts, routing.active, routing.devices
    chances = popularity(experts, active, routing.spread)
    here, mean, times = experts / devices, tokens * active / devices, tokens
    if devices > 1 and tokens:
        square = sum(share * chance**2 for share, chance in chances) * (experts / active) ** 2
        variance = mean + mean**2 * max(square - 1.0, 0.0) / here
        busiest = mean + math.sqrt(2.0 * math.log(devices) * variance)
        times *= min(busiest, tokens * min(active, here)) / mean
    touched = here * (1.0 - sum(share * (1.0 - chance) ** times for share, chance in chances))
    return touched, times * active / devices / touched if touched else 0.0


@lru_cache(256)
def popularity(experts: int, active: int, spread: float) -> tuple[tuple[float, float], ...]:
    """Return classes of experts: the share of all experts in each class, and the chance that a token chooses a given
    expert of it. The mean chance is active / experts."""
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
    """Return the name of the dimension for tokens seen through a window, averaged over the new tokens."""
    return f"attended_{window}{phase}"


def cached_dim(window: int, phase: str = "") -> str:
    """Return the name of the symbolic dimension for earlier tokens that the cache holds for a window."""
    return f"cached_{window}{phase}"


def through_window(window: int, sequence: float, kv: float) -> float:
    """Return the mean number of tokens that `sequence` new tokens after `kv` others see, each including itself."""
    growing = min(max(window - kv, 0.0), sequence)  # new tokens with fewer than `window` tokens before them
    return (growing * kv + growing * (growing + 1.0) / 2.0 + (sequence - growing) * window) / sequence


def steps(output: float) -> float:
    """Return the decoding steps of a request: the prefill generates the first token."""
    return max(output - 1.0, 0.0)


def derived(values: Mapping[str, float], windows: Sequence[int], routing: Routing | None) -> dict[str, float]:
    """Return the dimensions that follow from `values` (`batch`, `sequence`, and `kv` or `output`), by name: tokens seen
    through each window and cached for it, experts touched and tokens at each. Names for decoding have its suffix."""
    sequence, lengths = values.get("sequence", 1.0), dict[str, float]()
    if routing is not None and routing.devices > 1:
        lengths[SHARE] = math.ceil(values["batch"] / routing.devices)
    # Suffix, new tokens to average windows over, tokens before them, new tokens in one step.
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
