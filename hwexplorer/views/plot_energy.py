"""The energy roofline: operators by arithmetic intensity and FLOP per joule, under the roofs of all devices.

A roof is what a device would reach if only the arithmetic of its contractions, the bytes of its memory and its
static power cost energy: 1 / (e_flop + e_byte / intensity + static power x seconds per FLOP at the roofline). How
far a point lies below it is what everything else costs: instructions, registers, caches, clocks, launches.
"""

from __future__ import annotations

import msgspec
import numpy as np

from analysis.run.estimate import Estimate
from analysis.workload.workload import Floats
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views import plot as roofline
from hwexplorer.views.compare import label
from hwexplorer.views.plain import Plot, Series

PLACES = 32  # of a roof, which is a curve
_MACS = ("mac", "tensor_mac")


class Roof(msgspec.Struct, frozen=True):
    """What bounds the efficiency of a device: J per FLOP and per byte, W, FLOP/s, byte/s."""

    flop_j: float
    byte_j: float
    static_w: float
    peak: float
    bandwidth: float

    @property
    def balance(self) -> float:
        """The intensity at which bytes cost as much as arithmetic, FLOP/byte."""
        return self.byte_j / self.flop_j

    def at(self, intensity: Floats, static: bool = True) -> Floats:
        """FLOP per joule."""
        seconds = np.maximum(1 / self.peak, 1 / (self.bandwidth * intensity))
        found: Floats = 1 / (self.flop_j + self.byte_j / intensity + (self.static_w * seconds if static else 0.0))
        return found


def roof(result: Estimate) -> Roof:
    unit = roofline.contraction(result)[0]
    prices = dict(zip(result.events, result.run.prices.value.tolist(), strict=True))
    mac = next(price for event, price in prices.items() if event.family in _MACS and event.argument == unit)
    dram = [price for event, price in prices.items() if event.family == "dram"]
    static = sum(price for event, price in prices.items() if event.family == "static")
    peak, bandwidth = roofline.peak(result), result.device.memory_bandwidth
    return Roof(mac / 2, sum(dram) / len(dram), static, peak, bandwidth)


def energy_roofs(state: State) -> Plot:
    """The operators on the device under the cursor under the energy roofs of all devices."""
    result = engine.result(state)
    intensity, rate, shown = roofline.points(result)
    kernels = result.demand.kernel[shown]
    flops = rate * result.run.kernel_s[kernels]
    reached = flops / result.demand.per_kernel(result.run.energy_j)[kernels]
    keys = tuple(result.partition.operator_id[i] for i in shown)
    roofs = {name: roof(engine.result(state, name)) for name in state.devices}
    low = min(float(intensity.min(initial=0.1)), 0.1)
    high = max(float(intensity.max(initial=1000.0)), 4 * max(each.balance for each in roofs.values()))
    places = np.geomspace(low, high, PLACES)
    series = [Series("operators", tuple(intensity.tolist()), tuple(reached.tolist()), keys, keys)]
    series += [_line(name, places, each.at(places)) for name, each in roofs.items()]
    here = roofs[state.on]
    series.append(_line("dynamic only", places, here.at(places, static=False), guide=True))
    balances = ", ".join(f"{name} {each.balance:.0f}" for name, each in roofs.items())
    half = int((reached >= here.at(intensity) / 2).sum()) if len(reached) else 0
    return Plot(
        "energy_roofs",
        f"FLOP per joule of {result.workload.name} on {label(result.device)} under the energy roofs of all devices",
        "FLOP per DRAM byte",
        "FLOP per joule",
        "FLOP/byte",
        "FLOP/J",
        tuple(series),
        notes=(
            f"{half} of {len(reached)} kernels reach half of the roof of {state.on}",
            f"bytes cost as much as arithmetic at (FLOP/byte): {balances}",
        ),
    )


def _line(name: str, x: Floats, y: Floats, guide: bool = False) -> Series:
    return Series(name, tuple(x.tolist()), tuple(y.tolist()), line=True, guide=guide)
