"""The plots of a state, each a function with the name that `State.plot` has: kernels under roofs, and the metric over
the batch (under a load: over the load). Figures over batches are kept."""

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
from hwexplorer.state import State, replace
from hwexplorer.views import plain
from hwexplorer.views.tree_view import measured_times, shares

ALL_BATCHES = (*BATCHES, 256, 512, 1024)


def plot(state: State) -> plain.Plot:
    """Return the plot that the state names."""
    made: plain.Plot = globals()[state.plot](state)
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


def line(state: State, device: str) -> list[Figures]:
    """Return the figures on a device at each of `ALL_BATCHES` that the model allows and that fits in its memory."""
    return _figures_at_batches(state.model, state.image_size, engine.scenario(replace(state, batch=1)), device)


@lru_cache(maxsize=512)
def _figures_at_batches(model: str, image_size: int | None, scenario: Scenario, device: str) -> list[Figures]:
    workload = engine.captured_model(State(model, image_size))
    batches = batches_of(workload, ALL_BATCHES)
    estimates = estimate_batches(workload, engine.device(device), scenario, batches)
    return [figures(estimate) for estimate in estimates if estimate.fits]


def keys(device: str, points: list[Figures]) -> tuple[str, ...]:
    """Return the keys of points: the device at each batch."""
    return tuple(f"{device}@b{p.batch}" for p in points)


def batch(state: State) -> plain.Plot:
    """Return the plot of a state over the load if it has one, else over the batch."""
    if state.load:
        from hwexplorer.views import load_plot  # not needed without a load

        return load_plot.plot(state)
    metric = METRICS[state.metric]
    lines, points, best = [], [], []
    for place, device in enumerate(state.devices):
        at_batches = line(state, device)
        x, y = tuple(float(p.batch) for p in at_batches), tuple(metric.figure(p) for p in at_batches)
        lines.append(plain.Series(engine.marked_key(device), x, y, line=True, device=place))
        point_keys = keys(device, at_batches)
        points.append(plain.Series(engine.marked_key(device), x, y, keys=point_keys, labels=point_keys, device=place))
        if at_batches:
            best.append((device, min(at_batches, key=lambda p: metric.figure(p))))
    best_keys = tuple(f"{device}@b{p.batch}" for device, p in best)
    x, y = tuple(float(p.batch) for _, p in best), tuple(metric.figure(p) for _, p in best)
    best_batches = ", ".join(f"{engine.marked_key(device)} {p.batch}" for device, p in best)
    return plain.Plot(
        name="batch",
        title=f"{metric.title} of {engine.workload(state).name} by batch, {state.precision}, {state.execution}",
        x_title="Batch",
        y_title=metric.title,
        x_unit="count",
        y_unit=metric.unit,
        series=(*points, *lines, plain.Series("best", x, y, keys=best_keys, labels=best_keys, mark=True)),
        notes=(f"best batch for {metric.noun}: {best_batches}",),
    )
