"""The one evaluator: a joint demand executed on a device, and the totals of each estimate in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, starmap

import msgspec
import numpy as np

from analysis.estimate.bundle import Bundle, make_bundle
from analysis.estimate.scenario import Scenario
from analysis.estimate.totals import Totals, totals
from analysis.model.ir.workload import Floats, Workload
from hardware.demand import Demand
from hardware.device import Device
from hardware.execute import Execution, execute, repeat_kernels
from hardware.setup import Setup

_BY_KERNEL = (  # of an execution
    "pipelined_s", "kernel_s", "unthrottled_s", "busy_s", "overhead_s", "serial_s", "kernel_compute_s",
    "kernel_memory_s", "bound", "resource", "utilization",
)  # fmt: skip
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


def evaluate(bundle: Bundle, setup: Setup, waves: int = 1) -> Evaluation:
    """Execute a bundle on a device, in so many waves, one after another."""
    demand, run = bundle.demand, execute(bundle.demand, setup)
    if bundle.repeats is not None:
        run, demand = repeat_kernels(run, demand, bundle.repeats * waves)
    if (devices := bundle.devices) > 1:
        run = msgspec.structs.replace(run, energy_j=run.energy_j * devices, counts=run.counts * devices)
    return Evaluation(bundle, demand, run, totals(run, *bundle.ends))


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
