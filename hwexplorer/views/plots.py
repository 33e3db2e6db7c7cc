"""Plots beside the roofline: roofs of all devices, cumulative share, batch sweep, energy against latency, memory."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from analysis.decide.sweep import BATCHES
from analysis.run.estimate import estimate
from analysis.run.figures import Figures, figures
from analysis.run.metrics import METRICS
from analysis.run.scenario import Scenario
from analysis.run.tree import tree as tree_figures
from hardware.errors import RequestError
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.state import State, replace
from hwexplorer.views import plot as roofline
from hwexplorer.views.compare import label, words
from hwexplorer.views.plain import Plot, Series
from hwexplorer.views.plot_energy import energy_roofs
from hwexplorer.views.tree import _shares

ALL_BATCHES = (*BATCHES, 256, 512, 1024)
PARTS = (0.5, 0.8, 0.9, 0.95, 0.99)


def roofs(state: State) -> Plot:
    """The operators on the device under the cursor under the roofs of all devices."""
    result = engine.result(state)
    intensity, rate, shown = roofline.points(result)
    keys = tuple(result.partition.operator_id[i] for i in shown)
    results = [engine.result(state, name) for name in state.devices]
    ridges = [roofline.peak(r) / r.device.memory_bandwidth for r in results]
    low = min(float(intensity.min(initial=0.1)), 0.1)
    high = max(float(intensity.max(initial=1000.0)), 2 * max(ridges))
    series = [Series("operators", tuple(intensity.tolist()), tuple(rate.tolist()), keys, keys)]
    for name, each, ridge in zip(state.devices, results, ridges, strict=True):
        peak = roofline.peak(each)
        slope = each.device.memory_bandwidth
        series.append(Series(name, (low, ridge, high), (low * slope, peak, peak), line=True))
    told = ", ".join(f"{name} {ridge:.0f}" for name, ridge in zip(state.devices, ridges, strict=True))
    return Plot(
        "roofs", f"{result.workload.name} on {label(result.device)} under the roofs of all devices",
        "FLOP per DRAM byte", "FLOP/s", "FLOP/byte", "FLOP/s", tuple(series), notes=(f"ridges (FLOP/byte): {told}",),
    )  # fmt: skip


def cumulative(state: State) -> Plot:
    """The running share of the operators, the heaviest first."""
    figures = tree_figures(engine.result(state))
    share = _shares(figures, state.metric)[1]
    order = np.argsort(-share, kind="stable")
    running = np.cumsum(share[order])
    ids = figures.estimate.partition.operator_id
    keys = tuple(ids[i] for i in order.tolist())
    places = tuple(float(n) for n in range(1, len(keys) + 1))
    counts = [int(np.searchsorted(running, part - 1e-12)) + 1 for part in PARTS]
    title = METRICS[state.metric].title.partition(" ")[0]
    most = dict(zip(PARTS, (min(count, len(keys)) for count in counts), strict=True))
    rest = ", ".join(f"{count} make {part * 100:.0f} %" for part, count in most.items() if part != 0.8)
    ends = (1.0, float(max(len(keys), 2)))
    return Plot(
        "cumulative", f"Cumulative {title} of {figures.estimate.workload.name}, {words(state)} on "
        f"{label(figures.estimate.device)}", "Operators, heaviest first", f"{title} so far", "count", "%",
        (
            Series("operators", places, tuple(running.tolist()), keys, keys),
            Series("80 %", ends, (0.8, 0.8), line=True, guide=True),
        ),
        log_x=False, log_y=False, notes=(f"{most[0.8]} of {len(keys)} make 80 % of the {title}; {rest}",),
    )  # fmt: skip


def memory(state: State) -> Plot:
    """What is held in device memory while each operator runs."""
    result = engine.result(state)
    held = result.memory
    ids = result.partition.operator_id
    total = held.weight_bytes + held.timeline + held.workspace
    places = tuple(float(n) for n in range(1, len(ids) + 1))
    ends = (1.0, float(max(len(ids), 2)))
    series = [
        Series("held", places, tuple(total.tolist()), ids, ids),
        Series("held over time", places, tuple(total.tolist()), line=True),
        Series("weights", ends, (held.weight_bytes, held.weight_bytes), line=True),
    ]
    if ids:
        at = held.peak_at
        series.append(Series("peak", (places[at],), (held.peak_bytes,), (ids[at],), (f"peak {ids[at]}",), mark=True))
    capacity = result.device.memory_bytes
    note = (
        f"peak {quantity(held.peak_bytes, 'byte')} at {ids[held.peak_at] if ids else 'no operator'}: weights "
        f"{quantity(held.weight_bytes, 'byte')}, activations {quantity(held.activation_peak_bytes, 'byte')}; "
        f"{held.peak_bytes / capacity:.1%} of {quantity(capacity, 'byte')}"
    )
    return Plot(
        "memory", f"Memory of {result.workload.name}, {words(state)} on {label(result.device)}", "Operators in order",
        "Held", "count", "byte", tuple(series), log_x=False, log_y=False, notes=(note,),
    )  # fmt: skip


@lru_cache(maxsize=4096)
def _point(model: str, image_size: int | None, asked: Scenario, device: str) -> Figures | None:
    state = State(model, image_size, asked.sequence, asked.kv, asked.batch)
    try:
        found = figures(estimate(engine.workload(state), engine.device(device), asked))
    except RequestError:  # a model of one batch has no others
        return None
    return found if found.fits else None


def _line(state: State, device: str) -> list[Figures]:
    """The model on a device over all batches, without those that do not fit in its memory."""
    asked = [engine.scenario(replace(state, batch=batch)) for batch in ALL_BATCHES]
    found = [_point(state.model, state.image_size, each, device) for each in asked]
    return [p for p in found if p is not None]


def _keys(device: str, line: list[Figures]) -> tuple[str, ...]:
    return tuple(f"{device}@b{p.batch}" for p in line)


def batch(state: State) -> Plot:
    """The metric of the state over the batch on each device, the best batch marked."""
    metric = METRICS[state.metric]
    title = metric.title
    lines, points, best = [], [], []
    for device in state.devices:
        line = _line(state, device)
        x, y = tuple(float(p.batch) for p in line), tuple(metric.of(p) for p in line)
        lines.append(Series(device, x, y, line=True))
        points.append(Series(device, x, y, _keys(device, line), _keys(device, line)))
        if line:
            best.append((device, min(line, key=lambda p: metric.of(p))))
    keys = tuple(f"{device}@b{p.batch}" for device, p in best)
    mark = Series(
        "best", tuple(float(p.batch) for _, p in best), tuple(metric.of(p) for _, p in best), keys, keys,
        mark=True,
    )  # fmt: skip
    told = ", ".join(f"{device} {p.batch}" for device, p in best)
    return Plot(
        "batch", f"{title} of {engine.workload(state).name} by batch, {state.precision}, {state.execution}", "Batch",
        title, "count", metric.unit, (*points, *lines, mark), notes=(f"best batch: {told}",),
    )  # fmt: skip


def pareto(state: State) -> Plot:
    """Energy per inference against latency over devices and batches, the front, and lines of equal EDP."""
    points = [(device, p) for device in state.devices for p in _line(state, device)]
    series = []
    for device in state.devices:
        line = [p for name, p in points if name == device]
        series.append(
            Series(
                device,
                tuple(p.latency_s for p in line),
                tuple(p.energy_j_per_inference for p in line),
                _keys(device, line),
                _keys(device, line),
            )
        )
    front: list[tuple[str, Figures]] = []
    for device, p in sorted(points, key=lambda each: (each[1].latency_s, each[1].energy_j_per_inference)):
        if not front or p.energy_j_per_inference < front[-1][1].energy_j_per_inference:
            front.append((device, p))
    x, y = tuple(p.latency_s for _, p in front), tuple(p.energy_j_per_inference for _, p in front)
    series.append(Series("front", x, y, line=True))
    told = ", ".join(f"{device} b{p.batch}" for device, p in front[:6]) + ("" if len(front) <= 6 else " ...")
    return Plot(
        "pareto", f"Energy against latency of {engine.workload(state).name}, {state.precision}, {state.execution}",
        "Latency of the batch", "Energy per inference", "s", "J", (*series, *_iso(points)),
        notes=(f"beaten by none: {told}; lines: equal EDP",),
    )  # fmt: skip


def _iso(points: list[tuple[str, Figures]]) -> list[Series]:
    """Lines of equal EDP, a decade apart, through the field of the points."""
    if not points:
        return []
    energies, times = [p.energy_j_per_inference for _, p in points], [p.latency_s for _, p in points]
    products = [p.edp_js for _, p in points if p.edp_js > 0]
    least, most = min(energies) / 2, max(energies) * 2
    low, high = np.floor(np.log10(min(products))), np.ceil(np.log10(max(products)))
    step = max(1, int(np.ceil((high - low) / 4)))
    found = []
    for power in np.arange(low, high + 1, step):
        product = float(10.0**power)
        ends = (max(min(times) / 2, product / most), min(max(times) * 2, product / least))
        if ends[0] < ends[1]:
            found.append(Series(quantity(product, "Js"), ends, tuple(product / t for t in ends), line=True, guide=True))
    return found


BUILDERS = {
    "roofs": roofs,
    "energy_roofs": energy_roofs,
    "cumulative": cumulative,
    "batch": batch,
    "pareto": pareto,
    "memory": memory,
}
