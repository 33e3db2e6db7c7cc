"""What matters: by how much per cent latency, energy and their product change per cent of each fact and price.

Elasticities d ln(metric) / d ln(fact) by re-evaluation, a step of 5 % to either side; what follows from a fact on a
what-if device (hardware/what_if.py) follows here too. A fact that does nothing is told with what keeps it from it.
"""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

from analysis.document import column
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, about
from analysis.explore.tuning.knob_bench import Bench, amount, cost, facts, prices
from hardware.errors import RequestError
from hardware.quantity import of_fact

NOTHING = 0.01  # an elasticity below which a fact does nothing
WAKES = 0.05  # one at which it does something
FAR = 64.0  # as far as a fact in the way is turned
_TRIED = 3  # facts in the way, those first that do most
_OVERHEADS = ("launch_s", "launch_cycles", "dispatch_s")
_SPEEDS = (
    "memory_bandwidth",
    "last_level_bandwidth",
    "matrix",
    "vector",
    "units",
    "clock_hz",
    *_OVERHEADS,
)


class Elasticity(msgspec.Struct, frozen=True, kw_only=True):
    """Of one fact, or the price of one event. `says` what must change before a speed does anything."""

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
    """Sorted by what they do to the energy-delay product of the node `at` ('' the model)."""

    at: str
    latency_s: float
    energy_j_per_inference: float
    edp_js: float
    elasticities: tuple[Elasticity, ...]


def elasticities(result: Estimate, path: str = "") -> Elasticities:
    """Of a run, or one node of it: some hundred evaluations of it on changed devices."""
    bench = Bench(result.workload, result.device, result.scenario, path)
    slopes = {name: bench.slopes({}, name) for name in (*facts(result.device, every=True), *prices(result, least=0.0))}
    turned = {name: slope for name, slope in slopes.items() if slope is not None}
    found = [_row(bench, result, name, turned) for name in turned]
    here = cost(result, path)
    return Elasticities(
        **about(result, on_device=True),
        at=path,
        latency_s=here.latency_s,
        energy_j_per_inference=here.energy_j,
        edp_js=here.edp_js,
        elasticities=tuple(sorted(found, key=lambda row: (-abs(row.edp), row.is_price, row.name))),
    )


def _row(bench: Bench, result: Estimate, name: str, slopes: dict[str, dict[str, float]]) -> Elasticity:
    slope, now = slopes[name], amount(result, name)
    says = _until(bench, name, slopes) if name in _SPEEDS and abs(slope["latency"]) < NOTHING else ""
    return Elasticity(name=name, value=now.value, unit=now.unit, is_price=now.is_price, says=says, **slope)


def _until(bench: Bench, name: str, slopes: dict[str, dict[str, float]]) -> str:
    """What must change before a fact does anything to latency: of the speeds that do something, that which does most
    and lets it; '' for one that is not used at all."""
    worse = FAR if name in _OVERHEADS else 1 / FAR
    if _latency(bench, {name: worse}) == _latency(bench, {}):
        return ""
    others = [other for other in _SPEEDS if other in slopes and abs(slopes[other]["latency"]) >= NOTHING]
    others = sorted(others, key=lambda other: -abs(slopes[other]["latency"]))[:_TRIED]
    for other in others:
        way = 1 if slopes[other]["latency"] < 0 else -1
        factor = _wakes(bench, name, other, way)
        if factor is not None:
            return f"does nothing until {other} is {'above' if way > 0 else 'below'} {_amount(bench, other, factor)}"
    return f"does nothing however far {' or '.join(others)} is turned alone" if others else ""


def _wakes(bench: Bench, name: str, other: str, way: int) -> float | None:
    """The least factor (`way` -1: the largest one below 1) of another fact with which one does something."""

    def is_awake(step: float) -> bool:
        try:
            slope = bench.slopes({other: 2.0 ** (way * step)}, name)
        except RequestError:  # no such chip
            return False
        return slope is not None and abs(slope["latency"]) >= WAKES

    awake = next((float(step) for step in range(1, 1 + int(math.log2(FAR))) if is_awake(step)), None)
    if awake is None:
        return None
    asleep = awake - 1.0
    for _ in range(6):
        middle = (asleep + awake) / 2
        asleep, awake = (asleep, middle) if is_awake(middle) else (middle, awake)
    return float(2.0 ** (way * awake))


def _latency(bench: Bench, factors: dict[str, float]) -> float | None:
    try:
        return bench.cost(factors).latency_s
    except RequestError:
        return None


def _amount(bench: Bench, name: str, factor: float) -> str:
    fact = bench.device.facts.get(name)
    if fact is None:
        return f"{factor:.2g} x what it is"
    return of_fact(fact.value * bench.possible(name, factor), fact.unit)
