"""The operators of a model as a graph with their costs on a device, for export to other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from analysis.document import records
from analysis.estimate.dependencies import operator_graph
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.tree_figures import tree
from analysis.reports.kernel_rows import kernels
from analysis.reports.operator_classes import OperatorInfo, OperatorTensor, operator_infos
from hwexplorer.reports.tree.partition import Edge, list_edges

if TYPE_CHECKING:
    import networkx


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
