"""A toy architecture, to prove that one is a module and a data file: cores in a row, each with beads for a memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hardware.architecture import Architecture
from hardware.demand import Demand, Floats
from hardware.device import Device
from hardware.efficiency import Efficiency
from hardware.mapping.common import Mapping, Traffic, assemble, empty_counts, traffic
from hardware.mapping.tiling import Bools, Tiling, vector_tiling
from hardware.sentence import elements, product
from hardware.setup import Setup


def map_operators(demand: Demand, setup: Setup, rates: Efficiency) -> Mapping:
    device = setup.device
    tiling, nowhere = vector_tiling(demand, setup), np.zeros(demand.n, dtype=np.bool_)
    return assemble(demand, setup, rates, traffic(demand, device), tiling, tiling, nowhere, _counts)


def _counts(demand: Demand, setup: Setup, flow: Traffic, tiling: Tiling, on_matrix: Bools, units: Floats) -> Floats:
    device = setup.device
    counts, row = empty_counts(device, demand)
    counts[row["beads.mac"]] = demand.macs
    counts[row["beads.flop"]] = demand.vector_flops
    counts[row["beads.special_function"]] = demand.special
    counts[row["rods.push"]] = (demand.macs + demand.vector_flops) * device.arch.data.assumed("pushes")
    counts[row["shelf.read"]] = flow.chip_read
    counts[row["shelf.write"]] = flow.chip_write
    counts[row["store.dram_read"]] = flow.dram_read
    counts[row["store.dram_write"]] = flow.dram_write
    return counts


def _sentence(demand: Demand, setup: Setup, mapping: Mapping, i: int) -> str:
    plan = setup.plan
    what = product(demand, i) if demand.macs[i] > 0 else elements(demand, i, "elements")
    return f"{what} on beads ({plan.vector_mac}): {max(mapping.tiling.blocks[i], 1.0):,.0f} rods full"


def _levels(device: Device) -> tuple[tuple[str, float], ...]:
    return (("shelf", device.shelf_bytes),)


ARCHITECTURE = Architecture(
    id="abacus",
    name="Abacus",
    data_file=Path(__file__).with_suffix(".toml"),
    unit="row",
    levels=_levels,
    is_managed=False,
    map_operators=map_operators,
    sentence=_sentence,
    execution="fused",
    instruction_event="rods.push",
)
