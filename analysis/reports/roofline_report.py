"""Every kernel under the roofline of its device: its bound, its distance from the roof, what would change the bound.

The roofs of a kernel are the memory bandwidth and the peak of the busier unit it runs on, in its format, without
any efficiency. Arithmetic intensity is FLOP per byte of memory traffic; a kernel whose data stays on chip has none.
The roof of energy counts only the arithmetic of contractions, the bytes of memory and static power:
1 / (e_flop + e_byte / intensity + static power x seconds per FLOP at the roofline).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
import numpy as np

from analysis.document import column, none_unless, records
from analysis.estimate import causes
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.host_work import divide_host_work
from analysis.estimate.outline import host_branches
from analysis.estimate.totals import ratio
from analysis.model.ir.workload import Bools, Floats, Ints
from analysis.reports.kernel_rows import kernels, kernels_of
from analysis.text.bound_reasons import bound_change
from hardware.execute import BOUNDS, LAUNCH
from hardware.sentence import count_noun


class TraceTimes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Measured times of a kernel or operator; omitted from the document if the trace has none."""

    measured_s: Annotated[float | None, column("Measured", "s", help="from the trace that the state names")] = None
    ratio: Annotated[float | None, column("Ratio", "x", help="measured over predicted")] = None
    measured_flop_per_s: Annotated[
        float | None, column("Reached", "FLOP/s", key="measured_rate", keep=2, help="as measured")
    ] = None


class OperatorRoof(TraceTimes, frozen=True, kw_only=True):
    """An operator in its kernel: its time by compute and by memory alone; `latency_s` is its part of the kernel's."""

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


class KernelRoof(TraceTimes, frozen=True, kw_only=True):
    """`max(compute_s, memory_s)` (overlapped) plus `overhead_s` is the time before any power limit.

    `side` of the ridge: 'left' (memory would bound a perfect kernel) or 'right'; '' without arithmetic.
    `attainable_flop_per_s` is the roof at its intensity, `efficiency` the achieved fraction of it."""

    id: Annotated[str, column("Kernel", key="kernel")]
    type: str
    operators: int
    flops: Annotated[float, column("FLOP", "FLOP", keep=4)]
    dram_bytes: Annotated[float, column("DRAM", "byte", keep=4)]
    chip_bytes: float
    intensity: Annotated[
        float | None, column("Intensity", "FLOP/byte", keep=1, help="per byte of memory traffic; empty: all on chip")
    ]
    ridge: Annotated[float | None, column("Ridge", "FLOP/byte", keep=2)]
    side: Annotated[str, column("Side", keep=3)]
    compute_s: Annotated[float, column("Compute", "s", scale="latency")]
    memory_s: Annotated[float, column("Memory", "s", scale="latency", help="time at the slowest memory")]
    overhead_s: Annotated[float, column("Launch", "s", keep=1, scale="latency")]
    latency_s: Annotated[float, column("Latency", "s")]
    bound: Annotated[str, column("Limit")]
    resource: str
    achieved_flop_per_s: Annotated[float, column("Achieved", "FLOP/s", keep=2)]
    attainable_flop_per_s: Annotated[float, column("Attainable", "FLOP/s", keep=2)]
    efficiency: Annotated[float, column("of it", "%", keep=2)]
    flips: Annotated[str, column("Another bound with", keep=5)]
    parts: tuple[OperatorRoof, ...]


class RooflineReport(Head, frozen=True, kw_only=True):
    """`peaks` are FLOP/s by unit and format; `ridge` is of the unit and format of most contractions.
    `average_intensity` is FLOP / bytes of memory traffic of all kernels together, None if no data leaves the chip.
    `launch_dominated` is the number of kernels that take longer to launch than to execute. The last of the `kernels`
    of a model is the work of the host between runs, if there is any: it executes no operator."""

    node: str
    latency_s: float
    average_intensity: float | None
    launch_dominated: int
    memory_bandwidth: float
    peaks: dict[str, float]
    peak: str
    ridge: float
    left: int
    right: int
    bound_counts: dict[str, int]
    kernels: tuple[KernelRoof, ...]


def roofline(result: Estimate, path: str = "", measured_s: Floats | None = None) -> RooflineReport:
    """Return the kernels below a node ('' is the model). `measured_s` (n,) are measured seconds of each operator, NaN
    if not measured. Raises RequestError for an unknown node."""
    whole, (result, host) = result, divide_host_work(result)
    wanted_kernels = kernels_of(result, path)
    rows = _kernels(result, wanted_kernels, measured_s)
    name, peak = main_peak(result)
    start = () if host is None or path else (_start_of_run(whole, float(host.run.latency_s.sum())),)
    moved = sum(row.dram_bytes for row in rows)
    return RooflineReport(
        **head_fields(whole, on_device=True),
        node=path,
        latency_s=sum(row.latency_s for row in (*rows, *start)),
        average_intensity=sum(row.flops for row in rows) / moved if moved else None,
        launch_dominated=int(is_launch_dominated(result)[wanted_kernels].sum()),
        memory_bandwidth=result.device.memory_bandwidth,
        peaks={f"{unit}.{form}": rate for (unit, form), rate in result.device.peaks.items()},
        peak=name,
        ridge=peak / result.device.memory_bandwidth,
        left=sum(row.side == "left" for row in rows),
        right=sum(row.side == "right" for row in rows),
        bound_counts={bound: sum(row.bound == bound for row in rows) for bound in BOUNDS},
        kernels=(*rows, *start),
    )


def _start_of_run(result: Estimate, seconds: float) -> KernelRoof:
    """Return the work of the host between runs as a row."""
    return KernelRoof(
        id=host_branches(result)[0].name, type="host", operators=0, flops=0.0, dram_bytes=0.0, chip_bytes=0.0,
        intensity=None, ridge=None, side="", compute_s=0.0, memory_s=0.0, overhead_s=seconds, latency_s=seconds,
        bound=BOUNDS[LAUNCH], resource="", achieved_flop_per_s=0.0, attainable_flop_per_s=0.0, efficiency=0.0,
        flips="", parts=(),
    )  # fmt: skip


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


def describe_launch_dominated(count: int, kernels: int) -> str:
    """Say how many kernels take longer to launch than to execute."""
    return (
        f"{count} of {count_noun(kernels, 'kernel')} {'takes' if count == 1 else 'take'} longer to launch than to run"
    )


def _trace_columns(
    result: Estimate, groups: Iterable[Ints], flops: Floats, measured_s: Floats | None
) -> dict[str, Any]:
    if measured_s is None:
        return {}
    found = []
    for members, work in zip(groups, flops.tolist(), strict=True):
        timed_ops = members[np.isfinite(measured_s[members])]
        real_s, ideal_s = float(measured_s[timed_ops].sum()), float(result.run.latency_s[timed_ops].sum())
        rates = (real_s / ideal_s if ideal_s else None, work / real_s if real_s else None)
        found.append((real_s, *rates) if len(timed_ops) else (None, None, None))
    return dict(zip(TraceTimes.__struct_fields__, map(list, zip(*found, strict=True)), strict=True))


def sides_of_ridge(result: Estimate) -> tuple[Bools, Bools]:
    """Return two masks (k,): kernels with a ridge (peak rate for their work / bandwidth), and kernels left of it."""
    rows = kernels(result)
    has_ridge = (rows.flops > 0) & (rows.ideal_s > 0)
    ridge = ratio(rows.flops, rows.ideal_s) / result.device.memory_bandwidth
    return has_ridge, has_ridge & (rows.dram_bytes > 0) & (ratio(rows.flops, rows.dram_bytes) < ridge)


def _kernels(result: Estimate, chosen: Ints, measured_s: Floats | None) -> tuple[KernelRoof, ...]:
    rows, bandwidth = kernels(result), result.device.memory_bandwidth
    flops, ideal_s, dram = rows.flops[chosen], rows.ideal_s[chosen], rows.dram_bytes[chosen]
    has_ridge, is_left = (side[chosen] for side in sides_of_ridge(result))
    intensity = ratio(flops, dram)
    ridge, achieved = ratio(flops, ideal_s) / bandwidth, ratio(flops, rows.latency_s[chosen])
    roof = np.where(has_ridge, ratio(flops, np.maximum(ideal_s, dram / bandwidth)), 0.0)
    members = [rows.members[k] for k in chosen]
    operators = _operators(result, measured_s)
    return records(
        KernelRoof,
        rows,
        rows=chosen,
        intensity=none_unless(dram > 0, intensity),
        ridge=none_unless(has_ridge, ridge),
        side=np.where(has_ridge, np.where(is_left, "left", "right"), ""),
        achieved_flop_per_s=achieved,
        attainable_flop_per_s=roof,
        efficiency=ratio(achieved, roof),
        flips=[bound_change(result, k) for k in chosen.tolist()],
        parts=[tuple(operators[i] for i in inside) for inside in members],
        **_trace_columns(result, members, flops, measured_s),
    )


def _operators(result: Estimate, measured_s: Floats | None) -> tuple[OperatorRoof, ...]:
    run, demand = result.run, result.demand
    mapping, flow = run.mapping, run.mapping.traffic
    flops, dram = 2.0 * demand.macs + demand.vector_flops, flow.dram_bytes
    compute_s = np.maximum(mapping.matrix_s[0], mapping.vector_s[0])
    memory_s = np.maximum(mapping.dram_s[0], mapping.chip_s)
    return records(
        OperatorRoof,
        id=result.partition.operator_id,
        type=result.workload.operators.kind,
        flops=flops,
        dram_bytes=dram,
        chip_bytes=flow.chip_bytes,
        intensity=none_unless(dram > 0, ratio(flops, dram)),
        compute_s=compute_s,
        memory_s=memory_s,
        overhead_s=np.where(demand.head, run.overhead_s[demand.kernel], 0.0),
        latency_s=run.latency_s,
        bound=np.where(memory_s > compute_s, "memory", "compute"),
        **_trace_columns(result, np.arange(demand.n)[:, None], flops, measured_s),
    )
