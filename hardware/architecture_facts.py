"""The facts of one architecture: its taxonomy and what software does on it; its numbers are in a data file of the same
name. The rest of the product uses the fields below and never asks which architecture it has."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np

from hardware.architecture_data import Data, read
from hardware.demand import Floats
from hardware.hierarchy import Hierarchy
from hardware.taxonomy import STATIC, Event

UNITS = ("units",)


class ChipLevel(msgspec.Struct, frozen=True, array_like=True):
    """A level of memory on chip: its name, the fact of the bytes of an instance, and the facts whose product is the
    number of instances: UNITS if each unit has one."""

    name: str
    fact: str
    instances: tuple[str, ...] = ()


class ArchitectureFacts(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The facts that devices of an architecture have in common. `id` is its name in device files and on the command
    line; `name` is how texts write it. That of a plug-in names the folder of its `devices`, and its `default_device`.

    `unit` names a unit if a device file does not, and `array` what matrix work is distributed over if that is not a
    unit. `levels` are those of memory on chip, innermost first. `is_managed` says that software decides what the last
    level holds (else it is a cache).

    `execution` is the mode if no runtime is known. `is_host` says that the cores that compute also dispatch, so both
    times add up. `reduction` says how convolutions run with fewer multiplications. `dispatch_event`, `sampling_event`
    and `instruction_event` are labels of events.
    `has_layouts`: the framework chooses the layout. `keeps_weights`: as many weights as fit stay on chip between calls.
    `places_models`: a whole model is laid out at once. `splits_batches`: compilers run a batch in parts whose
    activations stay on chip. `is_searched`: mapping a model takes seconds. `describe(hierarchy)` returns the
    architecture of files with a hierarchy; those without have its `hierarchy`, if it has one. `unit_bandwidth` is the
    fact of the bytes that a unit moves in a clock, if that may limit the bandwidth of the memory. `misses` are rates by
    name: (events missed, all events). `count_instruction` returns the events of one instruction, (e,), of those that
    units execute while they wait."""

    id: str
    name: str
    data_file: Path | None = None
    devices: Path | None = None
    default_device: str = ""
    unit: str
    array: str = ""
    levels: tuple[ChipLevel, ...]
    is_managed: bool
    is_searched: bool = False
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
    unit_bandwidth: str = ""
    misses: dict[str, tuple[str, str]] = {}
    count_instruction: Callable[[ArchitectureFacts], Floats] | None = None
    describe: Callable[[Hierarchy], ArchitectureFacts] | None = None
    hierarchy: Hierarchy | None = None

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
