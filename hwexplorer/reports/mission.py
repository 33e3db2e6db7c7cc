"""Run several models at their rates on one module, within a power budget or from a battery."""

import string
from collections.abc import Iterable
from pathlib import Path

import msgspec

from analysis.document import columns
from analysis.estimate.estimate import Estimate
from analysis.explore import mission
from hardware.base.text import quantity
from hardware.device_catalog import catalogue_devices
from hwexplorer import declare, engine
from hwexplorer.configurations import INCLUDE_PAPER
from hwexplorer.options import OWN_MODEL, option
from hwexplorer.state import State
from hwexplorer.views import plain

_CELLS, _DROPPED = 44, "!"  # of a timeline
_LETTERS = string.ascii_uppercase + string.ascii_lowercase
DEVICES = columns(
    mission.ModuleAnswer, "device is_possible power rest host busy missed_share hours why",
    device={"shown": engine.marked_key}, why={"of": lambda module: "" if module.is_possible else module.why},
)  # fmt: skip
WAYS = columns(mission.MissionChange)


def _state_of(state: State, task: mission.Task) -> State:
    return msgspec.structs.replace(state, model=task.model, precision=task.precision, batch=task.batch)


def _states(state: State, file: Path, **_: object) -> Iterable[State]:
    return [_state_of(state, task) for task in mission.read_mission(file).task]


def _document(state: State, file: Path, on_paper: bool) -> mission.MissionAnswer:
    asked = mission.read_mission(file)

    def find(task: mission.Task, key: str) -> Estimate:
        """Return the estimate of a task on a device."""
        return engine.result(_state_of(state, task), key)

    is_search = asked.device == mission.WHICH
    every = catalogue_devices(engine.folders())
    catalogue = [device for device in every if device.silicon or on_paper]
    modules = mission.list_modules(catalogue if is_search else [engine.device(asked.device)], engine.device)
    paper = [(device,) for device in every if not (device.silicon or on_paper)]
    return mission.answer_mission(file.stem, asked, modules, find, paper)


def _power(answer: mission.MissionAnswer, state: State) -> tuple[str, ...]:
    best = answer.best
    parts = " + ".join(f"{task.power_w:.3g} W {task.model}" for task in best.tasks)
    hours = "" if best.hours is None else f"; the battery lasts {best.hours:.3g} h"
    host = f"{best.host_w:.3g} W a host at rest + " if best.host_w else ""
    return (
        f"{best.power_w:.3g} W = {best.rest_w:.3g} W at rest + {host}{parts}{hours}",
        "Work of the host, cameras and motors are not counted: state them as other_w.",
    )


def _timeline(answer: mission.MissionAnswer, state: State) -> plain.Text:
    """Return a line for each unit: the task that it works on, by letter, where any begins or most of the time."""
    tasks, cell_s = answer.best.tasks, answer.frames_s / _CELLS
    units = {(task.place, task.unit): ["."] * _CELLS for task in sorted(tasks, key=lambda task: task.place)}
    for run in answer.frames:
        begin, letter = int(run.begin_s / cell_s), _DROPPED if run.is_dropped else _LETTERS[run.task]
        count = max(round(run.end_s / cell_s) - begin, 1)
        units[tasks[run.task].place, tasks[run.task].unit][begin : begin + count] = letter * count
    longest = max(len(name) for _, name in units)
    lines = (f"{name.ljust(longest)}  {''.join(cells[:_CELLS])}" for (_, name), cells in units.items())
    letters = ", ".join(f"{letter} {task.model}" for letter, task in zip(_LETTERS, tasks, strict=False))
    title = f"Units of {answer.best.device} for {quantity(answer.frames_s, 's')}"
    return plain.Text(
        "timeline", title, (("", (*lines, f"{letters}, {_DROPPED} a frame that is dropped, . idle")),), is_drawing=True
    )


VERB = declare.Report(
    subject=declare.Subject(options=OWN_MODEL),
    options=(
        option("file", type=Path, metavar="FILE", help="a mission in TOML: docs/missions.md has an example"),
        INCLUDE_PAPER,
    ),
    document=_document,
    states=_states,
    title=lambda answer, state: f"Mission {answer.mission}",
    parts=(
        declare.summary_text(lambda answer, state: (answer.verdict,)),
        declare.Rows("tasks", lambda answer: f"Tasks on {answer.best.device}", columns(mission.TaskAnswer),
             of=lambda answer: answer.best.tasks, key="model", footer=_power),
        _timeline,
        declare.Rows("ways", "Ways to make it possible", WAYS, key="change", optional=True),
        declare.Rows("modules", "Devices", DEVICES, key="device", first=10),
    ),
    main="modules",
    on_screen=False,
    shown=("drone.toml",),
)  # fmt: skip
