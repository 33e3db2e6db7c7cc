"""The estimate of one model on one device in one scenario: latency, energy, memory, bounds and bands."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property

import msgspec
import numpy as np

from analysis.estimate.evaluation import Bundle, Rates, evaluate, make_bundle, rates, split_batches
from analysis.estimate.kernels import demand, usual_joins
from analysis.estimate.peak_memory import Memory, block_channels, peak_memory
from analysis.estimate.scenario import Scenario
from analysis.estimate.subgraphs import Partition, partition
from analysis.estimate.trust import Factors, Trust, find_trust, work_class
from analysis.model.ir.batch_limits import check_batch
from analysis.model.ir.coverage import Coverage, coverage
from analysis.model.ir.workload import Floats, Workload
from hardware import precision
from hardware.architecture_facts import Event
from hardware.base.records import memoize
from hardware.demand import Demand
from hardware.device import Device
from hardware.engines.runtime import Runtime
from hardware.execute import Execution
from hardware.plan import Plan
from hardware.precision import Widths
from hardware.setup import Setup, is_unsupported

COMPONENTS = ("compute", "memory", "static")


class Estimate(Rates, frozen=True, dict=True, kw_only=True):
    """Figures are for the whole batch, in SI units. Arrays per operator (n,) and kernel are in `run`.

    `utilization` is the time that the busiest unit would need at its full peak (of the format it runs), over the
    latency. `bound` is what bounds the most time, `bound_s` the time by each of hardware.execute.BOUNDS. Requests that
    do not fit into memory together run in `waves`, one after another; memory is then that of one wave. If a compiler
    runs a batch in parts, whose activations stay on chip, `part` is their size, and the last may be smaller."""

    workload: Workload
    scenario: Scenario
    setup: Setup
    partition: Partition
    demand: Demand
    run: Execution
    memory: Memory
    latency_s: float
    energy_j: float
    latency_band_s: tuple[float, float]
    energy_factors: Factors | None
    utilization: float
    bound: str
    bound_s: tuple[float, ...]
    precision_run: str
    work_class: str
    trust: Trust
    waves: int = 1
    part: int = 0

    @property
    def device(self) -> Device:
        """The device in its power mode."""
        return self.setup.device

    @property
    def plan(self) -> Plan:
        """The formats that the device uses."""
        return self.setup.plan

    @property
    def runtime(self) -> Runtime:
        """The software that runs the model."""
        return self.setup.runtime

    @property
    def execution(self) -> str:
        """The mode of the runtime: 'eager', 'compiled' or 'fused'."""
        return self.setup.runtime.mode

    def in_mode(self, mode: str) -> Estimate:
        """Return the estimate with the same software, but with kernels grouped as in a mode, e.g. 'fused'."""
        if self.execution == mode:
            return self
        return next(_estimate_on(self.setup.in_mode(mode), self.workload, self.scenario, (self.scenario.batch,)))

    @property
    def joins(self) -> str:
        """The way to join operators into kernels, as analysis/estimate/kernels.py names it."""
        return usual_joins(self.workload, self.setup.joins)

    @property
    def power_limit_w(self) -> float:
        """The power limit of all devices that run the model, together."""
        return self.device.power_limit_w * self.workload.devices

    @property
    def peak_memory_bytes(self) -> float:
        """The most memory in use at any operator, bytes."""
        return self.memory.peak_bytes

    @property
    def wave_batch(self) -> int:
        """The inferences in memory at once: the whole batch if all fit."""
        return -(-self.scenario.batch // self.waves)

    @property
    def kernel_runs(self) -> float:
        """The runs of each kernel: one for each wave, or for each part of the batch; the last may be smaller."""
        return self.scenario.batch / self.part if self.part else float(self.waves)

    @property
    def fits(self) -> bool:
        """True if the peak fits into the device's memory."""
        return self.memory.peak_bytes <= self.device.memory_bytes

    @property
    def rule_coverage(self) -> Coverage:
        """The shares of the model that have a cost rule."""
        return coverage(self.workload, self.scenario.batch)

    @property
    def coverage(self) -> float:
        """Share of the work that has a cost rule."""
        return self.rule_coverage.work

    @property
    def can_offload(self) -> bool:
        """True for a language model on a device whose host has memory of its own."""
        device = self.device
        return self.workload.work == "language" and not (device.arch.is_host or device.software.shares_host_memory)

    @property
    def can_win(self) -> bool:
        """True if it may be recommended: the model fits, known software runs it in a format no wider than asked, and
        cost rules cover enough of it."""
        runs_wider = precision.runs_wider(self.scenario.precision, self.precision_run)
        return self.fits and self.supported and not runs_wider and not self.rule_coverage.gap

    @property
    def supported(self) -> bool:
        """False if software is known to run other kinds of work on the device, but not this kind."""
        return self.runtime.fits(self.device, self.workload.work) or not is_unsupported(self.device, self.workload.work)

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of the device's architecture, in the order of its counts."""
        return self.device.arch.events

    @property
    def event_energy_j(self) -> Floats:
        """Energy of each event and operator, shape (e, n). Computed on access, as it is the largest array of all."""
        return self.run.scale_counts(self.run.counts) * self.run.prices.value[:, None]

    @cached_property
    def component_energy_j(self) -> Floats:
        """Compute, memory and static energy of each operator, shape (3, n)."""
        return self.components_j(self.run.scale_counts(self.run.counts))

    def components_j(self, counts: Floats) -> Floats:
        """Return the compute, memory and static energy, (3, n), of priced event counts (e, n)."""
        which = np.array([COMPONENTS.index(event.component) for event in self.events])
        prices = self.run.prices.value
        return np.stack([prices[which == c] @ counts[which == c] for c in range(3)])

    @cached_property
    def event_j(self) -> Floats:
        """The energy of each event in the whole model, shape (e,)."""
        energy_j: Floats = self.run.scale_counts(self.run.counts).sum(axis=1) * self.run.prices.value
        return energy_j

    @cached_property
    def component_j(self) -> dict[str, float]:
        """Energy of the whole model by component."""
        energy = dict.fromkeys(COMPONENTS, 0.0)
        for event, joules in zip(self.events, self.event_j.tolist(), strict=True):
            energy[event.component] += joules
        return energy

    @cached_property
    def energy_band_j(self) -> tuple[float, float]:
        """Low and high energy: the factors that contain the metered energy of this class of work. Without such
        measurements, the spreads of prices: prices of one group vary together, groups vary independently. The spread of
        the time moves the static energy and counts as one more group."""
        if self.energy_factors is not None:
            return self.energy_j * self.energy_factors[0], self.energy_j * self.energy_factors[1]
        prices, energy_j = self.run.prices, self.event_j
        each = np.where(prices.value > 0.0, prices.value, 1.0)
        groups: dict[str, list[float]] = {}
        for row, down, up in zip(
            prices.rows, energy_j * (1.0 - prices.low / each), energy_j * (prices.high / each - 1.0), strict=True
        ):
            entry = groups.setdefault(row.group, [0.0, 0.0])
            entry[0] += float(down)
            entry[1] += float(up)
        static_w = self.static_w * self.workload.devices
        fast, slow = self.latency_band_s
        groups["time"] = [static_w * max(self.latency_s - fast, 0.0), static_w * max(slow - self.latency_s, 0.0)]
        down = sum(entry[0] ** 2 for entry in groups.values()) ** 0.5
        up = sum(entry[1] ** 2 for entry in groups.values()) ** 0.5
        return max(self.energy_j - float(down), 0.0), self.energy_j + float(up)

    @property
    def static_w(self) -> float:
        """The power of one device that computes nothing."""
        return float(self.run.prices.value[self.device.arch.static_rows].sum())

    @property
    def static_fraction(self) -> float:
        """The part of the energy that is drawn whatever the device computes."""
        return self.component_j["static"] / (self.energy_j or 1.0)


def estimate(workload: Workload, device: Device, scenario: Scenario) -> Estimate:
    """Evaluate a workload on a device, without side effects.

    A scenario that is new for the workload and device takes 0.5 to 1 ms of CPU time for models of 70 to 500 operators,
    most of it a fixed cost per call. It takes several ms where an NPU cuts a network into contexts. Raises RequestError
    for a batch that the workload does not allow."""
    return next(estimate_batches(workload, device, scenario, (scenario.batch,)))


def estimate_batches(workload: Workload, device: Device, base: Scenario, batches: Sequence[int]) -> Iterator[Estimate]:
    """Yield the estimate at each batch, from one execution of all where the batches do not affect each other. The
    mapping in it is that of all batches, except for `is_reduced`."""
    for batch in batches:
        check_batch(workload, batch)
    workload = workload.bound(sequence=base.sequence, kv=base.kv)
    setup = base.setup_on(device, workload)
    is_alone = workload.repeats is not None or workload.parallel is not None
    for group in ((batch,) for batch in batches) if is_alone else (tuple(batches),):
        yield from _estimate_on(setup, workload, base, group)


def _estimate_on(setup: Setup, workload: Workload, base: Scenario, batches: tuple[int, ...]) -> Iterator[Estimate]:
    joins, widths, device = usual_joins(workload, setup.joins), setup.plan.widths, setup.device
    block = block_channels(device, setup.runtime.mode)
    if len(batches) == 1:
        waves, memory = _waves(workload, batches[0], setup, joins, block)
        bundle, memories = make_bundle([workload], [-(-batches[0] // waves)], widths, joins), [memory]
    else:
        waves, (bundle, memories) = 1, _at_batches(workload, batches, widths, joins, block)
    whole = evaluate(bundle, setup, waves)
    in_parts = split_batches(whole, [workload], batches, setup) if waves == 1 else {}
    for place, (run, batch, memory) in enumerate(zip(whole.runs(), batches, memories, strict=True)):
        scenario = base if batch == base.batch else msgspec.structs.replace(base, batch=batch)
        part, evaluation = in_parts.get(place, (0, whole))
        run, i = (evaluation.run, 0) if place in in_parts else (run, place)
        is_alone = place in in_parts or len(batches) == 1
        own_demand = evaluation.demand if is_alone else demand(workload, batch, widths, joins)
        sums = evaluation.totals
        latency, energy = float(sums.latency_s[i]), float(sums.energy_j[i])
        work = work_class(setup, workload.kind, batch, workload.parallel is not None)
        trust, energy_factors = find_trust(setup, work)
        fast, slow = (latency * factor for factor in trust.band)
        yield Estimate(
            workload=workload,
            scenario=scenario,
            setup=setup,
            partition=partition(workload),
            demand=own_demand,
            run=run,
            memory=memory,
            latency_s=latency,
            energy_j=energy,
            latency_band_s=(fast, slow),
            energy_factors=energy_factors,
            **msgspec.structs.asdict(rates(batch, latency, energy, float(sums.pipelined_s[i]))),
            utilization=float(sums.utilization[i]),
            bound=sums.bound[i],
            bound_s=tuple(sums.bound_s[i].tolist()),
            precision_run=precision_run(setup.plan, bundle.mostly_convolution[place]),
            work_class=work,
            trust=trust,
            waves=waves,
            part=part,
        )


@memoize(keep=16)
def _at_batches(
    workload: Workload, batches: tuple[int, ...], widths: Widths, joins: str, block: float
) -> tuple[Bundle, list[Memory]]:
    """Return the bundle of all batches, and the memory of each."""
    bundle = make_bundle([workload], batches, widths, joins)
    return bundle, [peak_memory(workload, batch, widths, joins, block) for batch in batches]


def _waves(workload: Workload, batch: int, setup: Setup, joins: str, block: float) -> tuple[int, Memory]:
    """Return the number of waves in which a batch of requests runs (1 for other work), and the peak memory of one wave.
    A server holds back requests that do not fit. If not even one fits, there is one wave."""

    def peak(size: int) -> Memory:
        """Return the memory of a batch of this size."""
        return peak_memory(workload, size, setup.plan.widths, joins, block)

    memory, capacity = peak(batch), setup.device.memory_bytes
    if "output" not in workload.defaults or memory.peak_bytes <= capacity or peak(1).peak_bytes > capacity:
        return 1, memory
    fitting = bisect_right(range(1, batch), capacity, key=lambda size: peak(size).peak_bytes)
    waves = -(-batch // fitting)
    return waves, peak(-(-batch // waves))


def largest_batch(memory: Memory, batch: int, room: float) -> int:
    """Return how many inferences fit into `room` bytes: weights stay, the rest of the peak (caches, activations) grows
    with the batch."""
    each = (memory.peak_bytes - memory.weight_bytes) / batch
    return max(int((room - memory.weight_bytes) / each), 0) if each > 0 else 0


def precision_run(plan: Plan, mostly_convolution: bool | None) -> str:
    """Return the format that most multiply-accumulates run in; without any, the format of the tensors."""
    if mostly_convolution is None:
        return plan.stored
    return plan.convolution[1] if mostly_convolution else plan.contraction[1]
