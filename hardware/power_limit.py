"""Kernels under a power limit: the clock falls, and the voltage with it, until a kernel stays within the limit.

At a share x of its clock a kernel takes `fixed + start / x + max(busy, compute / x)` seconds, and its events on chip
take `v(x)^2` of their energy, with `v(x) = 1 - slope (1 - x)`. Memory keeps its clock and its energy. The largest x at
which the energy fits into the time is the clock. So a chip that may throttle is never slower than at a lower clock, and
work that waits for memory slows down only when the clock has fallen until its arithmetic takes as long."""

from __future__ import annotations

import msgspec
import numpy as np

from hardware.demand import Floats

_ROUNDS = 9  # of Newton's method: from above to rounding errors of the clock; the limit itself holds exactly


class Budget(msgspec.Struct, frozen=True):
    """The power above rest that a device may draw, W, and its voltage lost per unit of clock lost, both relative."""

    watts: float
    slope: float


class KernelNeeds(msgspec.Struct, frozen=True):
    """What kernels take at the full clock, each (k,): energy of events on chip and off chip, seconds, the part of them
    at work, the arithmetic in that part, and the start of a kernel that takes cycles."""

    chip_j: Floats
    memory_j: Floats
    own_s: Floats
    busy_s: Floats
    compute_s: Floats
    start_s: Floats


def lower_clocks(needs: KernelNeeds, budget: Budget, least_s: Floats | float) -> tuple[Floats, Floats]:
    """Return the seconds of each kernel within the power budget, and the factor of its energy on chip, (k,) each.
    `least_s` are seconds that it takes in any case, because it waits for its host."""
    seconds, scale = needs.own_s.copy(), np.ones_like(needs.own_s)
    over = np.flatnonzero(needs.chip_j + needs.memory_j > budget.watts * np.maximum(seconds, least_s))
    if len(over):
        part = KernelNeeds(*(getattr(needs, name)[over] for name in KernelNeeds.__struct_fields__))
        floor_s = np.broadcast_to(least_s, seconds.shape)[over]
        seconds[over], scale[over] = _solve(part, budget, floor_s)
    return seconds, scale


def _solve(needs: KernelNeeds, budget: Budget, least_s: Floats) -> tuple[Floats, Floats]:
    fixed_s = needs.own_s - needs.busy_s - needs.start_s
    # The seconds are the largest of these: held by the host, by memory or by arithmetic. Each root is a clock.
    constant_s = np.stack([least_s, fixed_s + needs.busy_s, fixed_s])
    cycles_s = np.stack([np.zeros_like(least_s), needs.start_s, needs.start_s + needs.compute_s])
    clock, slope = np.ones_like(constant_s), budget.slope
    surplus_j = needs.memory_j - budget.watts * constant_s
    for _ in range(_ROUNDS):
        voltage = 1.0 - slope * (1.0 - clock)
        energy_j = needs.chip_j * voltage**2 + surplus_j
        over_j = np.maximum(clock * energy_j - budget.watts * cycles_s, 0.0)
        steepness = energy_j + 2.0 * slope * clock * voltage * needs.chip_j
        clock = np.clip(clock - over_j / np.maximum(steepness, 1e-300), 0.0, 1.0)
    lowest = clock.max(axis=0)
    scale = (1.0 - slope * (1.0 - lowest)) ** 2
    at_clock_s = np.maximum(needs.own_s, constant_s[1:] + cycles_s[1:] / np.maximum(lowest, 1e-9)).max(axis=0)
    return np.maximum(at_clock_s, (needs.chip_j * scale + needs.memory_j) / budget.watts), scale
