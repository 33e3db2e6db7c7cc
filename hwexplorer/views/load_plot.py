"""The metric of the state over the load on each device, with the knee and the limits."""

import math
from collections.abc import Callable

from msgspec.structs import replace as with_fields

from analysis.serving.deployment import DoesNotFitError
from analysis.serving.request_load import ask_load
from analysis.serving.served_load import KNEE, ServedLoad
from hardware.base.text import Unit
from hwexplorer import engine
from hwexplorer.state import State, replace
from hwexplorer.views import plain

PARTS = (0.1, 0.25, 0.5, 0.65, KNEE, 0.9, 1.1)  # fractions of the capacity of a device to serve
_AXES: dict[str, tuple[str, Unit, Callable[[ServedLoad], float]]] = {
    "latency": ("TPOT p99", "s", lambda row: row.tpot_p99_s),
    "energy": ("J per token", "J", lambda row: row.energy_j_per_token),
    "edp": ("EDP per token", "Js", lambda row: row.figure("edp")),
}


def plot(state: State) -> plain.Plot:
    """Return the plot of a state with a load."""
    title, unit, figure = _AXES[state.metric]
    lines, points, knees, notes = (
        list[plain.Series](),
        list[plain.Series](),
        list[tuple[str, ServedLoad]](),
        list[str](),
    )
    best: list[str] = []  # the highest load of each device that keeps the limits
    limits = ask_load(engine.load_of(state)[0], state.limits).limits
    for place, device in enumerate(state.devices):
        try:
            rows = curve(state, device)
        except DoesNotFitError:
            notes.append(f"{engine.marked_key(device)} does not fit")
            continue
        x, y = tuple(row.arrivals_per_s for row in rows), tuple(figure(row) for row in rows)
        names = tuple(f"{device} at {row.arrivals_per_s:.3g}/s" for row in rows)
        lines.append(plain.Series(device, x, y, line=True, device=place))
        points.append(plain.Series(device, x, y, keys=names, labels=names, device=place))
        knees.append((device, rows[PARTS.index(KNEE)]))
        keeping = [row for row in rows if limits.excess(row.ttft_p99_s, row.tpot_p99_s) <= 1]
        if limits.is_set:
            best.append(f"{device} up to {keeping[-1].arrivals_per_s:.3g}/s" if keeping else f"{device} at no load")
    names = tuple(f"knee of {device}" for device, _ in knees)
    x, y = tuple(row.arrivals_per_s for _, row in knees), tuple(figure(row) for _, row in knees)
    series = [*points, *lines, plain.Series("knee", x, y, keys=names, labels=names, mark=True)]
    if state.metric == "latency" and math.isfinite(limits.tpot_s) and points:
        ends = min(min(series.x) for series in points), max(max(series.x) for series in points)
        series.append(plain.Series("limit", ends, (limits.tpot_s, limits.tpot_s), line=True, guide=True))
    knee = ", ".join(f"{device} {row.arrivals_per_s:.3g}/s" for device, row in knees)
    return plain.Plot(
        name="batch",
        title=f"{title} of {state.model.partition(':')[0]} by load, {state.precision}, {state.execution}",
        x_title="Requests/s",
        y_title=title,
        x_unit="1/s",
        y_unit=unit,
        series=tuple(series),
        notes=(
            *([f"{state.limits} kept by {', '.join(best)}"] if best else []),
            *([f"knee: {knee}"] if knee else []),
            *notes,
        ),
    )


def curve(state: State, device: str) -> list[ServedLoad]:
    """Serve random arrivals on a device at `PARTS` of its capacity. Raises DoesNotFitError."""
    load, run = engine.load_of(state)[1], engine.serve_load(state, device)
    capacity_per_s = run.server.capacity_per_s(run.load)
    rates = [float(f"{part * capacity_per_s:.3g}") for part in PARTS]
    loads = [with_fields(load, rate=rate, concurrency=0, requests="") for rate in rates]
    return [engine.serve_load(replace(state, load=",".join(spec.words)), device).row for spec in loads]
