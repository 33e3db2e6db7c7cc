"""Live dimensions of language models that follow from others: tokens in a window or its cache, experts touched.

A request is a prefill of `sequence` tokens and `output` - 1 steps of one token each; what differs between its phases
has a name of its own in the second (`DECODING`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

DECODING = "_decoding"
EXPERTS, EXPERT_ROWS = "experts", "expert_rows"
SHARE = "share"  # sequences of the batch that one of several devices attends to


class Routing(msgspec.Struct, frozen=True):
    """Tokens choose `active` of `experts`, evenly and independently; `devices` have as many of the experts each."""

    experts: int
    active: int
    devices: int = 1

    def expert_load(self, tokens: float) -> tuple[float, float]:
        """Return the mean number of distinct experts that so many tokens touch, E (1 - (1 - k/E)^T), and the tokens at
        each; of several devices the busiest's: sqrt(2 m ln D) choices above the mean m of all D."""
        if self.devices > 1:
            here, mean = self.experts / self.devices, tokens * self.active / self.devices
            chosen = min(mean + math.sqrt(2.0 * mean * math.log(self.devices)), tokens * self.active)
            touched = here * (1.0 - (1.0 - 1.0 / here) ** chosen)
            return touched, chosen / touched if touched else 0.0
        touched = self.experts * (1.0 - (1.0 - self.active / self.experts) ** tokens)
        return touched, tokens * self.active / touched if touched else 0.0


def attended_dim(window: int, phase: str = "") -> str:
    """Return the name of the dimension for tokens that a new one sees through a window, averaged over the new."""
    return f"attended_{window}{phase}"


def cached_dim(window: int, phase: str = "") -> str:
    """Return the name of the live dimension for earlier tokens that a cache keeps for a window."""
    return f"cached_{window}{phase}"


def through_window(window: int, sequence: float, kv: float) -> float:
    """Tokens that a new one sees, itself included, in the mean over `sequence` new ones after `kv` others."""
    growing = min(max(window - kv, 0.0), sequence)  # new tokens before which fewer than a window stand
    return (growing * kv + growing * (growing + 1.0) / 2.0 + (sequence - growing) * window) / sequence


def steps(output: float) -> float:
    """Tokens generated one by one: the first comes with the prefill."""
    return max(output - 1.0, 0.0)


def derived(values: Mapping[str, float], windows: Sequence[int], routing: Routing | None) -> dict[str, float]:
    """Return the dimensions that follow from those given (`batch`, `sequence`, and `kv` or `output`)."""
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
