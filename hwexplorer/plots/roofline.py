"""The roofline: kernels by arithmetic intensity and rate, under the roofs of the device under the cursor."""

import msgspec
import numpy as np

from analysis.estimate.estimate import Estimate
from analysis.estimate.host_work import divide_host_work
from analysis.estimate.kernel_roofs import Points, is_launch_dominated, main_peak, points, sides_of_ridge
from analysis.estimate.tree_figures import operators_of, tree
from analysis.model.ir.workload import Floats, Ints
from analysis.text.bound_reasons import describe_launch_dominated
from hardware.base.text import Unit
from hardware.precision import rate_unit
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views.plain import Plot, Series
from hwexplorer.views.tree_view import measured_times, shares


def plot(state: State) -> Plot:
    """Return the roofline of a state, a point per kernel. Kernels of the node under the cursor are emphasised."""
    result = divide_host_work(engine.result(state))[0]
    dots = points(result)
    inside = set(operators_of(result, state.at).tolist()) if state.at else set()
    dominated = is_launch_dominated(result)
    launch_note = [describe_launch_dominated(int(dominated.sum()), len(dominated))] if dominated.any() else []
    series = [
        *_roofs(result, dots.intensity),
        operators(state, result, dots.operator, dots.intensity, dots.flop_per_s),
    ]
    marked_dots = [j for j, i in enumerate(dots.operator.tolist()) if i in inside]
    if marked_dots:
        marked_ops = dots.operator[marked_dots]
        series_here = operators(
            state, result, marked_ops, dots.intensity[marked_dots], dots.flop_per_s[marked_dots], "here"
        )
        series.append(msgspec.structs.replace(series_here, device=-1))
    met, line = _measured_points(state, result, dots)
    series += met
    ridge = main_peak(result)[1] / result.device.memory_bandwidth
    _, is_left = sides_of_ridge(result)
    note = (
        f"ridge {ridge:.0f} FLOP/byte; without overhead, memory would limit {is_left.sum()} of {is_left.size} kernels"
    )
    title = f"Roofline of {result.workload.name} on {result.device.label}"
    return under_roofs("plot", title, series, *launch_note, note + line, unit=rate_unit(result.precision_run))


def _measured_points(state: State, result: Estimate, shown: Points) -> tuple[list[Series], str]:
    """Return the kernels at their measured rates, and a phrase for the notes. Return nothing without a trace."""
    times = measured_times(state, result)
    if times is None:
        return [], ""
    seconds = times.seconds
    kernel_s = np.bincount(result.demand.kernel, np.nan_to_num(seconds), result.demand.n_kernels)[shown.kernel]
    met = np.flatnonzero(kernel_s > 0)
    rate = shown.flop_per_s[met] * result.run.kernel_s[shown.kernel[met]] / kernel_s[met]
    series = operators(state, result, shown.operator[met], shown.intensity[met], rate, "measured")
    return [msgspec.structs.replace(series, device=-1)], f"; {len(met)} as measured too, in another colour"


def under_roofs(name: str, title: str, series: list[Series], *notes: str, unit: Unit) -> Plot:
    """Return a plot of series by arithmetic intensity and a rate."""
    return Plot(
        name=name,
        title=title,
        x_title="FLOP per DRAM byte",
        y_title="Rate",
        x_unit="FLOP/byte",
        y_unit=unit,
        series=tuple(series),
        notes=notes,
    )


def operators(state: State, result: Estimate, shown: Ints, x: Floats, y: Floats, name: str = "operators") -> Series:
    """Return points for the operators `shown`, keyed by operator, in the device's colour and sized by their share."""
    keys = tuple(result.partition.operator_id[i] for i in shown.tolist())
    sizes = tuple(shares(tree(result), state.metric)[shown].tolist())
    place = state.devices.index(state.on)
    return Series(name, tuple(x.tolist()), tuple(y.tolist()), keys=keys, labels=keys, sizes=sizes, device=place)


def span(intensity: Floats, high: float) -> tuple[float, float]:
    """Return the range of intensities of a roof, which covers all points and `high`."""
    return min(float(intensity.min(initial=0.1)), 0.1), max(float(intensity.max(initial=1000.0)), high)


def roof(name: str, ends: tuple[float, float], peak: float, bandwidth: float, device: int = -1) -> Series:
    """Return the line of a roof: the bandwidth up to the ridge, then the peak."""
    low, high = ends
    return Series(name, (low, peak / bandwidth, high), (low * bandwidth, peak, peak), line=True, device=device)


def _roofs(result: Estimate, intensity: Floats) -> list[Series]:
    bandwidth, highest = result.device.memory_bandwidth, main_peak(result)[1]
    roofs = {f"{result.precision_run} peak": highest}
    vector = result.device.peaks.get(("vector", result.plan.vector))
    if vector and vector < 0.9 * highest:
        roofs[f"vector {result.plan.vector}"] = vector
    ends = span(intensity, 2 * highest / bandwidth)
    return [roof(name, ends, peak, bandwidth) for name, peak in roofs.items()]
