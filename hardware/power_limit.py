"""Kernels under a power limit: the clock falls, and the voltage with it, until a kernel stays within the limit.

At a share x of its clock a kernel takes `t(x) = fixed + start / x + max(busy, compute / x)` seconds. Its events on chip
take `v(x)^2` of their energy, with `v(x) = 1 - slope (1 - x)`. What units take by time follows the cycles, x t(x), and
the instructions of units that wait follow those without start and arithmetic. Memory keeps its clock and its energy.
The largest x at which the energy fits into the time is the clock; below the least clock the chip pauses instead. So a
chip that may throttle is never slower than at a lower clock, and work that waits for memory slows down only when the
clock has fallen until its arithmetic takes as long."""

from typing import NamedTuple

import msgspec
import numpy as np

from hardware.demand import Floats

_SMALL = 1e-6  # the least step of a clock
_ROUNDS = 8  # of Newton's method, from above; the limit itself holds exactly


class PowerBudget(msgspec.Struct, frozen=True):
    """The power above rest that a device may draw, W, its voltage lost per unit of clock lost, and its least clock, all
    relative to its clock."""

    watts: float
    slope: float
    least_clock: float


class KernelNeeds(NamedTuple):
    """Kernels take this at the full clock, each (k,): energy of work on chip, by time, of instructions while units
    wait, and in memory; seconds, the part of them at work, the arithmetic in that part, and the part of a kernel's
    start that takes cycles."""

    chip_j: Floats
    timed_j: Floats
    waiting_j: Floats
    memory_j: Floats
    own_s: Floats
    busy_s: Floats
    compute_s: Floats
    start_s: Floats


class Throttled(NamedTuple):
    """Kernels within a power budget, each (k,): seconds, and the factors of prices on chip, of cycles of units, and of
    the instructions of units that wait."""

    seconds: Floats
    price_scale: Floats
    cycle_scale: Floats
    waiting_scale: Floats


def lower_clocks(needs: KernelNeeds, budget: PowerBudget, least_s: Floats | float) -> Throttled:
    """Return the kernels at the highest clocks that keep each within the budget. `least_s` are seconds that a kernel
    takes in any case, because it waits for its host."""
    found = np.ones((len(Throttled._fields), len(needs.own_s)))
    found[0] = needs.own_s
    energy_j = needs.chip_j + needs.timed_j + needs.waiting_j + needs.memory_j
    over = np.flatnonzero(energy_j > budget.watts * np.maximum(needs.own_s, least_s))
    if len(over):
        waits_s = (np.zeros(len(needs.own_s)) + least_s)[over]
        found[:, over] = _solve(KernelNeeds(*np.array(needs)[:, over]), budget, waits_s)
    return Throttled(*found)


def _solve(needs: KernelNeeds, budget: PowerBudget, least_s: Floats) -> Throttled:
    fixed_s = needs.own_s - needs.busy_s - needs.start_s
    # The seconds are the largest of these: held by memory, by arithmetic or by the host. Each has a clock.
    constant_s = np.array([fixed_s + needs.busy_s, fixed_s, least_s][: 3 if least_s.any() else 2])
    cycles_s = np.zeros(constant_s.shape)
    cycles_s[0], cycles_s[1] = needs.start_s, needs.start_s + needs.compute_s
    waiting_s = np.maximum(needs.own_s - needs.start_s - needs.compute_s, 0.0)
    highest = _highest_clock(needs, budget, constant_s, cycles_s, waiting_s)
    lowest = np.maximum(highest, budget.least_clock)
    seconds = (constant_s[:2] + cycles_s[:2] / lowest).max(axis=0)
    saved_s = np.maximum(needs.own_s - lowest * seconds, 0.0)
    cycle_scale = 1.0 - saved_s / needs.own_s
    waiting_scale = np.maximum(1.0 - _ratio(saved_s, waiting_s), 0.0)
    chip_j = needs.chip_j + needs.timed_j * cycle_scale + needs.waiting_j * waiting_scale
    least_voltage = 1.0 - budget.slope * (1.0 - budget.least_clock)
    seconds = np.maximum(seconds, (chip_j * least_voltage**2 + needs.memory_j) / budget.watts)
    seconds = np.maximum(seconds, needs.own_s)
    # The energy is what the budget allows: exactly the limit, whatever the last digits of the clock.
    allowed_j = budget.watts * np.maximum(seconds, least_s) - needs.memory_j
    return Throttled(seconds, np.minimum(_ratio(allowed_j, chip_j), 1.0), cycle_scale, waiting_scale)


def _highest_clock(
    needs: KernelNeeds, budget: PowerBudget, constant_s: Floats, cycles_s: Floats, waiting_s: Floats
) -> Floats:
    """Return the highest clock, (k,), at which the energy of a kernel fits into one of its times: `constant_s` plus
    `cycles_s` over the clock, (r, k) each. Newton's method solves for the clock of each time from above."""
    slope, surplus_j = budget.slope, needs.memory_j - budget.watts * constant_s
    timed_w = needs.timed_j / needs.own_s + _ratio(needs.waiting_j, waiting_s)
    rest_j = needs.chip_j + needs.timed_j + needs.waiting_j - timed_w * needs.own_s
    by_cycles_j, by_clock_j, budget_j = rest_j + timed_w * cycles_s, timed_w * constant_s, budget.watts * cycles_s
    clock, highest = np.ones(constant_s.shape), np.ones(len(needs.own_s))
    for _ in range(_ROUNDS):
        voltage, waiting_j = (1.0 - slope) + slope * clock, clock * by_clock_j
        chip_j = (by_cycles_j + waiting_j) * voltage
        over_j = clock * (chip_j * voltage + surplus_j) - budget_j
        steepness = (chip_j + waiting_j * voltage) * voltage + surplus_j + 2.0 * slope * clock * chip_j
        step = np.maximum(over_j, 0.0) / np.maximum(steepness, 1e-300)
        step[step < _SMALL] = 0.0  # each kernel by itself, whatever others are solved with it
        clock = np.maximum(clock - step, 0.0)
        before, highest = highest, np.maximum.reduce(clock)
        if (highest == before).all():  # the lower ones no longer matter
            break
    return highest


def _ratio(value: Floats, per: Floats) -> Floats:
    return np.divide(value, per, out=np.zeros(len(value)), where=per > 0.0)
