"""Elasticities: per cent of latency, energy and their product per per cent of each fact and price of a device.

d ln(metric) / d ln(fact) by re-evaluation, a step of 5 % to either side, on what-if devices (hardware/what_if.py).
"""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

from analysis.document import column, record
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields
from analysis.explore.tuning.knob_bench import KnobBench, facts, knob_value, node_cost, prices
from hardware.errors import RequestError
from hardware.quantity import of_fact

EFFECT_MIN = 0.01  # an elasticity below which a fact has no effect
EFFECT_AWAKE = 0.05  # an elasticity from which it has one
_FACTOR_MAX = 64.0  # of another fact that is changed to give this one an effect
_TRIED = 3  # other facts, those with the largest effect first
_OVERHEADS = ("launch_s", "launch_cycles", "dispatch_s")
_SPEEDS = ("memory_bandwidth", "last_level_bandwidth", "matrix", "vector", "units", "clock_hz", *_OVERHEADS)


class Elasticity(msgspec.Struct, frozen=True, kw_only=True):
    """Elasticities of one fact or event price. `says` what must change before a speed has any effect."""

    name: Annotated[str, column("Fact or price", help="of the device; `tile.mac`: what one event costs")]
    value: float
    unit: str
    is_price: bool
    latency: Annotated[
        float, column("Latency %/%", help="per cent of the latency per per cent of the fact: -1 halves it")
    ]
    energy: Annotated[float, column("Energy %/%", help="per cent of the energy per inference per per cent of the fact")]
    edp: Annotated[float, column("EDP %/%", help="per cent of energy times latency: the sum of both")]
    says: Annotated[str, column("", keep=3, help="what must change before a fact does anything")] = ""


class Elasticities(Head, frozen=True, kw_only=True):
    """The document of `hwexplorer elasticity`: sorted by the effect on the EDP of the node `at` ('' the model)."""

    at: str
    latency_s: float
    energy_j_per_inference: float
    edp_js: float
    elasticities: tuple[Elasticity, ...]


def elasticities(result: Estimate, path: str = "") -> Elasticities:
    """Compute the elasticities of an estimate or one of its nodes, by some hundred estimates on changed devices."""
    bench = KnobBench(result.workload, result.device, result.scenario, path)
    slopes = {name: bench.slopes({}, name) for name in (*facts(result.device, every=True), *prices(result, least=0.0))}
    known = {name: slope for name, slope in slopes.items() if slope is not None}
    rows = [_row(bench, result, name, known) for name in known]
    here = node_cost(result, path)
    ordered = tuple(sorted(rows, key=lambda row: (-abs(row.edp), row.is_price, row.name)))
    return record(Elasticities, here, **head_fields(result, on_device=True), at=path, elasticities=ordered)


def _row(bench: KnobBench, result: Estimate, name: str, slopes: dict[str, dict[str, float]]) -> Elasticity:
    slope, now = slopes[name], knob_value(result, name)
    says = _obstacle(bench, name, slopes) if name in _SPEEDS and abs(slope["latency"]) < EFFECT_MIN else ""
    return record(Elasticity, now, name=name, says=says, **slope)


def _obstacle(bench: KnobBench, name: str, slopes: dict[str, dict[str, float]]) -> str:
    """Say which other speed must change before a fact affects latency; '' for a fact that is not used at all."""
    worse = _FACTOR_MAX if name in _OVERHEADS else 1 / _FACTOR_MAX
    if _latency_s(bench, {name: worse}) == _latency_s(bench, {}):
        return ""
    others = [other for other in _SPEEDS if other in slopes and abs(slopes[other]["latency"]) >= EFFECT_MIN]
    others = sorted(others, key=lambda other: -abs(slopes[other]["latency"]))[:_TRIED]
    for other in others:
        way = 1 if slopes[other]["latency"] < 0 else -1
        factor = _awakening_factor(bench, name, other, way)
        if factor is not None:
            fact, side = bench.device.facts.get(other), "above" if way > 0 else "below"
            amount = of_fact(fact.value * bench.nearest_factor(other, factor), fact.unit) if fact else ""
            return f"does nothing until {other} is {side} {amount or f'{factor:.2g} x what it is'}"
    return f"does nothing however far {' or '.join(others)} is turned alone" if others else ""


def _awakening_factor(bench: KnobBench, name: str, other: str, way: int) -> float | None:
    """Return the least factor of another fact (`way` -1: the largest below 1) with which a fact has an effect."""

    def is_awake(step: float) -> bool:
        try:
            slope = bench.slopes({other: 2.0 ** (way * step)}, name)
        except RequestError:  # no such device
            return False
        return slope is not None and abs(slope["latency"]) >= EFFECT_AWAKE

    awake = next((float(step) for step in range(1, 1 + int(math.log2(_FACTOR_MAX))) if is_awake(step)), None)
    if awake is None:
        return None
    asleep = awake - 1.0
    for _ in range(6):
        middle = (asleep + awake) / 2
        asleep, awake = (asleep, middle) if is_awake(middle) else (middle, awake)
    return float(2.0 ** (way * awake))


def _latency_s(bench: KnobBench, factors: dict[str, float]) -> float | None:
    try:
        return bench.cost(factors).latency_s
    except RequestError:
        return None
