"""The rows of operator_table.toml: which row fits a node, and how its values follow."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from analysis.annexes.readers.onnx import stated_costs as _registered  # noqa: F401 - it registers cost rules
from analysis.annexes.readers.onnx.constant_folding import FOLDS
from analysis.annexes.readers.onnx.onnx_op import OnnxOp
from analysis.annexes.readers.onnx.operator_row import StatedWork, TableRow, first_of
from analysis.annexes.readers.onnx.shape_rules import SHAPES
from analysis.annexes.readers.onnx.special_operators import ROWS
from analysis.annexes.readers.onnx.window_shapes import WINDOW_SHAPES
from hardware import file_access


def row_of(op: OnnxOp) -> TableRow | None:
    """Return the row that fits a node, None for an operator without one."""
    entry = _entry(op)
    rows = entry[0] if entry else []
    return rows(op) if callable(rows) else first_of(rows, op)


def fold_of(op: OnnxOp) -> Callable[[OnnxOp], Any] | None:
    """Return how the values of a node follow from known inputs, None if they do not."""
    entry = _entry(op)
    return entry[1] if entry else None


Entry = tuple[list[TableRow] | Callable[[OnnxOp], TableRow | None], Callable[[OnnxOp], Any] | None]


def _entry(op: OnnxOp) -> Entry | None:
    """Return the entry of a node of the standard, of onnxruntime's additions or of ONNX's older experiments."""
    if op.node.domain not in ("", "com.microsoft", "ai.onnx.contrib", "ai.onnx.preview"):
        return None
    return _table().get(f"{op.node.domain}.{op.node.op}") or _table().get(op.node.op)


@cache
def _table() -> dict[str, Entry]:
    sections = file_access.table(Path(__file__).with_suffix(".toml"))
    works = {name: StatedWork(**work) for name, work in sections.pop("work").items()}
    return {
        name: _read(section, entry if isinstance(entry, list) else [entry], works)
        for section, entries in sections.items()
        for name, entry in entries.items()
    }


def _read(section: str, entries: list[Any], works: dict[str, StatedWork]) -> Entry:
    rows = [dict(entry) if isinstance(entry, dict) else {"call": entry} for entry in entries]
    folding = FOLDS[rows[0].pop("fold")] if "fold" in rows[0] else None
    if section == "row":
        return ROWS[rows[0]["row"]] if "row" in rows[0] else [], folding
    for row in rows:
        row.setdefault("results", SHAPES.get(section) or WINDOW_SHAPES.get(section))
        if "work" in row:
            row["work"] = works[row["work"]] if isinstance(row["work"], str) else StatedWork(**row["work"])
    return [TableRow(**row) for row in rows], folding
