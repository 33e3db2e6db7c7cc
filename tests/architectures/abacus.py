"""A toy architecture, to prove that one is a module and a data file: cores in a row, each with beads for a memory."""

from pathlib import Path
from typing import Any, cast

import numpy as np

from hwexplorer.extend import Setup, architecture, common
from hwexplorer.extend import demand as demands

Demand = demands.Demand
Floats = demands.Floats


class AbacusConstants(architecture.Constants, frozen=True, kw_only=True):
    """The structural constants of abacus.toml."""

    pushes: float


def map_operators(demand: Demand, setup: Setup, rates: Any) -> common.Mapping:
    tiles, nowhere = common.vector_tiling(demand, setup), np.zeros(demand.n, dtype=np.bool_)
    flow = common.traffic(demand, setup.device)
    return common.assemble(demand, setup, rates, flow, tiles, tiles, nowhere, _counts)


def _counts(
    demand: Demand, setup: Setup, flow: common.Traffic, tiles: common.Tiling, on_matrix: demands.Bools, units: Floats
) -> Floats:
    device = setup.device
    counts, row = common.empty_counts(device, demand)
    assumed = cast(AbacusConstants, device.arch.constants)
    counts[row["beads.mac"]] = demand.macs
    counts[row["beads.flop"]] = demand.vector_flops
    counts[row["beads.special_function"]] = demand.special
    counts[row["rods.push"]] = (demand.macs + demand.vector_flops) * assumed.pushes
    counts[row["shelf.read"]] = flow.chip_read
    counts[row["shelf.write"]] = flow.chip_write
    counts[row["store.dram_read"]] = flow.dram_read
    counts[row["store.dram_write"]] = flow.dram_write
    return counts


def _sentence(demand: Demand, setup: Setup, mapped: common.Mapping, i: int) -> str:
    what = common.product(demand, i) if demand.macs[i] > 0 else common.elements(demand, i, "elements")
    return f"{what} on beads ({setup.plan.vector_mac}): {max(mapped.tiling.blocks[i], 1.0):,.0f} rods full"


ARCHITECTURE = architecture.Architecture(
    id="abacus",
    name="Abacus",
    data_file=Path(__file__).with_suffix(".toml"),
    constants_type=AbacusConstants,
    devices=Path(__file__).with_name("devices"),
    default_device="abacus_one",
    unit="row",
    levels=(architecture.ChipLevel("shelf", "shelf_bytes"),),
    is_managed=False,
    map_operators=map_operators,
    sentence=_sentence,
    execution="fused",
    instruction_event="rods.push",
)
