"""Show each kernel: how the device runs it, what bounds it, its time and its rate.

The roofs of a kernel are the memory bandwidth and the peak of the busier unit it runs on, in its format, without
any efficiency. Arithmetic intensity is FLOP per byte of memory traffic; a kernel whose data stays on chip has none.
The predicted run is also written in the trace event format, which Perfetto and chrome://tracing show.
"""

import re
from itertools import pairwise
from typing import Annotated, Any

import msgspec
import numpy as np

from analysis import wording
from analysis.document import Column, column, columns, none_unless, records
from analysis.estimate import causes, kernel_rows
from analysis.estimate.causes import divide_host_work
from analysis.estimate.estimate import Estimate, ratio, weighted_mean
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.tree_figures import host_branches
from analysis.model.ir.workload import Floats, Ints
from hardware.base.text import count_noun, percent, plain_number, quantity
from hardware.map_demand import architecture_of
from hardware.mapping import common
from hardware.precision import BASE, rate_unit
from hwexplorer import declare, engine
from hwexplorer.reports.show.structure import count_in_ranges
from hwexplorer.state import State
from hwexplorer.views.tables import Digest

UTILIZATION = (0.10, 0.25, 0.50)
UTILIZATION_LABELS = ("< 10 %", "10-25 %", "25-50 %", "> 50 %")


class UtilizationRange(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels with `low` <= utilisation < `high` (None: no upper limit), and their part of the time of all kernels."""

    label: Annotated[str, column("Utilisation")]
    low: float
    high: float | None
    count: Annotated[int, column("Kernels", "count")]
    fraction: Annotated[float, column("%", "%")]
    time_fraction: Annotated[float, column("of time", "%")]


class Bound(msgspec.Struct, frozen=True):
    """The kernels that one resource bounds, and fractions of their number and of the time of all kernels."""

    bound: Annotated[str, column("Bound")]
    count: Annotated[int, column("Kernels", "count")]
    fraction: Annotated[float, column("%", "%")]
    time_s: Annotated[float, column("Time", "s")]
    time_fraction: Annotated[float, column("of time", "%")]


class KernelRow(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel. `max(compute_s, memory_s)` (overlapped) plus `overhead_s` is the time before any power limit.

    `attainable_flop_per_s` is the roof at its intensity, `efficiency` the achieved fraction of it. `blocks` of work go
    to `units` in `waves`. A block has `tile_m` x `tile_n` results (0 unless it is a tiled product), with K divided
    `split` ways. `occupancy` is None except on GPUs. `sentence` describes the mapping. `parts` are its operators.
    `vector_width` is the values of `format` that the lanes of a unit take per clock, if the kernel runs on them."""

    id: Annotated[str, column("Kernel", key="kernel")]
    type: str
    operators: int
    bound: Annotated[str, column("Limit")]
    resource: str
    latency_s: Annotated[float, column("Latency", "s")]
    compute_s: Annotated[float, column("Compute", "s", scale="latency")]
    memory_s: Annotated[float, column("Memory", "s", scale="latency", help="time at the slowest memory")]
    overhead_s: Annotated[float, column("Launch", "s", keep=1, scale="latency")]
    utilization: Annotated[float, column("Util", "%", keep=1, help="share of the peak in the format that runs")]
    flops: Annotated[float, column("FLOP", "FLOP", keep=4)]
    dram_bytes: Annotated[float, column("DRAM", "byte", keep=4)]
    chip_bytes: float
    intensity: Annotated[
        float | None, column("Intensity", "FLOP/byte", keep=2, help="per byte of memory traffic; empty: all on chip")
    ]
    ridge_flop_per_byte: Annotated[float | None, column("Ridge", "FLOP/byte", key="ridge", keep=3)]
    effective_flop_per_s: Annotated[float, column("Rate", "FLOP/s", key="rate", keep=2, help="effective")]
    attainable_flop_per_s: Annotated[float, column("Attainable", "FLOP/s", keep=3, help="under the roofs")]
    efficiency: Annotated[float, column("of it", "%", keep=3)]
    effective_byte_per_s: Annotated[float, column("DRAM", "byte/s", key="bandwidth", keep=4, help="effective")]
    runs_on: str
    format: str
    vector_width: Annotated[float | None, column("Lanes", "count", keep=6, help="values that a unit takes per clock")]
    blocks: Annotated[float, column("Blocks", "count", keep=3, help="blocks of work assigned to units")]
    tile_m: float
    tile_n: float
    split: Annotated[float, column("Split K", "count", keep=5)]
    waves: Annotated[float, column("Waves", "count", keep=3)]
    units: Annotated[float, column("Units", "count", keep=2)]
    units_fraction: Annotated[float, column("Active", "%", keep=2)]
    occupancy: Annotated[float | None, column("Occ", "%", keep=3, help="resident warps over the maximum")]
    sentence: Annotated[str, column("What it does", keep=6)]
    flips: Annotated[str, column("Another bound with", keep=6)]
    energy_j: float
    parts: tuple[str, ...]


class KernelReport(Head, frozen=True, kw_only=True):
    """`latency_s` includes `host_s`, the work of the host between runs of a model. `average_utilization` weights
    kernels by time (the model's utilisation), `mean_utilization` weights them equally. `units_active`, of
    `units_total`, is an average over time. `average_intensity` is FLOP / bytes of memory traffic of all kernels
    together, None if no data leaves the chip. `launch_dominated` is the number of kernels that take longer to launch
    than to execute. Peaks are by unit and format; `peak` names, and the ridge is of, those of most contractions."""

    node: str
    latency_s: float
    host_s: float
    launch_dominated: int
    bounds: tuple[Bound, ...]
    average_utilization: float
    mean_utilization: float
    utilization: tuple[UtilizationRange, ...]
    unit_name: str
    units_active: float
    units_total: float
    units_active_fraction: float
    occupancy: float | None
    average_intensity: float | None
    memory_byte_per_s: float
    peaks_flop_per_s: dict[str, float]
    peak: str
    ridge_flop_per_byte: float
    kernels: tuple[KernelRow, ...]


def kernel_report(whole: Estimate, path: str = "") -> KernelReport:
    """Return the kernels below a node ('' is the model). Raises RequestError for an unknown node."""
    result, host = divide_host_work(whole)
    chosen = kernel_rows.kernels_of(result, path)
    rows, run, device = kernel_rows.kernels(result), result.run, result.device
    time, shares, head = run.kernel_s[chosen], run.utilization[chosen], rows.head[chosen]
    host_s = 0.0 if host is None or path else float(host.run.latency_s.sum())
    total_s = float(time.sum()) + host_s
    active = weighted_mean((run.mapping.units / common.units_in_all(result.setup, run.mapping.on_matrix))[head], time)
    rate = architecture_of(device).occupancy
    resident = None if rate is None else rate(result.demand, device, run.mapping)[head]
    limit = causes.limits(result)[chosen]
    count, time_s = (np.bincount(limit, weights, minlength=len(causes.LIMITS)) for weights in (None, time))
    counts, fractions, time_fractions = count_in_ranges(shares, UTILIZATION, time)
    launch_s = result.demand.per_kernel(causes.causes(result).time_s[causes.LAUNCH_CAUSE])
    name, peak = kernel_rows.main_peak(result)
    dram_bytes = float(rows.dram_bytes[chosen].sum())
    return KernelReport(
        **head_fields(whole, on_device=True),
        node=path,
        latency_s=total_s,
        host_s=host_s,
        launch_dominated=int((launch_s > run.kernel_s / 2)[chosen].sum()),
        bounds=records(
            Bound,
            bound=causes.LIMITS,
            count=count,
            fraction=count / (len(limit) or 1),
            time_s=time_s,
            time_fraction=time_s / (float(time.sum()) or 1.0),
        ),
        average_utilization=float(shares @ time) / (total_s or 1.0),
        mean_utilization=float(shares.mean()) if len(shares) else 0.0,
        utilization=records(
            UtilizationRange,
            label=UTILIZATION_LABELS,
            low=[0.0, *UTILIZATION],
            high=[*UTILIZATION, None],
            count=counts,
            fraction=fractions,
            time_fraction=time_fractions,
        ),
        unit_name=device.arch.array or device.unit_name,
        units_active=active * common.total_units(result.setup),
        units_total=common.total_units(result.setup),
        units_active_fraction=active,
        occupancy=None if resident is None else weighted_mean(resident, time),
        average_intensity=float(rows.flops[chosen].sum()) / dram_bytes if dram_bytes else None,
        memory_byte_per_s=device.memory_bandwidth,
        peaks_flop_per_s={f"{unit}.{form}": flop_per_s for (unit, form), flop_per_s in device.peaks.items()},
        peak=name,
        ridge_flop_per_byte=peak / device.memory_bandwidth,
        kernels=_rows(result, chosen, resident),
    )


def _rows(result: Estimate, chosen: Ints, resident: Floats | None) -> tuple[KernelRow, ...]:
    run, demand, rows, device = result.run, result.demand, kernel_rows.kernels(result), result.device
    mapping, tiling, head = run.mapping, run.mapping.tiling, rows.head[chosen]
    flops, ideal_s, dram, time = (
        values[chosen] for values in (rows.flops, rows.ideal_s, rows.dram_bytes, rows.latency_s)
    )
    has_ridge = kernel_rows.sides_of_ridge(result)[0][chosen]
    roof = np.where(has_ridge, ratio(flops, np.maximum(ideal_s, dram / device.memory_bandwidth)), 0.0)
    on_matrix, is_product = mapping.on_matrix[head] > 0, demand.macs[head] > 0
    total = common.units_in_all(result.setup, mapping.on_matrix)[head]
    # A product has tiles; another kernel has blocks of elements.
    per_block = device.arch.constants.elements_per_block
    blocks = np.where(is_product, tiling.blocks[head], np.maximum(np.ceil(demand.elements[head] / per_block), 1.0))
    setups, sentence = [result.setup_of(i) for i in head.tolist()], architecture_of(device).sentence
    plans = [setup.plan for setup in setups]
    matrix, product, other = ([getattr(plan, name) for plan in plans] for name in ("matrix", "vector_mac", "vector"))
    runs, lanes = np.where(on_matrix, matrix, np.where(is_product, product, other)), device.file.fma_per_clock["vector"]
    return records(
        KernelRow,
        rows,
        rows=chosen,
        utilization=run.utilization[chosen],
        intensity=none_unless(dram > 0, ratio(flops, dram)),
        ridge_flop_per_byte=none_unless(has_ridge, ratio(flops, ideal_s) / device.memory_bandwidth),
        effective_flop_per_s=ratio(flops, time),
        attainable_flop_per_s=roof,
        efficiency=ratio(ratio(flops, time), roof),
        effective_byte_per_s=ratio(dram, time),
        runs_on=np.where(on_matrix, "matrix", "vector"),
        format=runs,
        vector_width=none_unless(~on_matrix, np.array([lanes.get(form, lanes[BASE]).value for form in runs.tolist()])),
        blocks=blocks,
        tile_m=tiling.tile_m[head],
        tile_n=tiling.tile_n[head],
        split=np.maximum(tiling.split[head], 1.0),
        waves=np.where(is_product, tiling.waves[head], np.ceil(blocks / total)),
        units=mapping.units[head],
        units_fraction=mapping.units[head] / total,
        occupancy=resident,
        sentence=[sentence(demand, setup, mapping, i) for setup, i in zip(setups, head.tolist(), strict=True)],
        flips=[wording.bound_change(result, k) for k in chosen.tolist()],
        parts=[tuple(result.partition.operator_id[i] for i in rows.members[k]) for k in chosen],
    )


def _summary(report: KernelReport, state: State) -> list[str]:
    bounds = ", ".join(f"{b.bound} {b.count} ({percent(b.time_fraction)})" for b in report.bounds if b.count)
    unit, _, form = report.peak.partition(".")
    peak, intensity = quantity(report.peaks_flop_per_s[report.peak], rate_unit(form)), report.average_intensity
    count = count_noun(len(report.kernels), "kernel")
    moved = "no bytes leave the chip" if intensity is None else f"{plain_number(intensity)} FLOP per byte of memory"
    lines = [
        f"{count} in {quantity(report.latency_s - report.host_s, 's')}, by what limits each, with the share of the "
        f"time: {bounds}",
        f"{percent(report.average_utilization, 1)} of the peak is used on average over time; the mean of the kernels "
        f"is {percent(report.mean_utilization, 1)}",
        f"{round(report.units_active, 1):,g} of {count_noun(report.units_total, report.unit_name)} active on average "
        f"({percent(report.units_active_fraction)})",
        f"on average {moved}; the ridge is at {plain_number(report.ridge_flop_per_byte)} FLOP/byte: {peak} "
        f"({unit} unit, {form}) over {quantity(report.memory_byte_per_s, 'byte/s')} of memory",
    ]
    if report.occupancy is not None:
        lines[2] += f"; occupancy {percent(report.occupancy)}: an SM holds that share of the warps it could"
    if report.host_s:
        lines[0] += f"; {host_branches(engine.result(state))[0].name} {quantity(report.host_s, 's')} more"
    return lines


_IN_VIEWER = ("bound", "resource", "energy_j", "flops", "dram_bytes", "overhead_s")


def _timeline(report: KernelReport, state: State) -> str:
    """Return the host's work and the kernels, one after another, in the trace event format."""
    slices = [("start of the run", "host", report.host_s, dict[str, Any]())] * (report.host_s > 0)
    slices += [(k.id, k.type, k.latency_s, {name: getattr(k, name) for name in _IN_VIEWER}) for k in report.kernels]
    # A slice ends where the next one begins, also in floats: viewers nest slices that overlap.
    edges_us = np.rint(np.cumsum([0.0, *(seconds for _, _, seconds, _ in slices)]) * 1e6 * 1024) / 1024
    events = [
        {"ph": "X", "pid": 1, "tid": 1, "name": name, "cat": kind, "ts": begin, "dur": end - begin, "args": figures}
        for (name, kind, *_, figures), (begin, end) in zip(slices, pairwise(edges_us.tolist()), strict=True)
    ]
    about = {"origin": "predicted, not measured", "model": report.model, "batch": report.batch, "device": report.device}
    run = {"traceEvents": events, "displayTimeUnit": "ns", "otherData": about}
    return msgspec.json.encode(run).decode() + "\n"


_END_OF_WORK = re.compile(r" on | as a |, |: | streamed | behind ")  # follows the work, in every sentence
_TIMES = "kernel bound latency compute memory overhead utilization"
_RUNS_ON = Column("runs_on", "Runs on", role="text", keep=3, of=lambda kernel: f"{kernel.runs_on} {kernel.format}")
_WORK = Column("work", "Work", role="text", keep=2, of=lambda kernel: _END_OF_WORK.split(kernel.sentence)[0])
_TILE = Column(
    "tile", "Tile", role="text", keep=3,
    of=lambda kernel: f"{kernel.tile_m:.0f} x {kernel.tile_n:.0f}" if kernel.tile_m else "",
)  # fmt: skip
_BRIEF = (*columns(KernelRow, f"{_TIMES} intensity"), _WORK, _RUNS_ON)
KERNELS = (
    *columns(KernelRow, f"{_TIMES} flops dram intensity ridge rate attainable efficiency bandwidth"),
    _RUNS_ON,
    *columns(KernelRow, "blocks"),
    _TILE,
    *columns(KernelRow, "split waves units units_fraction occupancy vector_width sentence flips"),
)


VERB = declare.Report(
    subject=declare.NODE,
    document=declare.document_of_estimate(kernel_report),
    title="Kernels",
    parts=(
        declare.summary_text(_summary),
        declare.Rows("utilization", "Utilisation of kernels", columns(UtilizationRange)),
        declare.Rows("bounds", "What bounds kernels", columns(Bound)),
        declare.Rows(
            "kernels", "Kernels", KERNELS, kind="type",
            without=lambda report: ("occupancy",) if report.occupancy is None else (),
            rate_format=lambda report: report.peak.partition(".")[2],
            brief={"title": "Kernels that take most time", "columns": _BRIEF, "digest": Digest("latency", "kernel")},
        ),
    ),
    brief_parts=("summary", "kernels"),
    section=declare.Section(10, "How the device runs each kernel, and what bounds it"),
    exports={"perfetto": _timeline},
    examples={"kernels": "conv2d --on h100_sxm"},
)  # fmt: skip
