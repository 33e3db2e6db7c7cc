"""The one evaluator: a joint demand executed on a device, and the totals of each estimate in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product, starmap

import msgspec
import numpy as np

from analysis.estimate.bundle import Bundle, make_bundle
from analysis.estimate.kernels import usual_joins
from analysis.estimate.scenario import Scenario
from analysis.estimate.totals import Totals, totals
from analysis.model.ir.workload import Bools, Floats, Workload
from hardware.demand import WRITE, Demand
from hardware.device import Device
from hardware.execute import Execution, execute, repeat_kernels
from hardware.memo import memoize
from hardware.setup import Setup

_BY_KERNEL = (  # of an execution
    "pipelined_s", "kernel_s", "unthrottled_s", "busy_s", "overhead_s", "serial_s", "kernel_compute_s",
    "kernel_memory_s", "bound", "resource", "utilization",
)  # fmt: skip
# Sizes of the parts of a batch. They do not depend on the batch, so that a larger one is never quicker.
PARTS: tuple[int, ...] = (1, *(part << step for step in range(16) for part in (2, 3)))
_KEEP_WORKLOADS = 32
_BY_OPERATOR = ("latency_s", "energy_j", "counts", "price_scale")  # of an execution


class Evaluation(msgspec.Struct, frozen=True):
    """The execution of a bundle and the totals of each estimate. `demand` is that of the bundle, with repeated kernels.
    Time is of one device; energy and events are of all devices that share a workload."""

    bundle: Bundle
    demand: Demand
    run: Execution
    totals: Totals

    def runs(self) -> Iterator[Execution]:
        """Yield the execution of each estimate. Its mapping is that of all, except for `is_reduced`."""
        run, bundle = self.run, self.bundle
        if len(bundle.mostly_convolution) == 1:
            yield run
            return
        names = _BY_KERNEL[run.pipelined_s is None :]
        for kernels, operators in zip(*(starmap(slice, pairwise((0, *ends))) for ends in bundle.ends), strict=True):
            own = {name: getattr(run, name)[..., kernels] for name in names}
            own |= {name: getattr(run, name)[..., operators] for name in _BY_OPERATOR}
            mapping = msgspec.structs.replace(run.mapping, is_reduced=run.mapping.is_reduced[operators])
            yield msgspec.structs.replace(run, mapping=mapping, **own)


def evaluate(bundle: Bundle, setup: Setup, waves: float = 1) -> Evaluation:
    """Execute a bundle on a device, in so many waves, one after another; the last may be a part of one."""
    demand, run = bundle.demand, execute(bundle.demand, setup)
    if bundle.repeats is not None:
        run, demand = repeat_kernels(run, demand, bundle.repeats * waves)
    if (devices := bundle.devices) > 1:
        run = msgspec.structs.replace(run, energy_j=run.energy_j * devices, counts=run.counts * devices)
    return Evaluation(bundle, demand, run, totals(run, *bundle.ends))


def split_batches(
    whole: Evaluation, workloads: Sequence[Workload], batches: Sequence[int], setup: Setup
) -> dict[int, tuple[int, Evaluation]]:
    """Return the size of the parts in which a compiler runs a batch, one after another, and their evaluation, by the
    place of an estimate in `whole`: where activations leave the chip, and this is quicker."""
    if not setup.device.arch.splits_batches or setup.runtime.mode != "fused":  # without a compiler of the whole model
        return {}
    estimates = list(product(batches, range(len(workloads))))
    leaving = np.flatnonzero(_leave_chip(whole)).tolist()
    can_split = [batch > 1 and workloads[model].kind != "request" for batch, model in estimates]
    places = [place for place in leaving if can_split[place]]
    if not places:
        return {}
    models = sorted({estimates[place][1] for place in places})
    sizes = [size for size in PARTS if size < max(estimates[place][0] for place in places)]
    each_s = _part_seconds([workloads[model] for model in models], sizes, setup)
    parts = dict[int, tuple[int, Evaluation]]()
    for place in places:
        batch, model = estimates[place]
        of_model = each_s[models.index(model)][: sum(size < batch for size in sizes)]
        size = sizes[int(of_model.argmin())]
        if of_model.min() * batch + setup.call_s < whole.totals.latency_s[place]:  # the host starts the call once
            bundle_of_part = _bundle_of_part(workloads[model], batch, size, setup)
            parts[place] = size, evaluate(bundle_of_part, setup, batch / size)
    return parts


def _part_seconds(workloads: Sequence[Workload], sizes: list[int], setup: Setup) -> list[Floats]:
    """Return the seconds of an inference in parts of each size, by workload, without the start of a call. They are kept
    with the setup: the parts of every batch are the same."""
    kept = _kept_seconds(setup)
    lacking = [w for w in workloads if id(w) not in kept or len(kept[id(w)][1]) < len(sizes)]
    if lacking:
        bundle = make_bundle(lacking, sizes, setup.plan.widths, usual_joins(lacking[0], setup.joins))
        part_s = evaluate(bundle, setup).totals.latency_s.reshape(len(sizes), len(lacking)) - setup.call_s
        if len(kept) > _KEEP_WORKLOADS:
            kept.clear()
        kept |= {id(w): (w, of_one) for w, of_one in zip(lacking, (part_s / np.array(sizes)[:, None]).T, strict=True)}
    return [kept[id(workload)][1] for workload in workloads]


@memoize()
def _kept_seconds(setup: Setup) -> dict[int, tuple[Workload, Floats]]:
    """Return what `_part_seconds` keeps of a setup, by the identity of workloads, which it holds."""
    return {}


def with_split_batches(
    whole: Evaluation, workloads: Sequence[Workload], batches: Sequence[int], setup: Setup
) -> Evaluation:
    """Return the evaluation with the totals of batches that run in parts."""
    parts = split_batches(whole, workloads, batches, setup)
    if not parts:
        return whole
    totals = msgspec.structs.asdict(whole.totals)
    for name, values in totals.items():
        changed_values = list(values)
        for place, (_, split) in parts.items():
            changed_values[place] = getattr(split.totals, name)[0]
        totals[name] = tuple(changed_values) if isinstance(values, tuple) else np.array(changed_values)
    return msgspec.structs.replace(whole, totals=Totals(**totals))


def _leave_chip(whole: Evaluation) -> Bools:
    """Return for each estimate whether its kernels write more to memory than its results."""
    transfers, flow, ends = whole.demand.transfers, whole.run.mapping.traffic, whole.bundle.ends[1]
    is_result = (transfers.role == WRITE) & np.isinf(transfers.distance)
    results = whole.demand.per_op(np.where(is_result, transfers.size_bytes, 0.0))
    begins = np.array((0, *ends[:-1]))
    written_bytes, result_bytes = (np.add.reduceat(values, begins) for values in (flow.dram_write, results))
    is_more: Bools = written_bytes > result_bytes * (1.0 + 1e-9)
    return is_more


def _bundle_of_part(workload: Workload, batch: int, size: int, setup: Setup) -> Bundle:
    """Return the bundle of one part of a batch, with its share of the host's start of the call."""
    part = make_bundle([workload], [size], setup.plan.widths, usual_joins(workload, setup.joins))
    calls = msgspec.structs.replace(part.demand.calls, begins=part.demand.calls.begins * (size / batch))
    repeats = np.ones(part.demand.n) if part.repeats is None else part.repeats
    return msgspec.structs.replace(part, demand=part.demand.with_values(calls=calls), repeats=repeats)


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
