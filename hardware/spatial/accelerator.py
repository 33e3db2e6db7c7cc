"""Spatial accelerator: elements side by side under a hierarchy of memories, which the device file describes. The
mapping of each operator is searched; every level and network has its own events."""

from functools import lru_cache
from pathlib import Path

import msgspec

from hardware.architecture import Architecture
from hardware.architecture_facts import ChipLevel, Data, Event, Field, Macro
from hardware.base.text import whole
from hardware.demand import Demand
from hardware.hierarchy import Hierarchy, Level
from hardware.mapping.common import Mapping
from hardware.sentence import elements, product
from hardware.setup import Setup
from hardware.spatial.mapper import map_operators


def _level_events(level: Level) -> tuple[Event, Event]:
    if level.kind == "register":
        read, write = ("logic", "register_read"), ("logic", "register_write")
    else:
        read, write = ("sram_read", level.name), ("sram_write", level.name)
    return Event(level.name, "read", "byte", "memory", *read), Event(level.name, "write", "byte", "memory", *write)


def _events(base: Data, hierarchy: Hierarchy) -> tuple[Event, ...]:
    inside = next(i for i, event in enumerate(base.events) if event.component == "memory")
    levels = (event for level in hierarchy.levels for event in _level_events(level))
    networks = (
        Event("network", array.name, "byte", "memory", "logic", "pe_forward")
        if array.is_systolic
        else Event("network", array.name, "byte", "memory", "hop", array.name)
        for array in hierarchy.arrays
    )
    return *base.events[:inside], *levels, *networks, *base.events[inside:]


def _data(base: Data, hierarchy: Hierarchy) -> Data:
    facts = {axis: Field(unit="count", must=True) for axis in hierarchy.axes}
    for level in hierarchy.levels:
        facts[f"{level.name}_bytes"] = Field(unit="byte", must=True)
        facts[f"{level.name}_width"] = Field(unit="byte")
        facts[f"{level.name}_banks"] = Field(unit="count")
    if twice := set(facts) & set(base.facts):
        raise ValueError(f"{min(twice)!r} is a fact of every device: choose another name for the level or axis")
    facts |= {name: field for name, field in base.facts.items() if name not in facts}
    outside = [axis.name for axis in hierarchy.across.axes] if hierarchy.across else []
    follows = dict.fromkeys(("clock_hz", f"{hierarchy.levels[0].name}_width", *outside), 1.0)
    facts["last_level_bandwidth"] = msgspec.structs.replace(facts["last_level_bandwidth"], follows=follows)
    one = Macro(value=1.0, unit="byte/level", low=1.0, high=1.0, source="one instance", quality="derived", of=())
    macros = {level.name: msgspec.structs.replace(one, of=(f"{level.name}_bytes",)) for level in hierarchy.levels}
    return msgspec.structs.replace(
        base,
        events=_events(base, hierarchy),
        facts=facts,
        macros={**base.macros, **macros},
        matrix_follows=hierarchy.axes,
    )


@lru_cache(maxsize=256)
def describe_architecture(hierarchy: Hierarchy) -> Architecture:
    """Return the architecture of devices with a hierarchy. Raises ValueError if the hierarchy is wrong."""
    if wrong := hierarchy.wrong():
        raise ValueError(wrong)
    found = msgspec.structs.replace(
        ARCHITECTURE,
        is_managed=hierarchy.levels[0].is_managed,
        keeps_weights=hierarchy.keeps_weights,
        levels=_levels(hierarchy),
    )
    vars(found)["data"] = _data(ARCHITECTURE.data, hierarchy)
    return found


def _sentence(demand: Demand, setup: Setup, mapping: Mapping, i: int) -> str:
    device, plan = setup.device, setup.plan
    tiling = mapping.tiling
    if demand.macs[i] <= 0:
        return f"{elements(demand, i, 'elements')} behind the arrays ({plan.vector})"
    hierarchy = device.file.hierarchy
    assert hierarchy is not None
    keeps = {"row": "rows of weights stay", "free": "loops in the best order"}
    stays = keeps.get(hierarchy.stationary, f"{hierarchy.stationary}s stay")
    return (
        f"{product(demand, i)} on {whole(mapping.units[i])}/{whole(device.units)} {device.unit_name}s ({plan.matrix}), "
        f"{stays}: {whole(tiling.blocks[i])} tiles of {whole(tiling.tile_m[i])} x {whole(tiling.tile_n[i])} results "
        f"through {hierarchy.levels[0].name}, {whole(tiling.waves[i])} steps of the array"
    )


def _levels(hierarchy: Hierarchy) -> tuple[ChipLevel, ...]:
    """Return the levels, innermost first, each with the axes that count its instances."""
    axes: tuple[str, ...] = ()
    array, levels = hierarchy.across, []
    for level in hierarchy.levels:
        axes += tuple(axis.name for axis in array.axes) if array else ()
        levels.append(ChipLevel(level.name, f"{level.name}_bytes", axes))
        array = level.below
    return tuple(reversed(levels))


ARCHITECTURE = Architecture(
    id="spatial",
    name="Spatial",
    data_file=Path(__file__).with_name("spatial.toml"),
    unit="element",
    levels=(),
    is_managed=True,
    map_operators=map_operators,
    is_searched=True,
    sentence=_sentence,
    execution="fused",
    describe=describe_architecture,
)
