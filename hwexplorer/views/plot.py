"""The plot of a state. The roofline is here: operators by arithmetic intensity and rate, under their device's roofs."""

from __future__ import annotations

import numpy as np

from analysis.run.estimate import Estimate
from analysis.run.tree import operators_of
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views.compare import label
from hwexplorer.views.plain import Plot, Series


def plot(state: State) -> Plot:
    """The kind of plot that the state names."""
    if state.plot == "roofline":
        return roofline(state)
    from hwexplorer.views import plots

    return plots.BUILDERS[state.plot](state)


def roofline(state: State) -> Plot:
    """Kernels of the model on the device under the cursor; a fused operator stands where its kernel does."""
    result = engine.result(state)
    intensity, rate, shown = points(result)
    below = set(operators_of(result, state.at).tolist()) if state.at else set()
    parts = result.partition
    keys = tuple(parts.operator_id[i] for i in shown)
    chosen = [j for j, i in enumerate(shown) if int(i) in below]
    series = [
        *_roofs(result, intensity),
        Series("operators", tuple(intensity.tolist()), tuple(rate.tolist()), keys, keys),
    ]
    if chosen:
        picked = tuple(keys[j] for j in chosen)
        series.append(Series("here", tuple(intensity[chosen].tolist()), tuple(rate[chosen].tolist()), picked, picked))
    ridge = peak(result) / result.device.memory_bandwidth
    note = f"ridge {ridge:.0f} FLOP/byte; {_left(intensity, ridge)} of {len(shown)} kernels lie left of it"
    return Plot(
        "plot",
        f"Roofline of {result.workload.name} on {label(result.device)}",
        "FLOP per DRAM byte",
        "FLOP/s",
        "FLOP/byte",
        "FLOP/s",
        tuple(series),
        notes=(note,),
    )


def _left(intensity: np.ndarray[tuple[int], np.dtype[np.float64]], ridge: float) -> int:
    return int((intensity < ridge).sum())


def points(result: Estimate) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Intensity and rate of each kernel that does arithmetic, and the operator that stands for it."""
    asked, run = result.demand, result.run
    flow = run.mapping.traffic
    flops = asked.per_kernel(2 * asked.macs + asked.vector_flops)
    # What stays on chip has no DRAM byte; its intensity is drawn from what crosses the last on-chip level.
    dram = asked.per_kernel(flow.dram_read + flow.dram_write)
    chip = asked.per_kernel(flow.chip_read + flow.chip_write)
    moved = np.where(dram > 0, dram, chip)
    rate = flops / np.maximum(run.kernel_s, 1e-30)
    head = np.zeros(asked.n_kernels, dtype=np.int64)
    heads = np.flatnonzero(asked.head)
    head[asked.kernel[heads]] = heads
    keep = (flops > 0) & (moved > 0)
    return (flops / np.maximum(moved, 1e-30))[keep], rate[keep], head[keep]


def contraction(result: Estimate) -> tuple[str, str]:
    """The unit that most of the contractions run on, and its format."""
    plan = result.plan
    return plan.convolution if result.precision_run == plan.convolution[1] else plan.contraction


def peak(result: Estimate) -> float:
    unit, name = contraction(result)
    return result.device.peaks.get((unit, name)) or max(result.device.peaks.values())


def _roofs(result: Estimate, intensity: np.ndarray) -> list[Series]:  # type: ignore[type-arg]
    bandwidth = result.device.memory_bandwidth
    low = min(float(intensity.min(initial=0.1)), 0.1)
    high = max(float(intensity.max(initial=1000.0)), 2 * peak(result) / bandwidth)
    highest = peak(result)
    roofs = {f"{result.precision_run} peak": highest}
    vector = result.device.peaks.get(("vector", result.plan.vector))
    if vector and vector < 0.9 * highest:
        roofs[f"vector {result.plan.vector}"] = vector
    return [
        Series(name, (low, top / bandwidth, high), (low * bandwidth, top, top), line=True)
        for name, top in roofs.items()
    ]
