"""Every kernel under the roofs of its device: what bounds it, how far from the roof it is, what would flip it.

The roofs of a kernel are the memory bandwidth and the peak of the units it runs on, in the formats they run (where
a kernel uses matrix and vector unit at once, the rate at which the busier is at its peak); both without any
efficiency, so nothing is above them. Arithmetic intensity is FLOP per byte of memory traffic; a kernel whose data
stays on chip has none.

The roof of energy is what a device would reach if only the arithmetic of its contractions, the bytes of its memory
and its static power cost energy: 1 / (e_flop + e_byte / intensity + static power x seconds per FLOP at the roofline).
How far a kernel lies below it is what everything else costs: instructions, registers, caches, clocks, launches.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from analysis.document import BOUND_HELP, BOUND_LETTERS, column
from analysis.estimate.causes import LAUNCH, causes
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, about
from analysis.model.ir.workload import Floats, Ints
from analysis.reports.kernel_rows import kernel_id, kernel_type, kernels, kernels_of, members
from analysis.text.reason import flip
from hardware.execute import BOUNDS, RESOURCES


class Seen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a trace that is laid over the estimate has of a kernel or operator; left out where there is none."""

    measured_s: Annotated[float | None, column("Measured", "s", help="of the trace that the state names")] = None
    ratio: Annotated[float | None, column("Ratio", "x", help="measured over predicted")] = None
    measured_flop_per_s: Annotated[
        float | None, column("Reached", "FLOP/s", key="measured_rate", keep=2, help="as measured")
    ] = None


class OperatorRoof(Seen, frozen=True, kw_only=True):
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


class KernelRoof(Seen, frozen=True, kw_only=True):
    """`max(compute_s, memory_s)` (overlapped) plus `overhead_s` is the time before any power limit.

    `side` of the ridge: 'left' (memory would bound a perfect kernel) or 'right'; '' without arithmetic.
    `attainable_flop_per_s` is the roof at its intensity, `efficiency` what is achieved of it."""

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
    compute_s: Annotated[float, column("Compute", "s")]
    memory_s: Annotated[float, column("Memory", "s", help="time at the slowest memory")]
    overhead_s: Annotated[float, column("Overhead", "s", keep=1)]
    latency_s: Annotated[float, column("Latency", "s")]
    bound: Annotated[str, column("B", role="flag", shown=BOUND_LETTERS, help=BOUND_HELP)]
    resource: str
    achieved_flop_per_s: Annotated[float, column("Achieved", "FLOP/s", keep=2)]
    attainable_flop_per_s: Annotated[float, column("Attainable", "FLOP/s", keep=2)]
    efficiency: Annotated[float, column("of it", "%", keep=2)]
    flips: Annotated[str, column("What would flip it", keep=5)]
    parts: tuple[OperatorRoof, ...]


class RooflineReport(Head, frozen=True, kw_only=True):
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


def roofline(result: Estimate, path: str = "", measured_s: Floats | None = None) -> RooflineReport:
    """The kernels below a node ('' is the model), with what was `measured_s` of each operator (n,), NaN of what was
    not. Raises RequestError for an unknown node."""
    rows = tuple(_kernel(result, k, measured_s) for k in kernels_of(result, path).tolist())
    name, peak = main_peak(result)
    return RooflineReport(
        **about(result, on_device=True),
        node=path,
        latency_s=sum(row.latency_s for row in rows),
        memory_bandwidth=result.device.memory_bandwidth,
        peaks={f"{unit}.{form}": rate for (unit, form), rate in result.device.peaks.items()},
        peak=name,
        ridge=peak / result.device.memory_bandwidth,
        left=sum(row.side == "left" for row in rows),
        right=sum(row.side == "right" for row in rows),
        bound_counts={bound: sum(row.bound == bound for row in rows) for bound in BOUNDS},
        kernels=rows,
    )


def contraction(result: Estimate) -> tuple[str, str]:
    """The unit that most of the contractions run on, and its format."""
    runs = result.plan
    return runs.convolution if result.precision_run == runs.convolution[1] else runs.contraction


def main_peak(result: Estimate) -> tuple[str, float]:
    """The unit and format that most of the contractions run on (`matrix.fp16`), and its FLOP/s; of a device that has
    no rate for it, the fastest."""
    peaks, (unit, form) = result.device.peaks, contraction(result)
    if (unit, form) not in peaks:
        unit, form = max(peaks, key=lambda key: peaks[key])
    return f"{unit}.{form}", peaks[unit, form]


class Points(msgspec.Struct, frozen=True):
    """The kernels that do arithmetic, shape (p,): FLOP per byte, FLOP/s, and the number of the kernel and of the
    operator that it was started for."""

    intensity: Floats
    flop_per_s: Floats
    kernel: Ints
    operator: Ints


def points(result: Estimate) -> Points:
    """What stays on chip has no byte of memory traffic: its intensity is drawn from what crosses the last on-chip
    level."""
    rows = kernels(result)
    moved = np.where(rows.dram_bytes > 0, rows.dram_bytes, rows.chip_bytes)
    kept = np.flatnonzero((rows.flops > 0) & (moved > 0)).astype(np.int32)
    rate = rows.flops[kept] / np.maximum(result.run.kernel_s[kept], 1e-30)
    return Points(rows.flops[kept] / moved[kept], rate, kept, rows.head[kept])


def launch_limited(result: Estimate, shown: Points) -> NDArray[np.bool_]:
    """Of each point, whether launching and dispatching take more of the kernel's time than all else."""
    launch = result.demand.per_kernel(causes(result).time_s[LAUNCH])[shown.kernel]
    return launch > result.run.kernel_s[shown.kernel] / 2


def _seen(result: Estimate, measured_s: Floats | None, operators: Ints, flops: float) -> dict[str, float]:
    """The fields of Seen, of those operators that were measured."""
    met = operators[np.isfinite(measured_s[operators])] if measured_s is not None else operators[:0]
    if measured_s is None or not len(met):
        return {}
    spent, predicted = float(measured_s[met].sum()), float(result.run.latency_s[met].sum())
    ratio = {"ratio": spent / predicted} if predicted else {}
    return {"measured_s": spent, **ratio, **({"measured_flop_per_s": flops / spent} if spent else {})}


def _kernel(result: Estimate, k: int, measured_s: Floats | None) -> KernelRoof:
    run, rows = result.run, kernels(result)
    flops, ideal, time = float(rows.flops[k]), float(rows.ideal_s[k]), float(run.kernel_s[k])
    dram, bandwidth = float(rows.dram_bytes[k]), result.device.memory_bandwidth
    roof = flops / max(ideal, dram / bandwidth) if flops and ideal else 0.0
    ridge = flops / ideal / bandwidth if flops and ideal else None
    intensity = flops / dram if dram else None
    is_left = ridge is not None and intensity is not None and intensity < ridge
    achieved, inside = flops / time if time else 0.0, members(result, k)
    return KernelRoof(
        id=kernel_id(result, k),
        type=kernel_type(result, k),
        operators=int(rows.size[k]),
        flops=flops,
        dram_bytes=dram,
        chip_bytes=float(rows.chip_bytes[k]),
        intensity=intensity,
        ridge=ridge,
        side="" if ridge is None else ("left" if is_left else "right"),
        compute_s=float(run.kernel_compute_s[k]),
        memory_s=float(run.kernel_memory_s[k]),
        overhead_s=float(run.overhead_s[k]),
        latency_s=time,
        bound=BOUNDS[int(run.bound[k])],
        resource=RESOURCES[int(run.resource[k])],
        achieved_flop_per_s=achieved,
        attainable_flop_per_s=roof,
        efficiency=achieved / roof if roof else 0.0,
        flips=flip(result, k),
        parts=tuple(_operator(result, operator, k, measured_s) for operator in inside.tolist()),
        **_seen(result, measured_s, inside, flops),
    )


def _operator(result: Estimate, i: int, k: int, measured_s: Floats | None) -> OperatorRoof:
    run, demand = result.run, result.demand
    mapping, flow = run.mapping, run.mapping.traffic
    flops = float(2.0 * demand.macs[i] + demand.vector_flops[i])
    dram = float(flow.dram_read[i] + flow.dram_write[i])
    compute = max(float(mapping.matrix_s[0, i]), float(mapping.vector_s[0, i]))
    memory = max(float(mapping.dram_s[0, i]), float(mapping.chip_s[i]))
    return OperatorRoof(
        id=result.partition.operator_id[i],
        type=result.workload.operators.kind[i],
        flops=flops,
        dram_bytes=dram,
        chip_bytes=float(flow.chip_read[i] + flow.chip_write[i]),
        intensity=flops / dram if dram else None,
        compute_s=compute,
        memory_s=memory,
        overhead_s=float(run.overhead_s[k]) if demand.head[i] else 0.0,
        latency_s=float(run.latency_s[i]),
        bound="memory" if memory > compute else "compute",
        **_seen(result, measured_s, np.array([i], dtype=np.int32), flops),
    )


# --- the energy roofline --------------------------------------------------------------------------------


_MACS = ("mac", "tensor_mac")


class EnergyRoof(msgspec.Struct, frozen=True):
    """What bounds the efficiency of a device: J per FLOP and per byte, W, FLOP/s, byte/s."""

    flop_j: float
    byte_j: float
    static_w: float
    peak: float
    bandwidth: float

    @property
    def balance(self) -> float:
        """The intensity at which bytes cost as much as arithmetic, FLOP/byte."""
        return self.byte_j / self.flop_j

    def at(self, intensity: Floats, static: bool = True) -> Floats:
        """FLOP per joule."""
        seconds = np.maximum(1 / self.peak, 1 / (self.bandwidth * intensity))
        efficiency: Floats = 1 / (self.flop_j + self.byte_j / intensity + (self.static_w * seconds if static else 0.0))
        return efficiency


def energy_roof(result: Estimate) -> EnergyRoof:
    """The roof of the device of an estimate, in the format that most of its contractions run in."""
    unit = contraction(result)[0]
    prices = dict(zip(result.events, result.run.prices.value.tolist(), strict=True))
    mac = next(price for event, price in prices.items() if event.family in _MACS and event.argument == unit)
    dram = [price for event, price in prices.items() if event.family == "dram"]
    static = sum(price for event, price in prices.items() if event.family == "static")
    return EnergyRoof(mac / 2, sum(dram) / len(dram), static, main_peak(result)[1], result.device.memory_bandwidth)


def efficiencies(result: Estimate, of: Points) -> Floats:
    """FLOP per joule that kernels reach."""
    rows = kernels(result)
    return rows.flops[of.kernel] / rows.energy_j[of.kernel]
