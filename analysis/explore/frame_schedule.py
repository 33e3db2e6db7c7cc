"""The schedule of tasks on one unit: frames at their rates, the earliest deadline first.

A unit runs one frame at a time; a frame that cannot end before its deadline is dropped.
"""

import heapq
from functools import lru_cache

import msgspec
import numpy as np

from hardware.demand import Floats
from hardware.precision import DEFAULT

_RECORDED = 200  # frames at the beginning of a schedule
_DIGITS = 9  # of times in a schedule: frames that are due together run in the order of the tasks


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model that runs `rate_hz` times a second, each time within `deadline_s` (by default until the next frame); 0:
    again and again. `unit` is a device or an architecture of the module, by default any."""

    model: str
    rate_hz: float = 0.0
    deadline_s: float = 0.0
    unit: str = ""
    precision: str = DEFAULT
    batch: int = 1

    @property
    def period_s(self) -> float:
        """The seconds between frames; infinite for a task without a rate."""
        return 1.0 / self.rate_hz if self.rate_hz else np.inf

    @property
    def due_s(self) -> float:
        """The seconds in which a frame has to be done."""
        return self.deadline_s or self.period_s


class FrameRun(msgspec.Struct, frozen=True):
    """A frame of a task, by its place: the unit works on it from `begin_s` to `end_s`, not at all if it is dropped."""

    task: int
    begin_s: float
    end_s: float
    is_dropped: bool


class Frames(msgspec.Struct, frozen=True):
    """The frames of tasks on one unit, (n,) by task: done in a second, the share dropped, and their mean and longest
    seconds from arrival to end. `busy` is the share of time in which the unit works; `recorded` are the first frames in
    order."""

    rates_hz: Floats
    missed_share: Floats
    mean_s: Floats
    longest_s: Floats
    busy: float
    recorded: tuple[FrameRun, ...]


@lru_cache(maxsize=512)
def schedule(tasks: tuple[Task, ...], seconds: tuple[float, ...], horizon_s: float) -> Frames:
    """Simulate tasks that take `seconds` each on one unit. The unit runs one frame at a time, the earliest deadline
    first, and drops a frame that cannot end in time. A task without a rate is due when its last frame began plus the
    time of all tasks, so it takes turns with its like. With its frames recorded it ends where the schedule repeats."""
    n, now, busy, turn_s = len(tasks), 0.0, 0.0, sum(seconds)
    recorded: list[FrameRun] = []
    frames, ended, dropped, total_s, longest_s = ([0.0] * n for _ in range(5))  # NumPy's items are slow
    periods_s, dues_s = [task.period_s for task in tasks], [task.due_s for task in tasks]
    queue = [(round(dues_s[i], _DIGITS) if task.rate_hz else turn_s, i, 0.0) for i, task in enumerate(tasks)]
    arrivals = [(round(periods_s[i], _DIGITS), i, 1) for i, task in enumerate(tasks) if task.rate_hz]
    heapq.heapify(queue)
    heapq.heapify(arrivals)
    while now < horizon_s:
        while arrivals and arrivals[0][0] <= now:
            arrival_s, i, frame = heapq.heappop(arrivals)
            heapq.heappush(queue, (round(arrival_s + dues_s[i], _DIGITS), i, arrival_s))
            heapq.heappush(arrivals, (round((frame + 1) * periods_s[i], _DIGITS), i, frame + 1))
        if not queue:
            now = arrivals[0][0]
            if len(recorded) == _RECORDED and len(arrivals) == n and all(arrival[0] == now for arrival in arrivals):
                break  # what follows repeats what has been
            continue
        due, i, arrival_s = heapq.heappop(queue)
        frames[i] += 1.0
        is_late = bool(tasks[i].rate_hz) and now + seconds[i] > due + 10.0**-_DIGITS
        dropped[i] += is_late
        if len(recorded) < _RECORDED:
            recorded.append(FrameRun(i, now, now + seconds[i] * (not is_late), is_late))
        if is_late:
            continue
        now, busy = round(now + seconds[i], _DIGITS), busy + seconds[i]
        taken_s = now - arrival_s
        ended[i], total_s[i], longest_s[i] = ended[i] + 1.0, total_s[i] + taken_s, max(longest_s[i], taken_s)
        if not tasks[i].rate_hz:
            heapq.heappush(queue, (now + turn_s, i, now))
    done = np.array(ended)
    return Frames(
        done / now,
        np.divide(dropped, np.maximum(frames, 1.0)),
        np.divide(total_s, done, out=np.full(n, np.nan), where=done > 0.0),
        np.array(longest_s),
        min(busy / now, 1.0),
        tuple(recorded),
    )
