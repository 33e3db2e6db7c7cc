"""Show what memory holds: weights, activations, the peak, and what would save some."""

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
from hardware.quantity import percent, quantity
from hwexplorer import engine
from hwexplorer.declare import DEVICE, Report, Rows, Section, document_of_estimate, summary_text
from hwexplorer.state import State
from hwexplorer.views.digest import Digest

NOTICEABLE_REUSE = 1.05  # times; below it activations hardly share memory
SAVINGS = (
    *columns(Quantization, "change peak saved"),
    Column("latency", "Latency", "%", role="delta", keep=0, of=lambda change: change.latency_ratio - 1),
    Column("energy", "Energy", "%", role="delta", keep=0, of=lambda change: change.energy_ratio - 1),
    *columns(Quantization, "runs"),
)


def _summary(report: MemoryReport, state: State) -> tuple[str, ...]:
    scratch = quantity(report.workspace_bytes, "byte") if report.workspace_rule else "unknown (none counted)"
    cached = min(sum(row.bytes for row in report.roles if row.role == "key-value cache"), report.activation_bytes)
    cache = f"key-value cache {quantity(cached, 'byte')} + " if cached else ""
    kept = report.checkpointing
    again = kept.latency_s / kept.forward_s if kept.forward_s else 0.0
    result = engine.result(state)
    lines = [
        f"peak {quantity(report.peak_bytes, 'byte')} = weights {quantity(report.weight_bytes, 'byte')} + {cache}"
        f"activations {quantity(report.activation_bytes - cached, 'byte')} + workspace {scratch}, in "
        f"{report.peak_kernel}",
        f"{'fits' if report.fits else 'DOES NOT FIT'} in {quantity(report.device_bytes, 'byte')} "
        f"({report.device_bytes / 2**30:.3g} GiB)",
        f"workspace: {report.workspace_rule or workspace.describe_unknown(result.device)}",
    ]
    if report.reuse > NOTICEABLE_REUSE:
        lines.append(
            f"activations reuse their memory {report.reuse:.1f} times: all values together would take "
            f"{quantity(report.total_activation_bytes, 'byte')}"
        )
    if result.workload.work != "language":  # a step of a served model is not trained
        lines.append(
            f"training would keep {quantity(kept.kept_bytes, 'byte')} of activations, or "
            f"{quantity(kept.checkpointed_bytes, 'byte')} with checkpoints in {kept.segments} segments and "
            f"{percent(again)} more forward time"
        )
    return tuple(lines)


VERB = Report(
    subject=DEVICE,
    document=document_of_estimate(memory_report),
    title="Memory",
    parts=(
        summary_text(_summary),
        Rows("roles", "Peak memory by role of tensors", columns(TensorRole)),
        Rows(
            "live",
            "Live at the peak",
            columns(LiveValue, "value bytes fraction made_by first last"),
            brief={
                "title": "Largest at the peak",
                "columns": columns(LiveValue, "value bytes"),
                "digest": Digest("bytes", "value", "Share of live", lambda name: re.sub(r"\.\d+\.", ".", name)),
            },
        ),
        Rows("levels", "What fits where", columns(MemoryLevel)),
        Rows("savings", "What narrower formats would save, and their cost", SAVINGS, of="quantization"),
        Rows("timeline", "Over the execution order", columns(Moment, "kernel bar total activations workspace")),
    ),
    brief_parts=("summary", "roles", "live"),
    section=Section(50, "What is held in memory"),
    examples={"memory": "conv2d --on h100_sxm"},
)
