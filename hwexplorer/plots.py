"""The plots of a state, each a function with the name that `State.plot` has: kernels under roofs, and the metric over
the batch. Figures over batches are kept."""

from functools import lru_cache

import msgspec
import numpy as np

from analysis.estimate import kernel_rows
from analysis.estimate.causes import divide_host_work
from analysis.estimate.estimate import Estimate, estimate_batches
from analysis.estimate.figures import Figures, figures
from analysis.estimate.metrics import METRICS
from analysis.estimate.scenario import Scenario
from analysis.estimate.tree_figures import tree
from analysis.explore.grid import BATCHES
from analysis.model.ir.workload import Floats, Ints, batches_of
from hardware.precision import rate_unit
from hwexplorer import engine
from hwexplorer.settings import labels
from hwexplorer.state import PLOTS, State, replace, shown_plot
from hwexplorer.views import plain
from hwexplorer.views.tree_view import measured_times, shares

ALL_BATCHES = (*BATCHES, 256, 512, 1024)


def plot(state: State) -> plain.Plot:
    """Return the plot that the state shows."""
    made: plain.Plot = globals()[shown_plot(state) or PLOTS[0]](state)
    return made


def roofline(state: State) -> plain.Plot:
    """Return the roofline of a state, a point per kernel."""
    result = divide_host_work(engine.result(state))[0]
    dots = kernel_rows.points(result)
    series = [
        *_roofs(result, dots.intensity),
        operators(state, result, dots.operator, dots.intensity, dots.flop_per_s),
    ]
    met, line = _measured_points(state, result, dots)
    series += met
    ridge = kernel_rows.main_peak(result)[1] / result.device.memory_bandwidth
    _, is_left = kernel_rows.sides_of_ridge(result)
    note = (
        f"ridge {ridge:.0f} FLOP/byte; without overhead, memory would limit {is_left.sum()} of {is_left.size} kernels"
    )
    title = f"Roofline of {result.workload.name} on {result.device.label}"
    return plain.Plot(
        name="plot",
        title=title,
        x_title="FLOP per DRAM byte",
        y_title="Rate",
        x_unit="FLOP/byte",
        y_unit=rate_unit(result.precision_run),
        series=tuple(series),
        notes=(note + line,),
    )


def _measured_points(
    state: State, result: Estimate, shown: kernel_rows.RooflinePoints
) -> tuple[list[plain.Series], str]:
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


def operators(
    state: State, result: Estimate, shown: Ints, x: Floats, y: Floats, name: str = "operators"
) -> plain.Series:
    """Return points for the operators `shown`, keyed by operator, in the device's colour and sized by their share."""
    keys = tuple(result.partition.operator_id[i] for i in shown.tolist())
    sizes = tuple(shares(tree(result), state.metric)[shown].tolist())
    place = state.devices.index(state.on)
    return plain.Series(name, tuple(x.tolist()), tuple(y.tolist()), keys=keys, labels=keys, sizes=sizes, device=place)


def _roofs(result: Estimate, intensity: Floats) -> list[plain.Series]:
    """Return a line for each peak: the bandwidth up to the ridge, then the peak, over all intensities."""
    bandwidth, highest = result.device.memory_bandwidth, kernel_rows.main_peak(result)[1]
    roofs = {f"{result.precision_run} peak": highest}
    vector = result.device.peaks.get(("vector", result.plan.vector))
    if vector and vector < 0.9 * highest:
        roofs[f"vector {result.plan.vector}"] = vector
    low, high = float(intensity.min(initial=0.1)), max(float(intensity.max(initial=1000.0)), 2 * highest / bandwidth)
    return [
        plain.Series(name, (low, peak / bandwidth, high), (low * bandwidth, peak, peak), line=True)
        for name, peak in roofs.items()
    ]


@lru_cache(maxsize=64)  # a megabyte
def _figures_at_batches(model: str, image_size: int | None, scenario: Scenario, device: str) -> list[Figures]:
    workload = engine.captured_model(State(model, image_size))
    batches = batches_of(workload, ALL_BATCHES)
    estimates = estimate_batches(workload, engine.device(device), scenario, batches)
    return [figures(estimate) for estimate in estimates if estimate.fits]


def batch(state: State) -> plain.Plot:
    """Return the metric over the batches that the model allows and that fit in the memory of each device."""
    metric, scenario = METRICS[state.metric], engine.scenario(replace(state, batch=1))
    lines, points, best = [], [], []
    for place, device in enumerate(state.devices):
        name, found = engine.marked_key(device), _figures_at_batches(state.model, state.image_size, scenario, device)
        x, y = tuple(float(point.batch) for point in found), tuple(map(metric.figure, found))
        keys = tuple(f"{device}@b{point.batch}" for point in found)
        lines.append(plain.Series(name, x, y, line=True, device=place))
        points.append(plain.Series(name, x, y, keys=keys, labels=keys, device=place))
        best += [min(zip(y, x, keys, (name,) * len(x), strict=True))] if found else []
    words = [text for text, _ in labels(state)[1:]]
    y, x, keys, names = zip(*best, strict=True) if best else ((), (), (), ())
    return plain.Plot(
        name="batch",
        title=f"{metric.title} of {engine.workload(state).name} by batch, {', '.join(words)}",
        x_title="Batch",
        y_title=metric.title,
        x_unit="count",
        y_unit=metric.unit,
        series=(*points, *lines, plain.Series("best", x, y, keys=keys, labels=keys, mark=True)),
        notes=(f"best batch for {metric.noun}: {', '.join(map('{} {:g}'.format, names, x))}",),
    )
