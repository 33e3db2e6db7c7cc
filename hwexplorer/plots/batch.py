"""The metric of the state over the batch on each device, the best batch marked."""

from __future__ import annotations

from analysis.estimate.metrics import METRICS
from hwexplorer import engine
from hwexplorer.plots._over_batches import keys, line
from hwexplorer.state import State
from hwexplorer.views.captions import MARKED
from hwexplorer.views.plain import Plot, Series

IS_OVER_BATCHES = True


def plot(state: State) -> Plot:
    """Return the plot of a state over the load if it has one, else over the batch."""
    if state.load:
        from hwexplorer.plots import _over_loads  # not needed without a load

        return _over_loads.plot(state)
    metric = METRICS[state.metric]
    lines, points, best = [], [], []
    for place, device in enumerate(state.devices):
        at_batches = line(state, device)
        x, y = tuple(float(p.batch) for p in at_batches), tuple(metric.figure(p) for p in at_batches)
        lines.append(Series(MARKED[device], x, y, line=True, device=place))
        point_keys = keys(device, at_batches)
        points.append(Series(MARKED[device], x, y, keys=point_keys, labels=point_keys, device=place))
        if at_batches:
            best.append((device, min(at_batches, key=lambda p: metric.figure(p))))
    best_keys = tuple(f"{device}@b{p.batch}" for device, p in best)
    x, y = tuple(float(p.batch) for _, p in best), tuple(metric.figure(p) for _, p in best)
    best_batches = ", ".join(f"{MARKED[device]} {p.batch}" for device, p in best)
    return Plot(
        name="batch",
        title=f"{metric.title} of {engine.workload(state).name} by batch, {state.precision}, {state.execution}",
        x_title="Batch",
        y_title=metric.title,
        x_unit="count",
        y_unit=metric.unit,
        series=(*points, *lines, Series("best", x, y, keys=best_keys, labels=best_keys, mark=True)),
        notes=(f"best batch for {metric.noun}: {best_batches}",),
    )
