"""Results that can be compared: an estimate, or a file that `compare`, `tree` or `report` wrote as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec

from analysis.document import record, records
from analysis.estimate.estimate import Estimate
from analysis.estimate.metrics import METRICS
from analysis.estimate.tree_figures import tree
from hardware.base import file_access
from hardware.base.errors import RequestError

_FILE_MAX = 64 << 20  # bytes; the report of the largest model that ships has 3 MB
_RUN_FIGURES = ("energy", "latency", "edp", "memory")


class OperatorFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One operator; `name` is its module path. Energy in J and MACs per inference, latency in s of the batch."""

    id: str
    name: str
    type: str
    energy: float
    latency: float
    macs: float


class ResultSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The model and settings of a result, and its figures, by names of METRICS. `incomplete` is not empty if too
    little of the work has a cost rule."""

    model: str
    device: str
    batch: int
    precision: str
    execution: str
    coverage: float
    incomplete: str
    figures: dict[str, float]


class ComparedResult(ResultSummary, frozen=True, kw_only=True):
    """A result with its operators; without any if they are not known."""

    parts: tuple[OperatorFigures, ...] = ()


def summarize_estimate(result: Estimate) -> ComparedResult:
    """Return an estimate as a result that can be compared."""
    level, parts, ops = tree(result).operators, result.partition, result.workload.operators
    batch = result.scenario.batch
    operators = records(
        OperatorFigures, id=parts.operator_id, name=ops.path, type=ops.kind, energy=level.energy_j / batch,
        latency=level.latency_s, macs=level.macs / batch,
    )  # fmt: skip
    figures = {name: METRICS[name].figure(result) for name in _RUN_FIGURES} | {
        "macs": float(level.macs.sum()) / batch,
        "flops": float(level.flops.sum()) / batch,
        "operators": float(len(operators)),
    }
    return record(
        ComparedResult,
        result,
        result.scenario,
        model=result.workload.name,
        device=result.device.key,
        incomplete=result.rule_coverage.gap,
        figures=figures,
        parts=operators,
    )


_Amount = Annotated[float, msgspec.Meta(ge=0)]


_Batch = Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]


class _Node(msgspec.Struct):
    id: str
    name: str
    type: str
    macs: _Amount
    flops: _Amount
    latency_s: _Amount
    energy_j: _Amount
    edp_js: _Amount
    children: tuple[_Node, ...] = ()


class _Row(msgspec.Struct):
    device: str
    batch: _Batch
    execution_run: str
    latency_s: _Amount
    energy_j_per_inference: _Amount
    edp_js: _Amount
    peak_memory_bytes: _Amount


class _Compared(msgspec.Struct):
    macs_per_inference: _Amount
    flops: _Amount
    rows: Annotated[tuple[_Row, ...], msgspec.Meta(min_length=1)]


class _Head(msgspec.Struct):
    schema: str
    model: str
    batch: _Batch
    precision: str
    device: str = ""
    execution_run: str = ""
    coverage: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    incomplete: str = ""


def read_result(path: Path, device: str) -> ComparedResult:
    """Read a device's result from a file, of its first device if it lacks this one. Raises RequestError."""
    try:
        data = msgspec.json.decode(file_access.read(path, _FILE_MAX), type=dict[str, Any])
        head, root, compared = msgspec.convert(data, _Head), None, None
        if "tree" in data or "children" in data:
            root = msgspec.convert(data.get("tree", data), _Node)
        if "tree" in data or root is None:
            compared = msgspec.convert(data.get("compare") if root else data, _Compared)
        return _combine(head, device, root, compared)
    except OSError as error:
        raise RequestError(f"cannot read {path}: {error.strerror or error}") from None
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        wrong = " ".join(str(error).split())[:200]
        raise RequestError(f"{path} is not JSON written by compare, tree or report: {wrong}") from None


def _combine(head: _Head, device: str, root: _Node | None, compared: _Compared | None) -> ComparedResult:
    row = None
    figures: dict[str, float] = {}
    parts: tuple[OperatorFigures, ...] = ()
    if compared is not None:
        row = next((r for r in compared.rows if r.device == device), compared.rows[0])
        figures = {name: METRICS[name].figure(row) for name in _RUN_FIGURES} | {
            "macs": compared.macs_per_inference,
            "flops": compared.flops / head.batch,
        }
    if root is not None:
        parts = tuple(
            record(
                OperatorFigures, op, energy=op.energy_j / head.batch, latency=op.latency_s, macs=op.macs / head.batch
            )
            for subgraph in root.children
            for op in subgraph.children
        )
        figures |= {
            "energy": root.energy_j / head.batch,
            "latency": root.latency_s,
            "edp": root.edp_js,
            "macs": root.macs / head.batch,
            "flops": root.flops / head.batch,
            "operators": float(len(parts)),
        }
    return record(
        ComparedResult,
        head,
        device=head.device or (row.device if row else ""),
        execution=head.execution_run or (row.execution_run if row else ""),
        figures=figures,
        parts=parts,
    )
