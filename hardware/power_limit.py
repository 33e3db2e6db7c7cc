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

_ROUNDS = 8  # of Newton's method: from above to rounding errors of the clock; the limit itself holds exactly


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


def _solve(needs: KernelNeeds, budget: Budget, least_s: Floats) -> tuple[Floats, Floats, Floats]:
    fixed_s = needs.own_s - needs.busy_s - needs.start_s
    # The seconds are the largest of these: held by the host, by memory or by arithmetic. Each root is a clock.
    constant_s = np.stack([least_s, fixed_s + needs.busy_s, fixed_s])
    cycles_s = np.stack([np.zeros_like(least_s), needs.start_s, needs.start_s + needs.compute_s])
    surplus_j, budget_j = needs.memory_j - budget.watts * constant_s, budget.watts * cycles_s
    busy, compute = (each / np.maximum(needs.clocked_s, 1e-300) for each in (needs.busy_s, needs.compute_s))
    clock, slope, rest, chip_j = np.ones_like(constant_s), budget.slope, np.maximum(1.0 - busy, 0.0), needs.chip_j
    for _ in range(_ROUNDS):
        voltage, works = 1.0 - slope + slope * clock, compute - clock * busy
        spent_j = chip_j + needs.timed_j * np.minimum(clock + np.maximum(works, 0.0), 1.0)
        energy_j = spent_j * voltage**2 + surplus_j
        more_j = 2.0 * slope * spent_j + voltage * needs.timed_j * np.where(works > 0, rest, 1.0)
        over_j = np.maximum(clock * energy_j - budget_j, 0.0)
        clock = np.maximum(clock - over_j / np.maximum(energy_j + clock * voltage * more_j, 1e-300), 0.0)
    lowest = clock.max(axis=0)
    scale = (1.0 - slope + slope * lowest) ** 2
    share = np.minimum(lowest + np.maximum(compute - lowest * busy, 0.0), 1.0)
    at_clock_s = np.maximum(needs.own_s, constant_s[1:] + cycles_s[1:] / np.maximum(lowest, 1e-9)).max(axis=0)
    return (
        np.maximum(at_clock_s, ((chip_j + needs.timed_j * share) * scale + needs.memory_j) / budget.watts),
        scale,
        share,
    )
