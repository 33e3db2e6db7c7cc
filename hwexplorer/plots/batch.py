"""The metric of the state over the batch on each device, the best batch marked. Figures over batches are cached."""

from functools import lru_cache

from analysis.estimate.estimate import estimate_batches
from analysis.estimate.figures import Figures, figures
from analysis.estimate.metrics import METRICS
from analysis.estimate.scenario import Scenario
from analysis.explore.grid import BATCHES
from analysis.model.ir.batch_limits import batches_of
from hwexplorer import engine
from hwexplorer.state import State, replace
from hwexplorer.views.plain import Plot, Series

IS_OVER_BATCHES = True
ALL_BATCHES = (*BATCHES, 256, 512, 1024)


def line(state: State, device: str) -> list[Figures]:
    """Return the figures on a device at each of `ALL_BATCHES` that the model allows and that fits in its memory."""
    return _line(state.model, state.image_size, engine.scenario(replace(state, batch=1)), device)


@lru_cache(maxsize=512)
def _line(model: str, image_size: int | None, scenario: Scenario, device: str) -> list[Figures]:
    workload = engine.captured_model(State(model, image_size))
    batches = batches_of(workload, ALL_BATCHES)
    estimates = estimate_batches(workload, engine.device(device), scenario, batches)
    return [figures(estimate) for estimate in estimates if estimate.fits]


def keys(device: str, points: list[Figures]) -> tuple[str, ...]:
    """Return the keys of points: the device at each batch."""
    return tuple(f"{device}@b{p.batch}" for p in points)


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
        lines.append(Series(engine.marked_key(device), x, y, line=True, device=place))
        point_keys = keys(device, at_batches)
        points.append(Series(engine.marked_key(device), x, y, keys=point_keys, labels=point_keys, device=place))
        if at_batches:
            best.append((device, min(at_batches, key=lambda p: metric.figure(p))))
    best_keys = tuple(f"{device}@b{p.batch}" for device, p in best)
    x, y = tuple(float(p.batch) for _, p in best), tuple(metric.figure(p) for _, p in best)
    best_batches = ", ".join(f"{engine.marked_key(device)} {p.batch}" for device, p in best)
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
