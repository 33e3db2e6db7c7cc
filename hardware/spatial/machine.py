"""The hierarchy of a device with its sizes, as the search of mappings needs it: stations, outermost first."""

import math
from itertools import pairwise, product

import msgspec

from hardware.base.records import memoize
from hardware.device import Device
from hardware.efficiency import usable_cache
from hardware.hierarchy import DIRECTIONS, LOOPS, TENSORS, Array, Hierarchy, Level
from hardware.spatial.loop_nest import Network, Station

_KEPT = {"weight": "weight", "row": "weight", "input": "input", "output": "output", "free": "weight"}


class LevelMemory(msgspec.Struct, frozen=True):
    """One level: the tensors that it holds, the bytes of one instance and of one access, and the accesses that each
    port takes: 'read' or 'write' with the number of a tensor."""

    name: str
    holds: tuple[bool, ...]
    size_bytes: float
    width_bytes: float
    ports: tuple[frozenset[tuple[str, int]], ...]

    @property
    def events(self) -> tuple[str, str]:
        """The events of a byte read and of a byte written."""
        return f"{self.name}.read", f"{self.name}.write"


class MachineLevel(msgspec.Struct, frozen=True):
    """One station with its memories. The file may fix the `extents` of its tile and the `order` of its tiles. `axes` of
    the array below are the elements along each axis and the ways to spread loops over it."""

    station: Station
    memories: tuple[LevelMemory, ...]
    array: str = ""
    axes: tuple[tuple[float, tuple[tuple[int, ...], ...]], ...] = ()
    extents: tuple[tuple[int, float], ...] = ()
    order: str = ""

    @property
    def network(self) -> str:
        """The event of a byte that the array's network hands over."""
        return f"network.{self.array}"

    @property
    def ways(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """All ways to spread loops over the array: for each, the loops along every axis."""
        return tuple(product(*(ways for _, ways in self.axes)))


class SpatialMachine(msgspec.Struct, frozen=True):
    """Places, outermost first; the first is off-chip memory, without `memories`. `elements` counts all multipliers."""

    places: tuple[MachineLevel, ...]
    stationary: str
    elements: float

    @property
    def stations(self) -> tuple[Station, ...]:
        """The stations of all places, outermost first."""
        return tuple(place.station for place in self.places)

    @property
    def events(self) -> tuple[str, ...]:
        """The labels of on-chip events: bytes of every level and network, outermost first, then tiles of the outermost
        level."""
        labels = []
        for place in self.places:
            labels += [label for memory in place.memories for label in memory.events]
            labels += [place.network] if place.array else []
        return *labels, "control.tile_setup"


@memoize()
def find_machine(device: Device) -> SpatialMachine:
    """Return the hierarchy of a device with the sizes that its facts give."""
    hierarchy = device.file.hierarchy
    assert hierarchy is not None
    places = [_place(device, hierarchy, (), hierarchy.across)]
    levels: list[Level] = []
    for level, inner in pairwise((*hierarchy.levels, None)):
        assert level is not None
        levels.append(level)
        # Memories that hold different tensors hold one tile together; a second memory of a tensor has its own.
        is_again = inner is not None and any(set(inner.holds) & set(outer.holds) for outer in levels)
        if level.below or inner is None or is_again:
            places.append(_place(device, hierarchy, tuple(levels), level.below))
            levels = []
    elements = math.prod(device.values[axis] for axis in hierarchy.axes)
    return SpatialMachine(tuple(places), hierarchy.stationary, elements)


def _place(device: Device, hierarchy: Hierarchy, levels: tuple[Level, ...], array: Array | None) -> MachineLevel:
    memories = tuple(_memory(device, level) for level in levels)
    holds = tuple(not levels or any(memory.holds[t] for memory in memories) for t in range(len(TENSORS)))
    extents = tuple(extent for level in levels for extent in level.extents)
    order = next((level.order for level in levels if level.order), "")
    if array is None:
        return MachineLevel(Station(holds), memories, extents=extents, order=order)
    kept = TENSORS.index(_KEPT[hierarchy.stationary]) if array.is_systolic else None
    multicast = tuple(tensor in array.multicast for tensor in TENSORS)
    network = Network(multicast, array.reduces, array.shares_windows, kept, array.hides_load, array.load_rows)
    axes = tuple(
        (device.values[axis.name], tuple(tuple(LOOPS.index(letter) for letter in way) for way in axis.takes))
        for axis in array.axes
    )
    return MachineLevel(Station(holds, network), memories, array.name, axes, extents, order)


def _memory(device: Device, level: Level) -> LevelMemory:
    holds = tuple(tensor in level.holds for tensor in TENSORS)
    usable = 1.0 if level.is_managed else usable_cache(False)
    width = device.values.get(f"{level.name}_width", float("inf"))
    ports = tuple(
        frozenset((way, TENSORS.index(t)) for way in DIRECTIONS for t in level.holds if level.is_taken(port, way, t))
        for port in level.ports
    )
    return LevelMemory(level.name, holds, device.values[f"{level.name}_bytes"] * usable, width, ports)
