"""The energy roofline: kernels by arithmetic intensity and FLOP per joule, under the energy roofs of all devices."""

from __future__ import annotations

import numpy as np

from analysis.model.ir.workload import Floats
from analysis.reports.roofline_report import efficiencies, energy_roof, points
from hwexplorer import engine
from hwexplorer.plots.roofline import operators, span, under_roofs
from hwexplorer.state import State
from hwexplorer.views.captions import MARKED
from hwexplorer.views.plain import Plot, Series

PLACES = 32  # of a roof, which is a curve


def plot(state: State) -> Plot:
    """The operators on the device under the cursor under the energy roofs of all devices."""
    result, shown = engine.result(state), points(engine.result(state))
    reached = efficiencies(result, shown)
    roofs = {name: energy_roof(engine.result(state, name)) for name in state.devices}
    places = np.geomspace(*span(shown.intensity, 4 * max(each.balance for each in roofs.values())), PLACES)
    here = roofs[state.on]
    series = [
        operators(state, result, shown.operator, shown.intensity, reached),
        *(_line(MARKED[n], places, each.flop_per_joule(places), device=i) for i, (n, each) in enumerate(roofs.items())),
        _line("dynamic only", places, here.flop_per_joule(places, static=False), guide=True),
    ]
    balances = ", ".join(f"{MARKED[name]} {each.balance:.0f}" for name, each in roofs.items())
    half = int((reached >= here.flop_per_joule(shown.intensity) / 2).sum()) if len(reached) else 0
    return under_roofs(
        "energy_roofs",
        f"FLOP per joule of {result.workload.name} on {result.device.label} under the energy roofs of all devices",
        series,
        f"{half} of {len(reached)} kernels reach half of the roof of {MARKED[state.on]}",
        f"bytes cost as much as arithmetic at (FLOP/byte): {balances}",
        rate="FLOP per joule",
        unit="FLOP/J",
    )


def _line(name: str, x: Floats, y: Floats, guide: bool = False, device: int = -1) -> Series:
    return Series(name, tuple(x.tolist()), tuple(y.tolist()), line=True, guide=guide, device=device)
