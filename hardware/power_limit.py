"""Kernels under a power limit: the clock falls, and the voltage with it, until a kernel stays within the limit.

At a share x of its clock a kernel takes `fixed + start / x + max(busy, compute / x)` seconds, and its events on chip
take `v(x)^2` of their energy, with `v(x) = 1 - slope (1 - x)`. Those by time follow the cycles that pass: x of them for
as long as it waits for memory. Memory keeps its clock and its energy. The largest x at which the energy fits into the
time is the clock. So a chip that may throttle is never slower than at a lower clock, and work that waits for memory
slows down only when the clock has fallen until its arithmetic takes as long."""

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
    """What kernels take at the full clock, each (k,): energy of events on chip, counted and by time, and off chip;
    seconds, the part of them at work, the arithmetic in that part, the start of a kernel that takes cycles, and how
    long its units are clocked."""

    chip_j: Floats
    timed_j: Floats
    memory_j: Floats
    own_s: Floats
    busy_s: Floats
    compute_s: Floats
    start_s: Floats
    clocked_s: Floats


def lower_clocks(needs: KernelNeeds, budget: Budget, least_s: Floats | float) -> Floats:
    """Return the seconds of each kernel within the power budget, the factor of its energy on chip by the voltage, and
    the share of its cycles that pass, (3, k). `least_s` are seconds that it takes in any case, because it waits for its
    host."""
    lowered = np.stack([needs.own_s, np.ones_like(needs.own_s), np.ones_like(needs.own_s)])
    energy_j = needs.chip_j + needs.timed_j + needs.memory_j
    over = np.flatnonzero(energy_j > budget.watts * np.maximum(needs.own_s, least_s))
    if len(over):
        part = KernelNeeds(*(getattr(needs, name)[over] for name in KernelNeeds.__struct_fields__))
        lowered[:, over] = _solve(part, budget, np.broadcast_to(least_s, needs.own_s.shape)[over])
    return lowered


def _cycles(needs: KernelNeeds, clock: Floats) -> tuple[Floats, Floats]:
    """Return the share of cycles that pass at a share of the clock, and its derivative."""
    clocked_s = np.maximum(needs.clocked_s, 1e-300)
    works_s = needs.compute_s - clock * needs.busy_s
    share = np.clip(clock + np.maximum(works_s, 0.0) / clocked_s, 0.0, 1.0)
    return share, np.where(works_s > 0, np.maximum(1.0 - needs.busy_s / clocked_s, 0.0), 1.0)


def _solve(needs: KernelNeeds, budget: Budget, least_s: Floats) -> tuple[Floats, Floats, Floats]:
    fixed_s = needs.own_s - needs.busy_s - needs.start_s
    # The seconds are the largest of these: held by the host, by memory or by arithmetic. Each root is a clock.
    constant_s = np.stack([least_s, fixed_s + needs.busy_s, fixed_s])
    cycles_s = np.stack([np.zeros_like(least_s), needs.start_s, needs.start_s + needs.compute_s])
    clock, slope = np.ones_like(constant_s), budget.slope
    surplus_j = needs.memory_j - budget.watts * constant_s
    for _ in range(_ROUNDS):
        voltage, (share, more) = 1.0 - slope * (1.0 - clock), _cycles(needs, clock)
        chip_j = needs.chip_j + needs.timed_j * share
        energy_j = chip_j * voltage**2 + surplus_j
        over_j = np.maximum(clock * energy_j - budget.watts * cycles_s, 0.0)
        steepness = energy_j + clock * voltage * (2.0 * slope * chip_j + voltage * needs.timed_j * more)
        clock = np.clip(clock - over_j / np.maximum(steepness, 1e-300), 0.0, 1.0)
    lowest = clock.max(axis=0)
    scale, share = (1.0 - slope * (1.0 - lowest)) ** 2, _cycles(needs, lowest)[0]
    at_clock_s = np.maximum(needs.own_s, constant_s[1:] + cycles_s[1:] / np.maximum(lowest, 1e-9)).max(axis=0)
    energy_j = (needs.chip_j + needs.timed_j * share) * scale + needs.memory_j
    return np.maximum(at_clock_s, energy_j / budget.watts), scale, share
