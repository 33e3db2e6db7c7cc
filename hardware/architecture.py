"""One architecture: its taxonomy, its mapping and its texts; its numbers are in a data file of the same name.

The rest of the product uses the fields below and never asks which architecture it has."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from hardware.architecture_data import Data, read
from hardware.demand import Demand, Floats
from hardware.hierarchy import Hierarchy
from hardware.taxonomy import STATIC, Event

if TYPE_CHECKING:
    from hardware.device import Device
    from hardware.efficiency import Efficiency
    from hardware.mapping.common import Mapping
    from hardware.mapping.stages import Stages
    from hardware.setup import Setup

    MapOperators = Callable[[Demand, Setup, Efficiency], Mapping]
    Sentence = Callable[[Demand, Setup, Mapping, int], str]
    Levels = Callable[[Device], tuple[tuple[str, float], ...]]
    Occupancy = Callable[[Demand, Device, Mapping], Floats]
    DivideStages = Callable[[Stages, Demand, Setup, Mapping, int], Stages]


class Architecture(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One architecture. `id` is its name in device files and on the command line; `name` is how texts write it. That of
    a plug-in names the folder of its `devices`, and its `default_device`.

    `unit` names a unit if a device file does not, and `array` what matrix work is distributed over if that is not a
    unit. `levels(device)` returns all levels on chip, innermost first, with the bytes of all units. `is_managed` says
    that software decides what the last level holds (else it is a cache).

    `map_operators` returns times, traffic and counts; `sentence` describes one operator. `execution` is the mode if no
    runtime is known. `is_host` says that the cores that compute also dispatch, so both times add up. `reduction` says
    how convolutions run with fewer multiplications. `dispatch_event`, `sampling_event` and
    `instruction_event` are labels of events.
    `has_layouts`: the framework chooses the layout. `keeps_weights`: as many weights as fit stay on chip between calls.
    `places_models`: a whole model is laid out at once. `splits_batches`: compilers run a batch in parts whose
    activations stay on chip. `is_searched`: mapping a model takes seconds. `describe(hierarchy)` returns the
    architecture of files with a hierarchy. `reachable_bandwidth(device)` is a limit below the memory's. `misses` are
    rates by name: (events missed, all events). `occupancy` is the share of resident threads. `count_instruction`
    returns the events of one instruction, (e,), of those that units execute while they wait. `divide_stages` divides
    the cycles of a product on arrays of cells into filling, streaming and draining."""

    id: str
    name: str
    data_file: Path | None = None
    devices: Path | None = None
    default_device: str = ""
    unit: str
    array: str = ""
    levels: Levels
    is_managed: bool
    map_operators: MapOperators
    is_searched: bool = False
    sentence: Sentence
    execution: str
    is_host: bool = False
    reduction: str = (
        "of 3 x 3 run with a quarter of the multiplications (Winograd): figures per FLOP may exceed the peak"
    )
    dispatch_event: str = ""
    sampling_event: str = ""
    instruction_event: str = ""
    has_layouts: bool = False
    keeps_weights: bool = False
    places_models: bool = False
    splits_batches: bool = False
    reachable_bandwidth: Callable[[Device], float] | None = None
    misses: dict[str, tuple[str, str]] = {}
    occupancy: Occupancy | None = None
    divide_stages: DivideStages | None = None
    count_instruction: Callable[[Architecture], Floats] | None = None
    describe: Callable[[Hierarchy], Architecture] | None = None

    @cached_property
    def data(self) -> Data:
        """The contents of the data file, by default the one in `architectures`. It is read at first use."""
        return read(self.data_file or Path(__file__).parent / "architectures" / f"{self.id}.toml")

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The events of its taxonomy."""
        return (*self.data.events, *STATIC)

    @cached_property
    def row(self) -> dict[str, int]:
        """The row of each event by its label."""
        return {event.label: i for i, event in enumerate(self.events)}

    @cached_property
    def scalar_instruction(self) -> Floats:
        """The events of one scalar instruction, (e,); zeros if units rest while they wait."""
        return self.count_instruction(self) if self.count_instruction else np.zeros(len(self.events))

    @cached_property
    def timed_rows(self) -> list[int]:
        """Rows of the events by time, counted in cycles of units."""
        return [i for i, event in enumerate(self.events) if event.is_by_time]

    @cached_property
    def static_rows(self) -> list[int]:
        """Rows of the static events, counted in seconds."""
        return [i for i, event in enumerate(self.events) if event.component == "static"]
