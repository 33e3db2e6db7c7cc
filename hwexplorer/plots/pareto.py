"""Energy per inference against latency over devices and batches, the front, and lines of equal EDP."""

import numpy as np

from analysis.estimate.figures import Figures
from hwexplorer import engine
from hwexplorer.plots.batch import keys, line
from hwexplorer.state import State
from hwexplorer.text.number_format import quantity
from hwexplorer.views.plain import Plot, Series

IS_OVER_BATCHES = True


def plot(state: State) -> Plot:
    """Return the plot of a state."""
    lines = {device: line(state, device) for device in state.devices}
    points = [(device, p) for device, at_batches in lines.items() for p in at_batches]
    series = [
        Series(
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
    series.append(Series("front", x, y, line=True))
    front_names = ", ".join(f"{device} b{p.batch}" for device, p in front[:6]) + ("" if len(front) <= 6 else " ...")
    return Plot(
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


def _iso(points: list[tuple[str, Figures]]) -> list[Series]:
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
            lines.append(Series(quantity(product, "Js"), ends, tuple(product / t for t in ends), line=True, guide=True))
    return lines
