"""The resources that mappings need, the events they cause on chip, and the resulting time and energy."""

from __future__ import annotations

import msgspec
import numpy as np

from hardware.demand import Floats, Ints
from hardware.hierarchy import DIRECTIONS
from hardware.spatial.loop_nest import INPUT, OUTPUT, WEIGHT, NestRun
from hardware.spatial.machine import LevelMemory, SpatialMachine


class Power(msgspec.Struct, frozen=True):
    """J per byte off chip and per first event on chip; W of all clocks, and of the power limit less static power."""

    byte_j: float
    chip_j: float
    clock_w: float
    budget_w: float


class Costs(msgspec.Struct, frozen=True):
    """The factors of time other than the mapping, (n,): seconds per cycle and per byte off chip; `spared` bytes, on
    chip already; `scale`, MACs over those of the loops; `beside_s` of the kernel's other operators; `behind_s` of
    overlapping work; `rest_j` of everything else. Then, as scalars: seconds of an access on chip and of starting a
    kernel."""

    cycle_s: Floats
    byte_s: Floats
    spared: Floats
    scale: Floats
    beside_s: Floats
    behind_s: Floats
    rest_j: Floats
    access_s: float
    start_s: float
    power: Power

    def take(self, index: Ints) -> Costs:
        """Return the costs of the operators at an index."""
        by_operator = {name: getattr(self, name)[index] for name in self.__struct_fields__[:7]}
        return msgspec.structs.replace(self, **by_operator)

    def kernel_cost(self, needs: Needs) -> tuple[Floats, Floats]:
        """Return the seconds until one operator's kernel ends within the power limit, and the J of what moves, (m,)."""
        power = self.power
        busy_s = np.maximum(needs.seconds(self, 0).max(axis=0) * self.scale + self.beside_s, self.behind_s)
        moved_j = (needs.traffic * power.chip_j + needs.off_chip_bytes(self, 0) * power.byte_j) * self.scale
        limited_s = (self.rest_j + moved_j + power.clock_w * busy_s) / power.budget_w
        return np.maximum(busy_s + self.start_s, limited_s), moved_j


class Needs(msgspec.Struct, frozen=True):
    """The resources that m mappings need, (m,): cycles, bytes off chip, serial accesses of the busiest level, and
    energy on chip in units of the first event's."""

    cycles: Floats
    off_chip: Floats
    accesses: Floats
    traffic: Floats

    def off_chip_bytes(self, costs: Costs, i: Ints | int) -> Floats:
        """Return the off-chip bytes not on chip already, (m,). `i` is each mapping's operator (m,), or one for all."""
        left: Floats = np.maximum(self.off_chip - costs.spared[i], 0.0)
        return left

    def seconds(self, costs: Costs, i: Ints | int) -> Floats:
        """Return the seconds of the arrays, of off-chip memory and of the levels on chip, (3, m)."""
        passing_s = self.off_chip_bytes(costs, i) * costs.byte_s[i]
        return np.stack([self.cycles * costs.cycle_s[i], passing_s, self.accesses * costs.access_s])


def find_needs(machine: SpatialMachine, runs: NestRun, value_bytes: Floats, prices: tuple[float, ...]) -> Needs:
    """Return the resources that mappings need. `value_bytes` is (3, m); `prices` are relative to the first event's."""
    moved = [runs.moves[0, t] for t in range(3)]
    off_chip = np.sum([(m.reads + m.updates) * width for m, width in zip(moved, value_bytes, strict=True)], axis=0)
    accesses, on_chip = np.zeros_like(runs.cycles), moved_on_chip(machine, runs, value_bytes)
    for s, place in enumerate(machine.places):
        for memory in place.memories:
            busiest = _busiest_port_bytes(runs, s, memory, value_bytes)
            accesses = np.maximum(accesses, busiest / memory.width_bytes / runs.instances[s])
    traffic = np.sum([on_chip[label] * price for label, price in zip(machine.events, prices, strict=True)], axis=0)
    return Needs(runs.cycles, off_chip, accesses, traffic)


def moved_on_chip(machine: SpatialMachine, runs: NestRun, value_bytes: Floats) -> dict[str, Floats]:
    """Return the count of each event of a machine, by label, (m,) each."""
    moved = {"control.tile_setup": runs.tiles}
    for s, place in enumerate(machine.places):
        for memory in place.memories:
            by_tensor = _tensor_bytes(runs, s, memory, value_bytes)
            for event, way in zip(memory.events, DIRECTIONS, strict=True):
                moved[event] = np.asarray(sum(each for (taken, _), each in by_tensor.items() if taken == way))
        if place.array:
            moved[place.network] = _network_bytes(machine, runs, value_bytes, s)
    return moved


def _network_bytes(machine: SpatialMachine, runs: NestRun, value_bytes: Floats, s: int) -> Floats:
    """Return the bytes that the network below a station carries. If a tensor passes several networks in a row, only the
    innermost carries a copy for each element."""
    total = np.zeros_like(runs.cycles)
    # A systolic array hands on whole sums. A tree adds products, as wide as two operands; one whole sum leaves it.
    is_tree = machine.places[s].station.network.kept is None
    for t in range(len(value_bytes)):
        outer = max(i for i in range(s + 1) if (i, t) in runs.moves)
        moved = runs.moves[outer, t]
        further = [i for i in range(s + 1, len(machine.places)) if machine.places[i].array]
        is_last = not further or any((i, t) in runs.moves for i in range(s + 1, further[0] + 1))
        copies, width = np.where(is_last, moved.shared, 1.0), _width(runs, outer, t, value_bytes)
        # Every element that shares an operand receives it. One element reads a sum back; all pass it on the way out.
        if t == OUTPUT:
            part = np.minimum(value_bytes[INPUT] + value_bytes[WEIGHT], width) if is_tree else width
            total += (moved.updates + moved.reads) * width + moved.updates * (copies - 1.0) * part
        else:
            total += moved.reads * copies * width
    return total


def _width(runs: NestRun, s: int, t: int, value_bytes: Floats) -> Floats:
    """Return the bytes of a value at a station. A result that arrives there once is complete: as narrow as an input."""
    moved, off_chip = runs.moves[s, t], runs.moves[0, t]
    is_whole = (t == OUTPUT) & (moved.updates <= (off_chip.updates - off_chip.reads) * (1 + 1e-9))
    width: Floats = np.where(is_whole, value_bytes[INPUT], value_bytes[t])
    return width


def _tensor_bytes(runs: NestRun, s: int, memory: LevelMemory, value_bytes: Floats) -> dict[tuple[str, int], Floats]:
    """Return the bytes read and written of each tensor that a level holds, at all instances."""
    found = {}
    for t in (t for t, held in enumerate(memory.holds) if held):
        moved, width = runs.moves[s, t], _width(runs, s, t, value_bytes)
        found["read", t] = (moved.reads + moved.drains) * width
        found["write", t] = (moved.fills + moved.updates) * width
    return found


def _busiest_port_bytes(runs: NestRun, s: int, memory: LevelMemory, value_bytes: Floats) -> Floats:
    """Return the bytes of the busiest port. Ports that take the same access share its bytes evenly."""
    loads = [np.zeros_like(runs.cycles) for _ in memory.ports]
    for access, moved in _tensor_bytes(runs, s, memory, value_bytes).items():
        takers = [i for i, port in enumerate(memory.ports) if access in port]
        for i in takers:
            loads[i] = loads[i] + moved / len(takers)
    busiest: Floats = np.max(loads, axis=0)
    return busiest
