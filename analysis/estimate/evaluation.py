"""The one evaluator: a joint demand executed on a device, and the totals of each estimate in it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from analysis.estimate.bundle import BundleDemand, bundle_demand, make_bundle
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
    """A joint demand, its execution, and the totals of each estimate. Time is of one device; energy and events are of
    all devices that run the workloads together."""

    joint: BundleDemand
    demand: Demand
    run: Execution
    totals: Totals

    def runs(self) -> list[Execution]:
        """Return the execution of each estimate. Its mapping is that of all, except for `is_reduced`."""
        run, places = self.run, self.joint.places
        if places is None:
            return [run]
        names = _BY_KERNEL[run.pipelined_s is None :]
        found = []
        for kernels, operators in places.of_estimates():
            own = {name: np.take(getattr(run, name), kernels, axis=-1) for name in names}
            own |= {name: np.take(getattr(run, name), operators, axis=-1) for name in _BY_OPERATOR}
            mapping = msgspec.structs.replace(run.mapping, is_reduced=run.mapping.is_reduced[operators])
            found.append(msgspec.structs.replace(run, mapping=mapping, **own))
        return found


def evaluate(joint: BundleDemand, setup: Setup, waves: int = 1) -> Evaluation:
    """Execute a joint demand on a device, in so many waves, one after another."""
    demand, run = joint.demand, execute(joint.demand, setup)
    if joint.repeats is not None:
        run, demand = repeat_kernels(run, demand, joint.repeats * waves)
    if joint.devices > 1:
        run = msgspec.structs.replace(run, energy_j=run.energy_j * joint.devices, counts=run.counts * joint.devices)
    return Evaluation(joint, demand, run, totals(run, joint.places))


def evaluate_steps(
    steps: Sequence[Workload], batches: Sequence[int], device: Device, scenario: Scenario, is_recorded: bool = False
) -> Floats:
    """Return seconds and joules of steps that share their operators at some batches, (2, steps, batches). With
    `is_recorded` those of prompts held by graphs come first, (4, ..)."""
    setup = scenario.setup_on(device, steps[0])
    none = msgspec.structs.replace(setup.runtime.prompt_dispatch, value=0.0, low=0.0, high=0.0)
    graphs = Setup(device, setup.plan, msgspec.structs.replace(setup.runtime, prompt_dispatch=none), setup.layout)
    joint = bundle_demand(make_bundle(steps, setup.joins, True), batches, setup.plan.widths)  # layers differ in times
    sums = [evaluate(joint, each).totals for each in ((graphs, setup) if is_recorded else (setup,))]
    figures = np.stack([figure for one in sums for figure in (one.latency_s, one.energy_j)])
    return figures.reshape(len(figures), len(batches), len(steps)).swapaxes(1, 2)
