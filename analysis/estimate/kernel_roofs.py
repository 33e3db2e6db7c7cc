"""The kernels of an estimate under the roofs of its device, as arrays: peaks, intensities, sides of the ridge."""

import msgspec
import numpy as np

from analysis.estimate import causes
from analysis.estimate.estimate import Estimate
from analysis.estimate.evaluation import ratio
from analysis.estimate.kernel_rows import kernels
from analysis.model.ir.workload import Bools, Floats, Ints


def contraction(result: Estimate) -> tuple[str, str]:
    """Return the unit that most of the contractions run on, and its format."""
    runs = result.plan
    return runs.convolution if result.precision_run == runs.convolution[1] else runs.contraction


def main_peak(result: Estimate) -> tuple[str, float]:
    """Return the unit and format that most of the contractions run on (`matrix.fp16`), and its FLOP/s. If the
    device has no rate for it, return its fastest unit and format."""
    peaks, (unit, form) = result.device.peaks, contraction(result)
    if (unit, form) not in peaks:
        unit, form = max(peaks, key=lambda key: peaks[key])
    return f"{unit}.{form}", peaks[unit, form]


class Points(msgspec.Struct, frozen=True):
    """The kernels that do arithmetic, shape (p,): FLOP per byte, FLOP/s, and the number of the kernel and of its
    head operator."""

    intensity: Floats
    flop_per_s: Floats
    kernel: Ints
    operator: Ints


def points(result: Estimate) -> Points:
    """Return the kernels that do arithmetic. For a kernel without memory traffic, the intensity uses the bytes that
    cross the last on-chip level."""
    rows = kernels(result)
    traffic = np.where(rows.dram_bytes > 0, rows.dram_bytes, rows.chip_bytes)
    active = np.flatnonzero((rows.flops > 0) & (traffic > 0)).astype(np.int32)
    rate = rows.flops[active] / np.maximum(result.run.kernel_s[active], 1e-30)
    return Points(rows.flops[active] / traffic[active], rate, active, rows.head[active])


def is_launch_dominated(result: Estimate) -> Bools:
    """Return True for each kernel (k,) that spends more time on launching and dispatching than on all else."""
    launch_s = result.demand.per_kernel(causes.causes(result).time_s[causes.LAUNCH])
    return launch_s > result.run.kernel_s / 2


def sides_of_ridge(result: Estimate) -> tuple[Bools, Bools]:
    """Return two masks (k,): kernels with a ridge (peak rate for their work / bandwidth), and kernels left of it."""
    rows = kernels(result)
    has_ridge = (rows.flops > 0) & (rows.ideal_s > 0)
    ridge = ratio(rows.flops, rows.ideal_s) / result.device.memory_bandwidth
    return has_ridge, has_ridge & (rows.dram_bytes > 0) & (ratio(rows.flops, rows.dram_bytes) < ridge)
