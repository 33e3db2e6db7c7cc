"""Every kernel under the roofs of its device: what bounds it, how far from the roof it is, what would flip it.

The roofs of a kernel are the memory bandwidth and the peak of the units it runs on, in the formats they run (where
a kernel uses matrix and vector unit at once, the rate at which the busier is at its peak); both without any
efficiency, so nothing is above them. Arithmetic intensity is FLOP per byte of memory traffic; a kernel whose data
stays on chip has none.
"""

from __future__ import annotations

import msgspec

from analysis.reports.kernel_rows import kernel_id, kernel_type, kernels, kernels_of, members
from analysis.run.estimate import Estimate
from analysis.run.reason import flip
from hardware.execute import BOUNDS, RESOURCES


class OperatorRoof(msgspec.Struct, frozen=True):
    """An operator's part of its kernel: seconds it needs of compute and of memory, and of the kernel's time."""

    id: str
    type: str
    flops: float
    dram_bytes: float
    chip_bytes: float
    intensity: float | None
    compute_s: float
    memory_s: float
    overhead_s: float
    latency_s: float
    bound: str


class KernelRoof(msgspec.Struct, frozen=True):
    """`max(compute_s, memory_s)` (overlapped) plus `overhead_s` is the time before any power limit.

    `side` of the ridge: 'left' (memory would bound a perfect kernel) or 'right'; '' without arithmetic.
    `attainable_flop_per_s` is the roof at its intensity, `efficiency` what is achieved of it."""

    id: str
    type: str
    operators: int
    flops: float
    dram_bytes: float
    chip_bytes: float
    intensity: float | None
    ridge: float | None
    side: str
    compute_s: float
    memory_s: float
    overhead_s: float
    latency_s: float
    bound: str
    resource: str
    achieved_flop_per_s: float
    attainable_flop_per_s: float
    efficiency: float
    flips: str
    parts: tuple[OperatorRoof, ...]


class RooflineReport(msgspec.Struct, frozen=True):
    """`peaks` FLOP/s by unit and format of the device; `ridge` of the format that most arithmetic runs in."""

    node: str
    latency_s: float
    memory_bandwidth: float
    peaks: dict[str, float]
    peak: str
    ridge: float
    left: int
    right: int
    bound_counts: dict[str, int]
    kernels: tuple[KernelRoof, ...]


def roofline(result: Estimate, path: str = "") -> RooflineReport:
    """The kernels below a node ('' is the model). Raises RequestError for an unknown node."""
    rows = tuple(_kernel(result, k) for k in kernels_of(result, path).tolist())
    name, peak = _main_peak(result)
    return RooflineReport(
        path,
        sum(row.latency_s for row in rows),
        result.device.memory_bandwidth,
        {f"{unit}.{form}": rate for (unit, form), rate in result.device.peaks.items()},
        name,
        peak / result.device.memory_bandwidth,
        sum(row.side == "left" for row in rows),
        sum(row.side == "right" for row in rows),
        {bound: sum(row.bound == bound for row in rows) for bound in BOUNDS},
        rows,
    )


def _main_peak(result: Estimate) -> tuple[str, float]:
    runs, peaks = result.plan, result.device.peaks
    unit, form = runs.convolution if result.precision_run == runs.convolution[1] else runs.contraction
    if (unit, form) not in peaks:
        unit, form = max(peaks, key=lambda key: peaks[key])
    return f"{unit}.{form}", peaks[unit, form]


def _kernel(result: Estimate, k: int) -> KernelRoof:
    run, found = result.run, kernels(result)
    flops, ideal, time = float(found.flops[k]), float(found.ideal_s[k]), float(run.kernel_s[k])
    dram, bandwidth = float(found.dram_bytes[k]), result.device.memory_bandwidth
    roof = flops / max(ideal, dram / bandwidth) if flops and ideal else 0.0
    ridge = flops / ideal / bandwidth if flops and ideal else None
    intensity = flops / dram if dram else None
    is_left = ridge is not None and intensity is not None and intensity < ridge
    achieved = flops / time if time else 0.0
    return KernelRoof(
        kernel_id(result, k),
        kernel_type(result, k),
        int(found.size[k]),
        flops,
        dram,
        float(found.chip_bytes[k]),
        intensity,
        ridge,
        "" if ridge is None else ("left" if is_left else "right"),
        float(run.kernel_compute_s[k]),
        float(run.kernel_memory_s[k]),
        float(run.overhead_s[k]),
        time,
        BOUNDS[int(run.bound[k])],
        RESOURCES[int(run.resource[k])],
        achieved,
        roof,
        achieved / roof if roof else 0.0,
        flip(result, k),
        tuple(_operator(result, i, k) for i in members(result, k).tolist()),
    )


def _operator(result: Estimate, i: int, k: int) -> OperatorRoof:
    run, asked = result.run, result.demand
    mapping, flow = run.mapping, run.mapping.traffic
    flops = float(2.0 * asked.macs[i] + asked.vector_flops[i])
    dram = float(flow.dram_read[i] + flow.dram_write[i])
    compute = max(float(mapping.matrix_s[0, i]), float(mapping.vector_s[0, i]))
    memory = max(float(mapping.dram_s[0, i]), float(mapping.chip_s[i]))
    return OperatorRoof(
        result.partition.operator_id[i],
        result.workload.operators.kind[i],
        flops,
        dram,
        float(flow.chip_read[i] + flow.chip_write[i]),
        flops / dram if dram else None,
        compute,
        memory,
        float(run.overhead_s[k]) if asked.head[i] else 0.0,
        float(run.latency_s[i]),
        "memory" if memory > compute else "compute",
    )
