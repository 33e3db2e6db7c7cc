"""A run under a power limit: its clock falls, and the voltage with it, until its mean power keeps the limit.

A limit holds for the mean of a run that repeats, over a window: that of a call of the model, or of the largest of its
halves, quarters .. that fits into the window. A kernel may draw more, up to the electrical limit of the board. At a
share x of its clock it takes `t(x) = fixed + start / x + max(busy, compute / x)` seconds. Its events on chip take
`v(x)^2` of their energy, with `v(x) = 1 - slope (1 - x)`. What units take by time follows the cycles, x t(x). Memory
keeps its clock and its energy. The clock is the largest x whose energy fits into the time: the time is the least that
keeps the limit, so better hardware is never slower. Below the least clock the chip pauses instead."""

from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np

from hardware.demand import Bools, Floats, Ints

_CLOSE = 1e-12  # of the clock, at which it is found; the limit itself holds exactly


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


class KernelNeeds(NamedTuple):
    """Kernels take this at the full clock, each (k,): energy of work on chip, by time, and in memory; seconds, the part
    of them at work, the arithmetic in that part, and the part of a kernel's start that takes cycles; how often each
    runs; the seconds of the host to dispatch it, and whether the host awaits the device before it does."""

    chip_j: Floats
    timed_j: Floats
    memory_j: Floats
    own_s: Floats
    busy_s: Floats
    compute_s: Floats
    start_s: Floats
    times: Floats
    host_s: Floats
    awaits: Bools


class Throttled(NamedTuple):
    """Kernels within a power budget, each (k,): seconds on the device, seconds with waits for the host, and the factors
    of prices on chip, of cycles of units, and of power at rest."""

    own_s: Floats
    kernel_s: Floats
    price_scale: Floats
    cycle_scale: Floats
    idle_scale: Floats


def dispatched_s(own_s: Floats, host_s: Floats, awaits: Bools) -> Floats:
    """Return the seconds of each kernel, (s, k) or (k,), with its wait for the host. It dispatches a kernel during the
    one before, or, where it does not await the device, ahead of it."""
    seconds: Floats = np.maximum(own_s, host_s)
    if np.logical_and.reduce(awaits) or not np.maximum.reduce(host_s):
        return seconds
    calls = awaits.nonzero()[0].tolist()
    for first, last in pairwise((*calls, len(host_s))):
        own = own_s[..., first + 1 : last]
        ahead = host_s[first + 1 : last].cumsum() - own.cumsum(axis=-1) + own
        latest = np.maximum.accumulate(np.maximum(ahead, 0.0), axis=-1)
        latest[..., 1:] -= latest[..., :-1]
        seconds[..., first + 1 : last] = own + latest
    return seconds


def lower_clocks(needs: KernelNeeds, budget: PowerBudget, begins: Bools) -> Throttled:
    """Return the kernels at the highest clock of each run that keeps the budget. Calls of the model start where
    `begins`, (k,), holds."""
    ones, kernel_s = np.ones(len(needs.own_s)), dispatched_s(needs.own_s, needs.host_s, needs.awaits)
    fastest = Throttled(needs.own_s, kernel_s, ones, ones, ones)
    starts = _windows(kernel_s, begins, budget.window_s)
    is_first = np.zeros(len(ones), dtype=np.bool_)
    is_first[starts] = True
    run_of = is_first.cumsum() - 1
    dynamic_j = needs.chip_j + needs.timed_j + needs.memory_j
    over_j = np.add.reduceat((dynamic_j + (budget.static_w - budget.limit_w) * kernel_s) * needs.times, starts)
    # A kernel does not draw its energy while it waits.
    is_burst = dynamic_j > (budget.peak_w - budget.static_w) * needs.own_s
    is_over = (over_j > 0.0)[run_of] | is_burst
    if not is_over.any():
        return fastest
    # Only calls with such kernels are solved: a clock takes many rounds.
    call_of = begins.cumsum() - 1
    is_slower = np.zeros(call_of[-1] + 1, dtype=np.bool_)
    is_slower[call_of[is_over]] = True
    (at,) = is_slower[call_of].nonzero()
    most, (bursts,) = ones[at], is_burst[at].nonzero()
    if len(bursts):
        alone, each = KernelNeeds._make([values[at[bursts]] for values in needs]), np.arange(len(bursts))
        endless = msgspec.structs.replace(budget, peak_w=np.inf)
        most[bursts] = _Runs(alone, endless, each, each, budget.peak_w, most[bursts], False).highest_clock()
    (starts,), run_of = is_first[at].nonzero(), is_first[at].cumsum() - 1
    needs = KernelNeeds._make([values[at] for values in needs])
    runs = _Runs(needs, budget, starts, run_of, budget.limit_w, most, bool(np.maximum.reduce(needs.host_s)))
    found = np.array(fastest)
    found[:, at] = runs.at_clock(runs.highest_clock())
    return Throttled._make(found)


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
    """Runs of kernels, which begin at `starts`, (r,), under the same limit, W, and may wait for the host. `run_of` is
    the run of each kernel, and `most` its highest clock, (k,) each."""

    needs: KernelNeeds
    budget: PowerBudget
    starts: Ints
    run_of: Ints
    limit_w: float
    most: Floats
    waits: bool

    def run_at(self, clock: Floats) -> tuple[Floats, ...]:
        """Return of each kernel at the clock of its run, (r,): seconds on the device, and with waits for the host; the
        factors of cycles and of energy on chip, which is the voltage squared; this energy, J; and power at rest, W."""
        needs, budget, of_kernel = self.needs, self.budget, np.minimum(clock[self.run_of], self.most)
        cycles, squared = np.minimum(of_kernel / budget.core_clock, 1.0), (1.0 - budget.slope * (1.0 - of_kernel)) ** 2
        own_s = needs.own_s - needs.busy_s - needs.start_s + needs.start_s / cycles
        own_s += np.maximum(needs.busy_s, needs.compute_s / of_kernel)
        cycles *= own_s / np.maximum(needs.own_s, 1e-300)
        chip_j = (needs.chip_j + needs.timed_j * cycles) * squared
        idle_w = (budget.static_w - budget.gated_w) * (1.0 - budget.idle_follows * (1.0 - of_kernel * squared))
        kernel_s = dispatched_s(own_s, needs.host_s, needs.awaits) if self.waits else own_s
        pause = np.maximum((chip_j + needs.memory_j) / (budget.peak_w - idle_w) / np.maximum(kernel_s, 1e-300), 1.0)
        own_s, kernel_s = own_s * pause, kernel_s * pause
        return own_s, kernel_s, cycles, squared, chip_j, idle_w

    def excess_j(self, clock: Floats) -> Floats:
        """Return the energy of each run beyond what the limit allows, at its clock, J."""
        _, kernel_s, _, _, chip_j, idle_w = self.run_at(clock)
        over_j = chip_j + self.needs.memory_j + (idle_w - self.limit_w) * kernel_s
        return np.asarray(np.add.reduceat(over_j * self.needs.times, self.starts), dtype=np.float64)

    def highest_clock(self) -> Floats:
        """Return the highest clock of each run at which its energy fits into its time, or the least clock, (r,), each
        run by itself, whatever others are solved with it. Interpolate between the ends of what is left and the end that
        was left last, or halve it where this curve turns (Chandrupatla)."""
        ends = np.zeros((2, len(self.starts)))
        ends[:] = ((self.budget.least_clock,), (1.0,))
        # Of the energy times the clock, which is closer to a line. The first end keeps the limit.
        over = np.array([clock * self.excess_j(clock) for clock in ends])
        ends[0, over[1] <= 0.0] = 1.0
        clock, (left,) = ends[0].copy(), ((over[0] < 0.0) & (over[1] > 0.0)).nonzero()
        new, share = np.zeros(len(left), dtype=np.int64), over[0, left] / (over[0, left] - over[1, left])
        while len(left):
            clock[left] = a = ends[new, left] + share * (ends[1 - new, left] - ends[new, left])
            over_a = (clock * self.excess_j(clock))[left]
            new = (over_a > 0.0).astype(np.int64)
            b, over_b, c, over_c = ends[1 - new, left], over[1 - new, left], ends[new, left], over[new, left]
            ends[new, left], over[new, left] = a, over_a
            part, fall = (a - b) / (c - b), (over_a - over_b) / (over_c - over_b)
            turns = (fall**2 >= part) | ((1.0 - fall) ** 2 >= 1.0 - part)
            over_c[turns] = (over_a - over_b)[turns]  # not used, and no divisor is 0
            share = over_a / (over_b - over_a) * over_c / (over_b - over_c)
            share += (c - a) / (b - a) * over_a / (over_c - over_a) * over_b / (over_c - over_b)
            share[turns] = 0.5
            least = _CLOSE / np.abs(b - a)
            share = np.maximum(np.minimum(share, 1.0 - least), least)
            is_left = (least < 0.5) & (over_a != 0.0)
            left, new, share = left[is_left], new[is_left], share[is_left]
        return np.asarray(ends[0], dtype=np.float64)

    def at_clock(self, clock: Floats) -> Throttled:
        """Return the kernels at the clock of each run. What lacks at the least clock is a pause, and the energy is what
        the limit allows, whatever the last digits of the clock."""
        budget, memory_j = self.budget, self.needs.memory_j
        own_s, kernel_s, cycles, squared, chip_j, idle_w = self.run_at(clock)
        drawn_w = (chip_j + memory_j) / np.maximum(kernel_s, 1e-300)
        sums = np.array((chip_j, memory_j, kernel_s, idle_w * kernel_s)) * self.needs.times
        on_chip_j, held_j, run_s, rest_j = np.add.reduceat(sums, self.starts, axis=1)
        room_j = self.limit_w * run_s - rest_j
        longer = np.where(clock <= budget.least_clock, np.maximum((on_chip_j + held_j) / room_j, 1.0), 1.0)
        allowed = _ratio(room_j * longer - held_j, on_chip_j)
        allowed = np.where(clock < 1.0, np.minimum(allowed, 1.0), 1.0)
        stretch, price_scale = longer[self.run_of], squared * allowed[self.run_of]
        # Where nothing slows down, what the chip switches off at rest is what the limits ask for.
        spare_w = _ratio(room_j - on_chip_j - held_j, run_s)
        added_w = (np.minimum(np.maximum(spare_w, 0.0), budget.gated_w) * (clock >= 1.0))[self.run_of]
        idle_w = idle_w + np.minimum(added_w, np.maximum(budget.peak_w - idle_w - drawn_w, 0.0))
        at_rest = _ratio(idle_w, np.full(len(own_s), budget.static_w))
        return Throttled(own_s * stretch, kernel_s * stretch, price_scale, cycles, at_rest)


def _ratio(value: Floats, per: Floats) -> Floats:
    return np.divide(value, per, out=np.zeros(len(value)), where=per > 0.0)
