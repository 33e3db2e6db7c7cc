"""What an architecture is: everything that is particular to one way of building a machine, in one value.

One module of this package describes each: its taxonomy, its mapping, its words. Numbers stand in a data file of the
same name. The rest of the product asks the fields below and never which architecture it is.
"""

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
    """One architecture. `id` is what device files and the command line call it; `name` how it is written.

    What it is made of: `unit`, what one of its units is called where a device file says no more, and `array`, what
    matrix work is dealt to where that is not a unit; `last_level`, the fact that holds the capacity of the last on-chip
    level, and `levels(device)`, all of them outward with the bytes of all units; `is_managed`, whether software decides
    what that level holds (else it is a cache). Events, numbers and words stand in `data`.

    How it runs: `map_operators`, operators to times, traffic and counts; `sentence`, what that did with one of them;
    `execution`, its mode where no runtime is known for it; `is_host`, whether the cores that compute also dispatch and
    prepare the input, so that both add up; `reduction`, how convolutions run whose mapping needs fewer multiplications;
    `dispatch_event` and `instruction_event`, the labels of the events that count these ('' without); `has_layouts`,
    whether the layout of tensors is the framework's choice; `places_models`, whether it lays out a whole model, so that
    what a kernel costs depends on the others and the host starts all of it;
    `maps_by_energy`, whether the mapping depends on the price of events, as the fastest within the power limit does;
    `is_searched`, whether mapping a model takes seconds: whole-catalogue verbs leave such devices out unless named;
    `describe(hierarchy)`, where device files say how memories and arrays nest: the architecture of one of them;
    `reachable_bandwidth(device)`, a limit below that of the memory; `misses`, rates shown beside events: name to
    (events missed, events in all); `occupancy`, the share of resident threads, where there is such a thing.
    """

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
