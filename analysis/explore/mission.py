"""Missions: several models at their rates on the units of one module, or a load in TOPS, within what carries it: a
power budget, a battery, a surface that sheds heat, a mass.

Units share the memory of their module: a kernel waits for memory while other units use it, so its time at the
memory grows by `1 / (1 - share of the time in which others use the memory)`. docs/missions.md compares that with
measurements. A unit runs one frame at a time, the earliest deadline first; a frame that cannot end before its deadline
is dropped. A load in TOPS takes the energy per operation of a reference model; as many chips share it as it needs,
all at work, and they draw nothing else.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, chain, product
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from analysis.document import column, record
from analysis.estimate.estimate import Estimate
from analysis.explore.divided_run import refusal
from analysis.explore.grid import Ranking, Tick, try_each
from analysis.explore.odds import describe_odds, odds_below
from analysis.wording import EVIDENCE
from hardware.base import file_access
from hardware.base.errors import RequestError, unknown
from hardware.base.text import percent, quantity
from hardware.demand import Floats
from hardware.device import Device
from hardware.precision import DEFAULT

MODULES = Path(__file__).with_name("mission.toml")
WHICH = "which"  # instead of a device: search the catalogue
_ROUNDS = 12  # of waits for memory, until they agree with the rates of the tasks
_MOST_SHARE = 0.9  # of the time in which others use the memory
_FRAMES = 400.0  # of the fastest task in a simulated schedule, unless another is slow
_MOST_FRAMES = 20_000.0  # of all tasks together
_LEAST_RATE_HZ = 1e-6
_Amount = Annotated[float, msgspec.Meta(ge=0.0, le=1e12)]
_MOST_TASKS = 32
_TURNS = 20.0  # of all tasks in a simulated schedule, if none has a rate
_DIVISIONS = 64  # ways to divide tasks among units that are tried
_SCALES, _NEAREST = np.arange(0.95, 0.0, -0.05).tolist(), 16  # of rates that are tried, on the nearest modules
_REPEATS = 200  # frames after which a schedule ends where all tasks begin anew
_TICK_S = 1e-9  # of a schedule: frames that are due together run in the order of the tasks
_MOST_RUNS = 10_000  # of tasks on devices, in a search for ways


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model that runs `rate_hz` times a second, each time within `deadline_s` (by default until the next frame); 0:
    again and again. `unit` is a device or an architecture of the module, by default any."""

    model: str
    rate_hz: Annotated[float, msgspec.Meta(ge=0.0, le=1e6)] = 0.0
    deadline_s: _Amount = 0.0
    unit: str = ""
    precision: str = DEFAULT
    batch: Annotated[int, msgspec.Meta(ge=1)] = 1

    @property
    def period_s(self) -> float:
        """The seconds between frames; infinite for a task without a rate."""
        return 1.0 / self.rate_hz if self.rate_hz else np.inf

    @property
    def due_s(self) -> float:
        """The seconds in which a frame has to be done."""
        return self.deadline_s or self.period_s


class Mission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tasks or a load of `tops`, and what they may take: `power_w` on average, `hours` from a battery that also feeds
    `other_w`, `mass_g` of that battery at `wh_per_kg`, `w_per_cm2` of a surface that sheds the heat. At most the share
    `missed_share` of the frames may be dropped or late. `device` names candidates, or all of the catalogue, each in all
    its power modes or in those of `modes`."""

    device: str | tuple[str, ...] = WHICH
    modes: tuple[str, ...] = ()
    power_w: Annotated[float, msgspec.Meta(gt=0.0)] = np.inf
    battery_wh: _Amount = 0.0
    other_w: _Amount = 0.0
    hours: _Amount = 0.0
    mass_g: _Amount = 0.0
    wh_per_kg: _Amount = 0.0
    surface_cm2: _Amount = 0.0
    w_per_cm2: _Amount = 0.0
    missed_share: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.0
    tops: _Amount = 0.0
    task: tuple[Task, ...] = ()

    @property
    def candidates(self) -> tuple[str, ...]:
        """The devices that are named, none for all of the catalogue."""
        return (() if self.device == WHICH else (self.device,)) if isinstance(self.device, str) else self.device


class TaskAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A task on its unit. Seconds are of one frame: alone, and beside the other tasks (mean and longest, from its
    arrival to its end), and `busy_s` of its unit. `missed_share` is the share of frames that are dropped. `place` is
    that of the unit in the module. Factors are the ends of the bands of time and energy over these."""

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
    evidence: Annotated[str, column("Evidence", keep=3, shown=EVIDENCE)]
    busy_s: float
    place: int
    latency_factors: tuple[float, float]
    energy_factors: tuple[float, float]


class Need(msgspec.Struct, frozen=True):
    """The demand of a module `over` its allowance, at most 1 if it has enough, and the odds that it has. `kind` names
    the resource: time or power."""

    over: float
    says: str
    odds: float
    kind: str

    @property
    def flip(self) -> str:
        """Write how much the mission takes of what it is allowed: `takes 62 % of the power allowed`, `16x the time`."""
        if not 0.0 < self.over < np.inf:
            return "nothing is left for what computes" if self.over else self.says
        return f"takes {f'{percent(self.over)} of' if self.over < 2.0 else f'{self.over:.2g}x'} the {self.kind} allowed"


class ModuleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A mission on one module. `host_w` is that of a host at rest, if the module has none. `worst` is the largest of
    what is needed over what is allowed, at most 1 if possible, `flip` what would change that. `chips` share a load in
    TOPS."""

    device: Annotated[str, column("Device")]
    is_possible: Annotated[bool, column("Possible", shown={True: "yes", False: "no"})]
    odds: Annotated[float, column("Odds", "%", help="odds that a measurement finds it possible, from the bands")]
    missed_share: Annotated[float, column("Missed", "%", keep=1)]
    busy: Annotated[float, column("Load of the fullest unit", "%", keep=1)]
    chips: Annotated[float, column("Chips", keep=4)]
    rest_w: Annotated[float, column("At rest", "W", keep=3)]
    host_w: Annotated[float, column("Host", "W", keep=3)]
    power_w: Annotated[float, column("Power", "W")]
    battery_h: Annotated[float | None, column("Battery h", key="hours")]
    evidence: Annotated[str, column("Evidence", keep=3, shown=EVIDENCE, help="of the task that is known least")]
    worst: float
    why: Annotated[str, column("Why not", keep=1)]
    flip: Annotated[str, column("Margin", keep=2)]
    tasks: tuple[TaskAnswer, ...]

    def sort_key(self, metric: str) -> float:
        """Return the power, or of an impossible mission how far it is from being possible."""
        return self.power_w if self.is_possible else self.worst


class MissionChange(msgspec.Struct, frozen=True):
    """A change of a mission, and whether it makes it possible on any module."""

    change: Annotated[str, column("Change")]
    is_possible: Annotated[bool, column("Possible", shown={True: "yes", False: "no"})]
    says: Annotated[str, column("Result", keep=0)]


class MissionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `hwexplorer mission`: the module asked for, or the one that takes least power; `modules` are all
    that were tried, `ways` what would make an impossible mission possible."""

    mission: str
    verdict: str
    best: ModuleAnswer
    modules: tuple[ModuleAnswer, ...]
    ways: tuple[MissionChange, ...]


Find = Callable[[Task, str], Estimate]  # the estimate of a task on a device, by its key
Tried = tuple[Sequence[Device], ModuleAnswer]  # the units of a module, and the mission on them


def read_mission(path: Path) -> Mission:
    """Read a mission from a TOML file. Raises RequestError with the record and the nearest field."""
    try:
        data = file_access.table(path)
        tasks = data.pop("task", [])
        if not isinstance(tasks, list) or not (tasks or data.get("tops")):
            raise ValueError(f"{path.name}: no [[task]]: each needs a model and rate_hz; or tops, a load in TOPS")
        task_rows = tuple(file_access.convert_record(path, f"task {i}", row, Task) for i, row in enumerate(tasks, 1))
        mission = file_access.convert_record(path, "mission", {**data, "task": []}, Mission)
    except OSError as error:
        raise RequestError(f"{path.name}: {error.strerror or error}") from None
    except ValueError as error:
        raise RequestError(str(error)) from None
    if len(task_rows) > _MOST_TASKS:
        raise RequestError(f"{path.name}: {len(task_rows)} tasks, at most {_MOST_TASKS} are possible")
    if any(0.0 < task.rate_hz < _LEAST_RATE_HZ for task in task_rows):
        raise RequestError(f"{path.name}: rate_hz of a task is below {_LEAST_RATE_HZ:g}")
    if mission.hours and not (mission.battery_wh or mission.mass_g):
        raise RequestError(f"{path.name}: hours need battery_wh")
    if mission.mass_g and not mission.hours:
        raise RequestError(f"{path.name}: mass_g needs hours")
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
    return result.latency_s + float((waits - np.maximum(run.kernel_memory_s, run.kernel_compute_s)).sum())


def _on_unit(result: Estimate, energy_j: float, done_hz: float, **others: Any) -> TaskAnswer:
    """Return a task on a unit, of which `done_hz` frames take `energy_j` each."""
    bands = ((result.latency_band_s, result.latency_s), (result.energy_band_j, result.energy_j))
    latency_factors, energy_factors = ((low / (value or 1.0), high / (value or 1.0)) for (low, high), value in bands)
    return record(
        TaskAnswer, result, unit=result.device.key, alone_s=result.latency_s, evidence=result.trust.level,
        energy_j=energy_j, done_hz=done_hz, power_w=energy_j * done_hz, latency_factors=latency_factors,
        energy_factors=energy_factors, **others,
    )  # fmt: skip


def run_on_units(mission: Mission, units: Sequence[Device], places: Sequence[int], find: Find) -> ModuleAnswer:
    """Run each task on the unit of its place."""
    tasks, rest_w, host_w, busy, chips = tuple[TaskAnswer, ...](), 0.0, 0.0, 0.0, 1.0
    if places:
        tasks, rest_w, busy = _run_tasks(mission, units, places, find)
        has_host = any(unit.arch.is_host or unit.software.shares_host_memory for unit in units)
        host_w = 0.0 if has_host else _constant("host", "rest_w")
    if mission.tops:
        load, busy = _run_load(mission.tops, units, find), 1.0
        chips = max(load.busy_s * load.rate_hz, load.power_w / _sustained_w(units[0]))
        tasks = (*tasks, load)
    return _judge(mission, units[0], tasks, (rest_w, host_w), busy, chips)


def _sustained_w(device: Device) -> float:
    return min(device.power_limit_w, device.sustained_w)


def _constant(table: str, name: str) -> float:
    return float(file_access.shipped(MODULES)[table][name]["value"])


def load_task() -> Task:
    """Return the task that a load in TOPS runs as."""
    reference = file_access.shipped(MODULES)["load"]
    return Task(model=reference["model"], batch=reference["batch"], precision=reference["precision"])


def _run_load(tops: float, units: Sequence[Device], find: Find) -> TaskAnswer:
    """Return a load in TOPS on the unit that takes the least energy for it, at the rate of batches of the reference
    model that makes so many operations."""
    task = load_task()
    idle_w = max(unit.idle_w for unit in units)
    runs = []
    for place in _places(task, units, find):
        result = find(task, units[place].key)
        other_units_j = max(idle_w * result.latency_s - result.component_j["static"], 0.0)
        runs.append((result.energy_j + other_units_j, place, result))
    energy_j, place, result = min(runs, key=lambda run: run[:2])
    operators = result.workload.operators
    rate_hz = tops * 1e12 / (2.0 * float((operators.macs @ result.workload.value_at(batch=task.batch)).sum()))
    return _on_unit(
        result, energy_j, rate_hz, model=f"{tops:g} TOPS as {task.model}", rate_hz=rate_hz, due_s=None,
        missed_share=0.0, place=place, **dict.fromkeys(("together_s", "longest_s", "busy_s"), result.latency_s),
    )  # fmt: skip


def _run_tasks(
    mission: Mission, units: Sequence[Device], places: Sequence[int], find: Find
) -> tuple[tuple[TaskAnswer, ...], float, float]:
    """Return the tasks, each on the unit of its place, the power of the module at rest, and the largest share of the
    time in which a unit works."""
    results = [find(task, units[place].key) for task, place in zip(mission.task, places, strict=True)]
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
            members_s = tuple(taken_s[members].tolist())
            frames = schedule(tuple(mission.task[i] for i in members), members_s, horizon_s)
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
    tasks = tuple(
        _on_unit(
            result, float(dynamic_j[i]), float(rates_hz[i]), model=task.model, rate_hz=task.rate_hz,
            together_s=float(mean_s[i]), longest_s=float(longest_s[i]), missed_share=float(missed_share[i]),
            due_s=task.due_s if np.isfinite(task.due_s) else None, busy_s=float(taken_s[i]), place=places[i],
        )
        for i, (task, result) in enumerate(zip(mission.task, results, strict=True))
    )  # fmt: skip
    return tasks, rest_w, busy


def _horizon_s(tasks: Sequence[Task], alone_s: Sequence[float]) -> float:
    """Return the seconds that a schedule simulates: some frames of each task, but not too many of all."""
    rates = [task.rate_hz for task in tasks if task.rate_hz]
    most_s = _MOST_FRAMES * min(alone_s) if len(rates) < len(tasks) else np.inf
    if not rates:
        return min(max(_TURNS * sum(alone_s), 2.0), most_s)
    return min(max(_FRAMES / max(rates), 2.0 / min(rates)), _MOST_FRAMES / sum(rates), most_s)


def _judge(
    mission: Mission,
    device: Device,
    tasks: tuple[TaskAnswer, ...],
    rest_w: tuple[float, float],
    busy: float,
    chips: float,
) -> ModuleAnswer:
    """Return the answer with what is needed over what is allowed; `rest_w` are those of the module and of its host."""
    task_w = np.array([task.power_w for task in tasks])
    module_w = rest_w[0] + float(task_w.sum())
    power_w = module_w + rest_w[1]
    band = np.average([task.energy_factors for task in tasks], axis=0, weights=task_w + 1e-12).tolist()
    hours = mission.battery_wh / (power_w + mission.other_w) if mission.battery_wh else None
    wh_per_kg = mission.wh_per_kg or _constant("battery", "wh_per_kg")
    limits = [(power_w, mission.power_w, "")]
    if mission.task:  # a load in TOPS takes as many chips as sustain it
        limits.append((module_w, _sustained_w(device) * math.ceil(chips), " that it sustains"))
    if mission.surface_cm2:
        shed_w = mission.surface_cm2 * (mission.w_per_cm2 or _constant("cooling", "w_per_cm2"))
        limits.append((module_w, shed_w, f" that {mission.surface_cm2:g} cm2 shed"))
    if hours is not None and mission.hours:
        words = f": the battery lasts {hours:.2g} h, {mission.hours:g} h are asked for"
        limits.append((power_w, mission.battery_wh / mission.hours - mission.other_w, words))
    if mission.mass_g:
        carried_w = mission.mass_g / 1000.0 * wh_per_kg / mission.hours
        words = f" that a battery of {mission.mass_g:g} g feeds for {mission.hours:g} h"
        limits.append((power_w, carried_w, words))
    needs = [_need_of_power(*limit, band) for limit in limits if np.isfinite(limit[1])]
    if any(task.due_s for task in tasks):
        needs.append(_need_of_time(mission, tasks))
    needs = needs or [Need(0.0, "nothing limits it", 1.0, "power")]  # a load in TOPS without a limit
    worst = max(needs, key=lambda need: need.over)
    return ModuleAnswer(
        device=device.key, is_possible=worst.over <= 1.0, odds=min(need.odds for need in needs),
        missed_share=max(task.missed_share for task in tasks), busy=busy, chips=chips, rest_w=rest_w[0],
        host_w=rest_w[1], power_w=power_w, battery_h=hours, worst=worst.over, why=worst.says, flip=worst.flip,
        tasks=tasks, evidence=max((task.evidence for task in tasks), key=tuple(EVIDENCE).index),
    )  # fmt: skip


def _need_of_power(watts: float, limit_w: float, whose: str, band: tuple[float, float]) -> Need:
    says = f"{quantity(watts, 'W')} of {quantity(max(limit_w, 0.0), 'W')}{whose}"
    if limit_w <= 0.0:
        return Need(np.inf, says, 0.0, "power")
    odds = odds_below(watts, (watts * band[0], watts * band[1]), limit_w) if watts else 1.0
    return Need(watts / limit_w, says, odds, "power")


def _need_of_time(mission: Mission, tasks: Sequence[TaskAnswer]) -> Need:
    """Return how much quicker units must be at least for no more frames to be dropped than may, and why the task that
    drops most of them does, or which frame has least to spare."""
    timed = [(task, task.due_s) for task in tasks if task.due_s]
    loads = [sum(other.rate_hz * other.busy_s for other, _ in timed if other.place == task.place) for task, _ in timed]
    over = max(*loads, *(task.busy_s / due_s for task, due_s in timed))
    worst, due_s = max(timed, key=lambda one: (one[0].missed_share, one[0].busy_s / one[1]))
    if worst.missed_share <= mission.missed_share:
        over = min(over, 1.0)
    elif over <= 1.0:  # each frame has its time, but waits for others
        over = 1.0 + worst.missed_share
    says = f"{worst.model} misses {percent(worst.missed_share)} of its frames"
    if not worst.missed_share or worst.busy_s > due_s:
        says = f"{worst.model} takes {quantity(worst.busy_s, 's')} of {quantity(due_s, 's')} a frame"
    low, high = worst.latency_factors
    return Need(over, says, odds_below(over, (over * low, over * high), 1.0), "time")


def _places(task: Task, units: Sequence[Device], find: Find) -> list[int]:
    """Return the units that a task may run on. Raises RequestError if the module has none of that name, or none that
    known software runs it on."""
    unit_name = task.unit.lower()
    places = [i for i, unit in enumerate(units) if not unit_name or unit_name in (unit.id, unit.architecture, unit.key)]
    if not places:
        raise unknown("unit", task.unit, [name for unit in units for name in (unit.architecture, unit.id)])
    refusals = {i: refusal(find(task, units[i].key)) for i in places}
    if all(refusals.values()):
        raise RequestError(next(iter(refusals.values())))
    return [i for i in places if not refusals[i]]


def divide_tasks(mission: Mission, units: Sequence[Device], find: Find) -> ModuleAnswer:
    """Return the best division of the tasks among the units: possible, then no frame dropped, then least power. If
    there are too many divisions to try, tasks move one by one while that makes it better."""
    held_bytes = accumulate(find(task, units[0].key).memory.peak_bytes for task in mission.task)
    if any(held > max(unit.memory_bytes for unit in units) for held in held_bytes):  # before more tasks are estimated
        raise RequestError(f"{units[0].label} has no room for the models of these tasks")
    choices = [_places(task, units, find) for task in mission.task]
    if math.prod(map(len, choices)) <= _DIVISIONS:
        return min((run_on_units(mission, units, places, find) for places in product(*choices)), key=_order)
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


def try_modules(
    mission: Mission, modules: Iterable[Sequence[Device]], find: Find, tick: Tick | None = None, *, is_any: bool = False
) -> tuple[Ranking[ModuleAnswer], str]:
    """Return the mission on each module that can run it, the best first: likely possible, possible as estimated, else
    the nearest; and the most common reason why others cannot. `is_any`: stop at the first possible one."""
    answers, reasons = try_each(
        modules, lambda units: divide_tasks(mission, units, find), tick, until=lambda one: is_any and one.is_possible
    )
    ranking = Ranking(answers).order("power").first(lambda one: one.odds >= 0.5).first(lambda one: one.is_possible)
    return ranking, next((reason for reason, _ in reasons.most_common(1)), "")


def find_ways(mission: Mission, tried: Sequence[Tried], find: Find) -> tuple[MissionChange, ...]:
    """Return changes of an impossible mission, each with the nearest of all modules that it makes it possible on, the
    possible ones first. A module that draws more at rest than is allowed is not tried, nor are those far from being
    possible if there are many tasks."""
    changes, tasks = list[tuple[str, Mission]](), mission.task
    if any(task.precision != "int8" for task in tasks):
        narrow = tuple(msgspec.structs.replace(task, precision="int8") for task in tasks)
        changes.append(("all tasks in int8", msgspec.structs.replace(mission, task=narrow)))
    free = msgspec.structs.replace(mission, power_w=np.inf, hours=0.0, mass_g=0.0, surface_cm2=0.0)
    changes.append(("without a limit of power, hours, surface or mass", free))
    for i, task in enumerate(tasks if len(tasks) > 1 else ()):
        changes.append((f"without {task.model}", msgspec.structs.replace(mission, task=tasks[:i] + tasks[i + 1 :])))
    ways, tried = list[MissionChange](), tried[: max(_MOST_RUNS // (len(changes) * max(len(tasks), 1)), 8)]
    for name, changed in changes:
        modules = [units for units, one in tried if one.rest_w + one.host_w <= changed.power_w]
        answers, reason = try_modules(changed, modules or [tried[0][0]], find, is_any=True)
        says = f"{answers[0].device}: {answers[0].why}" if answers else reason
        ways.append(MissionChange(name, any(one.is_possible for one in answers), says))
    for scale in _SCALES if any(task.rate_hz for task in tasks) else ():
        slower = tuple(msgspec.structs.replace(task, rate_hz=task.rate_hz * scale) for task in tasks)
        changed = msgspec.structs.replace(mission, task=slower)
        answers, _ = try_modules(changed, (units for units, _ in tried[:_NEAREST]), find, is_any=True)
        if answers and answers[0].is_possible:
            ways.append(MissionChange(f"{percent(scale)} of all rates", True, answers[0].device))
            break
    return tuple(sorted(ways, key=lambda way: not way.is_possible))


def answer_mission(
    name: str,
    mission: Mission,
    modules: Sequence[Sequence[Device]],
    find: Find,
    on_paper: Iterable[Sequence[Device]] = (),
    tick: Tick | None = None,
) -> MissionAnswer:
    """Answer a mission on modules; devices `on_paper` are tried if none of these can do it. Modules that a model does
    not fit, or that no known software runs it on, are left out. Raises RequestError if that leaves none."""
    answers, reason = try_modules(mission, modules, find, tick)
    if not answers:
        raise RequestError(f"{name}: {reason or 'no device'}")
    best, possible = answers[0], sum(answer.is_possible for answer in answers)
    ways: tuple[MissionChange, ...] = ()
    if not possible:
        units = {units[0].key: units for units in modules}
        designs, _ = try_modules(mission, on_paper, find)
        ways = find_ways(mission, [(units[answer.device], answer) for answer in answers], find) + tuple(
            MissionChange(f"{design.device}, which exists on paper only", True, design.why)
            for design in designs
            if design.is_possible
        )
    left_out = f"; {len(modules) - len(answers)} more cannot run it, mainly because {reason}" if reason else ""
    verdict = _verdict(best, possible, len(answers)) + left_out
    return MissionAnswer(mission=name, verdict=verdict, best=best, modules=answers, ways=ways)


class MissionCell(msgspec.Struct, frozen=True, kw_only=True):
    """One of several missions on one device."""

    device: Annotated[str, column("Device")]
    mission: Annotated[str, column("Mission")]
    is_possible: Annotated[bool, column("Possible", shown={True: "yes", False: "no"})] = False
    odds: Annotated[float, column("Odds", "%")] = 0.0
    power_w: Annotated[float | None, column("Power", "W")] = None
    chips: Annotated[float | None, column("Chips", keep=3)] = None
    flip: Annotated[str, column("Margin, or why not")]


class MissionTable(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `hwexplorer mission` for several missions: which device makes which of them possible, the device
    of most missions first."""

    missions: tuple[str, ...]
    devices: tuple[str, ...]
    verdict: str
    cells: tuple[MissionCell, ...]


def compare_missions(answers: Sequence[tuple[str, Sequence[ModuleAnswer], str]]) -> MissionTable:
    """Return several missions, each with its name, the modules that run it, and why others do not."""
    modules = [{one.device: one for one in own} for _, own, _ in answers]
    cells = {
        device: [
            record(MissionCell, own[device], mission=name)
            if device in own
            else MissionCell(device=device, mission=name, flip=reason)
            for own, (name, _, reason) in zip(modules, answers, strict=True)
        ]
        for device in dict.fromkeys(chain.from_iterable(modules))
    }
    sums = {device: (sum(c.is_possible for c in own), sum(c.odds for c in own)) for device, own in cells.items()}
    devices = sorted(cells, key=sums.__getitem__, reverse=True)
    count, expected = sums[devices[0]]
    best = f"{devices[0]} makes {count} of {len(answers)} missions possible ({expected:.2g} expected by the odds)"
    others = ", ".join(f"{device} {sums[device][0]}" for device in devices[1:4])
    return MissionTable(
        missions=tuple(name for name, _, _ in answers),
        devices=tuple(devices),
        verdict=f"{best}; {others}" if others else best,
        cells=tuple(cell for device in devices for cell in cells[device]),
    )


def _verdict(best: ModuleAnswer, possible: int, tried: int) -> str:
    device = f"{best.device} ({', '.join(dict.fromkeys(task.precision_run for task in best.tasks))})"
    watts, odds = quantity(best.power_w, "W"), describe_odds(best.odds)
    odds += ", from data sheets alone" * (best.evidence == "engineering")
    if tried == 1:
        return f"{'Possible' if possible else 'Impossible'} on {device}, {watts}, {odds}: {best.why}"
    if possible:
        return f"Possible on {possible} of {tried} modules; {device} takes least power, {watts}, {odds}: {best.why}"
    return f"Impossible on all {tried} modules; nearest is {device}, {watts}: {best.why}"


class Frames(msgspec.Struct, frozen=True):
    """The frames of tasks on one unit, (n,) by task: done in a second, the share dropped, and their mean and longest
    seconds from arrival to end. `busy` is the share of time in which the unit works."""

    rates_hz: Floats
    missed_share: Floats
    mean_s: Floats
    longest_s: Floats
    busy: float


@lru_cache(maxsize=512)
def schedule(tasks: tuple[Task, ...], seconds: tuple[float, ...], horizon_s: float) -> Frames:
    """Simulate tasks that take `seconds` each on one unit. The unit runs one frame at a time, the earliest deadline
    first, and drops a frame that cannot end in time. A task without a rate is due when its last frame began plus the
    time of all tasks, so it takes turns with its like."""
    n, now, busy = len(tasks), 0, 0
    taken, dues, horizon = _ticks(seconds), _ticks(task.due_s for task in tasks), _ticks([horizon_s])[0]
    frames, ended, dropped, total, longest = ([0] * n for _ in range(5))  # NumPy's items are slow
    queue = [(dues[i] if task.rate_hz else sum(taken), i, 0) for i, task in enumerate(tasks)]
    arrivals = [(_ticks([task.period_s])[0], i, 1) for i, task in enumerate(tasks) if task.rate_hz]
    heapq.heapify(queue)
    heapq.heapify(arrivals)
    while now < horizon:
        while arrivals and arrivals[0][0] <= now:
            arrival, i, frame = heapq.heappop(arrivals)
            heapq.heappush(queue, (arrival + dues[i], i, arrival))
            heapq.heappush(arrivals, (round((frame + 1) * tasks[i].period_s / _TICK_S), i, frame + 1))
        if not queue:
            now = arrivals[0][0]
            if sum(frames) >= _REPEATS and len(arrivals) == n and all(arrival[0] == now for arrival in arrivals):
                break  # what follows repeats what has been
            continue
        due, i, arrival = heapq.heappop(queue)
        frames[i] += 1
        if tasks[i].rate_hz and now + taken[i] > due + 1:
            dropped[i] += 1
            continue
        now, busy = now + taken[i], busy + taken[i]
        ended[i], total[i], longest[i] = ended[i] + 1, total[i] + now - arrival, max(longest[i], now - arrival)
        if not tasks[i].rate_hz:
            heapq.heappush(queue, (now + sum(taken), i, now))
    return Frames(
        np.array(ended) / (now * _TICK_S),
        np.divide(dropped, np.maximum(frames, 1)),
        np.array([time * _TICK_S / count if count else np.nan for time, count in zip(total, ended, strict=True)]),
        np.array(longest) * _TICK_S,
        min(busy / now, 1.0),
    )


def _ticks(seconds: Iterable[float]) -> list[int]:
    """Return times in steps of the schedule, at least one."""
    return [max(round(one / _TICK_S), 1) if np.isfinite(one) else 0 for one in seconds]
