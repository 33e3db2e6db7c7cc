"""The estimate of a model on a device in a scenario: latency, energy, memory, bounds and bands.

Workloads at several batches become one demand, end to end (a bundle), which is executed once; each estimate has the
totals of its part. A single estimate is a bundle of one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property, partial
from itertools import accumulate, chain, pairwise
from typing import Any

import msgspec
import numpy as np

from analysis.estimate import mixed_formats
from analysis.estimate.kernels import demand, equal_kernels, usual_joins
from analysis.estimate.metrics import Rates, rates
from analysis.estimate.operator_facts import Partition, partition
from analysis.estimate.peak_memory import Memory, block_channels, peak_memory
from analysis.estimate.scenario import Scenario
from analysis.estimate.trust import Factors, Trust, find_trust, work_class
from analysis.model.ir.workload import Coverage, Floats, Workload, check_batch, coverage
from analysis.model.request_bounds import BATCH
from analysis.model.training.step import as_run
from hardware import precision
from hardware.architecture_facts import Event
from hardware.base.records import memoize
from hardware.demand import READ_WEIGHT, Calls, Demand, Transfers
from hardware.device import Device
from hardware.engines.runtime import Runtime
from hardware.execute import BOUNDS, Execution, KernelRuns, repeat_kernels, run_kernels, share_runs
from hardware.plan import Plan
from hardware.precision import Widths
from hardware.setup import Setup, is_unsupported

# The fields of a demand that are per operator, or the same for all operators.
_COLUMNS = set(Demand.__struct_fields__) - {"kernel", "n_kernels", "transfers", "calls", "model"}
# Sizes of the parts of a batch. They do not depend on the batch, so that a larger one is never quicker.
PARTS: tuple[int, ...] = (1, *(part << step for step in range(16) for part in (2, 3)))
_Part = tuple[Workload, int, int]  # with its batch, and the size of the parts
_Seconds = dict[int, float]  # by the size of parts
_SETUPS_KEPT = 32  # of which a workload keeps the seconds of parts
# Operators that one execution takes of a workload at all batches: it needs one to five kilobytes for each.
_OPERATORS_AT_ONCE = 3_000


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of w estimates, each for the whole batch, SI units, shape (w,). `utilization` is the time that the
    busiest unit would need at its full peak, over the latency. `bound` is what bounds the most time, `bound_s` (w,
    bounds) the time by bound. `pipelined_s` is the part of the latency in which the next batch already runs."""

    latency_s: Floats
    pipelined_s: Floats
    energy_j: Floats
    utilization: Floats
    bound: tuple[str, ...]
    bound_s: Floats


def totals(run: Execution | KernelRuns, energy_j: Floats, ends: Sequence[int], times: Floats | float = 1.0) -> Totals:
    """Return the sums of the estimates of a run, whose kernels, with an energy each, end at these places. They run so
    many times. Terms are added in the order in which a segment alone is summed (reduceat pairs them differently)."""
    pipelined_s = np.zeros(len(energy_j)) if run.pipelined_s is None else run.pipelined_s
    terms = np.array((run.kernel_s, energy_j, pipelined_s, run.utilization * run.kernel_s)) * times
    sums = [np.add.reduce(terms[:, a:b], axis=1) for a, b in pairwise((0, *ends))]
    (latency, energy, pipelined, peak), bounds = np.array(sums).T, len(BOUNDS)
    place = run.bound + bounds * np.array(ends).searchsorted(np.arange(len(energy_j)), "right")
    bound_s = np.bincount(place, terms[0], bounds * len(ends)).reshape(-1, bounds).astype(np.float64, copy=False)
    return Totals(
        latency_s=latency,
        pipelined_s=pipelined,
        energy_j=energy,
        utilization=ratio(peak, latency),
        bound=tuple(BOUNDS[b] for b in bound_s.argmax(axis=1).tolist()),
        bound_s=bound_s,
    )


def weighted_mean(values: Floats, weights: Floats) -> float:
    """Return the mean of values by their weights, 0 without any weight."""
    total = float(weights.sum())
    return float((values * weights).sum()) / total if total else 0.0


def ratio(a: Floats, b: Floats, otherwise: Floats | float = 0.0) -> Floats:
    """Return a / b, and `otherwise` where b is 0."""
    return np.where(b > 0, a / np.where(b > 0, b, 1.0), otherwise)


class Bundle(msgspec.Struct, frozen=True):
    """The joint demand of estimates at their `batches`, ordered by batch and then by workload. `ends` are where the
    kernels of each end, and where its operators end. `repeats` (n,) says how often each operator is repeated, if
    workloads merge equal layers; `mostly_convolution`, whether convolutions do most multiply-accumulates of each (None
    without any); `devices`, how many share each workload."""

    demand: Demand
    ends: tuple[tuple[int, ...], tuple[int, ...]]
    repeats: Floats | None
    mostly_convolution: tuple[bool | None, ...]
    devices: int
    batches: tuple[int, ...]


def make_bundle(workloads: Sequence[Workload], batches: Sequence[int], *run: Any) -> Bundle:
    """Return all workloads at each batch, as `bundle_pairs` does."""
    return bundle_pairs([(workload, batch) for batch in batches for workload in workloads], *run)


def bundle_pairs(pairs: Sequence[tuple[Workload, int]], widths: Widths, execution: str, once: bool = False) -> Bundle:
    """Return workloads, each at its batch, at some widths of their tensors, under an execution mode. If `once`, a
    kernel that a workload runs several times is in the demand once."""
    demands = [demand(workload, batch, widths, execution) for workload, batch in pairs]
    repeats = [w.repeats @ w.value_at(batch=batch) for w, batch in pairs if w.repeats is not None]
    whole, kernels = demands[0] if len(demands) == 1 else _join(demands), [one.n_kernels for one in demands]
    if once:
        equal = np.concatenate([equal_kernels(workload, execution) for workload, _ in pairs])
        whole = whole.without_repeats(equal + np.repeat(np.cumsum(kernels) - kernels, kernels))
    macs = [(float(each.macs[each.is_convolution].sum()), float(each.macs.sum())) for each in demands]
    return Bundle(
        demand=whole,
        ends=(tuple(accumulate(kernels)), tuple(accumulate(one.n for one in demands))),
        repeats=np.concatenate(repeats) if repeats else None,
        mostly_convolution=tuple(2.0 * part > total if total else None for part, total in macs),
        devices=pairs[0][0].devices,
        batches=tuple(batch for _, batch in pairs),
    )


def _join(demands: Sequence[Demand]) -> Demand:
    """Return all demands as one: columns end to end, indices shifted."""
    kernels, ops = [one.n_kernels for one in demands], [one.n for one in demands]
    firsts = zip(demands, np.cumsum([0, *kernels]), np.cumsum([0, *ops]), strict=False)
    kernel, previous, owner = [], [], []
    for one, first_kernel, first_op in firsts:
        kernel.append(one.kernel + first_kernel)
        before = one.transfers.previous
        previous.append(np.where(before < 0, -1, before + first_kernel))
        owner.append(one.transfers.op + first_op)
    moves, calls = [one.transfers for one in demands], [one.calls for one in demands]
    return Demand(
        **_join_columns(demands, _COLUMNS),
        kernel=np.concatenate(kernel),
        n_kernels=sum(kernels),
        transfers=Transfers(
            op=np.concatenate(owner),
            previous=np.concatenate(previous),
            **_join_columns(moves, ("size_bytes", "role", "distance")),
        ),
        calls=Calls(**_join_columns(calls, Calls.__struct_fields__)),
        model=np.repeat(np.arange(len(demands)), kernels),
    )


def _join_columns(records: Sequence[Any], names: Iterable[str]) -> dict[str, Any]:
    """Concatenate columns of records, by name. A value that is not an array is the same in all; a column that only some
    records have is neutral in the others."""
    joined = dict[str, Any]()
    for name in names:
        columns = [getattr(one, name) for one in records]
        known = next((column for column in columns if isinstance(column, np.ndarray)), None)
        for place, column in enumerate(columns):
            if column is None and known is not None:  # `mean_work` is a factor, the others are amounts
                columns[place] = np.full((*known.shape[:-1], records[place].n), float(name == "mean_work"))
        joined[name] = columns[0] if known is None else np.concatenate(columns, axis=-1)
    return joined


class Evaluation(msgspec.Struct, frozen=True, dict=True):
    """The runs of the kernels of a bundle, in waves one by one, and the totals of each estimate. Time is of one device;
    energy and events are of all devices that share a workload. `instead` are evaluations, and places in them, that
    estimates take because they are quicker, by their place here."""

    bundle: Bundle
    setup: Setup
    waves: int
    runs: KernelRuns
    totals: Totals
    instead: dict[int, tuple["Evaluation", int]] = {}

    @cached_property
    def shared(self) -> tuple[Execution, Demand]:
        """The execution of all operators, and their demand, with repeated kernels."""
        bundle, devices = self.bundle, self.bundle.devices
        run, demand = share_runs(self.runs, bundle.demand, self.setup), bundle.demand
        if bundle.repeats is not None:
            run, demand = repeat_kernels(run, demand, bundle.repeats * self.waves)
        if devices > 1:
            run = msgspec.structs.replace(run, energy_j=run.energy_j * devices, counts=run.counts * devices)
        return run, demand

    def take(self, taken: dict[int, tuple["Evaluation", int]]) -> "Evaluation":
        """Return the evaluation with estimates of others, by their place here."""
        totals = msgspec.structs.asdict(self.totals)
        for name, values in totals.items():
            changed_values = list(values)
            for place, (one, i) in taken.items():
                changed_values[place] = getattr(one.totals, name)[i]
            totals[name] = tuple(changed_values) if isinstance(values, tuple) else np.array(changed_values)
        return msgspec.structs.replace(self, totals=Totals(**totals), instead=self.instead | taken)

    def locate(self, place: int) -> tuple["Evaluation", int]:
        """Return the evaluation that has an estimate, and its place there."""
        if (found := self.instead.get(place)) is not None:
            return found[0].locate(found[1])
        return self, place

    def run_at(self, place: int) -> Execution:
        """Return the execution of an estimate. Its mapping is that of all, except for `is_reduced`."""
        run, bundle = self.shared[0], self.bundle
        if len(bundle.batches) == 1:
            return run
        kernels, operators = (slice((0, *ends)[place], ends[place]) for ends in bundle.ends)
        size = {bundle.demand.n_kernels: kernels, bundle.demand.n: operators}
        arrays = [(name, each) for name, each in msgspec.structs.asdict(run).items() if isinstance(each, np.ndarray)]
        own = {name: each[..., size[each.shape[-1]]] for name, each in arrays}
        mapping = msgspec.structs.replace(run.mapping, is_reduced=run.mapping.is_reduced[operators])
        return msgspec.structs.replace(run, mapping=mapping, **own)


def evaluate(bundle: Bundle, setup: Setup, waves: int = 1) -> Evaluation:
    """Execute a bundle in waves, one by one. Runs at the power limit leave off what was added, if this is quicker."""
    runs = run_kernels(bundle.demand, setup, 1.0 if bundle.repeats is None else bundle.repeats)
    times = 1.0 if bundle.repeats is None else runs.times * waves
    sums = totals(runs, runs.energy_j * bundle.devices, bundle.ends[0], times)
    evaluation = Evaluation(bundle, setup, waves, runs, sums)
    if setup.cooler is None or not (runs.limited.price_scale < 1.0).any():
        return evaluation
    other = evaluate(bundle, setup.cooler, waves)
    (quicker,) = (other.totals.latency_s < evaluation.totals.latency_s).nonzero()
    return evaluation.take({place: (other, place) for place in quicker.tolist()})


def evaluate_in_parts(bundle: Bundle, workloads: Sequence[Workload], setup: Setup, waves: int = 1) -> Evaluation:
    """Execute a bundle of workloads, which are joined alike, in waves. A batch that a compiler can run in parts runs as
    the parts, one after another, that take the least time."""
    estimates = [(workloads[place % len(workloads)], batch) for place, batch in enumerate(bundle.batches)]
    places = [p for p, (one, batch) in enumerate(estimates) if batch > 1 and one.kind not in ("request", "training")]
    if waves > 1 or not places or not setup.device.arch.splits_batches or setup.runtime.mode != "fused":
        return evaluate(bundle, setup, waves)
    least, known = _least_seconds(bundle, workloads, setup), {place: _Seconds() for place in places}

    @cache
    def run(*sizes: tuple[int, int]) -> Evaluation:
        """Execute batches in parts, given as their place and the size of the parts."""
        return evaluate(_bundle_parts([(*estimates[place], size) for place, size in sizes], bundle, setup), setup)

    for _ in range(2):
        found = [(p, _candidates(least[id(estimates[p][0])], known[p], estimates[p][1])) for p in places]
        if tried := [(place, size) for place, sizes in found for size in sizes]:
            for (place, size), latency_s in zip(tried, run(*tried).totals.latency_s.tolist(), strict=True):
                known[place][size] = latency_s
    best = {place: _best_size(sizes, estimates[place][1]) for place, sizes in known.items()}
    return run(*((place, best.get(place, batch)) for place, (_, batch) in enumerate(estimates)))


def _sizes(batch: int) -> tuple[list[int], list[int]]:
    """Return the sizes to know for a batch: those of PARTS up to it and the next one; and those up to the batch, with
    all between the last of PARTS and the batch."""
    listed = [*PARTS[: bisect_left(PARTS, batch) + 1]]
    return listed, listed if listed[-1] == batch else [*listed[:-1], *range(listed[-2] + 1, batch + 1)]


def _candidates(least_s: _Seconds, known: _Seconds, batch: int) -> list[int]:
    """Return the sizes of parts to execute next. If none is `known`, those with the least seconds without a start; then
    all others whose seconds without a start do not exceed the known ones with it, since a start only adds time."""
    if not known:
        return [*dict.fromkeys(min(sizes, key=least_s.__getitem__) for sizes in _sizes(batch))]
    most_s = max(min(known[size] for size in sizes if size in known) for sizes in _sizes(batch)) / batch
    others = {*chain(*_sizes(batch))} - known.keys()
    return [size for size in sorted(others) if least_s[size] <= most_s * (1.0 + 1e-9)]


def _best_size(known: _Seconds, batch: int) -> int:
    """Return the size of the quickest parts of a batch, the largest of equals. If a size between two of PARTS is
    quicker than all of PARTS up to the next, the batch runs as these: a larger batch, which knows PARTS alone, would
    have a lower rate, and better hardware could be slower."""
    listed, fitting = ({size: known[size] for size in sizes if size in known} for sizes in _sizes(batch))
    chosen = listed if min(fitting.values()) < min(listed.values()) else fitting
    return max(size for size, seconds in chosen.items() if seconds <= min(chosen.values()) * (1.0 + 1e-9))


def _least_seconds(whole: Bundle, workloads: Sequence[Workload], setup: Setup) -> dict[int, _Seconds]:
    """Return the seconds of an inference in parts that follow each other, without the start of a call, by the identity
    of a workload and the size of its parts. Workloads keep them, since the parts of every batch are the same."""
    kept, batches = dict[int, _Seconds](), whole.batches
    for each in workloads:
        own = _kept_seconds(each)
        _, kept[id(each)] = own.setdefault(id(setup), (setup, {}))
        if len(own) > _SETUPS_KEPT:
            own.pop(next(iter(own)))
    sizes = sorted({size for batch in set(batches) for size in chain(*_sizes(batch))})
    lacking = [size for size in sizes if any(size not in each_s for each_s in kept.values())]
    at_once = max(_OPERATORS_AT_ONCE * len(batches) // (max(whole.demand.n, 1) * len(workloads)), 1)
    for some in (lacking[first : first + at_once] for first in range(0, len(lacking), at_once)):
        parts = _bundle_parts([(workload, size, size) for size in some for workload in workloads], whole, setup, 0.0)
        seconds = evaluate(parts, setup).totals.latency_s.reshape(len(some), -1).T / some
        for each_s, found in zip(kept.values(), seconds.tolist(), strict=True):
            each_s.update(zip(some, found, strict=True))
    return kept


@memoize()
def _kept_seconds(workload: Workload) -> dict[int, tuple[Setup, _Seconds]]:
    """Return what `_least_seconds` keeps of a workload, by the identity of setups, which it holds."""
    return {}


def _bundle_parts(parts: Sequence[_Part], whole: Bundle, setup: Setup, starts: float = 1.0) -> Bundle:
    """Return the bundle of one part of each workload and batch, repeated as often as it runs. Each part has its share
    of the start of the call, times `starts`: a chip draws less in it, which counts at a power limit."""
    pairs, joins = [(workload, size) for workload, _, size in parts], usual_joins(parts[0][0], setup.joins)
    bundle = bundle_pairs(pairs, setup.plan.widths, joins, once=whole.demand.order is not None)
    runs = np.array([batch / size for _, batch, size in parts])[bundle.demand.model[bundle.demand.kernel]]
    calls = msgspec.structs.replace(bundle.demand.calls, begins=bundle.demand.calls.begins * starts / runs)
    repeats = runs if bundle.repeats is None else bundle.repeats * runs
    repeats = repeats if (repeats != 1.0).any() else None  # a batch in one part shares its demand
    return msgspec.structs.replace(bundle, demand=bundle.demand.with_values(calls=calls), repeats=repeats)


def evaluate_steps(
    steps: Sequence[Workload], batches: Sequence[int], device: Device, scenario: Scenario, is_recorded: bool = False
) -> Floats:
    """Return seconds and joules of steps that share their operators at some batches, (2, steps, batches). With
    `is_recorded` those of prompts held by graphs come first, (4, ..)."""
    setup = scenario.setup_on(device, steps[0])
    none = msgspec.structs.replace(setup.runtime.prompt_dispatch, value=0.0, low=0.0, high=0.0)
    graphs = Setup(device, setup.plan, msgspec.structs.replace(setup.runtime, prompt_dispatch=none), setup.layout)
    bundle = make_bundle(steps, batches, setup.plan.widths, setup.joins)
    sums = [evaluate(bundle, each).totals for each in ((graphs, setup) if is_recorded else (setup,))]
    figures = np.stack([figure for one in sums for figure in (one.latency_s, one.energy_j)])
    return figures.reshape(len(figures), len(batches), len(steps)).swapaxes(1, 2)


COMPONENTS = ("compute", "memory", "static")


class Estimate(Rates, frozen=True, dict=True, kw_only=True):
    """Figures are for the whole batch, in SI units. Arrays per operator (n,) and kernel are in `run`.

    `utilization` is the time that the busiest unit would need at its full peak (of the format it runs), over the
    latency. `bound` is what bounds the most time, `bound_s` the time by each of hardware.execute.BOUNDS. Requests that
    do not fit into memory together run in `waves`, one after another; memory is then that of one wave. If a compiler
    runs a batch in parts, whose activations stay on chip, `part` is their size, and the last may be smaller. `formats`
    (n,) are those of operators if layers have their own."""

    workload: Workload
    scenario: Scenario
    setup: Setup
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
    formats: tuple[str, ...] = ()

    @property
    def partition(self) -> Partition:
        """The fusion subgraphs of the workload."""
        return partition(self.workload)

    @property
    def device(self) -> Device:
        """The device in its power mode."""
        return self.setup.device

    @property
    def plan(self) -> Plan:
        """The formats that the device uses."""
        return self.setup.plan

    def setup_of(self, i: int) -> Setup:
        """Return the setup of an operator, whose formats may be its own."""
        if not self.formats:
            return self.setup
        own = msgspec.structs.replace(self.scenario, precision=self.formats[i])
        return own.setup_on(self.device, self.workload)

    @property
    def format_name(self) -> str:
        """The precision that a user of the device would ask for: as requested, else what takes its place."""
        asked, stored = self.scenario.precision, self.plan.stored
        return asked if self.plan.weights == precision.parse(asked).weights else stored

    @property
    def runtime(self) -> Runtime:
        """The software that runs the model."""
        return self.setup.runtime

    @property
    def execution(self) -> str:
        """The mode of the runtime: 'eager', 'compiled' or 'fused'."""
        return self.setup.runtime.mode

    def in_mode(self, mode: str) -> "Estimate":
        """Return the estimate with the same software, but with kernels grouped as in a mode, e.g. 'fused'."""
        if self.execution == mode:
            return self
        return next(_estimate_on(self.setup.in_mode(mode), self.workload, self.scenario, (self.scenario.batch,)))

    @property
    def joins(self) -> str:
        """The way to join operators into kernels, as analysis/estimate/kernels.py names it."""
        return usual_joins(self.workload, self.setup.joins)

    @property
    def most_batch(self) -> int | None:
        """The largest batch of a training step that fits; None for other work."""
        if (step := self.workload.training) is None:
            return None
        parts: int = step.settings.parts
        how = self.plan.widths, self.joins, block_channels(self.device, self.execution)
        sizes, room = range(parts, BATCH + 1, parts), self.device.memory_bytes
        return parts * bisect_right(sizes, room, key=lambda n: peak_memory(self.workload, n, *how).peak_bytes)

    @property
    def power_limit_w(self) -> float:
        """The power limit of all devices that run the model, together."""
        return self.device.power_limit_w * self.workload.devices

    @property
    def key(self) -> str:
        """The key of its device, and of several that share a batch of training their number: `l4*8`."""
        step = self.workload.training
        several = step is not None and step.settings.devices > 1
        return f"{self.device.key}*{self.workload.devices}" if several else self.device.key

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
        """False if software is known to run other kinds of work on the device, but not this kind; training in integers
        has none."""
        runs = self.runtime.fits(self.device, self.workload.work) or not is_unsupported(self.device, self.workload.work)
        return runs and (self.workload.training is None or precision.parse(self.precision_run).suits("training"))

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
        static_w, (fast, slow) = self.static_w * self.workload.devices, self.latency_band_s
        by_time = static_w * max(self.latency_s - fast, 0.0), static_w * max(slow - self.latency_s, 0.0)
        sides = zip(*self.run.prices.spreads_j(self.event_j), by_time, strict=True)
        down, up = (sum(each**2 for each in side) ** 0.5 for side in sides)
        return max(self.energy_j - down, 0.0), self.energy_j + up

    @property
    def has_open_links(self) -> bool:
        """True for devices that exchange over PCIe at a rate that nothing states: behind one switch or two sockets."""
        parallel, slow = self.workload.parallel, self.device.arch.constants.pair_link_bandwidth
        return parallel is not None and not parallel.link_bytes_per_s and self.device.link_bandwidth <= slow

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
    if (mixed := precision.parse(base.precision)).layers:
        yield from (_estimate_mixed(workload, device, base, mixed, batch) for batch in batches)
        return
    is_alone = workload.repeats is not None or workload.parallel is not None or bool(device.file.timed)
    at_once = 1 if is_alone else max(_OPERATORS_AT_ONCE // workload.n_operators, 1)
    for place in range(0, len(batches), at_once):
        first = base if batches[place] == base.batch else msgspec.structs.replace(base, batch=batches[place])
        setup = first.setup_on(device, workload)
        for made in _estimate_on(setup, workload, base, tuple(batches[place : place + at_once])):
            yield _with_topologies(made, setup, base)


def _with_topologies(made: Estimate, setup: Setup, base: Scenario) -> Estimate:
    """Return the estimate of devices that exchange over PCIe, if nothing states at which rate, with a band that holds
    its time behind one switch and below two sockets: what either would take is estimated too."""
    if made.workload.parallel is None or not made.has_open_links:
        return made
    own, constants = made.device.link_bandwidth, made.device.arch.constants
    reached, fast, slow = made.device.arch.data.assumptions["pair_blocks_reached"], *made.trust.band
    for end in (reached.low, reached.high):
        speed = min(own * end / reached.value, constants.pair_link_bandwidth)
        stated = msgspec.structs.replace(made.workload.parallel, link_bytes_per_s=speed)
        linked = msgspec.structs.replace(made.workload, parallel=stated)
        (other,) = _estimate_on(setup, linked, base, (made.scenario.batch,))
        share = other.latency_s / made.latency_s
        fast, slow = min(fast, made.trust.band[0] * share), max(slow, made.trust.band[1] * share)
    trust = msgspec.structs.replace(made.trust, band=(fast, slow))
    return msgspec.structs.replace(made, trust=trust, latency_band_s=(made.latency_s * fast, made.latency_s * slow))


def _estimate_on(setup: Setup, workload: Workload, base: Scenario, batches: tuple[int, ...]) -> Iterator[Estimate]:
    widths = setup.plan.widths
    workload = as_run(workload, widths.activations, setup.runtime.mode == "eager")
    joins = usual_joins(workload, setup.joins)
    block = block_channels(setup.device, setup.runtime.mode)
    if len(batches) == 1:
        waves, memory = _waves(workload, batches[0], setup, joins, block)
        bundle, memories = make_bundle([workload], [-(-batches[0] // waves)], widths, joins), [memory]
    else:
        waves, (bundle, memories) = 1, _at_batches(workload, batches, widths, joins, block)
    whole = evaluate_in_parts(bundle, [workload], setup, waves)
    for place, (batch, memory) in enumerate(zip(batches, memories, strict=True)):
        scenario = base if batch == base.batch else msgspec.structs.replace(base, batch=batch)
        evaluation, i = whole.locate(place)
        is_alone, part = len(evaluation.bundle.batches) == 1, evaluation.bundle.batches[i]
        own_demand = evaluation.shared[1] if is_alone else demand(workload, batch, widths, joins)
        work = work_class(setup, workload.kind, batch, workload.parallel is not None)
        trust, energy_factors = find_trust(setup, work)
        yield Estimate(
            workload=workload,
            scenario=scenario,
            setup=evaluation.setup if evaluation.setup.device is setup.device else setup,
            demand=own_demand,
            run=evaluation.run_at(i),
            memory=memory,
            energy_factors=None if setup.device.priced else energy_factors,
            **_totals_of_run(evaluation.totals, i, batch, trust),
            precision_run=setup.plan.precision_run(bundle.mostly_convolution[place]),
            work_class=work,
            trust=trust,
            waves=waves,
            part=part if part * waves < batch else 0,
        )


def _estimate_mixed(
    workload: Workload, device: Device, base: Scenario, mixed: precision.Precision, batch: int
) -> Estimate:
    """Return the estimate of a model whose layers have formats of their own; `precision_run` is that of most
    multiply-accumulates. Weights take the memory of their formats, activations that of the rest."""
    rest = mixed.name.partition("+")[0]
    formats = list(dict.fromkeys([rest, *(form for _, form in mixed.layers)]))
    asked = [msgspec.structs.replace(base, precision=form, batch=batch) for form in formats]
    each = [estimate(workload, device, one) for one in asked]
    first = each[0]
    chosen = mixed_formats.choose(mixed, formats, first.workload, first.demand)
    run, demand = mixed_formats.mix([one.run for one in each], [one.demand for one in each], chosen)
    stored = [one.demand.moved_bytes[READ_WEIGHT] for one in each]
    less_bytes = float((stored[0] - np.choose(chosen, stored)).sum())
    less = {name: getattr(first.memory, name) - less_bytes for name in ("peak_bytes", "weight_bytes")}
    macs = np.bincount(chosen, demand.macs, len(formats))
    return msgspec.structs.replace(
        first,
        scenario=msgspec.structs.replace(base, batch=batch),
        demand=demand,
        run=run,
        memory=msgspec.structs.replace(first.memory, **less),
        **_totals_of_run(totals(run, demand.per_kernel(run.energy_j), [demand.n_kernels]), 0, batch, first.trust),
        precision_run=each[int(macs.argmax())].precision_run,
        formats=tuple(each[place].format_name for place in chosen.tolist()),
    )


def _totals_of_run(sums: Totals, i: int, batch: int, trust: Trust) -> dict[str, Any]:
    """Return the fields of an Estimate that are sums over the kernels of run `i`, and what follows from them."""
    latency, energy = float(sums.latency_s[i]), float(sums.energy_j[i])
    fast, slow = [latency * factor for factor in trust.band]
    return {
        "latency_s": latency,
        "energy_j": energy,
        "latency_band_s": (fast, slow),
        **msgspec.structs.asdict(rates(batch, latency, energy, float(sums.pipelined_s[i]))),
        "utilization": float(sums.utilization[i]),
        "bound": sums.bound[i],
        "bound_s": tuple(sums.bound_s[i].tolist()),
    }


@memoize(large=True)
def _at_batches(
    workload: Workload, batches: tuple[int, ...], widths: Widths, joins: str, block: float
) -> tuple[Bundle, list[Memory]]:
    """Return the bundle of all batches, and the memory of each."""
    bundle = make_bundle([workload], batches, widths, joins)
    return bundle, [peak_memory(workload, batch, widths, joins, block) for batch in batches]


def _waves(workload: Workload, batch: int, setup: Setup, joins: str, block: float) -> tuple[int, Memory]:
    """Return the number of waves in which a batch of requests runs (1 for other work), and the peak memory of one wave.
    A server holds back requests that do not fit. If not even one fits, there is one wave."""
    peak = partial(peak_memory, workload, widths=setup.plan.widths, execution=joins, block=block)
    memory, capacity = peak(batch), setup.device.memory_bytes
    if "output" not in workload.defaults or memory.peak_bytes <= capacity or peak(1).peak_bytes > capacity:
        return 1, memory
    fitting = bisect_right(range(1, batch), capacity, key=lambda size: peak(size).peak_bytes)
    waves = -(-batch // fitting)
    return waves, peak(-(-batch // waves))
