"""Show how a device runs a model: utilisation, limits, and the grid of each kernel.

The predicted run is also written in the trace event format, which Perfetto and chrome://tracing show.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from analysis.document import Column, column, columns, none_unless, records
from analysis.estimate.estimate import Estimate
from analysis.estimate.evaluation import weighted_mean
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.kernel_rows import describe_host_work, kernels, kernels_of
from analysis.model.ir.workload import Floats, Ints
from hardware.base.text import count_noun, percent, quantity
from hardware.execute import BOUNDS
from hardware.map_demand import architecture_of
from hardware.mapping.common import total_units, units_in_all
from hardware.precision import BASE
from hwexplorer import engine
from hwexplorer.declare import NODE, Report, Rows, Section, document_of_estimate, summary_text
from hwexplorer.reports._buckets import Bucket, buckets, distribution
from hwexplorer.state import State
from hwexplorer.views.digest import Digest

_STEPS = 1024.0  # of a microsecond, the unit of the format: such fractions add up exactly in the floats of viewers
_TRACKS = ("kernels", "operators")
_FIGURES = ("energy_j", "flops", "dram_bytes", "overhead_s")  # of a kernel


def run_timeline(result: Estimate) -> dict[str, Any]:
    """Return kernels and operators as slices, watts and joules as counters. Repeated operators are one slice each."""
    scenario, figures = result.scenario, ("latency_s", "energy_j", "latency_band_s", "energy_band_j")
    data = {
        "origin": "predicted by hwexplorer, not measured",
        "model": result.workload.name,
        "device": result.device.key,
        "runtime": result.runtime.name,
        "batch": scenario.batch,
        "precision": scenario.precision,
        **{name: getattr(result, name) for name in figures},
    }
    return {"traceEvents": list(_events(result)), "displayTimeUnit": "ns", "otherData": data}


def _events(result: Estimate) -> Iterator[dict[str, Any]]:
    rows, run, operators = kernels(result), result.run, result.workload.operators
    yield {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": f"predicted: {result.device.name_in_mode}"}}
    for tid, track in enumerate(_TRACKS, 1):
        yield {"ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": {"name": track}}
    order = np.concatenate(rows.members)
    # Whole steps, so that a slice ends where the next one begins: viewers nest slices that overlap.
    edges = np.rint(1e6 * _STEPS * np.concatenate(([0.0], np.cumsum(run.latency_s[order])))).astype(np.int64)
    for place, i in enumerate(order.tolist()):
        figures = {"energy_j": float(run.energy_j[i])}
        yield _slice(2, operators.path[i], operators.kind[i], edges[place : place + 2], figures)
    edges = edges[np.concatenate(([0], np.cumsum(rows.operators)))]
    power_w = rows.energy_j / np.maximum(rows.latency_s, 1e-12)
    for k, joules in enumerate(np.cumsum(rows.energy_j).tolist()):
        figures = {name: float(getattr(rows, name)[k]) for name in _FIGURES}
        causes = {"bound": rows.bound[k], "resource": rows.resource[k]}
        yield _slice(1, rows.id[k], rows.type[k], edges[k : k + 2], figures | causes)
        yield _counter("power", edges[k], {"W": float(power_w[k])})
        yield _counter("energy", edges[k + 1], {"J": joules})
    yield _counter("power", edges[-1], {"W": 0.0})


def _slice(tid: int, name: str, kind: str, edges: NDArray[np.int64], figures: dict[str, Any]) -> dict[str, Any]:
    start, end = edges.tolist()
    return {"ph": "X", "pid": 1, "tid": tid, "name": name or kind, "cat": kind, "ts": start / _STEPS,
            "dur": (end - start) / _STEPS, "args": figures}  # fmt: skip


def _counter(name: str, at: int, values: dict[str, float]) -> dict[str, Any]:
    return {"ph": "C", "pid": 1, "name": name, "ts": int(at) / _STEPS, "args": values}


# --- the verb ---------------------------------------------------------------------------------------------------------

UTILIZATION = (0.10, 0.25, 0.50)
UTILIZATION_LABELS = ("< 10 %", "10-25 %", "25-50 %", "> 50 %")


class Bound(msgspec.Struct, frozen=True):
    """The kernels that one resource bounds, and fractions of their number and time."""

    bound: Annotated[str, column("Bound")]
    count: Annotated[int, column("Kernels", "count")]
    fraction: Annotated[float, column("%", "%")]
    time_s: Annotated[float, column("Time", "s")]
    time_fraction: Annotated[float, column("of time", "%")]


class KernelRow(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel. `blocks` of work go to `units` of `units_total` in `waves`. A block has `tile_m` x `tile_n` results
    (0 unless it is a tiled product), with K divided `split` ways. `occupancy` is None except on GPUs. Lanes run along
    `vectorizable_dim`, of `vectorizable_size`; `vector_width` is the values of `format` that a unit's lanes take per
    clock, None below one. `recommended_mapping` describes the mapping that is estimated."""

    id: Annotated[str, column("Kernel", key="kernel")]
    type: str
    operators: int
    bound: Annotated[str, column("Limit")]
    resource: str
    latency_s: Annotated[float, column("Latency", "s")]
    flops: float
    effective_flop_per_s: Annotated[float, column("Rate", "FLOP/s", key="rate", keep=1, help="effective")]
    utilization: Annotated[float, column("Util", "%", help="share of the peak in the format that runs")]
    effective_byte_per_s: Annotated[float, column("DRAM", "byte/s", key="bandwidth", keep=4, help="effective")]
    runs_on: str
    format: str
    blocks: Annotated[float, column("Blocks", "count", keep=2, help="blocks of work assigned to units")]
    tile_m: float
    tile_n: float
    split: Annotated[float, column("Split K", "count", keep=5)]
    waves: Annotated[float, column("Waves", "count", keep=2)]
    units: Annotated[float, column("Units", "count", keep=1)]
    units_total: float
    units_fraction: Annotated[float, column("Active", "%", keep=1)]
    occupancy: Annotated[float | None, column("Occ", "%", keep=2, help="resident warps over the maximum")]
    vectorizable_dim: Annotated[str, column("Vector along", keep=7, help="dimension along which vector lanes run")]
    vectorizable_size: float
    vector_width: Annotated[float | None, column("Lanes", "count", keep=7, help="values of a vector unit per clock")]
    recommended_mapping: Annotated[str, column("Mapping", keep=7)]
    sentence: Annotated[str, column("What it does", keep=6)]


class MappingReport(Head, frozen=True, kw_only=True):
    """`average_utilization` weights kernels by time (the model's utilisation), `mean_utilization` weights them equally.
    `weight` of a bucket is its fraction of the time. `units_active`, of `units_total`, is an average over time."""

    node: str
    kernels: int
    latency_s: float
    average_utilization: float
    mean_utilization: float
    utilization: tuple[Bucket, ...]
    bounds: tuple[Bound, ...]
    unit_name: str
    units_active: float
    units_total: float
    units_active_fraction: float
    occupancy: float | None
    rows: tuple[KernelRow, ...]


def mapping_report(result: Estimate, path: str = "") -> MappingReport:
    """Return the mapping of the kernels below a node ('' is the model). Raises RequestError for an unknown node."""
    places = kernels_of(result, path)
    run, rows = result.run, kernels(result)
    time, shares = run.kernel_s[places], run.utilization[places]
    total_s = float(time.sum())
    heads, total = rows.head[places], total_units(result.device)
    active = weighted_mean((run.mapping.units / units_in_all(result.device, run.mapping.on_matrix))[heads], time)
    rate = architecture_of(result.device).occupancy
    resident = None if rate is None else rate(result.demand, result.device, run.mapping)[heads]
    return MappingReport(
        **head_fields(result, on_device=True),
        node=path,
        kernels=len(places),
        latency_s=total_s,
        average_utilization=weighted_mean(shares, time),
        mean_utilization=float(shares.mean()) if len(shares) else 0.0,
        utilization=buckets(shares, UTILIZATION, UTILIZATION_LABELS, time),
        bounds=_bounds(result, places),
        unit_name=result.device.arch.array or result.device.unit_name,
        units_active=active * total,
        units_total=total,
        units_active_fraction=active,
        occupancy=None if resident is None else weighted_mean(resident, time),
        rows=_rows(result, places, resident),
    )


def _bounds(result: Estimate, chosen: Ints) -> tuple[Bound, ...]:
    bound, time = result.run.bound[chosen], result.run.kernel_s[chosen]
    count = np.bincount(bound, minlength=len(BOUNDS))
    time_s = np.array([time[bound == b].sum() for b in range(len(BOUNDS))])
    return records(
        Bound,
        bound=BOUNDS,
        count=count,
        fraction=count / (len(chosen) or 1),
        time_s=time_s,
        time_fraction=time_s / (float(time.sum()) or 1.0),
    )


def _rows(result: Estimate, chosen: Ints, resident: Floats | None) -> tuple[KernelRow, ...]:
    run, demand, plan, rows = result.run, result.demand, result.plan, kernels(result)
    mapping, tiling, head = run.mapping, run.mapping.tiling, rows.head[chosen]
    time = np.where(run.kernel_s > 0, run.kernel_s, 1.0)[chosen]
    on_matrix, is_product = mapping.on_matrix[head] > 0, demand.macs[head] > 0
    total = units_in_all(result.device, mapping.on_matrix)[head]
    # A product has tiles; another kernel has blocks of elements.
    per_block = result.device.arch.data.assumed("elements_per_block")
    blocks = np.where(is_product, tiling.blocks[head], np.maximum(np.ceil(demand.elements[head] / per_block), 1.0))
    sentences = [architecture_of(result.device).sentence(demand, result.setup, mapping, i) for i in head.tolist()]
    lanes = result.device.file.fma_per_clock["vector"]
    widths = {name: (lanes[name] if name in lanes else lanes[BASE]).value for name in (plan.vector_mac, plan.vector)}
    width = np.where(is_product, widths[plan.vector_mac], widths[plan.vector])
    return records(
        KernelRow,
        rows,
        rows=chosen,
        effective_flop_per_s=rows.flops[chosen] / time,
        utilization=run.utilization[chosen],
        effective_byte_per_s=rows.dram_bytes[chosen] / time,
        runs_on=np.where(on_matrix, "matrix", "vector"),
        format=np.where(on_matrix, plan.matrix, np.where(is_product, plan.vector_mac, plan.vector)),
        blocks=blocks,
        tile_m=tiling.tile_m[head],
        tile_n=tiling.tile_n[head],
        split=np.maximum(tiling.split[head], 1.0),
        waves=np.where(is_product, tiling.waves[head], np.ceil(blocks / total)),
        units=mapping.units[head],
        units_total=total,
        units_fraction=mapping.units[head] / total,
        occupancy=resident,
        vectorizable_dim=np.where(is_product, "columns", "elements"),
        vectorizable_size=np.where(is_product, demand.gemm[2, head], demand.elements[head]),
        vector_width=none_unless(width >= 1.0, width),
        recommended_mapping=[sentence.partition(": ")[2] or sentence for sentence in sentences],
        sentence=sentences,
    )


# --- the verb ---------------------------------------------------------------------------------------------------------

_RUNS_ON = Column("runs_on", "Runs on", role="text", keep=3, of=lambda kernel: f"{kernel.runs_on} {kernel.format}")
_END_OF_WORK = re.compile(r" on | as a |, |: | streamed | behind ")  # follows the work, in every sentence
KERNELS = (
    *columns(KernelRow, "kernel bound latency utilization rate bandwidth"),
    _RUNS_ON,
    *columns(KernelRow, "blocks"),
    Column(
        "tile", "Tile", role="text", keep=3,
        of=lambda kernel: f"{kernel.tile_m:.0f} x {kernel.tile_n:.0f}" if kernel.tile_m else "",
    ),
    *columns(
        KernelRow,
        "split waves units units_fraction occupancy sentence vectorizable_dim vector_width recommended_mapping",
    ),
)  # fmt: skip


def _summary(report: MappingReport, state: State) -> list[str]:
    bounds = ", ".join(f"{b.bound} {b.count} ({percent(b.time_fraction)})" for b in report.bounds if b.count)
    lines = [
        f"{count_noun(report.kernels, 'kernel')} in {quantity(report.latency_s, 's')}; by what limits them, with their "
        f"share of the time: {bounds}",
        f"{percent(report.average_utilization, 1)} of the peak is used on average over time; the mean of the kernels "
        f"is {percent(report.mean_utilization, 1)}",
        f"{round(report.units_active, 1):,g} of {count_noun(report.units_total, report.unit_name)} active on average "
        f"({percent(report.units_active_fraction)})",
    ]
    if report.occupancy is not None:
        lines.append(f"occupancy {percent(report.occupancy)}: an SM holds that share of the warps it could")
    return [*lines, *describe_host_work(engine.result(state))]


_BRIEF = (
    *columns(KernelRow, "kernel bound latency utilization"),
    _RUNS_ON,
    Column("work", "Work", role="text", keep=1, of=lambda kernel: _END_OF_WORK.split(kernel.sentence)[0]),
    *columns(KernelRow, "occupancy units_fraction", occupancy=4, units_fraction=4),
)


def _timeline(report: MappingReport, state: State) -> str:
    """Return the whole run in the trace event format."""
    return msgspec.json.encode(run_timeline(engine.result(state))).decode() + "\n"


VERB = Report(
    subject=NODE,
    document=document_of_estimate(mapping_report),
    title="Mapping",
    parts=(
        summary_text(_summary),
        distribution("utilization", "Utilisation of kernels", "Utilisation", "time", {"Kernels": ""}),
        Rows("bounds", "What bounds kernels", columns(Bound)),
        Rows(
            "kernels", "Kernels", KERNELS, of="rows", kind="type",
            without=lambda report: () if report.occupancy is not None else ("occupancy",),
            rate_format=lambda report: max(report.rows, key=lambda row: row.flops).format if report.rows else "",
            brief={"title": "Kernels that take most time", "columns": _BRIEF, "digest": Digest("latency", "kernel")},
        ),
    ),
    brief_parts=("summary", "kernels"),
    section=Section(10, "How the device runs it"),
    exports={"perfetto": _timeline},
    examples={"mapping": "conv2d --on h100_sxm"},
)  # fmt: skip
