"""One way of building a machine: its taxonomy, its mapping, its words; numbers stand in a data file of the same name.

The rest of the product asks the fields below and never which architecture it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hardware.architectures.data import Data, read
from hardware.demand import Demand, Floats
from hardware.hierarchy import Hierarchy
from hardware.taxonomy import Event, taxonomy

if TYPE_CHECKING:
    from hardware.device import Device
    from hardware.efficiency import Efficiency
    from hardware.mapping.common import Mapping
    from hardware.setup import Setup

    MapOperators = Callable[[Demand, Setup, Efficiency], Mapping]
    Sentence = Callable[[Demand, Setup, Mapping, int], str]
    Levels = Callable[[Device], tuple[tuple[str, float], ...]]
    Occupancy = Callable[[Demand, Device, Mapping], Floats]


class Architecture(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One architecture. `id` is its name in device files and on the command line; `name` how it is written.

    `unit` names a unit where a device file does not, and `array` what matrix work is dealt to where that is not a unit;
    `last_level` is the fact with the capacity of the last on-chip level, `levels(device)` all of them outward with the
    bytes of all units; `is_managed` says that software decides what that level holds (else it is a cache).

    `map_operators` gives times, traffic and counts, `sentence` describes one operator; `execution` is the mode without
    a known runtime; `is_host` says that the cores that compute also dispatch, so that both add up; `reduction` how
    convolutions run with fewer multiplications; `dispatch_event` and `instruction_event` label the events that count
    these; `has_layouts` says that the framework chooses the layout, `places_models` that a whole model is laid out at
    once, `maps_by_energy` that the mapping depends on prices, `is_searched` that mapping a model takes seconds;
    `describe(hierarchy)` is the architecture of device files that state a hierarchy; `reachable_bandwidth(device)` a
    limit below that of the memory; `misses` rates by name: (events missed, events in all); `occupancy` the share of
    resident threads."""

    id: str
    name: str
    default_device: str
    data_file: Path | None = None
    unit: str
    array: str = ""
    last_level: str
    levels: Levels
    is_managed: bool
    map_operators: MapOperators
    maps_by_energy: bool = False
    is_searched: bool = False
    sentence: Sentence
    execution: str
    is_host: bool = False
    reduction: str = ""
    dispatch_event: str = ""
    instruction_event: str = ""
    has_layouts: bool = False
    places_models: bool = False
    reachable_bandwidth: Callable[[Device], float] | None = None
    misses: dict[str, tuple[str, str]] = {}
    occupancy: Occupancy | None = None
    describe: Callable[[Hierarchy], Architecture] | None = None

    @cached_property
    def data(self) -> Data:
        """The contents of its data file, by default the one beside this module; read when first asked for."""
        return read(self.data_file or Path(__file__).with_name(f"{self.id}.toml"))

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The events that it spends energy on."""
        return taxonomy(self.data.events, {name: part.component for name, part in self.data.clock.items()})

    @cached_property
    def row(self) -> dict[str, int]:
        """The row of each event by its label."""
        return {event.label: i for i, event in enumerate(self.events)}

    @cached_property
    def clock_rows(self) -> list[int]:
        """Rows counted in cycles of busy units."""
        return [i for i, event in enumerate(self.events) if event.family == "clock"]

    @cached_property
    def static_rows(self) -> list[int]:
        """Rows counted in seconds."""
        return [i for i, event in enumerate(self.events) if event.component == "static"]
