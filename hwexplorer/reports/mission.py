"""Run several models at their rates on one module, within a power budget or from a battery."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from analysis.document import Column, columns
from analysis.estimate.estimate import Estimate
from analysis.explore import mission
from analysis.explore.grid import Tick
from hardware.base.text import percent
from hardware.device import Device
from hardware.device_catalog import catalogue_devices
from hwexplorer import declare, engine
from hwexplorer.configurations import INCLUDE_PAPER
from hwexplorer.options import OWN_MODEL, name_list, option
from hwexplorer.state import State
from hwexplorer.views import plain

DEVICES = columns(
    mission.ModuleAnswer,
    "device is_possible odds power hours flip missed_share busy rest host chips evidence why",
    device={"shown": engine.marked_key}, why={"of": lambda module: "" if module.is_possible else module.why},
)  # fmt: skip
CELLS = columns(mission.MissionCell, device={"shown": engine.marked_key})
_Answer = mission.MissionAnswer | mission.MissionTable


def _state_of(state: State, task: mission.Task) -> State:
    return msgspec.structs.replace(state, model=task.model, precision=task.precision, batch=task.batch)


def _states(state: State, file: tuple[Path, ...], **_: object) -> Iterable[State]:
    asked = [mission.read_mission(one) for one in file]
    loads = [mission.load_task()] if any(one.tops for one in asked) else []
    return [_state_of(state, task) for task in (*(task for one in asked for task in one.task), *loads)]


def _modules(asked: mission.Mission, names: Sequence[str], on_paper: bool) -> Sequence[Sequence[Device]]:
    """Return the units of each candidate, and of each of its power modes, or instead of those that are asked for."""
    listed = mission.list_modules(
        [engine.device(name) for name in names]
        or [device for device in catalogue_devices(engine.folders()) if device.silicon or on_paper],
        engine.device,
    )
    plain_devices = [units[0] for units in listed if units[0].key == units[0].id]
    in_modes = [
        mission.module_units(engine.device(f"{device.id}:{mode}"), engine.device)
        for device in plain_devices
        for mode in device.file.power_modes
        if mode in asked.modes or not asked.modes
    ]
    replaced = {units[0].id for units in in_modes if asked.modes}
    return [*(units for units in listed if units[0].key not in replaced), *in_modes]


def _document(
    state: State,
    file: tuple[Path, ...],
    candidates: tuple[str, ...] | None,
    on_paper: bool,
    tick: Tick | None = None,
) -> _Answer:
    def find(task: mission.Task, key: str) -> Estimate:
        """Return the estimate of a task on a device."""
        return engine.result(_state_of(state, task), key)

    engine.hold_models(_states(state, file))
    missions = [(path.stem, mission.read_mission(path)) for path in file]
    cases = [(name, asked, _modules(asked, candidates or asked.candidates, on_paper)) for name, asked in missions]
    if len(cases) > 1:
        return mission.compare_missions(
            [(name, *mission.try_modules(asked, units, find, tick)) for name, asked, units in cases]
        )
    every = () if candidates or missions[0][1].candidates else catalogue_devices(engine.folders())
    paper = [(device,) for device in every if not (device.silicon or on_paper)]
    return mission.answer_mission(*cases[0], find, paper, tick)


def _flips(answer: _Answer, state: State) -> plain.Table | plain.Text:
    """Return which device makes which mission possible as estimated, and the odds that a measurement finds so."""
    if isinstance(answer, mission.MissionAnswer):
        return plain.Text("flips", "", ())
    odds = {
        (cell.device, cell.mission): f"{'yes' if cell.is_possible else 'no'} {percent(cell.odds)}" if cell.odds else "."
        for cell in answer.cells
    }
    heads = [Column(name, name, role="text", keep=1) for name in answer.missions]
    rows = tuple(
        plain.Row(device, (engine.marked_key(device), *(odds[device, name] for name in answer.missions)))
        for device in answer.devices
    )
    notes = ("possible as estimated, and the odds that a measurement finds it possible; . does not run",)
    return plain.Table("flips", "Devices and missions", (DEVICES[0], *heads), rows, notes, first=30, is_stacked=True)


def _power(answer: _Answer, state: State) -> tuple[str, ...]:
    if isinstance(answer, mission.MissionTable):
        return ()
    best = answer.best
    parts = (best.rest_w, "at rest"), (best.host_w, "a host at rest"), *((one.power_w, one.model) for one in best.tasks)
    hours = "" if best.battery_h is None else f"; the battery lasts {best.battery_h:.3g} h"
    return (
        f"{best.power_w:.3g} W = {' + '.join(f'{watts:.3g} W {name}' for watts, name in parts if watts)}{hours}",
        "Work of the host, cameras and motors are not counted: state them as other_w.",
    )


VERB = declare.Report(
    subject=declare.Subject(options=OWN_MODEL),
    options=(
        option("file", type=Path, nargs="+", metavar="FILE",
               help="missions in TOML: docs/missions.md has an example; several make a table of devices and missions"),
        option("--on", type=name_list("device"), dest="candidates", metavar="DEV,..",
               help="candidates instead of those that the file names"),
        INCLUDE_PAPER,
    ),
    document=_document,
    states=_states,
    title=lambda answer, state: (
        f"Mission {answer.mission}" if isinstance(answer, mission.MissionAnswer) else f"{len(answer.missions)} missions"
    ),
    parts=(
        declare.summary_text(lambda answer, state: (answer.verdict,)),
        _flips,
        declare.Rows("tasks", lambda answer: f"Tasks on {answer.best.device}" if hasattr(answer, "best") else "",
                     columns(mission.TaskAnswer), key="model", footer=_power, optional=True,
                     of=lambda answer: answer.best.tasks if hasattr(answer, "best") else ()),
        declare.Rows("ways", "Ways to make it possible", columns(mission.MissionChange), key="change", optional=True,
                     of=lambda answer: getattr(answer, "ways", ())),
        declare.Rows("modules", "Devices", DEVICES, key="device", first=10, optional=True,
                     of=lambda answer: getattr(answer, "modules", ())),
        declare.Rows("cells", "Margin of each", CELLS, key=lambda cell: f"{cell.device}.{cell.mission}", first=20,
                     optional=True, of=lambda answer: getattr(answer, "cells", ())),
    ),
    main="modules",
    ticks="modules",
    on_screen=False,
    shown=("drone.toml",),
)  # fmt: skip
