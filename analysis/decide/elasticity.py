"""What matters: by how much per cent latency, energy and their product change per cent of each fact and price.

Elasticities d ln(metric) / d ln(fact) by re-evaluation, a step of 5 % to either side; what follows from a fact on a
what-if device (hardware/what_if.py) follows here too. A fact that does nothing is told with what keeps it from it.
"""

from __future__ import annotations

import msgspec

from analysis.decide.knobs import Bench, amount, cost, facts, prices
from analysis.run.estimate import Estimate
from analysis.run.figures import Head, about
from hardware.errors import RequestError
from hardware.quantity import of_fact

NOTHING = 0.01  # an elasticity below which a fact does nothing
WAKES = 0.05  # one at which it does something
FAR = 64.0  # as far as the fact in the way is turned
_SPEEDS = (
    "memory_bandwidth",
    "last_level_bandwidth",
    "matrix",
    "vector",
    "units",
    "clock_hz",
    "launch_s",
    "dispatch_s",
)


class Elasticity(msgspec.Struct, frozen=True, kw_only=True):
    """Of one fact, or the price of one event. `says` what must change before a speed does anything."""

    name: str
    value: float
    unit: str
    is_price: bool
    latency: float
    energy: float
    edp: float
    says: str = ""


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
    slopes = {name: bench.slopes({}, name) for name in (*facts(result.device), *prices(result))}
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
    """What must change before a fact does anything to latency: the fact that does most to it, and how far."""
    others = [other for other in _SPEEDS if other in slopes and other != name]
    most = max(others, key=lambda other: abs(slopes[other]["latency"]), default="")
    if not most or abs(slopes[most]["latency"]) < NOTHING:
        return ""
    better = FAR if slopes[most]["latency"] < 0 else 1 / FAR

    def wakes(factor: float) -> bool:
        try:
            slope = bench.slopes({most: factor}, name)
        except RequestError:
            return False
        return slope is not None and abs(slope["latency"]) >= WAKES

    if not wakes(better):
        return f"does nothing however far {most} goes"
    asleep, awake = 1.0, better
    for _ in range(8):
        middle = (asleep * awake) ** 0.5
        asleep, awake = (asleep, middle) if wakes(middle) else (middle, awake)
    way = "above" if better > 1 else "below"
    return f"does nothing until {most} is {way} {_amount(bench, most, awake)}"


def _amount(bench: Bench, name: str, factor: float) -> str:
    fact = bench.device.facts.get(name)
    return f"{factor:.2g} x what it is" if fact is None else of_fact(fact.value * factor, fact.unit)
