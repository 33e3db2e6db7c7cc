"""Results that can be compared: an estimate, or a file that `compare`, `tree` or `report` wrote as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec

from analysis.document import record, records
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import METRICS
from analysis.estimate.host_work import divide_host_work
from analysis.estimate.outline import host_branches
from analysis.estimate.tree_figures import operators_of
from analysis.explore.attribution import estimate_of_work
from hardware.base import file_access
from hardware.base.errors import RequestError

_FILE_MAX = 64 << 20  # bytes; the report of the largest model that ships has 3 MB
_HOST = "host"  # the type of the work between kernels
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
    """The model and settings of a result, and its figures, by names of METRICS. `precision_run` and `runtime` are '' in
    files that do not have them. `incomplete` is not empty if too little of the work has a cost rule."""

    model: str
    device: str
    batch: int
    precision: str
    precision_run: str
    execution: str
    runtime: str
    coverage: float
    incomplete: str
    figures: dict[str, float]


class ComparedResult(ResultSummary, frozen=True, kw_only=True):
    """A result with its operators; without any if they are not known."""

    parts: tuple[OperatorFigures, ...] = ()


def summarize_estimate(result: Estimate, path: str = "") -> ComparedResult:
    """Return the work below a node ('' is the model) as a result that can be compared. A node has no peak of memory."""
    work, batch = estimate_of_work(result, path), result.scenario.batch
    members, ops, demand = operators_of(result, path), result.workload.operators, result.demand
    (rest, host), is_whole = divide_host_work(work), work is result
    operators = records(
        OperatorFigures,
        id=[result.partition.operator_id[i] for i in members],
        name=[ops.path[i] for i in members],
        type=[ops.kind[i] for i in members],
        energy=rest.run.energy_j[members] / batch,
        latency=rest.run.latency_s[members],
        macs=demand.macs[members] / batch,
    )
    if host is not None:  # a row of its own, as in the tree
        branch = host_branches(result)[0]
        energy, latency = float(host.run.energy_j.sum()) / batch, float(host.run.latency_s.sum())
        own = OperatorFigures(id=branch.key, name=branch.name, type=_HOST, energy=energy, latency=latency, macs=0.0)
        operators = (*operators, own)
    figures = {name: METRICS[name].figure(work) for name in _RUN_FIGURES if is_whole or name != "memory"} | {
        "macs": float(demand.macs[members].sum()) / batch,
        "flops": float(demand.flops[members].sum()) / batch,
        "operators": float(len(members)),
    }
    return record(
        ComparedResult,
        result,
        result.scenario,
        model=result.workload.name,
        device=result.device.key,
        runtime=result.runtime.name,
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
    latency_s: _Amount
    energy_j_per_inference: _Amount
    edp_js: _Amount
    peak_memory_bytes: _Amount
    execution_run: str
    precision_run: str = ""
    runtime: str = ""


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
    precision_run: str = ""
    runtime: str = ""
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
            for op in ([subgraph] if subgraph.type == _HOST else subgraph.children)
        )
        figures |= {
            "energy": root.energy_j / head.batch,
            "latency": root.latency_s,
            "edp": root.edp_js,
            "macs": root.macs / head.batch,
            "flops": root.flops / head.batch,
            "operators": float(sum(part.type != _HOST for part in parts)),
        }
    of_run = {name: getattr(head, name) or getattr(row, name, "") for name in ("device", "precision_run", "runtime")}
    execution = head.execution_run or getattr(row, "execution_run", "")
    return record(ComparedResult, head, **of_run, execution=execution, figures=figures, parts=parts)
