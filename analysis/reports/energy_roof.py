"""The energy roofline of a device: FLOP per joule over arithmetic intensity.

A roof is what a device would reach if only the arithmetic of its contractions, the bytes of its memory and its
static power cost energy: 1 / (e_flop + e_byte / intensity + static power x seconds per FLOP at the roofline). How
far a kernel lies below it is what everything else costs: instructions, registers, caches, clocks, launches.
"""

from __future__ import annotations

import msgspec
import numpy as np

from analysis.reports.kernel_rows import kernels
from analysis.reports.roofline import Points, contraction, main_peak
from analysis.run.estimate import Estimate
from analysis.workload.workload import Floats

_MACS = ("mac", "tensor_mac")


class EnergyRoof(msgspec.Struct, frozen=True):
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
        efficiency: Floats = 1 / (self.flop_j + self.byte_j / intensity + (self.static_w * seconds if static else 0.0))
        return efficiency


def energy_roof(result: Estimate) -> EnergyRoof:
    """The roof of the device of an estimate, in the format that most of its contractions run in."""
    unit = contraction(result)[0]
    prices = dict(zip(result.events, result.run.prices.value.tolist(), strict=True))
    mac = next(price for event, price in prices.items() if event.family in _MACS and event.argument == unit)
    dram = [price for event, price in prices.items() if event.family == "dram"]
    static = sum(price for event, price in prices.items() if event.family == "static")
    return EnergyRoof(mac / 2, sum(dram) / len(dram), static, main_peak(result)[1], result.device.memory_bandwidth)


def efficiencies(result: Estimate, of: Points) -> Floats:
    """FLOP per joule that kernels reach."""
    rows = kernels(result)
    return rows.flops[of.kernel] / rows.energy_j[of.kernel]
