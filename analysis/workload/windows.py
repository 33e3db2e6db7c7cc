"""Attention that sees a limited number of tokens: the live dimensions that follow from its window."""

from __future__ import annotations


def attended_dim(window: int) -> str:
    """The live dimension: tokens that a new one sees through a window, in the mean over the new ones."""
    return f"attended_{window}"


def cached_dim(window: int) -> str:
    """The live dimension: earlier tokens that a cache keeps for a window."""
    return f"cached_{window}"


def through_window(window: int, sequence: float, kv: float) -> dict[str, float]:
    """Both dimensions of a window, from the new tokens and those before them."""
    growing = min(max(window - kv, 0.0), sequence)  # new tokens before which fewer than a window stand
    seen = growing * kv + growing * (growing + 1.0) / 2.0 + (sequence - growing) * window
    return {attended_dim(window): seen / sequence, cached_dim(window): min(kv, float(window))}
