"""A sweep as tables: every configuration, the best batch of each device, and where another device takes over."""

from __future__ import annotations

import msgspec

from analysis.decide.sweep import BATCHES, Crossover, Sweep
from analysis.decide.sweep import sweep as run_sweep
from analysis.run.figures import Figures
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views.compare import FLAGS
from hwexplorer.views.plain import Column, Plot, Report, Row, Series, Table

ROWS = (
    Column("device", "Device", role="text", keep=0),
    Column("image_size", "Pixels", "count", keep=4),
    Column("batch", "Batch", "count", keep=0),
    Column("precision", "Asked", role="text", keep=1),
    Column("precision_run", "Runs", role="text", keep=5, help="the format most multiply-accumulates run in"),
    Column("latency", "Latency", "s", keep=1, help="of the whole batch"),
    Column("energy_per_inference", "Energy/inf", "J", keep=1),
    Column("edp", "EDP", "Js", keep=2, help="energy per inference x latency"),
    Column("throughput", "Inf/s", "1/s", keep=2),
    Column("power", "Power", "W", keep=4),
    Column("utilization", "Util", "%", keep=4),
    Column("memory", "Memory", "byte", keep=5),
    Column("fits", "Fits", role="text", keep=3),
    Column("bound", "B", role="flag", keep=3, help="C compute, M memory, L launch, P power bound"),
)
BEST = (
    Column("device", "Device", role="text", keep=0),
    Column("precision", "Asked", role="text", keep=1),
    Column("image_size", "Pixels", "count", keep=4),
    Column("aim", "Best for", role="text", keep=0),
    Column("batch", "Batch", "count", keep=0),
    Column("value", "Value", role="text", keep=0),
)
CROSS = (
    Column("before", "Ahead at first", role="text", keep=0),
    Column("after", "Against", role="text", keep=0),
    Column("metric", "Metric", role="text", keep=0),
    Column("precision", "Asked", role="text", keep=1),
    Column("image_size", "Pixels", "count", keep=4),
    Column("batch", "Crossover batch", "count", keep=0),
    Column("says", "", role="text", keep=2),
)
_AIM_UNIT = {"energy per inference": "J", "throughput": "1/s", "edp": "Js"}


def default(state: State) -> Sweep:
    """The state's model and devices over the usual batches, in the state's precision."""
    devices = [engine.device(name) for name in state.devices]
    return run_sweep([engine.workload(state)], devices, BATCHES, (state.precision,), engine.scenario(state))


def view(found: Sweep) -> Report:
    """The tables of a sweep; the main one holds a row per configuration."""
    title = f"{found.model}: {len(found.rows)} configurations, execution {found.execution}, layout {found.layout}"
    rows = tuple(_row(p) for p in found.rows)
    out = [p for p in found.rows if not p.fits]
    notes = (f"{len(out)} configurations do not fit in device memory and are never best",) if out else ()
    best = tuple(
        Row(
            f"{b.device}/{b.precision}/{b.image_size or ''}/{b.aim}",
            (b.device, b.precision, b.image_size, b.aim, b.batch, quantity(b.value, _AIM_UNIT[b.aim])),
        )
        for b in found.best
    )
    cross = tuple(
        Row(
            f"{c.before}/{c.after}/{c.metric}/{c.precision}/{c.image_size or ''}",
            (c.before, c.after, c.metric, c.precision, c.image_size, c.batch, _says(c, found)),
        )
        for c in found.crossovers
    )
    return Report(
        "sweep",
        title,
        (
            Table("sweep", "", ROWS, rows, notes=notes),
            Table("best", "Best batch of each device", BEST, best),
            Table("crossovers", "Where one device overtakes another", CROSS, cross),
        ),
        0,
    )


def _row(p: Figures) -> Row:
    key = f"{p.device}/{p.image_size or ''}/{p.batch}/{p.precision}"
    cells = (
        p.device, p.image_size, p.batch, p.precision, p.precision_run, p.latency_s, p.energy_j_per_inference,
        p.edp_js, p.throughput_per_s, p.average_power_w, p.utilization, p.peak_memory_bytes,
        "yes" if p.fits else "no", FLAGS[p.bound],
    )  # fmt: skip
    return Row(key, cells, kind=p.architecture, dim=not p.fits)


def _says(c: Crossover, found: Sweep) -> str:
    if c.batch is None:
        return f"{c.before} is ahead from batch {found.batches[0]} to {found.batches[-1]}"
    again = f"; the lead changes {c.changes} times" if c.changes > 1 else ""
    return f"{c.after} is ahead from batch {c.batch}{again}"


def document(found: Sweep) -> dict[str, object]:
    body: dict[str, object] = msgspec.to_builtins(found)
    return body


def plot(found: Sweep) -> Plot:
    """Energy per inference over the batch, a series per device and precision."""
    series = []
    for device, precision in dict.fromkeys((p.device, p.precision) for p in found.rows):
        line = [p for p in found.rows if (p.device, p.precision) == (device, precision)]
        labels = tuple(f"{device}, {precision}, batch {p.batch}" for p in line)
        x, y = tuple(float(p.batch) for p in line), tuple(p.energy_j_per_inference for p in line)
        series.append(Series(f"{device} {precision}", x, y, labels, labels))
    return Plot(
        "sweep", f"{found.model}: energy per inference by batch", "Batch", "Energy per inference", "count", "J",
        tuple(series),
    )  # fmt: skip
