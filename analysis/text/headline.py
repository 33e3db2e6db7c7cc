"""Headlines: what distinguishes a device among others, as `fastest · 4x less energy` or `27x slower`."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from analysis.estimate.causes import COMPUTE, DRAM, LAUNCH, ON_CHIP, THROTTLED, causes
from analysis.estimate.estimate import Estimate
from hardware.quantity import quantity

SAME = 1.05  # ratio below which two figures count as equal
WAIT_MIN = 0.4  # share of the latency from which a device is said to wait on a cause
_WAITS = {
    COMPUTE: "computes",
    ON_CHIP: "waits on on-chip memory",
    DRAM: "waits on DRAM",
    LAUNCH: "waits on launches",
    THROTTLED: "slowed by its power limit",
}


def ratio(value: float) -> str:
    """Write a ratio above 1: `1.4x`, `27x`, `3,120x`."""
    return f"{value:.1f}x" if value < 9.95 else f"{value:,.0f}x"


def headlines(results: Sequence[Estimate], reference: Estimate) -> tuple[str, ...]:
    """Return a headline for each device. Neither a design target nor a device without room for the model wins."""
    return tuple(" · ".join(_parts(result, results, reference)) for result in results)


def _parts(result: Estimate, results: Sequence[Estimate], reference: Estimate) -> list[str]:
    if not result.fits:
        needs, has = result.peak_memory_bytes, result.device.memory_bytes
        return [f"needs {quantity(needs, 'byte')}, has {quantity(has, 'byte')}"]
    rivals = [other for other in results if other.can_win and other.device.silicon]
    wins = _wins(result, rivals) if len(rivals) > 1 and result.device.silicon else []
    if result is reference:
        return [*wins[:1], *_waits(result)] if wins else _waits(result) or wins
    speed = reference.latency_s / (result.latency_s or 1.0)
    energy = reference.energy_j / (result.energy_j or 1.0)
    fast = [] if "fastest" in wins else _compare_factor(speed, "faster", "slower")
    cheap = [] if "least energy" in wins else _compare_factor(energy, "less energy", "the energy")
    parts = [*wins, *cheap, *fast] if wins else [*fast, *cheap]
    return parts[:2] or _waits(result) or ["as the baseline"]


def _wins(result: Estimate, rivals: Sequence[Estimate]) -> list[str]:
    titles = {"fastest": "latency_s", "least energy": "energy_j"}
    return [title for title, name in titles.items() if result is min(rivals, key=attrgetter(name))]


def _compare_factor(factor: float, better: str, worse: str) -> list[str]:
    if 1 / SAME < factor < SAME:
        return []
    return [f"{ratio(factor)} {better}"] if factor > 1 else [f"{ratio(1 / factor)} {worse}"]


def _waits(result: Estimate) -> list[str]:
    time_s = causes(result).sum_over(slice(None)).time_s
    cause = int(time_s.argmax())
    share = float(time_s[cause]) / (result.latency_s or 1.0)
    return [f"{_WAITS[cause]} {share * 100:.0f} %"] if share >= WAIT_MIN else []
