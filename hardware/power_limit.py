"""A run under a power limit: its clock falls, and the voltage with it, until its mean power keeps the limit.

A limit holds for the mean of a run that repeats, over a window: that of a call of the model, or of the largest of its
halves, quarters .. that fits into the window. A kernel may draw more, up to the electrical limit of the board. At a
share x of its clock it takes `t(x) = fixed + start / x + max(busy, compute / x)` seconds. Its events on chip take
`v(x)^2` of their energy, with `v(x) = 1 - slope (1 - x)`. What units take by time follows the cycles, x t(x). Memory
keeps its clock and its energy. The clock is the largest x whose energy fits into the time: the time is the least that
keeps the limit, so better hardware is never slower. Below the least clock the chip pauses instead."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import numpy as np

from hardware.demand import Bools, Floats, Ints

_CLOSE = 1e-13  # relative, at which a clock is found; the limit itself holds exactly
_ROUNDS = 60


class PowerBudget(msgspec.Struct, frozen=True):
    """The power that a device may draw, W: `limit_w` as mean over `window_s`, `peak_w` in a kernel. At rest it draws
    `static_w`, of which it may switch off `gated_w`; a share `idle_follows` follows clock and voltage. `slope` is the
    voltage lost per clock lost, `least_clock` the least share of its fastest clock, and `core_clock` the share of it
    that cycles have."""

    limit_w: float
    peak_w: float
    window_s: float
    static_w: float
    gated_w: float
    idle_follows: float
    slope: float
    least_clock: float
    core_clock: float

    def voltage(self, clock: Floats) -> Floats:
        """Return the voltage at a share of the clock, relative to that at the clock."""
        return 1.0 - self.slope * (1.0 - clock)

    def idle_w(self, clock: Floats) -> Floats:
        """Return the power at rest at a share of the clock, W."""
        follows = 1.0 - self.idle_follows * (1.0 - clock * self.voltage(clock) ** 2)
        return (self.static_w - self.gated_w) * follows


class KernelNeeds(NamedTuple):
    """Kernels take this at the full clock, each (k,): energy of work on chip, by time, and in memory; seconds, the part
    of them at work, the arithmetic in that part, and the part of a kernel's start that takes cycles; and how often each
    runs."""

    chip_j: Floats
    timed_j: Floats
    memory_j: Floats
    own_s: Floats
    busy_s: Floats
    compute_s: Floats
    start_s: Floats
    times: Floats


class Throttled(NamedTuple):
    """Kernels within a power budget, each (k,): seconds on the device, seconds with waits for the host, and the factors
    of prices on chip, of cycles of units, and of power at rest."""

    own_s: Floats
    kernel_s: Floats
    price_scale: Floats
    cycle_scale: Floats
    idle_scale: Floats


Wait = Callable[[Floats, Ints | slice], Floats]  # the seconds of chosen kernels, with their waits for the host


def lower_clocks(needs: KernelNeeds, budget: PowerBudget, begins: Bools, wait: Wait) -> Throttled:
    """Return the kernels at the highest clock of each run that keeps the budget. Calls of the model start where
    `begins`, (k,), holds."""
    ones, kernel_s = np.ones(len(needs.own_s)), wait(needs.own_s, slice(None))
    fastest = Throttled(needs.own_s, kernel_s, ones, ones, ones)
    starts = _windows(kernel_s, begins, budget.window_s)
    is_first = np.zeros(len(ones), dtype=np.bool_)
    is_first[starts] = True
    run_of = is_first.cumsum() - 1
    dynamic_j = needs.chip_j + needs.timed_j + needs.memory_j
    over_j = np.add.reduceat((dynamic_j + (budget.static_w - budget.limit_w) * kernel_s) * needs.times, starts)
    highest = budget.peak_w - budget.static_w
    is_burst = dynamic_j > highest * needs.own_s  # a kernel does not draw its energy while it waits
    is_over = (over_j > 0.0)[run_of] | is_burst
    if not is_over.any():
        return fastest
    # Only calls with such kernels are solved: a clock takes many rounds.
    call_of = begins.cumsum() - 1
    is_slower = np.zeros(call_of[-1] + 1, dtype=np.bool_)
    is_slower[call_of[is_over]] = True
    (at,) = is_slower[call_of].nonzero()
    (starts,), run_of = is_first[at].nonzero(), is_first[at].cumsum() - 1
    needs = KernelNeeds._make(values[at] for values in needs)
    runs = _Runs(needs, budget, starts, run_of, budget.limit_w, lambda own_s: wait(own_s, at), ones[at])
    if is_burst.any():
        alone = np.arange(len(at))
        bursts = _Runs(needs, budget, alone, alone, budget.peak_w, np.asarray, ones[at]).highest_clock()
        runs = msgspec.structs.replace(runs, most=bursts)
    slower = runs.at_clock(runs.highest_clock())
    if len(at) == len(ones):
        return slower
    return Throttled._make(_with_values(values, at, found) for values, found in zip(fastest, slower, strict=True))


def _with_values(values: Floats, at: Ints, found: Floats) -> Floats:
    changed = values.copy()
    changed[at] = found
    return changed


def _windows(kernel_s: Floats, begins: Bools, window_s: float) -> Ints:
    """Return where the kernels start whose mean power keeps the limit: calls, and of those that take longer than the
    window their halves, by number of kernels, and so on. The places do not depend on the hardware."""
    (starts,) = begins.nonzero()
    while True:
        ends = np.concatenate((starts[1:], (len(kernel_s),)))
        is_long = (np.add.reduceat(kernel_s, starts) > window_s) & (ends - starts > 1)
        if not is_long.any():
            return starts
        starts = np.sort(np.concatenate((starts, (starts + ends)[is_long] // 2)))


class _Runs(msgspec.Struct, frozen=True):
    """Runs of kernels, which begin at `starts`, (r,), under the same limit, W. `run_of` is the run of each kernel, and
    `most` its highest clock, (k,) each."""

    needs: KernelNeeds
    budget: PowerBudget
    starts: Ints
    run_of: Ints
    limit_w: float
    wait: Callable[[Floats], Floats]
    most: Floats

    def sum_over(self, values: Floats) -> Floats:
        """Return the sum of each run, whose kernels count as often as they run, (r,)."""
        return np.asarray(np.add.reduceat(values * self.needs.times, self.starts), dtype=np.float64)

    def over_j(self, dynamic_j: Floats, kernel_s: Floats, idle_w: Floats | float) -> Floats:
        """Return the energy of each run beyond what the limit allows, J."""
        return self.sum_over(dynamic_j + (idle_w - self.limit_w) * kernel_s)

    def spread(self, clock: Floats) -> Floats:
        """Return the clock of each kernel, from that of its run."""
        return np.minimum(clock[self.run_of], self.most)

    def run_at(self, clock: Floats) -> tuple[Floats, Floats]:
        """Return the seconds of kernels and the factors of their cycles, at their clocks."""
        needs, cycles = self.needs, np.minimum(clock / self.budget.core_clock, 1.0)
        seconds = needs.own_s - needs.busy_s - needs.start_s + needs.start_s / cycles
        seconds = seconds + np.maximum(needs.busy_s, needs.compute_s / clock)
        return seconds, _ratio(cycles * seconds, needs.own_s)

    def chip_j(self, clock: Floats, cycles: Floats) -> Floats:
        """Return the energy of kernels on chip at their clocks, J."""
        return (self.needs.chip_j + self.needs.timed_j * cycles) * self.budget.voltage(clock) ** 2

    def excess_j(self, clock: Floats) -> Floats:
        """Return the energy of each run beyond what the limit allows, if all run at their clocks, J."""
        of_kernel = self.spread(clock)
        seconds, cycles = self.run_at(of_kernel)
        dynamic_j = self.chip_j(of_kernel, cycles) + self.needs.memory_j
        return self.over_j(dynamic_j, self.wait(seconds), self.budget.idle_w(of_kernel))

    def highest_clock(self) -> Floats:
        """Return the highest clock of each run at which its energy fits into its time, or the least clock, (r,): false
        position, each run by itself, whatever others are solved with it."""
        high = np.ones(len(self.starts))
        low = high * self.budget.least_clock
        over, under = self.excess_j(high), self.excess_j(low)
        low, is_open = np.where(over <= 0.0, high, low), (over > 0.0) & (under < 0.0)
        was_over = np.zeros(len(low), dtype=np.bool_)
        for step in range(_ROUNDS):
            if not is_open.any():
                break
            between = np.where(is_open, (low * over - high * under) / np.maximum(over - under, 1e-300), low)
            excess = self.excess_j(between)
            is_over = excess > 0.0
            # An end that stays twice counts half (Illinois), else the other one alone would move.
            weight = np.where(is_over == was_over, 0.5 if step else 1.0, 1.0)
            under, over = np.where(is_over, weight * under, excess), np.where(is_over, excess, weight * over)
            high, low = np.where(is_open & is_over, between, high), np.where(is_open & ~is_over, between, low)
            was_over, is_open = is_over, is_open & (high - low > _CLOSE) & (excess != 0.0)
        return low

    def at_clock(self, clock: Floats) -> Throttled:
        """Return the kernels at the clock of each run. What lacks at the least clock is a pause, and the energy is what
        the limit allows, whatever the last digits of the clock."""
        of_kernel, budget = self.spread(clock), self.budget
        own_s, cycles = self.run_at(of_kernel)
        kernel_s, idle_w = self.wait(own_s), budget.idle_w(of_kernel)
        chip_j, memory_j = self.chip_j(of_kernel, cycles), self.needs.memory_j
        drawn_w = (chip_j + memory_j) / np.maximum(kernel_s, 1e-300)
        pause = np.maximum(drawn_w / (budget.peak_w - idle_w), 1.0)
        own_s, kernel_s = own_s * pause, kernel_s * pause
        room_j = self.sum_over((self.limit_w - idle_w) * kernel_s)
        longer = np.where(clock <= budget.least_clock, np.maximum(self.sum_over(chip_j + memory_j) / room_j, 1.0), 1.0)
        stretch = longer[self.run_of]
        allowed = _ratio(room_j * longer - self.sum_over(memory_j), self.sum_over(chip_j))
        exactly = np.where(clock < 1.0, np.minimum(allowed, 1.0), 1.0)
        price_scale = budget.voltage(of_kernel) ** 2 * exactly[self.run_of]
        # Where nothing slows down, what the chip switches off at rest is what the limits ask for.
        spare_w = _ratio(room_j - self.sum_over(chip_j + memory_j), self.sum_over(kernel_s))
        added_w = (np.clip(spare_w, 0.0, budget.gated_w) * (clock >= 1.0))[self.run_of]
        idle_w = idle_w + np.minimum(added_w, np.maximum(budget.peak_w - idle_w - drawn_w, 0.0))
        at_rest = _ratio(idle_w, np.full(len(own_s), budget.static_w))
        return Throttled(own_s * stretch, kernel_s * stretch, price_scale, cycles, at_rest)


def _ratio(value: Floats, per: Floats) -> Floats:
    return np.divide(value, per, out=np.zeros(len(value)), where=per > 0.0)
