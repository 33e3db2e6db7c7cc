"""Show what limits each kernel, arithmetic, memory or launch, and what would change that.

The roofs of a kernel are the memory bandwidth and the peak of the busier unit it runs on, in its format, without
any efficiency. Arithmetic intensity is FLOP per byte of memory traffic; a kernel whose data stays on chip has none.
"""

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
import numpy as np

from analysis.document import column, columns, none_unless, records
from analysis.estimate.estimate import Estimate
from analysis.estimate.evaluation import ratio
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.host_work import divide_host_work
from analysis.estimate.kernel_roofs import is_launch_dominated, main_peak, sides_of_ridge
from analysis.estimate.kernel_rows import kernels, kernels_of
from analysis.estimate.outline import host_branches
from analysis.model.ir.workload import Floats, Ints
from analysis.text.bound_reasons import bound_change, describe_launch_dominated
from hardware.base.text import count_noun, plain_number, quantity
from hardware.execute import BOUNDS, LAUNCH
from hardware.precision import rate_unit
from hwexplorer import engine
from hwexplorer.declare import NODE, Report, Rows, Section, summary_text
from hwexplorer.state import State
from hwexplorer.views.digest import Digest
from hwexplorer.views.measured_times import measured_times


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
    dram_bytes = sum(row.dram_bytes for row in rows)
    return RooflineReport(
        **head_fields(whole, on_device=True),
        node=path,
        latency_s=sum(row.latency_s for row in (*rows, *start)),
        average_intensity=sum(row.flops for row in rows) / dram_bytes if dram_bytes else None,
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


def _trace_columns(
    result: Estimate, groups: Iterable[Ints], flops: Floats, measured_s: Floats | None
) -> dict[str, Any]:
    if measured_s is None:
        return {}
    cells = []
    for members, work in zip(groups, flops.tolist(), strict=True):
        timed_ops = members[np.isfinite(measured_s[members])]
        real_s, ideal_s = float(measured_s[timed_ops].sum()), float(result.run.latency_s[timed_ops].sum())
        rates = (real_s / ideal_s if ideal_s else None, work / real_s if real_s else None)
        cells.append((real_s, *rates) if len(timed_ops) else (None, None, None))
    return dict(zip(TraceTimes.__struct_fields__, map(list, zip(*cells, strict=True)), strict=True))


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


# --- the verb ---------------------------------------------------------------------------------------------------------


def _document(state: State) -> RooflineReport:
    result = engine.result(state)
    times = measured_times(state, result)
    return roofline(result, state.at, times.seconds if times else None)


def _summary(report: RooflineReport, state: State) -> tuple[str, ...]:
    bounds = ", ".join(f"{name} {count}" for name, count in report.bound_counts.items() if count)
    unit, _, form = report.peak.partition(".")
    peak = quantity(report.peaks[report.peak], rate_unit(form))
    intensity = report.average_intensity
    average = (
        f"average intensity {plain_number(intensity)} FLOP per byte of memory"
        if intensity
        else "no bytes leave the chip"
    )
    return (
        describe_launch_dominated(report.launch_dominated, sum(report.bound_counts.values())),
        f"kernels by what limits them, {quantity(report.latency_s, 's')} together: {bounds}",
        f"{average}; the ridge is at {report.ridge:.3g} FLOP/byte: {peak} ({unit} unit, {form}) over "
        f"{quantity(report.memory_bandwidth, 'byte/s')} of memory",
        f"without overhead, memory would limit {count_noun(report.left, 'kernel')} (below the ridge) and arithmetic "
        f"{report.right}",
    )


_MEASURED = ("measured", "ratio", "measured_rate")
_BRIEF = "kernel bound latency measured ratio measured_rate compute memory overhead intensity"

VERB = Report(
    subject=NODE,
    document=_document,
    title="Roofline",
    parts=(
        summary_text(_summary),
        Rows(
            "kernels",
            "Kernels",
            columns(KernelRoof, f"{_BRIEF} ridge side achieved attainable efficiency flops dram flips"),
            kind="type",
            without=lambda report: () if any(row.measured_s is not None for row in report.kernels) else _MEASURED,
            rate_format=lambda report: report.peak.partition(".")[2],
            children=lambda kernel: kernel.parts if kernel.operators > 1 else (),
            brief={"columns": columns(KernelRoof, _BRIEF), "digest": Digest("latency", "kernel")},
        ),
    ),
    section=Section(20, "What bounds each kernel"),
    examples={"roofline": "conv2d --on h100_sxm"},
)
