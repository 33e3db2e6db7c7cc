"""The memory of one inference: held when, live at the peak, fits where, and what would save some at what cost."""

from __future__ import annotations

from analysis.reports.memory_report import MemoryReport, memory_report
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views import pieces
from hwexplorer.views.plain import Column, Report, Row, Table, Text

LIVE = (
    Column("value", "Value", role="text", keep=0),
    Column("bytes", "Size", "byte", keep=0),
    Column("fraction", "of live", "%", keep=0),
    Column("made_by", "Made by", role="text", keep=2),
    Column("first", "Held from", role="text", keep=3),
    Column("last", "Until", role="text", keep=3),
)
LEVELS = (
    Column("level", "Level", role="text", keep=0),
    Column("capacity", "Capacity", "byte", role="quantity", keep=0),
    Column("peak", "Peak fits", role="text", keep=0),
    Column("activations", "Activations", role="text", keep=1),
    Column("weights", "Weights", role="text", keep=1),
    Column("kernels", "Kernels that fit", "%", keep=1, help="operands and results of one kernel"),
)
SAVINGS = (
    Column("change", "Change", role="text", keep=0),
    Column("peak", "Peak", "byte", keep=0),
    Column("saved", "Saved", "byte", keep=0),
    Column("latency", "Latency", "%", role="delta", keep=0),
    Column("energy", "Energy", "%", role="delta", keep=0),
    Column("runs", "Runs as", role="text", keep=2),
)
TIMELINE = (
    Column("kernel", "Kernel", role="text", keep=0),
    Column("bar", "Held", "%", role="bar", keep=1, help="of the peak"),
    Column("total", "Total", "byte", keep=0),
    Column("activations", "Activations", "byte", keep=0),
    Column("workspace", "Workspace", "byte", keep=1),
)


def document(state: State) -> MemoryReport:
    return memory_report(engine.result(state))


def view(state: State) -> Report:
    found = document(state)
    result = engine.result(state)
    parts = (
        _summary(found),
        _live(found),
        _levels(found),
        _savings(found, result.latency_s, result.energy_j),
        _timeline(found),
    )
    name = engine.workload(state).name
    title = f"Memory of {name} on {engine.device(state.on).name}, batch {state.batch}, {state.precision}"
    return Report("memory", title, parts)


def _summary(found: MemoryReport) -> Text:
    rule = found.workspace_rule or "no rule is known for this device, none is counted"
    kept = found.checkpointing
    again = kept.latency_s / kept.forward_s if kept.forward_s else 0.0
    lines = (
        f"peak {quantity(found.peak_bytes, 'byte')} = weights {quantity(found.weight_bytes, 'byte')} + activations "
        f"{quantity(found.activation_bytes, 'byte')} + workspace {quantity(found.workspace_bytes, 'byte')}, in "
        f"{found.peak_kernel}",
        f"{'fits' if found.fits else 'DOES NOT FIT'} in {quantity(found.device_bytes, 'byte')}",
        *([f"{quantity(found.cache_bytes, 'byte')} of it key-value cache"] if found.cache_bytes else []),
        f"workspace: {rule}",
        f"reuse {found.reuse:.1f}x: {quantity(found.total_activation_bytes, 'byte')} of values pass through",
        f"training would keep {quantity(kept.kept_bytes, 'byte')} of activations; checkpointed in {kept.segments} "
        f"segments {quantity(kept.checkpointed_bytes, 'byte')}, for {again:.0%} of a forward pass more",
    )
    return pieces.facts("summary", "Summary", lines)


def _live(found: MemoryReport) -> Table:
    rows = tuple(Row(v.name, (v.name, v.bytes, v.fraction, v.made_by, v.first, v.last)) for v in found.live)
    return Table("live", "Live at the peak", LIVE, rows)


def _levels(found: MemoryReport) -> Table:
    rows = tuple(
        Row(
            level.level,
            (level.level, level.capacity_bytes, *map(_yes, (level.peak_fits, level.activations_fit, level.weights_fit)),
             level.kernels_that_fit),
        )
        for level in found.levels
    )  # fmt: skip
    return Table("levels", "What fits where", LEVELS, rows)


def _yes(fits: bool) -> str:
    return "yes" if fits else "no"


def _savings(found: MemoryReport, latency: float, energy: float) -> Table:
    """Each change run by the engine; latency and energy as changes."""
    rows = [
        Row(
            q.precision,
            (q.precision, q.peak_bytes, q.saved_bytes, q.latency_ratio - 1, q.energy_ratio - 1, q.precision_run),
        )
        for q in found.quantization
    ]
    one = found.recomputation
    if one.value:
        cost = (one.latency_s / latency if latency else 0.0, one.energy_j / energy if energy else 0.0)
        peak = found.peak_bytes - one.saved_bytes
        rows.append(Row("recompute", (f"recompute {one.value}", peak, one.saved_bytes, *cost, "")))
    footer = f"recomputing it runs {one.kernels} kernels again"
    if not one.value:
        footer = "recomputing no single value lowers the peak: what is large there is in use"
    return Table("savings", "What would save memory, and its cost", SAVINGS, tuple(rows), (footer,))


def _timeline(found: MemoryReport) -> Table:
    rows = tuple(
        Row(
            m.kernel,
            (m.kernel, m.total_bytes / found.peak_bytes if found.peak_bytes else 0.0, m.total_bytes,
             m.activation_bytes, m.workspace_bytes),
        )
        for m in found.timeline
    )  # fmt: skip
    return Table("timeline", "Over the execution order", TIMELINE, rows)
