"""How a device runs a model: utilisation, bounds, units active, and each kernel's grid."""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np

from analysis.document import BOUND_HELP, BOUND_LETTERS, column
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, about
from analysis.model.ir.workload import Floats, Ints
from analysis.reports.distributions import Bucket, buckets
from analysis.reports.kernel_rows import kernel_id, kernel_type, kernels, kernels_of
from hardware.execute import BOUNDS, RESOURCES
from hardware.mapping.common import total_units, units_in_all

UTILIZATION = (0.10, 0.25, 0.50)
UTILIZATION_LABELS = ("< 10 %", "10-25 %", "25-50 %", "> 50 %")


class Bound(msgspec.Struct, frozen=True):
    bound: Annotated[str, column("Bound")]
    count: Annotated[int, column("Kernels", "count")]
    fraction: Annotated[float, column("%", "%")]
    time_s: Annotated[float, column("Time", "s")]
    time_fraction: Annotated[float, column("of time", "%")]


class KernelRow(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel. `blocks` pieces of work dealt to `units` of `units_total`, in `waves`; `tile_m` x `tile_n`
    results each, 0 where it is no tiled product; `split` ways K is divided; `occupancy` None but on GPUs."""

    id: Annotated[str, column("Kernel", key="kernel")]
    type: str
    operators: int
    bound: Annotated[str, column("B", role="flag", shown=BOUND_LETTERS, help=BOUND_HELP)]
    resource: str
    latency_s: Annotated[float, column("Latency", "s")]
    flops: float
    effective_flop_per_s: Annotated[float, column("Rate", "FLOP/s", key="rate", keep=1, help="effective")]
    utilization: Annotated[float, column("Util", "%", help="of the peak of the format that runs")]
    effective_byte_per_s: Annotated[float, column("DRAM", "byte/s", key="bandwidth", keep=4, help="effective")]
    runs_on: str
    format: str
    blocks: Annotated[float, column("Blocks", "count", keep=2, help="pieces of work dealt to units")]
    tile_m: float
    tile_n: float
    split: Annotated[float, column("Split K", "count", keep=5)]
    waves: Annotated[float, column("Waves", "count", keep=2)]
    units: Annotated[float, column("Units", "count", keep=1)]
    units_total: float
    units_fraction: Annotated[float, column("Active", "%", keep=1)]
    occupancy: Annotated[float | None, column("Occ", "%", keep=2, help="resident warps over the maximum")]
    sentence: Annotated[str, column("What it does", keep=6)]


class MappingReport(Head, frozen=True, kw_only=True):
    """`average_utilization` weighs kernels by time (the model's utilisation), `mean_utilization` counts each alike;
    `weight` of a bucket is its fraction of the time. `units_active` on average over time, of `units_total`."""

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
    """The kernels below a node ('' is the model). Raises RequestError for an unknown node."""
    chosen = kernels_of(result, path)
    run, rows = result.run, kernels(result)
    time, used = run.kernel_s[chosen], run.utilization[chosen]
    total_s = float(time.sum())
    heads, total = rows.head[chosen], total_units(result.device)
    active = _weighted((run.mapping.units / units_in_all(result.device, run.mapping.on_matrix))[heads], time)
    resident = _occupancy(result, heads)
    return MappingReport(
        **about(result, on_device=True),
        node=path,
        kernels=len(chosen),
        latency_s=total_s,
        average_utilization=_weighted(used, time),
        mean_utilization=float(used.mean()) if len(used) else 0.0,
        utilization=buckets(used, UTILIZATION, UTILIZATION_LABELS, time),
        bounds=_bounds(result, chosen),
        unit_name=result.device.arch.array or result.device.unit_name,
        units_active=active * total,
        units_total=total,
        units_active_fraction=active,
        occupancy=None if resident is None else _weighted(resident, time),
        rows=tuple(
            _row(result, int(k), None if resident is None else float(resident[j]))
            for j, k in enumerate(chosen.tolist())
        ),
    )


def _weighted(values: Floats, time: Floats) -> float:
    total_s = float(time.sum())
    return float((values * time).sum()) / total_s if total_s else 0.0


def _occupancy(result: Estimate, heads: Ints) -> Floats | None:
    rate = result.device.arch.occupancy
    return None if rate is None else rate(result.demand, result.device, result.run.mapping)[heads]


def _bounds(result: Estimate, chosen: Ints) -> tuple[Bound, ...]:
    run, count = result.run, len(chosen) or 1
    time, total_s = run.kernel_s[chosen], float(run.kernel_s[chosen].sum()) or 1.0
    rows = []
    for bound, name in enumerate(BOUNDS):
        bound_so = run.bound[chosen] == bound
        count_so, time_s = int(bound_so.sum()), float(time[bound_so].sum())
        rows.append(Bound(name, count_so, count_so / count, time_s, time_s / total_s))
    return tuple(rows)


def _row(result: Estimate, k: int, resident: float | None) -> KernelRow:
    run, demand, rows = result.run, result.demand, kernels(result)
    head, time = int(rows.head[k]), float(run.kernel_s[k]) or 1.0
    tiling, on_matrix = run.mapping.tiling, bool(run.mapping.on_matrix[head])
    total = float(units_in_all(result.device, run.mapping.on_matrix)[head])
    blocks, waves = _grid(result, head, total)
    is_product = bool(demand.macs[head] > 0)
    form = result.plan.matrix if on_matrix else (result.plan.vector_mac if is_product else result.plan.vector)
    return KernelRow(
        id=kernel_id(result, k),
        type=kernel_type(result, k),
        operators=int(rows.size[k]),
        bound=BOUNDS[int(run.bound[k])],
        resource=RESOURCES[int(run.resource[k])],
        latency_s=float(run.kernel_s[k]),
        flops=float(rows.flops[k]),
        effective_flop_per_s=float(rows.flops[k]) / time,
        utilization=float(run.utilization[k]),
        effective_byte_per_s=float(rows.dram_bytes[k]) / time,
        runs_on="matrix" if on_matrix else "vector",
        format=form,
        blocks=blocks,
        tile_m=float(tiling.tile_m[head]),
        tile_n=float(tiling.tile_n[head]),
        split=max(float(tiling.split[head]), 1.0),
        waves=waves,
        units=float(run.mapping.units[head]),
        units_total=total,
        units_fraction=float(run.mapping.units[head]) / total,
        occupancy=resident,
        sentence=result.device.arch.sentence(demand, result.setup, run.mapping, head),
    )


def _grid(result: Estimate, i: int, total: float) -> tuple[float, float]:
    """Blocks and waves of an operator: of its tiles, or of element-wise blocks."""
    tiling, demand = result.run.mapping.tiling, result.demand
    if demand.macs[i] > 0:
        return float(tiling.blocks[i]), float(tiling.waves[i])
    blocks = max(float(np.ceil(demand.elements[i] / result.device.arch.data.assumed("elements_per_block"))), 1.0)
    return blocks, float(np.ceil(blocks / total))
