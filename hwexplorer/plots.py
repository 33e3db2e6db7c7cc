"""The plots of a state, each a function with the name that `State.plot` has: kernels under roofs, the metric over the
batch (under a load: over the load), energy against latency, and the bytes in memory. Figures over batches are kept."""

from functools import lru_cache

import msgspec
import numpy as np

from analysis.estimate.causes import divide_host_work
from analysis.estimate.estimate import Estimate, estimate_batches
from analysis.estimate.figures import Figures, figures
from analysis.estimate.kernel_rows import RooflinePoints, is_launch_dominated, main_peak, points, sides_of_ridge
from analysis.estimate.metrics import METRICS
from analysis.estimate.scenario import Scenario
from analysis.estimate.tree_figures import operators_of, tree
from analysis.explore.grid import BATCHES
from analysis.model.ir.workload import Floats, Ints, batches_of
from analysis.text.bound_reasons import describe_launch_dominated
from hardware.base.text import Unit, percent, quantity
from hardware.precision import rate_unit
from hwexplorer import engine
from hwexplorer.state import State, replace
from hwexplorer.views import plain
from hwexplorer.views.captions import scenario_words
from hwexplorer.views.tree_view import measured_times, shares

ALL_BATCHES = (*BATCHES, 256, 512, 1024)


def plot(state: State) -> plain.Plot:
    """Return the plot that the state names."""
    made: plain.Plot = globals()[state.plot](state)
    return made


def roofline(state: State) -> plain.Plot:
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


def _measured_points(state: State, result: Estimate, shown: RooflinePoints) -> tuple[list[plain.Series], str]:
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


def under_roofs(name: str, title: str, series: list[plain.Series], *notes: str, unit: Unit) -> plain.Plot:
    """Return a plot of series by arithmetic intensity and a rate."""
    return plain.Plot(
        name=name,
        title=title,
        x_title="FLOP per DRAM byte",
        y_title="Rate",
        x_unit="FLOP/byte",
        y_unit=unit,
        series=tuple(series),
        notes=notes,
    )


def operators(
    state: State, result: Estimate, shown: Ints, x: Floats, y: Floats, name: str = "operators"
) -> plain.Series:
    """Return points for the operators `shown`, keyed by operator, in the device's colour and sized by their share."""
    keys = tuple(result.partition.operator_id[i] for i in shown.tolist())
    sizes = tuple(shares(tree(result), state.metric)[shown].tolist())
    place = state.devices.index(state.on)
    return plain.Series(name, tuple(x.tolist()), tuple(y.tolist()), keys=keys, labels=keys, sizes=sizes, device=place)


def span(intensity: Floats, high: float) -> tuple[float, float]:
    """Return the range of intensities of a roof, which covers all points and `high`."""
    return min(float(intensity.min(initial=0.1)), 0.1), max(float(intensity.max(initial=1000.0)), high)


def roof(name: str, ends: tuple[float, float], peak: float, bandwidth: float, device: int = -1) -> plain.Series:
    """Return the line of a roof: the bandwidth up to the ridge, then the peak."""
    low, high = ends
    return plain.Series(name, (low, peak / bandwidth, high), (low * bandwidth, peak, peak), line=True, device=device)


def _roofs(result: Estimate, intensity: Floats) -> list[plain.Series]:
    bandwidth, highest = result.device.memory_bandwidth, main_peak(result)[1]
    roofs = {f"{result.precision_run} peak": highest}
    vector = result.device.peaks.get(("vector", result.plan.vector))
    if vector and vector < 0.9 * highest:
        roofs[f"vector {result.plan.vector}"] = vector
    ends = span(intensity, 2 * highest / bandwidth)
    return [roof(name, ends, peak, bandwidth) for name, peak in roofs.items()]


def roofs(state: State) -> plain.Plot:
    """Return the plot of a state."""
    result = divide_host_work(engine.result(state))[0]
    dots = points(result)
    roofs = {
        name: (main_peak(run)[1], run.device.memory_bandwidth)
        for name, run in ((name, engine.result(state, name)) for name in state.devices)
    }
    ridges = {name: peak / bandwidth for name, (peak, bandwidth) in roofs.items()}
    ends = span(dots.intensity, 2 * max(ridges.values()))
    series = [operators(state, result, dots.operator, dots.intensity, dots.flop_per_s)]
    series += [roof(engine.marked_key(name), ends, *run, place) for place, (name, run) in enumerate(roofs.items())]
    words = ", ".join(f"{engine.marked_key(name)} {ridge:.0f}" for name, ridge in ridges.items())
    title = f"{result.workload.name} on {result.device.label} under the roofs of all devices"
    return under_roofs("roofs", title, series, f"ridges (FLOP/byte): {words}", unit=rate_unit(result.precision_run))


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


def pareto(state: State) -> plain.Plot:
    """Return the plot of a state."""
    lines = {device: line(state, device) for device in state.devices}
    points = [(device, p) for device, at_batches in lines.items() for p in at_batches]
    series = [
        plain.Series(
            engine.marked_key(device),
            tuple(p.latency_s for p in at_batches),
            tuple(p.energy_j_per_inference for p in at_batches),
            keys=keys(device, at_batches),
            labels=keys(device, at_batches),
            device=state.devices.index(device),
            on_paper=not engine.device(device).silicon,
        )
        for device, at_batches in lines.items()
    ]
    front = _front([(device, p) for device, p in points if p.silicon])
    x, y = tuple(p.latency_s for _, p in front), tuple(p.energy_j_per_inference for _, p in front)
    series.append(plain.Series("front", x, y, line=True))
    front_names = ", ".join(f"{device} b{p.batch}" for device, p in front[:6]) + ("" if len(front) <= 6 else " ...")
    return plain.Plot(
        name="pareto",
        title=f"Energy against latency of {engine.workload(state).name}, {state.precision}, {state.execution}",
        x_title="Latency of the batch",
        y_title="Energy per inference",
        x_unit="s",
        y_unit="J",
        series=(*series, *_iso(points)),
        notes=(f"beaten by none in silicon: {front_names}; hollow: on paper only; lines: equal EDP",),
    )


def _front(points: list[tuple[str, Figures]]) -> list[tuple[str, Figures]]:
    front: list[tuple[str, Figures]] = []
    for device, p in sorted(points, key=lambda each: (each[1].latency_s, each[1].energy_j_per_inference)):
        if not front or p.energy_j_per_inference < front[-1][1].energy_j_per_inference:
            front.append((device, p))
    return front


def _iso(points: list[tuple[str, Figures]]) -> list[plain.Series]:
    """Return lines of equal EDP, one or more decades apart, in the range of the points."""
    if not points:
        return []
    energies, times = [p.energy_j_per_inference for _, p in points], [p.latency_s for _, p in points]
    products = [p.edp_js for _, p in points if p.edp_js > 0]
    least, limit = min(energies) / 2, max(energies) * 2
    low, high = np.floor(np.log10(min(products))), np.ceil(np.log10(max(products)))
    step = max(1, int(np.ceil((high - low) / 4)))
    lines = []
    for power in np.arange(low, high + 1, step):
        product = float(10.0**power)
        ends = (max(min(times) / 2, product / limit), min(max(times) * 2, product / least))
        if ends[0] < ends[1]:
            lines.append(
                plain.Series(quantity(product, "Js"), ends, tuple(product / t for t in ends), line=True, guide=True)
            )
    return lines


def memory(state: State) -> plain.Plot:
    """Return the plot of a state."""
    result = engine.result(state)
    use, ids, capacity = result.memory, result.partition.operator_id, result.device.memory_bytes
    total = tuple((use.weight_bytes + use.timeline + use.workspace).tolist())
    places = tuple(float(n) for n in range(1, len(ids) + 1))
    ends = (1.0, float(max(len(ids), 2)))
    series = [
        plain.Series("held", places, total, keys=ids, labels=ids),
        plain.Series("held", places, total, line=True),
        plain.Series("weights", ends, (use.weight_bytes, use.weight_bytes), line=True),
    ]
    if ids:
        k = use.peak_at
        series.append(
            plain.Series("peak", (places[k],), (use.peak_bytes,), keys=(ids[k],), labels=(f"peak {ids[k]}",), mark=True)
        )
    note = (
        f"peak {quantity(use.peak_bytes, 'byte')} at {ids[use.peak_at] if ids else 'no operator'}: weights "
        f"{quantity(use.weight_bytes, 'byte')}, activations {quantity(use.activation_peak_bytes, 'byte')}; "
        f"{percent(use.peak_bytes / capacity, 1)} of {quantity(capacity, 'byte')}"
    )
    return plain.Plot(
        name="memory",
        title=f"Memory of {result.workload.name}, {scenario_words(state)} on {result.device.label}",
        x_title="Operators in order",
        y_title="Held",
        x_unit="count",
        y_unit="byte",
        series=tuple(series),
        log_x=False,
        log_y=False,
        notes=(note,),
    )
