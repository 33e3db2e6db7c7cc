"""One operator as it runs on several machines: the phases of its schedule, and the state of a machine at any moment.

Phases are the stages of the operator's tiling, as long as the estimate says that it takes: what waits for memory, for a
runtime or under a power limit makes them longer. Energy is divided among phases by its events: what starts a kernel
belongs to its start, static power to all time, moved bytes to all phases after the start, the rest to the products
that are computed. So all phases add up to the time and the energy of the estimate."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from analysis.estimate.estimate import Estimate
from analysis.estimate.families import FAMILIES, family_of
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.host_work import divide_host_work, runs_of_kernels
from analysis.estimate.outline import HOST
from analysis.estimate.tree_figures import estimate_of_node, operators_of
from analysis.model.ir.workload import Floats
from hardware.errors import RequestError
from hardware.execute import BOUNDS, COMPUTE, RESOURCES
from hardware.mapping.stages import DRAIN, FILL, STREAM, Stages, find_stages

START = "start"  # of the kernel; the other phases are the stages
HIDDEN = "hidden"  # the only phase of an operator whose time is that of another in its kernel
_WORK = {FILL: 0.5, STREAM: 1.0, DRAIN: 0.5}  # the mean share of cells at work
_MOVED = ("on-chip memory", "DRAM")


class WavefrontPhase(msgspec.Struct, frozen=True, kw_only=True):
    """A phase, summed over all rounds of all runs. `schedule_cycles` are those without waiting."""

    name: str
    rounds: int
    cycles: float
    schedule_cycles: float
    seconds: float
    energy_j: float
    energy_by_family_j: dict[str, float]

    @property
    def joules_per_cycle(self) -> float:
        """The mean energy of a cycle."""
        return self.energy_j / self.cycles if self.cycles else 0.0


class WavefrontMachine(msgspec.Struct, frozen=True, kw_only=True):
    """An operator on one device, for the whole batch. Cycles are those of `clock_hz`. `hidden_in` names the operator in
    whose kernel it takes no time of its own; `runs` says how often its kernel runs. Bytes are those that cross the
    memory interface and the last level on chip."""

    device: str
    architecture: str
    unit: str
    units: int
    says: str
    hidden_in: str
    bound: str
    runs: float
    cycles: float
    latency_s: float
    energy_j: float
    dram_bytes: float
    on_chip_bytes: float
    stages: Stages
    phases: tuple[WavefrontPhase, ...]


class WavefrontState(msgspec.Struct, frozen=True, kw_only=True):
    """A machine at the `moment`, a part of its time: the run of its kernel, the phase, the round and the part of it
    that is done, the share of cells of busy units that compute, blocks of this run that are done and under way, and
    energy so far."""

    device: str
    moment: float
    cycle: float
    seconds: float
    run: int
    phase: str
    round: int
    round_done: float
    active: float
    blocks_done: int
    blocks_running: int
    energy_j: float
    joules_per_cycle: float


class Wavefront(Head, frozen=True, kw_only=True):
    """The document of `hwexplorer show wavefront`: an operator on each device, and each machine at one moment."""

    node: str
    moment: float
    machines: tuple[WavefrontMachine, ...]
    states: tuple[WavefrontState, ...]


def make_wavefront(results: Sequence[Estimate], path: str, moment: float) -> Wavefront:
    """Return an operator on each device: that of the node, or the one below it that takes most of the node's time.
    Each machine is shown at the `moment`, a part of its own time, 0 to 1. Raises RequestError."""
    operator = heaviest_operator(results, path)
    machines = tuple(make_machine(result, operator) for result in results)
    states = tuple(machine_state(machine, moment) for machine in machines)
    return Wavefront(**head_fields(results[0]), node=operator, moment=moment, machines=machines, states=states)


def heaviest_operator(results: Sequence[Estimate], path: str) -> str:
    """Return the operator below a node that takes most of its time, in the mean of the devices."""
    if path == HOST:
        raise RequestError("the host's work has no schedule: choose an operator")
    members = operators_of(results[0], path)
    shares = np.zeros(len(members))
    for result in results:
        latency_s = divide_host_work(result)[0].run.latency_s[members]
        shares += latency_s / (latency_s.sum() or 1.0)
    operator: str = results[0].partition.operator_id[members[shares.argmax()]]
    return operator


def make_machine(result: Estimate, operator: str) -> WavefrontMachine:
    """Return an operator on one device, without the host's work."""
    i, of_node = int(operators_of(result, operator)[0]), estimate_of_node(result, operator)
    run, demand, device = of_node.run, of_node.demand, of_node.device
    kernel = demand.kernel[i]
    stages = find_stages(demand, result.setup, run.mapping, i)
    latency_s = float(run.latency_s[i])
    throttle = float(run.kernel_s[kernel] / max(result.run.unthrottled_s[kernel], 1e-300))
    start_s = min(float(run.overhead_s[kernel]) * throttle, latency_s) if demand.head[i] else 0.0
    head = int(np.flatnonzero((demand.kernel == kernel) & demand.head)[0])
    return WavefrontMachine(
        device=device.key,
        architecture=device.architecture,
        unit=device.arch.array if stages.cells[0] and device.arch.array else device.unit_name,
        units=max(round(device.units), stages.units),
        says=device.arch.sentence(demand, result.setup, run.mapping, i),
        hidden_in="" if latency_s > 0.0 else result.partition.operator_id[head],
        bound=_bound(result, kernel),
        runs=float(math.ceil(runs_of_kernels(result)[kernel])),  # the last part of a batch may be smaller
        cycles=latency_s * stages.clock_hz,
        latency_s=latency_s,
        energy_j=float(run.energy_j[i]),
        dram_bytes=float(run.mapping.traffic.dram_bytes[i]),
        on_chip_bytes=float(run.mapping.traffic.chip_bytes[i]),
        stages=stages,
        phases=_phases(of_node, i, stages, start_s),
    )


def _bound(result: Estimate, kernel: int) -> str:
    run = result.run
    return RESOURCES[run.resource[kernel]] if run.bound[kernel] == COMPUTE else BOUNDS[run.bound[kernel]]


def _phases(result: Estimate, i: int, stages: Stages, start_s: float) -> tuple[WavefrontPhase, ...]:
    work_s, planned = float(result.run.latency_s[i]) - start_s, stages.cycles
    schedule = sum(planned.values())
    runs = float(runs_of_kernels(result)[result.demand.kernel[i]])
    stretch = work_s / schedule if schedule else 0.0
    seconds = {START: start_s} | {name: cycles * stretch for name, cycles in planned.items()}
    if not schedule:
        seconds[STREAM] = work_s
    names = [name for name, length_s in seconds.items() if length_s > 0.0] or [HIDDEN]
    lengths_s = np.array([seconds.get(name, 0.0) for name in names])
    energy = _energy_by_phase(result, i, names, lengths_s)
    return tuple(
        WavefrontPhase(
            name=name,
            rounds=stages.rounds if name in stages.repeated else 1,
            cycles=length_s * stages.clock_hz,
            schedule_cycles=planned.get(name, 0.0) * runs,
            seconds=length_s,
            energy_j=sum(families),
            energy_by_family_j=dict(zip(FAMILIES, families, strict=True)),
        )
        for name, length_s, families in zip(names, lengths_s.tolist(), energy.tolist(), strict=True)
    )


def _energy_by_phase(result: Estimate, i: int, names: Sequence[str], seconds: Floats) -> Floats:
    """Return the energy of each phase and family, (p, 7)."""
    run, is_start = result.run, np.array([name == START for name in names])
    energy_j = run.scale_counts(run.counts)[:, i] * run.prices.value
    clocked = result.device.arch.data.assumed("launch_clocked")
    weights = {
        "time": seconds,
        "cycles": np.where(is_start, clocked * seconds, seconds),
        "start": is_start * seconds,
        "moved": np.where(is_start, 0.0, seconds),
        "work": np.array([_WORK.get(name, 0.0) for name in names]) * seconds,
    }
    total = np.zeros((len(names), len(FAMILIES)))
    for event, joules in zip(result.events, energy_j.tolist(), strict=True):
        family = family_of(event)
        kind = "time" if event.component == "static" else "cycles" if event.is_by_time else "work"
        kind = "start" if family == "launch" else "moved" if family in _MOVED and kind == "work" else kind
        share = weights[kind] if weights[kind].any() else seconds if seconds.any() else np.ones(len(names))
        total[:, FAMILIES.index(family)] += joules * share / share.sum()
    return total


def machine_state(machine: WavefrontMachine, moment: float) -> WavefrontState:
    """Return a machine at a part of its time, 0 to 1."""
    moment, stages, runs = min(max(moment, 0.0), 1.0), machine.stages, max(machine.runs, 1.0)
    run, blocks = min(math.floor(moment * runs), math.ceil(runs) - 1), math.prod(stages.blocks)
    now = moment * machine.latency_s - run * machine.latency_s / runs
    begin_s, parts, current, rounds_done = 0.0, dict[str, float](), (machine.phases[0], 1.0), 0.0
    in_turn = [phase for phase in machine.phases if phase.name in stages.repeated]
    for phase in machine.phases:
        if phase not in in_turn:
            parts[phase.name] = _part(now - begin_s, phase.seconds / runs)
            current = (phase, parts[phase.name]) if now >= begin_s else current
            begin_s += phase.seconds / runs
        elif phase is in_turn[0]:
            together_s = sum(turn_phase.seconds for turn_phase in in_turn) / runs
            rounds_done = _part(now - begin_s, together_s) * stages.rounds
            turn = min(math.floor(rounds_done), stages.rounds - 1)
            within_s, offset_s = (rounds_done - turn) * together_s / stages.rounds, 0.0
            for turn_phase in in_turn:
                share = _part(within_s - offset_s, turn_phase.seconds / runs / stages.rounds)
                parts[turn_phase.name] = (turn + share) / stages.rounds
                current = (turn_phase, share) if now >= begin_s and within_s >= offset_s else current
                offset_s += turn_phase.seconds / runs / stages.rounds
            begin_s += together_s
    phase, share = current
    turn = min(math.floor(rounds_done), stages.rounds - 1)
    finished = blocks if moment >= 1.0 else min(turn * stages.units, blocks)
    is_at_work = phase.name in _WORK or phase.name in stages.repeated
    return WavefrontState(
        device=machine.device,
        moment=moment,
        cycle=moment * machine.cycles,
        seconds=moment * machine.latency_s,
        run=run + 1,
        phase=phase.name,
        round=turn + 1,
        round_done=rounds_done - turn,
        active={FILL: share, STREAM: 1.0, DRAIN: 1.0 - share}.get(phase.name, 0.0),
        blocks_done=finished,
        blocks_running=min(stages.units, blocks - finished) if is_at_work else 0,
        energy_j=sum(part.energy_j * (run + parts[part.name]) / runs for part in machine.phases),
        joules_per_cycle=phase.joules_per_cycle,
    )


def _part(passed_s: float, length_s: float) -> float:
    return min(max(passed_s / length_s, 0.0), 1.0) if length_s else 1.0
