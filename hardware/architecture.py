"""An architecture: its facts, how it maps operators to units, and what texts say about that."""

from collections.abc import Callable

from hardware.architecture_facts import ArchitectureFacts, Efficiency
from hardware.architecture_facts import ChipLevel as ChipLevel  # for packages of others
from hardware.architecture_facts import Constants as Constants  # for packages of others
from hardware.demand import Demand, Floats
from hardware.device import Device
from hardware.mapping.common import Mapping, Stages, stream_stages
from hardware.mapping.recurrence_schedules import ProductChain, Size
from hardware.setup import Setup


class Architecture(ArchitectureFacts, frozen=True, kw_only=True, dict=True):
    """One architecture. `map_operators` returns times, traffic and counts; `sentence` describes one operator.
    `occupancy` is the share of resident threads. `divide_stages` divides the cycles of a product on arrays of cells
    into filling, streaming and draining. `chain` schedules two products of which the first streams into the second."""

    map_operators: Callable[[Demand, Setup, Efficiency], Mapping]
    sentence: Callable[[Demand, Setup, Mapping, int], str]
    occupancy: Callable[[Demand, Device, Mapping], Floats] | None = None
    divide_stages: Callable[[Stages, Demand, Setup, Mapping, int], Stages] | None = None
    chain: Callable[[Size, Size, Setup], ProductChain] | None = None

    def find_stages(self, demand: Demand, setup: Setup, mapping: Mapping, i: int) -> Stages:
        """Return the stages of operator `i`."""
        stages = stream_stages(demand, setup, mapping, i)
        if self.divide_stages is None or not mapping.on_matrix[i] or not mapping.tiling.is_tiled[i]:
            return stages
        return self.divide_stages(stages, demand, setup, mapping, i)
