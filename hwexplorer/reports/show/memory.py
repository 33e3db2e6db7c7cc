"""What is held when, live at the peak, fits where, and what would save some."""

from __future__ import annotations

import re

from analysis.document import Column, columns
from analysis.estimate import workspace
from analysis.reports.memory_report import (
    LiveValue,
    MemoryLevel,
    MemoryReport,
    Moment,
    Quantization,
    TensorRole,
    memory_report,
)
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.declare import DEVICE, Report, Rows, Section, document_of_estimate, facts
from hwexplorer.state import State, replace
from hwexplorer.views.digest import summarize
from hwexplorer.views.plain import Row, Table
from hwexplorer.views.tables import rows

SAVINGS = (
    *columns(Quantization, "change peak saved"),
    Column("latency", "Latency", "%", role="delta", keep=0, of=lambda change: change.latency_ratio - 1),
    Column("energy", "Energy", "%", role="delta", keep=0, of=lambda change: change.energy_ratio - 1),
    *columns(Quantization, "runs"),
)


def _title(report: MemoryReport, state: State) -> str:
    name = engine.workload(state).name
    return f"Memory of {name} on {engine.device(state.on).name}, batch {state.batch}, {state.precision}"


def _summary(report: MemoryReport, state: State) -> tuple[str, ...]:
    scratch = quantity(report.workspace_bytes, "byte") if report.workspace_rule else "unknown (none counted)"
    kept = report.checkpointing
    again = kept.latency_s / kept.forward_s if kept.forward_s else 0.0
    return (
        f"peak {quantity(report.peak_bytes, 'byte')} = weights {quantity(report.weight_bytes, 'byte')} + activations "
        f"{quantity(report.activation_bytes, 'byte')} + workspace {scratch}, in "
        f"{report.peak_kernel}",
        f"{'fits' if report.fits else 'DOES NOT FIT'} in {quantity(report.device_bytes, 'byte')}",
        *([f"{quantity(report.cache_bytes, 'byte')} of it key-value cache"] if report.cache_bytes else []),
        f"workspace: {report.workspace_rule or workspace.UNKNOWN}",
        f"reuse {report.reuse:.1f}x: {quantity(report.total_activation_bytes, 'byte')} of values pass through",
        f"training would keep {quantity(kept.kept_bytes, 'byte')} of activations; checkpointed in {kept.segments} "
        f"segments {quantity(kept.checkpointed_bytes, 'byte')}, for {again:.0%} of a forward pass more",
    )


def _savings(report: MemoryReport, state: State) -> Table:
    result, one = engine.result(state), report.recomputation
    changes = rows(SAVINGS, report.quantization)
    footer = "recomputing no single value lowers the peak: what is large there is in use"
    if one.value:
        cost = (one.latency_s / (result.latency_s or 1.0), one.energy_j / (result.energy_j or 1.0))
        peak = report.peak_bytes - one.saved_bytes
        changes += (Row("recompute", (f"recompute {one.value}", peak, one.saved_bytes, *cost, "")),)
        footer = f"recomputing it runs {one.kernels} kernels again"
    return Table("savings", "What would save memory, and its cost", SAVINGS, changes, footer=(footer,))


_ROLES = Rows("roles", "Peak memory by role of tensors", columns(TensorRole))
_NUMBER = re.compile(r"\.\d+\.")


def _largest_values(report: MemoryReport, state: State) -> Table:
    """Return the largest values at the peak, those of repeated layers as one."""
    layer = Column("layer", "", role="text", of=lambda value: _NUMBER.sub(".", value.name))
    live = Rows("live", "Largest at the peak", (*columns(LiveValue, "value bytes"), layer))
    table = summarize(live(report, state), "bytes", "of live", "value")
    rows = tuple(replace(row, cells=row.cells[:-1]) for row in table.rows)
    return replace(table, columns=table.columns[:-1], rows=rows)


VERB = Report(
    subject=DEVICE,
    document=document_of_estimate(memory_report),
    title=_title,
    parts=(
        facts(_summary),
        _ROLES,
        Rows("live", "Live at the peak", columns(LiveValue, "value bytes fraction made_by first last")),
        Rows("levels", "What fits where", columns(MemoryLevel)),
        _savings,
        Rows(
            "timeline",
            "Over the execution order",
            columns(Moment, "kernel bar total activations workspace"),
        ),
    ),
    brief_parts=(facts(_summary), _ROLES, _largest_values),
    section=Section(50, "What is held in memory"),
    examples={"memory": "conv2d --on h100_sxm"},
)
