"""Missions: several models at their rates on the units of one module, within a power budget or a battery.

A unit runs one frame at a time, the earliest deadline first; a frame that cannot end before its deadline is dropped.
Units share the memory of their module: a kernel waits for memory while other units use it, so its time at the
memory grows by `1 / (1 - share of the time in which others use the memory)`. docs/missions.md compares that with
measurements.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from analysis.document import column
from analysis.estimate.estimate import Estimate
from hardware.base import file_access
from hardware.base.errors import RequestError, unknown
from hardware.base.text import percent, quantity
from hardware.demand import Floats
from hardware.device import Device
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


def schedule(tasks: Sequence[Task], seconds: Sequence[float], horizon_s: float) -> Frames:
    """Simulate tasks that take `seconds` each on one unit. The unit runs one frame at a time, the earliest deadline
    first, and drops a frame that cannot end in time. A task without a rate is due when its last frame began plus the
    time of all tasks, so it takes turns with its like."""
    n, now, busy, turn_s = len(tasks), 0.0, 0.0, sum(seconds)
    recorded: list[FrameRun] = []
    frames, ended, dropped, total_s, longest_s = ([0.0] * n for _ in range(5))  # NumPy's items are slow
    periods_s, dues_s = [task.period_s for task in tasks], [task.due_s for task in tasks]
    queue = [(round(dues_s[i], _DIGITS) if task.rate_hz else turn_s, i, 0.0) for i, task in enumerate(tasks)]
    arrivals = [(periods_s[i], i, 1) for i, task in enumerate(tasks) if task.rate_hz]
    heapq.heapify(queue)
    heapq.heapify(arrivals)
    while now < horizon_s:
        while arrivals and arrivals[0][0] <= now:
            arrival_s, i, frame = heapq.heappop(arrivals)
            heapq.heappush(queue, (round(arrival_s + dues_s[i], _DIGITS), i, arrival_s))
            heapq.heappush(arrivals, (round((frame + 1) * periods_s[i], _DIGITS), i, frame + 1))
        if not queue:
            now = arrivals[0][0]
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


MODULES = Path(__file__).with_name("mission.toml")
WHICH = "which"  # instead of a device: search the catalogue
_ROUNDS = 12  # of waits for memory, until they agree with the rates of the tasks
_MOST_SHARE = 0.9  # of the time in which others use the memory
_FRAMES = 400.0  # of the fastest task in a simulated schedule, unless another is slow
_MOST_FRAMES = 20_000.0  # of all tasks together
_RATES_HZ = (1e-6, 1e6)
_MOST_TASKS = 32
_TURNS = 20.0  # of all tasks in a simulated schedule, if none has a rate
_PERIODS = 4.0  # of all tasks in a timeline, if none has a rate
_DIVISIONS = 256  # ways to divide tasks among units that are tried
_STEPS = 12  # of a search for the largest rates


class Mission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tasks, and what they may take: `power_w` on average, or `hours` from a battery that also feeds `other_w`. At most
    the share `missed_share` of the frames may be dropped or late."""

    device: str = WHICH
    power_w: float = np.inf
    battery_wh: float = 0.0
    other_w: float = 0.0
    hours: float = 0.0
    missed_share: float = 0.0
    task: tuple[Task, ...]


class TaskAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A task on its unit. Seconds are of one frame: alone, and beside the other tasks (mean and longest, from its
    arrival to its end), and `busy_s` of its unit. `missed_share` is the share of frames that are dropped. `place` is
    that of the unit in the module."""

    model: Annotated[str, column("Task")]
    unit: Annotated[str, column("Unit")]
    precision_run: Annotated[str, column("Format", keep=3)]
    rate_hz: Annotated[float, column("Asked/s", keep=1)]
    done_hz: Annotated[float, column("Done/s")]
    alone_s: Annotated[float, column("Alone", "s", keep=2)]
    together_s: Annotated[float, column("Time beside others", "s")]
    longest_s: Annotated[float, column("Longest", "s", keep=2)]
    due_s: Annotated[float | None, column("Deadline", "s", keep=1)]
    missed_share: Annotated[float, column("Missed", "%")]
    energy_j: Annotated[float, column("Energy/frame", "J", keep=1)]
    power_w: Annotated[float, column("Power", "W")]
    busy_s: float
    place: int


class ModuleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A mission on one module. `host_w` is that of a host at rest, if the module has none. `worst` is the largest of
    what is needed over what is allowed, at most 1 if possible."""

    device: Annotated[str, column("Device")]
    is_possible: Annotated[bool, column("Possible", shown={True: "yes", False: "no"})]
    missed_share: Annotated[float, column("Missed", "%")]
    busy: Annotated[float, column("Load of the fullest unit", "%")]
    rest_w: Annotated[float, column("At rest", "W", keep=2)]
    host_w: Annotated[float, column("Host", "W", keep=2)]
    power_w: Annotated[float, column("Power", "W")]
    hours: Annotated[float | None, column("Battery h")]
    worst: float
    why: Annotated[str, column("Why not", keep=1)]
    tasks: tuple[TaskAnswer, ...]


class MissionChange(msgspec.Struct, frozen=True):
    """A change of a mission, and whether it makes it possible."""

    change: Annotated[str, column("Change")]
    is_possible: Annotated[bool, column("Possible", shown={True: "yes", False: "no"})]
    says: Annotated[str, column("Result", keep=0)]


class MissionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `hwexplorer mission`: the module asked for, or the one that takes least power; `modules` are all
    that were tried, `ways` what would make an impossible mission possible. `frames` are the first of
    each task of `best`, until `frames_s`."""

    mission: str
    verdict: str
    best: ModuleAnswer
    n_possible: int
    modules: tuple[ModuleAnswer, ...]
    ways: tuple[MissionChange, ...]
    frames: tuple[FrameRun, ...]
    frames_s: float


Find = Callable[[Task, str], Estimate]  # the estimate of a task on a device, by its key


def read_mission(path: Path) -> Mission:
    """Read a mission from a TOML file. Raises RequestError with the record and the nearest field."""
    try:
        data = file_access.table(path)
        tasks = data.pop("task", None)
        if not isinstance(tasks, list) or not tasks:
            raise ValueError(f"{path.name}: no [[task]]: each needs a model and rate_hz")
        task_rows = tuple(file_access.convert_record(path, f"task {i}", row, Task) for i, row in enumerate(tasks, 1))
        mission = file_access.convert_record(path, "mission", {**data, "task": []}, Mission)
    except OSError as error:
        raise RequestError(f"{path.name}: {error.strerror or error}") from None
    except ValueError as error:
        raise RequestError(str(error)) from None
    if len(task_rows) > _MOST_TASKS:
        raise RequestError(f"{path.name}: {len(task_rows)} tasks, at most {_MOST_TASKS} are possible")
    low, high = _RATES_HZ
    for i, task in enumerate(task_rows, 1):
        if not (0.0 <= task.rate_hz < np.inf and 0.0 <= task.deadline_s < np.inf and task.batch >= 1):
            raise RequestError(f"{path.name}: task {i}: a rate, a deadline or a batch is below its least value")
        if task.rate_hz and not low <= task.rate_hz <= high:
            raise RequestError(f"{path.name}: task {i}: rate_hz = {task.rate_hz:g} is not within {low:g} to {high:g}")
    if not mission.power_w > 0.0 or not all(
        0.0 <= amount < np.inf for amount in (mission.battery_wh, mission.other_w, mission.hours, mission.missed_share)
    ):
        raise RequestError(f"{path.name}: an amount of the mission is not a number above zero")
    if mission.hours and not mission.battery_wh:
        raise RequestError(f"{path.name}: hours need battery_wh")
    return msgspec.structs.replace(mission, task=task_rows)


def module_units(device: Device, load: Callable[[str], Device]) -> tuple[Device, ...]:
    """Return the units of the module that a device names, in its power mode where they have it; else the device."""
    ids = file_access.shipped(MODULES)["modules"].get(device.id, (device.id,))
    return (device, *(_in_mode(name, device.power_mode, load) for name in ids[1:]))


def find_partner(device: Device, architecture: str, load: Callable[[str], Device]) -> Device | None:
    """Return the first unit of an architecture in the module of a device, in its power mode; None if none is known."""
    for first, ids in file_access.shipped(MODULES)["modules"].items():
        if device.id in ids:
            lead = device if device.id == first else _in_mode(first, device.power_mode, load)
            return next((unit for unit in module_units(lead, load) if unit.architecture == architecture), None)
    return None


def _in_mode(name: str, mode: str, load: Callable[[str], Device]) -> Device:
    """Return a device in a power mode, or as usual if it has no such mode."""
    try:
        return load(f"{name}:{mode}" if mode else name)
    except RequestError:
        return load(name)


def list_modules(devices: Sequence[Device], load: Callable[[str], Device]) -> list[tuple[Device, ...]]:
    """Return the units of each device; a device that is a unit of another one of them is not listed again."""
    modules = [module_units(device, load) for device in devices]
    others = {unit.id for units in modules for unit in units[1:]}
    return [units for units in modules if units[0].id not in others]


def stretched_s(result: Estimate, share: float) -> float:
    """Return the latency if other units use the memory for a `share` of the time."""
    run = result.run
    waits = np.maximum(run.kernel_memory_s / (1.0 - share), run.kernel_compute_s)
    extra_s = waits - np.maximum(run.kernel_memory_s, run.kernel_compute_s)
    return result.latency_s + float(extra_s.sum())


def run_on_units(mission: Mission, units: Sequence[Device], places: Sequence[int], find: Find) -> ModuleAnswer:
    """Run each task on the unit of its place."""
    results = [find(task, units[place].key) for task, place in zip(mission.task, places, strict=True)]
    if sum(result.memory.peak_bytes for result in results) > max(unit.memory_bytes for unit in units):
        raise RequestError(f"{units[0].label} has no room for the models of these tasks")
    bandwidth = max(unit.memory_bandwidth for unit in units)
    memory_s = [float(r.run.kernel_memory_s.sum()) * r.device.memory_bandwidth / bandwidth for r in results]
    horizon_s = _horizon_s(mission.task, [result.latency_s for result in results])
    shares, n = np.zeros(len(units)), len(results)
    rates_hz, missed_share, mean_s, longest_s, taken_s = (np.zeros(n) for _ in range(5))
    for _ in range(_ROUNDS if len(set(places)) > 1 else 1):
        old_shares, busy = shares.copy(), 0.0
        for unit in dict.fromkeys(places):
            members = [i for i in range(n) if places[i] == unit]
            others = min(old_shares.sum() - old_shares[unit], _MOST_SHARE)
            taken_s[members] = [stretched_s(results[i], others) for i in members]
            frames = schedule([mission.task[i] for i in members], taken_s[members].tolist(), horizon_s)
            rates_hz[members], missed_share[members] = frames.rates_hz, frames.missed_share
            mean_s[members], longest_s[members] = frames.mean_s, frames.longest_s
            shares[unit] = (old_shares[unit] + float(rates_hz[members] @ np.array(memory_s)[members])) / 2.0
            busy = max(busy, frames.busy)
        if np.abs(shares - old_shares).max() < 1e-3:
            break
    rest_w = max(
        *(unit.idle_w for unit in units), *(result.component_j["static"] / result.latency_s for result in results)
    )
    dynamic_j = np.array([result.energy_j - result.component_j["static"] for result in results])
    rates_hz = np.minimum(rates_hz, [task.rate_hz or np.inf for task in mission.task])
    dues = [task.due_s if np.isfinite(task.due_s) else None for task in mission.task]
    tasks = tuple(
        TaskAnswer(
            model=task.model, unit=result.device.key, precision_run=result.precision_run, rate_hz=task.rate_hz,
            done_hz=float(rates_hz[i]), alone_s=result.latency_s, together_s=float(mean_s[i]),
            longest_s=float(longest_s[i]), due_s=dues[i], missed_share=float(missed_share[i]),
            energy_j=float(dynamic_j[i]), power_w=float(dynamic_j[i] * rates_hz[i]),
            busy_s=float(taken_s[i]), place=places[i],
        )
        for i, (task, result) in enumerate(zip(mission.task, results, strict=True))
    )  # fmt: skip
    has_host = any(unit.arch.is_host or unit.software.shares_host_memory for unit in units)
    host_w = 0.0 if has_host else float(file_access.shipped(MODULES)["host"]["rest_w"]["value"])
    return _judge(mission, units[0], tasks, (rest_w, host_w), busy)


def _horizon_s(tasks: Sequence[Task], alone_s: Sequence[float]) -> float:
    """Return the seconds that a schedule simulates: some frames of each task, but not too many of all."""
    rates = [task.rate_hz for task in tasks if task.rate_hz]
    most_s = _MOST_FRAMES * min(alone_s) if len(rates) < len(tasks) else np.inf
    if not rates:
        return min(max(_TURNS * sum(alone_s), 2.0), most_s)
    return min(max(_FRAMES / max(rates), 2.0 / min(rates)), _MOST_FRAMES / sum(rates), most_s)


def _judge(
    mission: Mission, device: Device, tasks: tuple[TaskAnswer, ...], rest_w: tuple[float, float], busy: float
) -> ModuleAnswer:
    """Return the answer with what is needed over what is allowed; `rest_w` are those of the module and of its host."""
    module_w = rest_w[0] + sum(task.power_w for task in tasks)
    power_w = module_w + rest_w[1]
    hours = mission.battery_wh / (power_w + mission.other_w) if mission.battery_wh else None
    worst_task = max(tasks, key=lambda task: task.missed_share)
    missed_share = worst_task.missed_share
    sustained_w = min(device.power_limit_w, device.sustained_w)
    needs = [
        (watts / limit_w, f"{quantity(watts, 'W')} of {quantity(limit_w, 'W')}{whose}")
        for watts, limit_w, whose in ((power_w, mission.power_w, ""), (module_w, sustained_w, " that it sustains"))
        if np.isfinite(limit_w)
    ]
    if missed_share > mission.missed_share:
        needs.append(_need_of_time(tasks, worst_task))
    if hours is not None and mission.hours:
        needs.append((mission.hours / hours, f"the battery lasts {hours:.2g} h, {mission.hours:g} h are asked for"))
    worst, why = max(needs)
    return ModuleAnswer(
        device=device.key, is_possible=worst <= 1.0, missed_share=missed_share, busy=busy,
        rest_w=rest_w[0], host_w=rest_w[1], power_w=power_w, hours=hours, worst=worst, why=why, tasks=tasks,
    )  # fmt: skip


def _need_of_time(tasks: Sequence[TaskAnswer], worst: TaskAnswer) -> tuple[float, str]:
    """Return how much quicker units must be at least for no frame to be dropped, and why `worst` drops most."""
    loads = (sum(task.rate_hz * task.busy_s for task in tasks if task.place == one.place) for one in tasks)
    frames = (task.busy_s / task.due_s for task in tasks if task.due_s)
    says = f"{worst.model} misses {percent(worst.missed_share)} of its frames"
    if worst.due_s and worst.busy_s > worst.due_s:
        says = f"{worst.model} takes {quantity(worst.busy_s, 's')} of {quantity(worst.due_s, 's')} a frame"
    return max(1.0 + worst.missed_share, *loads, *frames), says


def _places(task: Task, units: Sequence[Device]) -> list[int]:
    """Return the units that a task may run on. Raises RequestError if the module has none of that name."""
    unit_name = task.unit.lower()
    places = [i for i, unit in enumerate(units) if not unit_name or unit_name in (unit.id, unit.architecture, unit.key)]
    if not places:
        raise unknown("unit", task.unit, [name for unit in units for name in (unit.architecture, unit.id)])
    return places


def divide_tasks(mission: Mission, units: Sequence[Device], find: Find) -> ModuleAnswer:
    """Return the best division of the tasks among the units: possible, then no frame dropped, then least power. If
    there are too many divisions to try, tasks move one by one while that makes it better."""
    choices = [_places(task, units) for task in mission.task]
    if math.prod(map(len, choices)) <= _DIVISIONS:
        divisions = dict.fromkeys(_first_of_alike(places, units) for places in product(*choices))
        return min((run_on_units(mission, units, places, find) for places in divisions), key=_order)
    places = [choice[0] for choice in choices]
    best, is_better = run_on_units(mission, units, places, find), True
    while is_better:
        is_better = False
        for i, place in ((i, place) for i, choice in enumerate(choices) for place in choice):
            answer = run_on_units(mission, units, [*places[:i], place, *places[i + 1 :]], find)
            if _order(answer) < _order(best):
                best, places[i], is_better = answer, place, True
    return best


def _order(answer: ModuleAnswer) -> tuple[bool, float, float]:
    return not answer.is_possible, answer.missed_share, answer.power_w


def _first_of_alike(places: Sequence[int], units: Sequence[Device]) -> tuple[int, ...]:
    """Return a division with units of one kind taken in their order: two alike may be exchanged."""
    number_of: dict[int, int] = {}
    for place in dict.fromkeys(places):
        alike = (i for i, unit in enumerate(units) if unit.key == units[place].key and i not in number_of.values())
        number_of[place] = next(alike)
    return tuple(number_of[place] for place in places)


def _scaled(mission: Mission, scale: float) -> Mission:
    tasks = tuple(msgspec.structs.replace(task, rate_hz=task.rate_hz * scale) for task in mission.task)
    return msgspec.structs.replace(mission, task=tasks)


def _largest_scale(mission: Mission, units: Sequence[Device], find: Find) -> float:
    """Return the largest part of all rates, in whole percent, at which the mission is possible, or 0."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        is_possible = divide_tasks(_scaled(mission, middle), units, find).is_possible
        low, high = (middle, high) if is_possible else (low, middle)
    return math.floor(low * 100.0) / 100.0


def _try_all(
    cases: Iterable[tuple[str, Mission, Sequence[Device]]], find: Find
) -> tuple[list[tuple[str, Sequence[Device], ModuleAnswer]], str]:
    """Return name, units and answer of each case that its units can run, and the last error ('' without one)."""
    answers, reason = [], ""
    for name, mission, units in cases:
        try:
            answers.append((name, units, divide_tasks(mission, units, find)))
        except RequestError as error:
            reason = str(error)
    return answers, reason


def find_ways(mission: Mission, units: Sequence[Device], find: Find) -> tuple[MissionChange, ...]:
    """Return changes of an impossible mission on a module, the possible ones first."""
    changes, tasks = list[tuple[str, Mission]](), mission.task
    if any(task.precision != "int8" for task in tasks):
        narrow = tuple(msgspec.structs.replace(task, precision="int8") for task in tasks)
        changes.append(("all tasks in int8", msgspec.structs.replace(mission, task=narrow)))
    free = msgspec.structs.replace(mission, power_w=np.inf, hours=0.0)
    changes.append(("without a power budget or hours", free))
    for i, task in enumerate(tasks if len(tasks) > 1 else ()):
        changes.append((f"without {task.model}", msgspec.structs.replace(mission, task=tasks[:i] + tasks[i + 1 :])))
    if any(task.rate_hz for task in tasks) and (scale := _largest_scale(mission, units, find)):
        changes.append((f"{percent(scale)} of all rates", _scaled(mission, scale)))
    answers, _ = _try_all(((name, changed, units) for name, changed in changes), find)
    ways = (MissionChange(name, answer.is_possible, answer.why) for name, _, answer in answers)
    return tuple(sorted(ways, key=lambda way: not way.is_possible))


def answer_mission(
    name: str,
    mission: Mission,
    modules: Iterable[Sequence[Device]],
    find: Find,
    on_paper: Iterable[Sequence[Device]] = (),
) -> MissionAnswer:
    """Answer a mission on modules; devices `on_paper` are tried if none of these can do it. Modules that a model does
    not fit are left out. Raises RequestError if that leaves none."""
    tried, reason = _try_all(((name, mission, units) for units in modules), find)
    if not tried:
        raise RequestError(f"{name}: {reason or 'no device'}")
    tried.sort(key=lambda one: (not one[2].is_possible, one[2].power_w if one[2].is_possible else one[2].worst))
    _, units, best = tried[0]
    possible = sum(answer.is_possible for _, _, answer in tried)
    ways: tuple[MissionChange, ...] = ()
    if not possible:
        designs, _ = _try_all(((name, mission, design) for design in on_paper), find)
        ways = find_ways(mission, units, find) + tuple(
            MissionChange(f"{answer.device}, which exists on paper only", True, answer.why)
            for _, _, answer in designs
            if answer.is_possible
        )
    periods_s = [task.period_s for task in mission.task if task.rate_hz]
    frames_s = max(periods_s) if periods_s else _PERIODS * sum(task.busy_s for task in best.tasks)
    return MissionAnswer(
        mission=name, verdict=_verdict(best, possible, len(tried)), best=best, n_possible=possible,
        modules=tuple(answer for _, _, answer in tried), ways=ways,
        frames=_first_frames(mission.task, best.tasks, frames_s), frames_s=frames_s,
    )  # fmt: skip


def _first_frames(asked: Sequence[Task], tasks: Sequence[TaskAnswer], end_s: float) -> tuple[FrameRun, ...]:
    """Return the frames that begin before `end_s`, unit by unit."""
    runs: list[FrameRun] = []
    end_s = min(end_s, _horizon_s(asked, [task.busy_s for task in tasks]))
    for place in sorted({task.place for task in tasks}):
        members = [i for i, task in enumerate(tasks) if task.place == place]
        frames = schedule([asked[i] for i in members], [tasks[i].busy_s for i in members], end_s)
        runs += [msgspec.structs.replace(run, task=members[run.task]) for run in frames.recorded if run.begin_s < end_s]
    return tuple(runs)


def _verdict(best: ModuleAnswer, possible: int, tried: int) -> str:
    device = f"{best.device} ({', '.join(dict.fromkeys(task.precision_run for task in best.tasks))})"
    if tried == 1:
        return f"{'Possible' if possible else 'Impossible'} on {device}: {best.why}"
    if possible:
        return f"Possible on {possible} of {tried} modules; {device} takes least power: {best.why}"
    return f"Impossible on all {tried} modules; nearest is {device}: {best.why}"
