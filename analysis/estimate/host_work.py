"""The work of the host once per step, apart from the operators: the call, a scheduler, sampling.

An execution adds it to the first kernel of each call. `divide_host_work` divides an estimate in two that add up to it.
"""

import msgspec
import numpy as np

from analysis.estimate.estimate import COMPONENTS, Estimate, ratio
from analysis.model.ir.workload import Floats
from hardware.base.records import memoize
from hardware.execute import LAUNCH
from hardware.setup import Setup


@memoize()
def divide_host_work(result: Estimate) -> tuple[Estimate, Estimate | None]:
    """Return the estimate without the host's work between kernels, and that work alone (None if there is none). Both
    keep the totals of the model."""
    run, demand, runtime, arch = result.run, result.demand, result.runtime, result.device.arch
    times = runs_of_kernels(result)
    waits_s = result.setup.call_s * demand.starts.begins
    sequences_s = runtime.sequence_s.value * demand.starts.sequences
    added_s = np.minimum((waits_s + sequences_s) * times, run.overhead_s)
    if not added_s.any():
        return result, None
    throttle = run.kernel_s / np.where(run.unthrottled_s > 0, run.unthrottled_s, run.kernel_s)
    latency_s = np.where(demand.head, (added_s * throttle)[demand.kernel], 0.0)
    counts = np.zeros_like(run.counts)
    counts[arch.static_rows] = run.counts[arch.static_rows] * ratio(latency_s, run.latency_s)
    # Units are clocked while the host prepares sequences: that part of their cycles is the host's.
    timed = arch.timed_rows
    cycles = result.device.clock_hz * result.device.units * result.workload.devices
    clocked_s = demand.per_kernel(run.counts[timed].max(axis=0)) / cycles
    part = np.minimum(ratio(sequences_s * times, clocked_s), 1.0)
    counts[timed] = run.counts[timed] * part[demand.kernel]
    if arch.sampling_event:
        counts[arch.row[arch.sampling_event]] = run.counts[arch.row[arch.sampling_event]]
    energy_j: Floats = run.prices.value @ run.scale_counts(counts)
    host = msgspec.structs.replace(run, latency_s=latency_s, energy_j=energy_j, counts=counts)
    kernel_s, overhead_s = run.kernel_s - added_s * throttle, run.overhead_s - added_s
    waits_most = np.stack([run.kernel_compute_s, run.kernel_memory_s, overhead_s]).argmax(axis=0)
    rest = msgspec.structs.replace(
        run,
        latency_s=run.latency_s - latency_s,
        energy_j=run.energy_j - energy_j,
        counts=run.counts - counts,
        overhead_s=overhead_s,
        kernel_s=kernel_s,
        unthrottled_s=run.unthrottled_s - added_s,
        utilization=run.utilization * ratio(run.kernel_s, kernel_s, 1.0),
        bound=np.where((added_s > 0.0) & (run.bound == LAUNCH), waits_most, run.bound),
    )
    none = msgspec.structs.replace(runtime.sequence_s, value=0.0, low=0.0, high=0.0)
    # A second division finds no work of the host.
    quiet = msgspec.structs.replace(runtime, starts_calls=False, sequence_s=none)
    setup = Setup(result.device, result.plan, quiet, result.setup.layout)
    divided = msgspec.structs.replace(result, run=rest, setup=setup), msgspec.structs.replace(result, run=host)
    of_host = np.zeros((len(COMPONENTS), result.demand.n))
    members = np.flatnonzero(energy_j)
    of_host[:, members] = result.components_j(run.scale_counts(counts)[:, members])
    for estimate, component_j in zip(divided, (result.component_energy_j - of_host, of_host), strict=True):
        vars(estimate)["component_energy_j"] = component_j  # computed only for the few operators with host work
    return divided


def runs_of_kernels(result: Estimate) -> Floats:
    """Return how often each kernel runs in the estimate, (k,)."""
    workload, demand = result.workload, result.demand
    times = np.full(demand.n_kernels, result.kernel_runs)
    if workload.repeats is not None:
        at_once = result.part or result.wave_batch
        times[demand.kernel] = workload.repeats @ workload.value_at(batch=at_once) * result.kernel_runs
    return times
