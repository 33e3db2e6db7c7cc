"""Predictions against measurements, group by group."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.trust.calibrate import HeldOut
from analysis.trust.validate import Group, Validation
from analysis.trust.validate_kernels import KernelGroup
from hwexplorer.views.plain import Column, Row, Table

COLUMNS = (
    Column("quantity", "Quantity", role="text", keep=0),
    Column("n", "Rows", "count", keep=0),
    Column("median_ape", "Median err", "%", keep=0, help="median absolute error"),
    Column("p90_ape", "90th", "%", keep=1),
    Column("bias", "Bias", "%", role="delta", keep=1, help="median of predicted / measured - 1"),
    Column("spearman", "Rank corr", keep=2, help="1: the order of models is right"),
    Column("band_coverage", "In band", "%", keep=2, help="share of rows inside the stated band"),
    Column("band_half_width", "Half-width", "%", keep=4),
    Column("device", "Device", role="text", keep=0),
    Column("device_mode", "Mode", role="text", keep=3),
    Column("framework", "Framework", role="text", keep=2),
    Column("precision", "Precision", role="text", keep=3),
    Column("scenario", "Scenario", role="text", keep=4),
    Column("source", "Source", role="text", keep=5),
)


def validation(found: Validation, held: Sequence[HeldOut] = ()) -> Table:
    """One row per group; below them the summary, the errors of fits that left something out, the reasons of large
    groups that are far off, and what could not be predicted."""
    rows = tuple(_row(i, group) for i, group in enumerate(found.groups))
    footer = (*_summary(found), *map(_left_out, held))
    reasons = dict.fromkeys(
        f"{group.quantity.replace('_', ' ')} of {group.device}, {group.framework}, {group.median_ape:.0%} off: "
        f"{group.reason}"
        for group in found.groups
        if group.reason
    )
    notes = (
        *reasons,
        *(f"{skipped.rows} rows not predicted: {skipped.reason}" for skipped in found.skipped),
    )
    return Table("validate", "Predicted against measured", COLUMNS, rows, footer, notes)


def _row(i: int, group: Group) -> Row:
    cells = tuple(getattr(group, column.key) for column in COLUMNS)
    return Row(str(i), cells, dim=group.n < 10)


def _summary(found: Validation) -> list[str]:
    summary = found.summary
    lines = [
        f"{summary['predicted']} rows predicted, {summary['skipped']} not; medians over groups of 10 rows or more:"
    ]
    for name, value in summary.items():
        if name.endswith("_median_ape") and isinstance(value, float):
            label = name.removesuffix("_median_ape")
            rank = summary.get(f"{label}_spearman")
            order = f", rank correlation {rank:.3f}" if isinstance(rank, float) else ""
            lines.append(f"{label.replace('_', ' ')}: {value:.1%}{order} ({summary[f'{label}_groups']} groups)")
    coverage, width = summary.get("band_coverage"), summary.get("band_half_width")
    if isinstance(coverage, float) and isinstance(width, float):
        lines.append(f"bands hold {coverage:.0%} of the rows, median half-width {width:.0%}")
    return lines


def _left_out(held: HeldOut) -> str:
    return (
        f"{held.software.replace('_', ' ')} latency, efficiencies fitted without each device in turn: "
        f"{held.device_out:.1%}; without each family of models: {held.family_out:.1%}; on all: {held.fitted:.1%} "
        f"({held.groups} groups, {held.rows} rows)"
    )


KERNEL_COLUMNS = (
    Column("device", "Device", role="text", keep=0),
    Column("op", "Kernel", role="text", keep=0),
    *COLUMNS[1:6],
)


def kernels(groups: tuple[KernelGroup, ...]) -> Table:
    """One row per device and kind of kernel."""
    rows = tuple(Row(f"{g.device}/{g.op}", tuple(getattr(g, column.key) for column in KERNEL_COLUMNS)) for g in groups)
    return Table("validate", "Single fp32 kernels, predicted against measured", KERNEL_COLUMNS, rows)
