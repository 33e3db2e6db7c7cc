"""One operator as it runs on several machines: the phases of its schedule, and the state of a machine at any moment.

Phases are the stages of the operator's tiling, as long as the estimate says that it takes: what waits for memory, for a
runtime or under a power limit makes them longer. Energy is divided among phases by its events: what starts a kernel
belongs to its start, static power and clocks to the time of each, the rest to the products that are computed. So all
phases add up to the time and the energy of the estimate."""

import math
from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np

from analysis.document import column
from analysis.estimate.causes import FAMILIES, divide_host_work, family_of, runs_of_kernels
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.operator_facts import operator_graph
from analysis.estimate.tree_figures import HOST, estimate_of_node, operators_of
from analysis.model.ir.workload import Floats
from hardware.base.errors import RequestError
from hardware.demand import OpClass
from hardware.execute import BOUNDS, COMPUTE, RESOURCES
from hardware.map_demand import architecture_of
from hardware.mapping.common import DRAIN, FILL, STREAM, Stages
from hardware.mapping.recurrence_schedules import ProductChain

START = "start"  # of the kernel; the other phases are the stages
HIDDEN = "hidden"  # the only phase of an operator whose time is that of another in its kernel
_STREAMED = OpClass.ELEMENTWISE, OpClass.NORM  # value by value, on the way from one product to the next
_LEAST = 1e-9  # of the time of an operator: a shorter part is rounding
_WORK = {FILL: 0.5, STREAM: 1.0, DRAIN: 0.5}  # the mean share of cells at work


class WavefrontPhase(msgspec.Struct, frozen=True, kw_only=True):
    """A phase, summed over all rounds of all runs. `schedule_cycles` are those without waiting."""

    device: Annotated[str, column("Device", keep=0)]
    name: Annotated[str, column("Phase", keep=0)]
    rounds: Annotated[int, column("Rounds", "count")]
    cycles: Annotated[float, column("Cycles", "SI", role="quantity")]
    schedule_cycles: Annotated[float, column("Without waiting", "SI", role="quantity", keep=3)]
    seconds: Annotated[float, column("Time", "s", role="quantity")]
    energy_j: Annotated[float, column("Energy", "J", role="quantity")]
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
    """A machine at the `moment`, a part of its time: the run of its kernel, the phase, the part of it that is done in
    this round, blocks of this run that are done and under way, and energy so far."""

    device: str
    moment: float
    cycle: float
    seconds: float
    run: int
    round: int
    phase: str
    phase_done: float
    blocks_done: int
    blocks_running: int
    energy_j: float
    joules_per_cycle: float


class ChainedOperators(msgspec.Struct, frozen=True, kw_only=True):
    """A product and the next one that reads its results, on a device whose cells can take them as a stream. `why` says
    what prevents it."""

    device: str
    operator: str
    following: str
    chain: ProductChain | None = None
    units: int
    why: str = ""


class Wavefront(Head, frozen=True, kw_only=True):
    """The document of `hwexplorer show wavefront`: an operator on each device, and each machine at one moment; the
    chains of the operator and what follows it."""

    node: str
    moment: float
    machines: tuple[WavefrontMachine, ...]
    states: tuple[WavefrontState, ...]
    chains: tuple[ChainedOperators, ...] = ()


def make_wavefront(results: Sequence[Estimate], path: str, moment: float) -> Wavefront:
    """Return an operator on each device: that of the node, or the one below it that takes most of the node's time.
    Each machine is shown at the `moment`, a part of its own time, 0 to 1. Raises RequestError."""
    operator = heaviest_operator(results, path)
    machines = tuple(make_machine(result, operator) for result in results)
    states = tuple(machine_state(machine, moment) for machine in machines)
    chains = tuple(chain for result in results if (chain := find_chain(result, operator)) is not None)
    return Wavefront(
        **head_fields(results[0]), node=operator, moment=moment, machines=machines, states=states, chains=chains
    )


def find_chain(result: Estimate, operator: str) -> ChainedOperators | None:
    """Return an operator and the product that reads its results, None if the device cannot stream between products, or
    if none follows."""
    chain_of, demand = architecture_of(result.device).chain, result.demand
    first = int(operators_of(result, operator)[0])
    if chain_of is None or not result.run.mapping.on_matrix[first]:
        return None
    graph, reached, second = operator_graph(result.workload), {first}, None
    for source, target in sorted(zip(graph.source.tolist(), graph.target.tolist(), strict=True)):
        if source in reached and second is None:
            if demand.macs[target] > 0:
                second = target
            reached.add(target)
    if second is None:
        return None
    between = [i for i in sorted(reached - {first, second}) if i < second]
    blocking = [i for i in between if demand.op_class[i] not in _STREAMED]
    (groups, m, n, k), (others, rows, last, depth) = (demand.gemm[:, i].astype(int).tolist() for i in (first, second))
    names, units = result.partition.operator_id, round(result.device.units)
    why, chain = "", None
    if blocking:
        why = f"{names[blocking[0]]} between them needs whole rows"
    elif (groups, others, m, n) != (1, 1, rows, depth):
        why = f"{m:,} x {n:,} results are not the {rows:,} x {depth:,} inputs of the next product, value by value"
    else:
        chain = chain_of((m, n, k), (rows, last, depth), result.setup)
        why = f"their weights take {chain.tiles:,} of {units:,} tiles" if chain.tiles > units else ""
    return ChainedOperators(
        device=result.device.key, operator=operator, following=names[second], chain=chain, units=units, why=why
    )


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
    kernel, latency_s = demand.kernel[i], float(run.latency_s[i])
    is_computing = run.bound[kernel] == COMPUTE
    head = int(np.flatnonzero((demand.kernel == kernel) & demand.head)[0])
    architecture = architecture_of(device)
    stages = architecture.find_stages(demand, result.setup_of(i), run.mapping, i)
    return WavefrontMachine(
        device=device.key,
        architecture=device.architecture,
        unit=device.arch.array if stages.cells[0] and device.arch.array else device.unit_name,
        units=max(round(device.units), stages.units),
        hidden_in="" if latency_s > 0.0 else result.partition.operator_id[head],
        bound=RESOURCES[run.resource[kernel]] if is_computing else BOUNDS[run.bound[kernel]],
        runs=float(math.ceil(runs_of_kernels(result)[kernel])),  # the last part of a batch may be smaller
        cycles=latency_s * stages.clock_hz,
        latency_s=latency_s,
        energy_j=float(run.energy_j[i]),
        dram_bytes=float(run.mapping.traffic.dram_bytes[i]),
        on_chip_bytes=float(run.mapping.traffic.chip_bytes[i]),
        stages=stages,
        phases=_phases(of_node, i, stages, float(runs_of_kernels(result)[kernel])),
    )


def _phases(result: Estimate, i: int, stages: Stages, runs: float) -> tuple[WavefrontPhase, ...]:
    run, kernel = result.run, result.demand.kernel[i]
    latency_s, own_s = float(run.latency_s[i]), float(run.busy_s[kernel] + run.overhead_s[kernel])
    throttle = float(run.latency_s[result.demand.kernel == kernel].sum()) / own_s if own_s else 1.0
    start_s = float(run.overhead_s[kernel]) * throttle if result.demand.head[i] else 0.0
    start_s = latency_s if latency_s - start_s < _LEAST * latency_s else start_s
    planned = {name: cycles for name, cycles in stages.cycles.items() if cycles > 0.0} or {STREAM: 1.0}
    stretch_s = (latency_s - start_s) / sum(planned.values())
    seconds = {START: start_s} | {name: cycles * stretch_s for name, cycles in planned.items()}
    seconds = {name: length_s for name, length_s in seconds.items() if length_s > 0.0} or {HIDDEN: 0.0}
    energy = _energy_by_phase(result, i, seconds)
    return tuple(
        WavefrontPhase(
            device=result.device.key,
            name=name,
            rounds=stages.rounds if name in stages.repeated else 1,
            cycles=length_s * stages.clock_hz,
            schedule_cycles=stages.cycles.get(name, 0.0) * runs,
            seconds=length_s,
            energy_j=sum(families),
            energy_by_family_j=dict(zip(FAMILIES, families, strict=True)),
        )
        for (name, length_s), families in zip(seconds.items(), energy.tolist(), strict=True)
    )


def _energy_by_phase(result: Estimate, i: int, seconds: dict[str, float]) -> Floats:
    """Return the energy of each phase and family, (p, 7)."""
    energy_j = result.run.scale_counts(result.run.counts)[:, i] * result.run.prices.value
    time_s, is_start = np.array([*seconds.values()]), np.array([name == START for name in seconds])
    clocked = np.where(is_start, result.device.arch.constants.launch_clocked, 1.0)
    work = np.array([_WORK.get(name, 0.0) for name in seconds])
    total = np.zeros((len(seconds), len(FAMILIES)))
    for event, joules in zip(result.events, energy_j.tolist(), strict=True):
        family = family_of(event)
        by_time = 1.0 if event.component == "static" else clocked if event.is_by_time else work
        share = time_s * (is_start if family == "launch" else by_time)
        share = share if share.any() else time_s if time_s.any() else np.ones(len(seconds))
        total[:, FAMILIES.index(family)] += joules * share / share.sum()
    return total


def machine_state(machine: WavefrontMachine, moment: float) -> WavefrontState:
    """Return a machine at a part of its time, 0 to 1."""
    moment, stages, runs = min(max(moment, 0.0), 1.0), machine.stages, machine.runs
    run = min(math.floor(moment * runs), math.ceil(runs) - 1)
    now = moment * machine.latency_s - run * machine.latency_s / runs
    lengths_s = {phase.name: phase.seconds / runs for phase in machine.phases}
    round_s = sum(lengths_s[name] for name in stages.repeated if name in lengths_s) / stages.rounds
    begin_s = sum(lengths_s[name] for name in (START, FILL) if name in lengths_s and name not in stages.repeated)
    turn = min(max(math.floor((now - begin_s) / round_s), 0), stages.rounds - 1) if round_s else 0
    current, phase_done, energy_j, place_s = machine.phases[0], 1.0, 0.0, 0.0
    for phase in machine.phases:
        is_in_turn = phase.name in stages.repeated
        rounds, before = (stages.rounds, turn) if is_in_turn else (1, 0)
        first_s = place_s + (turn * round_s if is_in_turn else (stages.rounds - 1) * round_s * (phase.name == DRAIN))
        length_s = lengths_s[phase.name] / rounds
        done = min(max((now - first_s) / length_s, 0.0), 1.0) if length_s else 1.0
        if now >= first_s:
            current, phase_done = phase, done
        energy_j += phase.energy_j * (run + (before + done) / rounds) / runs
        place_s += length_s
    blocks = math.prod(stages.blocks)
    finished = blocks if moment >= 1.0 else min(turn * stages.units, blocks)
    return WavefrontState(
        device=machine.device,
        moment=moment,
        cycle=moment * machine.cycles,
        seconds=moment * machine.latency_s,
        run=run + 1,
        round=turn + 1,
        phase=current.name,
        phase_done=phase_done,
        blocks_done=finished,
        blocks_running=min(stages.units, blocks - finished) if current.name in _WORK else 0,
        energy_j=energy_j,
        joules_per_cycle=current.joules_per_cycle,
    )
