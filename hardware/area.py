"""The area of a device's die as stated, else by the published rules of area.toml, and its manufacturing cost.

The rules do not cover fp64, graphics and media: use them to compare designs of one kind."""

import math
from pathlib import Path

import msgspec
import numpy as np

from hardware.base import file_access
from hardware.base.records import memoize
from hardware.device import Device
from hardware.precision import UNIT_FORMATS

PATH = Path(__file__).with_name("area.toml")
_MM2 = 1e-6  # of a um2


class Area(msgspec.Struct, frozen=True, kw_only=True):
    """The area of a die by part, mm2, with its `source` and the ends of the rules' spread, and USD for a good die
    (above the reticle limit: for `dies` dies), without packaging, memory, test, design and margins."""

    compute_mm2: float
    memory_mm2: float
    phy_mm2: float
    uncore_mm2: float
    total_mm2: float
    low_mm2: float
    high_mm2: float
    source: str
    dies: int
    yield_share: float
    cost_usd: float
    cost_low_usd: float
    cost_high_usd: float


def _rule(name: str, end: str = "value") -> float:
    return float(file_access.shipped(PATH)["rules"][name][end])


def _at_node(section: str, column: str, process_nm: float) -> float:
    """Interpolate a column by node, log-log; beyond the table, return its end."""
    entry = file_access.shipped(PATH)[section]
    return float(math.exp(np.interp(math.log(process_nm), np.log(entry["nodes"]), np.log(entry[column]))))


def _arithmetic_um2(device: Device, end: str) -> float:
    """Return the area of one unit's multiply-accumulators at 45 nm, with registers, operand delivery and control around
    them. Formats share one datapath: the largest counts."""
    bare, datapath = file_access.shipped(PATH)["mac_um2"], _rule("datapath", end)
    um2 = {name: float(bare.get(name, bare["fp32"])) * datapath for name in UNIT_FORMATS}
    tables = device.file.fma_per_clock.values()
    return sum(max((fact.value * um2[name] for name, fact in formats.items()), default=0.0) for formats in tables)


def _parts(device: Device, end: str) -> tuple[float, float, float]:
    """Return mm2 of arithmetic, on-chip memories and PHYs; `end` is 'value', 'low' or 'high' of the rules' spread."""
    mac, phy = (
        1.0 if end == "value" else file_access.shipped(PATH)[name][end] for name in ("mac_um2", "phy_mm2_per_gb_s")
    )
    logic = _at_node("logic_area", "factors", device.process_nm)
    compute = device.units * _arithmetic_um2(device, end) * mac * logic * _MM2
    registers = _sram_mm2(device, device.values.get("registers_bytes_per_unit", 0.0) * device.units, end)
    memory = registers
    for level in device.arch.levels:  # also one whose size no file states
        if size := device.values.get(level.fact, 0.0):
            size *= math.prod(device.values[name] for name in level.instances)
            memory += level_mm2(device, level.name.replace(" ", "_"), size, end)
    rates = file_access.shipped(PATH)["phy_mm2_per_gb_s"]
    names = [name for name in rates if device.memory_technology.upper().startswith(name.upper())]
    return compute, memory, device.memory_bandwidth / 1e9 * float(rates[max(names, key=len, default="other")]) * phy


def _sram_mm2(device: Device, size_bytes: float, end: str = "value") -> float:
    cell = _at_node("sram_cell", "um2", device.process_nm)
    return 8.0 * size_bytes * cell * _rule("scratchpad" if device.arch.is_managed else "cache", end) * _MM2


def level_mm2(device: Device, name: str, size_bytes: float, end: str = "value") -> float:
    """Return the mm2 of a level of memory with the bytes of all instances. Where files may state banks, each has
    periphery of its own, and what is smaller as flip-flops is made of these."""
    large = _sram_mm2(device, size_bytes, end)
    if f"{name}_banks" not in device.arch.data.facts:
        return large
    flip_flops = 8.0 * size_bytes * _at_node("sram_cell", "um2", device.process_nm) * _rule("flip_flop", end) * _MM2
    bank_bytes = device.macro_bytes(name) / device.values.get(f"{name}_banks", 1.0)
    return min(large * (1.0 + _rule("periphery", end) / bank_bytes), flip_flops)


def silicon_amount(device: Device, process_nm: float) -> tuple[float, float]:
    """Return the mm2 of arithmetic and of on-chip memory if made at this node: a measure of transistors."""
    at_node = _at_node("logic_area", "factors", process_nm) / _at_node("logic_area", "factors", device.process_nm)
    cells = _at_node("sram_cell", "um2", process_nm) / _at_node("sram_cell", "um2", device.process_nm)
    compute, memory, _ = _parts(device, "value")
    return compute * at_node, memory * cells


@memoize()
def area(device: Device, is_design: bool = False) -> Area:
    """Return the area and cost of a device's die. Designs have the area of the rules, which changes with them."""
    ends = {end: sum(_parts(device, end)) * (1.0 + _rule("uncore", end)) for end in ("value", "low", "high")}
    chips = () if is_design or device.changes else file_access.shipped(PATH)["stated"].items()
    stated = next((row for _, row in chips if device.id in row["devices"]), None)
    ends = dict.fromkeys(ends, stated["mm2"]) if stated else ends
    compute, memory, phy = _parts(device, "value")
    total = ends["value"]
    dies = max(1, math.ceil(total / _rule("reticle")))
    good, cost = _die_cost(total / dies, device.process_nm)
    wafer = file_access.shipped(PATH)["wafer"]
    low, high = (_die_cost(ends[end] / dies, device.process_nm)[1] * wafer[end] * dies for end in ("low", "high"))
    return Area(
        compute_mm2=compute,
        memory_mm2=memory,
        phy_mm2=phy,
        uncore_mm2=max(total - compute - memory - phy, 0.0),
        source=stated["source"] if stated else "rules of area.toml",
        total_mm2=total,
        low_mm2=ends["low"],
        high_mm2=ends["high"],
        dies=dies,
        yield_share=good,
        cost_usd=cost * dies,
        cost_low_usd=low,
        cost_high_usd=high,
    )


def _die_cost(die_mm2: float, process_nm: float) -> tuple[float, float]:
    """Return the share of good dies (negative binomial) and USD for a good one."""
    defects = _at_node("wafer", "defects", process_nm) / 100.0  # per mm2
    good = (1.0 + die_mm2 * defects / _rule("cluster")) ** -_rule("cluster")
    side, across = math.sqrt(die_mm2) + _rule("scribe_mm"), _rule("wafer_mm")
    per_wafer = max(1.0, math.pi * across**2 / (4 * side**2) - math.pi * across / (math.sqrt(2) * side))
    return good, _at_node("wafer", "usd", process_nm) / (per_wafer * good)
