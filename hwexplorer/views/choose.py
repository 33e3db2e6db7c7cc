"""Pareto fronts, searches and rankings as tables."""

from __future__ import annotations

from analysis.decide.choose import FIGURES, Candidate, Pareto, Rank, Search
from hardware.quantity import quantity
from hwexplorer.views.compare import FLAGS
from hwexplorer.views.plain import Cell, Column, Plot, Report, Row, Series, Table, Text

CANDIDATE = (
    Column("model", "Model", role="text", keep=2),
    Column("device", "Device", role="text", keep=0),
    Column("batch", "Batch", "count", keep=0),
    Column("precision", "Asked", role="text", keep=0),
    Column("precision_run", "Runs", role="text", keep=5),
    Column("energy_per_inference", "Energy/inf", "J", keep=0),
    Column("latency", "Latency", "s", keep=0, help="of the whole batch"),
    Column("throughput", "Inf/s", "1/s", keep=2),
    Column("edp", "EDP", "Js", keep=2),
    Column("power", "Power", "W", keep=3),
    Column("memory", "Memory", "byte", keep=3),
    Column("cost_usd_per_million", "USD/1M", keep=4, help="electricity of a million inferences"),
    Column("accuracy", "Accuracy", keep=3, help="published, of the default weights in fp32"),
    Column("bound", "B", role="flag", keep=4, help="C compute, M memory, L launch, P power bound"),
)
SHOWN = 40


def _key(c: Candidate) -> str:
    p = c.point
    return f"{p.model}/{p.device}/{p.batch}/{p.precision}"


def _cells(c: Candidate) -> tuple[Cell, ...]:
    p = c.point
    return (
        p.model, p.device, p.batch, p.precision, p.precision_run, p.energy_j_per_inference, p.latency_s,
        p.throughput_per_s, p.edp_js, p.average_power_w, p.peak_memory_bytes, c.cost_usd_per_million, c.accuracy,
        FLAGS[p.bound],
    )  # fmt: skip


def pareto(found: Pareto) -> Report:
    """The front as a table, and front and rest as a plot."""
    names = ", ".join(found.models[:4]) + (f" and {len(found.models) - 4} more" if len(found.models) > 4 else "")
    accuracy = ", accuracy" if "accuracy" in found.objectives else ""
    out = f"; {found.not_fitting} do not fit in memory" if found.not_fitting else ""
    footer = (
        f"{len(found.front)} of {found.evaluated} configurations are beaten by none in energy, latency{accuracy}{out}",
    )
    rows = tuple(Row(_key(c), _cells(c), kind=c.point.architecture) for c in found.front)
    return Report(
        "pareto", f"{names}: energy against latency", (Table("pareto", "", CANDIDATE, rows, footer), plot(found)), 0
    )


def plot(found: Pareto) -> Plot:
    """Energy per inference over latency."""
    groups = (("front", found.front), ("beaten", found.dominated))
    series = tuple(
        Series(
            name,
            tuple(c.point.latency_s for c in members),
            tuple(c.point.energy_j_per_inference for c in members),
            tuple(map(_key, members)),
            tuple(map(_key, members)),
        )
        for name, members in groups
        if members
    )
    return Plot("pareto", "Energy and latency", "Latency of the batch", "Energy per inference", "s", "J", series)


def search(found: Search) -> Report:
    """What is within the limits, best first; else which limit rules it out, and the nearest miss."""
    shown = found.found[:SHOWN]
    rows = tuple(Row(_key(c), _cells(c), kind=c.point.architecture) for c in shown)
    notes = (f"{len(found.found) - SHOWN} more are within the limits",) if len(found.found) > SHOWN else ()
    lines = [found.verdict]
    lines += [
        f"{r.constraint}: leaves {r.leaves} of {found.evaluated - found.not_fitting}, best {quantity(r.best, r.unit)}"
        for r in found.rulings
    ]
    if found.not_fitting:
        lines.append(f"{found.not_fitting} of {found.evaluated} do not fit in device memory")
    if found.nearest is not None:
        lines.append(f"nearest miss: {_told(found.nearest)}; exceeds a limit by {found.nearest_excess - 1:.0%}")
    title = f"{found.model}: {', '.join(found.constraints)}; by {found.order}"
    words = Text("limits", "", (("Limits", tuple(lines)),))
    return Report("search", title, (Table("search", "", CANDIDATE, rows, notes=notes), words), 0)


def _told(c: Candidate) -> str:
    p = c.point
    figures = ", ".join(f"{name} {quantity(figure(c), unit)}" for name, (figure, unit, _) in FIGURES.items())
    return f"{p.device} at batch {p.batch}, {p.precision} ({figures})"


RANK = (
    Column("model", "Model", role="text", keep=0),
    Column("front", "P", role="flag", keep=0, help="P on the Pareto front of energy, latency and accuracy"),
    Column("accuracy", "Accuracy", role="number", keep=1, help="published, of the default weights in fp32"),
    Column("metric", "Metric", role="text", keep=4),
    Column("energy_per_inference", "Energy/inf", "J", keep=0),
    Column("latency", "Latency", "s", keep=0, help="of the whole batch"),
    Column("throughput", "Inf/s", "1/s", keep=2),
    Column("edp", "EDP", "Js", keep=2),
    Column("memory", "Memory", "byte", keep=3),
    Column("utilization", "Util", "%", keep=4),
    Column("bound", "B", role="flag", keep=4, help="C compute, M memory, L launch, P power bound"),
    Column("parameters", "Params", "SI", role="quantity", keep=5),
    Column("macs", "MACs", "SI", role="quantity", keep=5),
    Column("family", "Family", role="text", keep=6),
)


def rank(found: Rank) -> Table:
    """A row per model, in the order asked for."""
    rows = []
    for r in found.rows:
        c, p = r.candidate, r.candidate.point
        cells: tuple[Cell, ...] = (
            p.model, "P" if r.on_front else "", c.accuracy, c.accuracy_metric, p.energy_j_per_inference, p.latency_s,
            p.throughput_per_s, p.edp_js, p.peak_memory_bytes, p.utilization, FLAGS[p.bound], r.parameters, r.macs,
            r.family,
        )  # fmt: skip
        rows.append(Row(p.model, cells, kind=r.family, dim=not p.fits))
    title = (
        f"{len(rows)} models on {found.device} by {found.order}; batch {found.batch}, {found.precision}, "
        f"{found.execution}"
    )
    best = [r.candidate.point.model for r in found.rows if r.on_front]
    note = f"{len(best)} on the front of energy, latency and accuracy: {', '.join(best[:12])}" if best else ""
    return Table("rank", title, RANK, tuple(rows), (note,) if note else ())
