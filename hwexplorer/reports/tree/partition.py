"""Divide a model into subgraphs: types, traffic, parallelism, dependencies.

The report does not depend on a device; the graph of the operators, exported to other programs, has their costs on one.
Threads are the elements that an operator, or the head of a subgraph, writes. Arithmetic intensity is FLOP per byte of
an operator's operands and results, or per byte across a subgraph's border.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from analysis.document import column, columns, records
from analysis.estimate.dependencies import (
    Dependencies,
    edge_bytes,
    heaviest_path,
    levels,
    operand_bytes,
    operator_graph,
    subgraph_graph,
)
from analysis.estimate.estimate import Estimate
from analysis.estimate.evaluation import ratio
from analysis.estimate.figures import Head, head_fields, model_head_fields
from analysis.estimate.kernel_rows import kernels
from analysis.estimate.kernels import demand
from analysis.estimate.operator_classes import OperatorInfo, OperatorTensor, operator_classes, operator_infos
from analysis.estimate.subgraphs import partition
from analysis.estimate.tree_figures import tree
from analysis.model.ir.workload import Floats, Workload
from hardware.base.text import percent, plain_number, quantity
from hardware.demand import READ, READ_WEIGHT, WRITE
from hardware.precision import Widths, parse
from hwexplorer import engine
from hwexplorer.declare import MODEL, Report, Rows, Section, summary_text
from hwexplorer.reports._buckets import KINDS, Bucket, KindCount, buckets, distribution, kinds
from hwexplorer.state import State
from hwexplorer.views.captions import chain

_ColumnsByName = dict[str, Floats]
_SUMMED = ("macs", "flops", "ingress_bytes", "egress_bytes", "weight_bytes", "internal_bytes")

if TYPE_CHECKING:
    import networkx

PARALLELISM = (1e3, 1e4, 1e5)
PARALLELISM_LABELS = ("< 1 K", "1-10 K", "10-100 K", "> 100 K")
INTENSITY = (1.0, 10.0, 50.0)
INTENSITY_LABELS = ("< 1", "1-10", "10-50", "> 50")


class Subgraph(msgspec.Struct, frozen=True, kw_only=True):
    """One subgraph, with the class and parallelism of its head. `stage` is its depth in the dependency graph.
    `internal_bytes` pass between its operators (written and read); all other bytes cross its border."""

    id: Annotated[str, column("Subgraph", key="subgraph")]
    type: Annotated[str, column("Pattern", key="pattern", keep=3)]
    operator_class: Annotated[str, column("Class", key="class", keep=4)]
    batch_parallelism: int
    channel_parallelism: int
    spatial_parallelism: int
    stage: Annotated[int, column("Stage", "count", keep=2, help="depth in the dependency graph")]
    operators: tuple[str, ...]
    macs: float
    flops: Annotated[float, column("FLOP", "FLOP")]
    ingress_bytes: Annotated[float, column("In", "byte", keep=1, help="activations that enter")]
    egress_bytes: Annotated[float, column("Out", "byte", keep=1, help="results that leave")]
    weight_bytes: Annotated[float, column("Weights", "byte", key="weights", keep=1)]
    internal_bytes: Annotated[float, column("Inside", "byte", keep=4, help="exchanged between its operators")]
    threads: Annotated[float, column("Threads", "SI", role="quantity", keep=2, help="elements its head writes")]
    intensity: Annotated[float, column("Intensity", "FLOP/byte", keep=1)]
    on_critical_path: Annotated[
        bool,
        column("Critical", key="critical", keep=2, shown={True: "yes", False: ""}, help="on the critical path"),
    ]


class Edge(msgspec.Struct, frozen=True):
    """A dependency: the operator or subgraph `target` reads `bytes` of activations that `source` writes."""

    source: str
    target: str
    bytes: float


class FlopsPath(msgspec.Struct, frozen=True):
    """The chain of subgraphs with the most FLOPs, and its fraction of all FLOPs; `longest_chain` is the largest
    number of operators that must follow each other."""

    subgraphs: tuple[str, ...]
    operators: int
    flops: float
    flops_fraction: float
    longest_chain: int


class Distribution(msgspec.Struct, frozen=True):
    """Buckets of operators and of subgraphs. Their weights are fractions of the FLOPs."""

    operators: tuple[Bucket, ...]
    subgraphs: tuple[Bucket, ...]


class PartitionReport(Head, frozen=True, kw_only=True):
    """Operators and subgraphs of a model by type, traffic, parallelism and intensity, and their dependencies."""

    n_operators: int
    n_subgraphs: int
    operators_by_type: tuple[KindCount, ...]
    operators_by_class: tuple[KindCount, ...]
    subgraphs_by_pattern: tuple[KindCount, ...]
    fused_operators: int
    fused_fraction: float
    macs: float
    flops: float
    ingress_bytes: float
    egress_bytes: float
    weight_bytes: float
    internal_bytes: float
    parallelism: Distribution
    intensity: Distribution
    critical_path: FlopsPath
    subgraphs: tuple[Subgraph, ...]
    operators: tuple[OperatorInfo, ...]
    edges: tuple[Edge, ...]


def partition_report(workload: Workload, batch: int, precision: str) -> PartitionReport:
    """Return the report at one batch and precision."""
    widths = parse(precision).widths
    parts, columns = partition(workload), _subgraph_columns(workload, batch, widths)
    operators = operator_infos(workload, batch)
    path = _critical_path(workload, columns["flops"])
    sums: dict[str, Any] = {name: float(columns[name].sum()) for name in _SUMMED}
    fused = sum(len(members) for members in parts.members if len(members) > 1)
    n, flops = workload.n_operators, workload.operators.flops @ workload.value_at(batch=batch)
    of_operators = {
        "flops": flops,
        "threads": demand(workload, batch, widths, "fused").elements,
        "intensity": ratio(flops, operand_bytes(workload, batch, widths)),
    }
    return PartitionReport(
        **model_head_fields(workload, batch, precision),
        n_operators=n,
        n_subgraphs=len(parts.id),
        operators_by_type=kinds(workload.operators.kind, of_operators["flops"]),
        operators_by_class=kinds(operator_classes(workload), of_operators["flops"]),
        subgraphs_by_pattern=kinds(parts.kind, columns["flops"]),
        fused_operators=fused,
        fused_fraction=fused / n if n else 0.0,
        **sums,
        parallelism=_distribution(of_operators, columns, "threads", PARALLELISM, PARALLELISM_LABELS),
        intensity=_distribution(of_operators, columns, "intensity", INTENSITY, INTENSITY_LABELS),
        critical_path=path,
        subgraphs=_subgraphs(workload, columns, set(path.subgraphs), operators),
        operators=operators,
        edges=list_edges(subgraph_graph(workload), parts.id, workload, batch, widths),
    )


def _subgraph_columns(workload: Workload, batch: int, widths: Widths) -> _ColumnsByName:
    work = demand(workload, batch, widths, "fused")
    flops = work.per_kernel(workload.operators.flops @ workload.value_at(batch=batch))
    ingress, egress, weights = (work.per_kernel(work.moved_bytes[role]) for role in (READ, WRITE, READ_WEIGHT))
    return {
        "macs": work.per_kernel(work.macs),
        "flops": flops,
        "ingress_bytes": ingress,
        "egress_bytes": egress,
        "weight_bytes": weights,
        "internal_bytes": work.per_kernel(work.local_bytes),
        "threads": work.elements[partition(workload).head],
        "intensity": ratio(flops, ingress + egress + weights),
    }


def _distribution(
    operators: _ColumnsByName, subgraphs: _ColumnsByName, name: str, edges: tuple[float, ...], labels: tuple[str, ...]
) -> Distribution:
    return Distribution(*(buckets(level[name], edges, labels, level["flops"]) for level in (operators, subgraphs)))


def _critical_path(workload: Workload, flops: Floats) -> FlopsPath:
    parts, total = partition(workload), float(flops.sum())
    path_flops, path = heaviest_path(subgraph_graph(workload), flops)
    chain, _ = heaviest_path(operator_graph(workload), np.ones(workload.n_operators))
    return FlopsPath(
        tuple(parts.id[subgraph] for subgraph in path),
        sum(len(parts.members[subgraph]) for subgraph in path),
        path_flops,
        min(path_flops / total, 1.0) if total else 0.0,
        int(chain),
    )


def _subgraphs(
    workload: Workload, columns: _ColumnsByName, critical: set[str], operators: tuple[OperatorInfo, ...]
) -> tuple[Subgraph, ...]:
    parts = partition(workload)
    shared_fields = ("operator_class", "batch_parallelism", "channel_parallelism", "spatial_parallelism")
    of_head: dict[str, Any] = {name: [getattr(operators[head], name) for head in parts.head] for name in shared_fields}
    return records(
        Subgraph,
        id=parts.id,
        type=parts.kind,
        stage=levels(subgraph_graph(workload)),
        operators=[tuple(parts.operator_id[i] for i in members) for members in parts.members],
        on_critical_path=[name in critical for name in parts.id],
        **columns | of_head,
    )


def list_edges(
    graph: Dependencies, ids: Sequence[str], workload: Workload, batch: int, widths: Widths
) -> tuple[Edge, ...]:
    """Return the edges of a graph whose nodes have these ids."""
    source, target = ([ids[i] for i in ends] for ends in (graph.source, graph.target))
    return records(Edge, source=source, target=target, bytes=edge_bytes(graph, workload, batch, widths))


# --- the operators as a graph -------------------------------------------------------------------------------


class OperatorNode(OperatorInfo, frozen=True, kw_only=True):
    """An operator. Time and energy are its part of its kernel's, for the batch; `edp_js` is a part of the model's EDP;
    `bytes` move to and from memory."""

    kernel: str
    macs: float
    flops: float
    bytes: float
    latency_s: float
    energy_j: float
    edp_js: float
    share: float
    bound: str


class ModelGraph(Head, frozen=True, kw_only=True):
    """Nodes in execution order, and edges between them, all of which point forward."""

    nodes: tuple[OperatorNode, ...]
    edges: tuple[Edge, ...]


def model_graph(result: Estimate) -> ModelGraph:
    """Return the operators of a model and the activations they exchange, in execution order."""
    parts, demand, figures = result.partition, result.demand, tree(result)
    level, ids = figures.operators, parts.operator_id
    infos = operator_infos(result.workload, result.scenario.batch)
    descriptions: dict[str, Any] = {
        name: [getattr(info, name) for info in infos] for name in OperatorInfo.__struct_fields__
    }
    nodes = records(
        OperatorNode,
        kernel=[kernels(result).id[k] for k in demand.kernel],
        bytes=level.dram_bytes,
        bound=figures.operator_bound,
        **descriptions,
        **{name: getattr(level, name) for name in ("macs", "flops", "latency_s", "energy_j", "edp_js", "share")},
    )
    edges = list_edges(operator_graph(result.workload), ids, result.workload, result.scenario.batch, result.plan.widths)
    return ModelGraph(**head_fields(result, on_device=True), nodes=nodes, edges=edges)


def plain(value: Any) -> Any:
    """Return tensors by their sizes: `batch x 64 x 56 x 56, 64 x 64 x 3 x 3`; other values as they are."""
    if not isinstance(value, tuple) or not all(isinstance(item, OperatorTensor) for item in value):
        return value
    return ", ".join(" x ".join(map(str, tensor.shape or ())) or tensor.name for tensor in value)


def to_networkx(graph: ModelGraph) -> networkx.DiGraph[str]:
    """Convert a graph to networkx: nodes by id, all figures as attributes, tensors as text, which every file format of
    networkx can write. Imports networkx."""
    import networkx

    def rest(record: msgspec.Struct, *names: str) -> dict[str, Any]:
        """Return the fields of a record except `names`, as plain values."""
        return {name: plain(value) for name, value in msgspec.structs.asdict(record).items() if name not in names}

    network: networkx.DiGraph[str] = networkx.DiGraph()
    network.add_nodes_from((node.id, rest(node, "id")) for node in graph.nodes)
    network.add_edges_from((edge.source, edge.target, rest(edge, "source", "target")) for edge in graph.edges)
    about_model = rest(graph, "nodes", "edges")
    network.graph.update({name: value for name, value in about_model.items() if isinstance(value, str | int)})
    return network


# --- the verb ---------------------------------------------------------------------------------------------------------

LEVELS = {"Operators": "operators", "Subgraphs": "subgraphs"}


def _document(state: State) -> PartitionReport:
    return partition_report(engine.workload(state), state.batch, state.precision)


def _summary(report: PartitionReport, state: State) -> tuple[str, ...]:
    path, moved_bytes = report.critical_path, report.ingress_bytes + report.egress_bytes + report.weight_bytes
    intensity = plain_number(report.flops / moved_bytes) if moved_bytes else "no"
    return (
        f"{report.n_operators} operators in {report.n_subgraphs} subgraphs; {report.fused_operators} "
        f"({percent(report.fused_fraction)}) share a subgraph with another",
        f"{quantity(report.flops, 'FLOP')}, {quantity(report.macs, 'MAC')}; across borders: "
        f"{quantity(report.ingress_bytes, 'byte')} in, {quantity(report.egress_bytes, 'byte')} out, "
        f"{quantity(report.weight_bytes, 'byte')} weights; inside: {quantity(report.internal_bytes, 'byte')}",
        f"average intensity {intensity} FLOP per byte across borders; of a device's memory: show roofline",
        f"{len(report.edges)} dependencies; longest chain {path.longest_chain} operators",
        f"critical path: {len(path.subgraphs)} subgraphs, {path.operators} operators, "
        f"{quantity(path.flops, 'FLOP')} ({percent(path.flops_fraction)}): {chain(path.subgraphs)}",
    )


VERB = Report(
    subject=MODEL,
    document=_document,
    title=lambda document, state: f"Partition of {document.model}, batch {document.batch}, {document.precision}",
    parts=(
        summary_text(_summary),
        Rows("operators", "Operators by type", KINDS, of="operators_by_type"),
        Rows("classes", "Operators by class", KINDS, of="operators_by_class"),
        Rows("patterns", "Subgraphs by fusion pattern", KINDS, of="subgraphs_by_pattern"),
        distribution("parallelism", "Parallelism of operators and subgraphs", "Threads", "FLOPs", LEVELS),
        distribution("intensity", "Intensity of operators and subgraphs", "FLOP/byte", "FLOPs", LEVELS),
        Rows("subgraphs", "Subgraphs", columns(Subgraph), kind="type"),
    ),
    section=Section(0, "What the model is made of"),
    examples={"partition": "conv2d"},
)
