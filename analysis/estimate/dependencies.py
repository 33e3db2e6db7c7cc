"""Graphs of a model: which operator or subgraph needs which, how deep, and the heaviest chain.

Operators and subgraphs are in execution order, so every edge points forward and one pass answers each question.
Building a networkx graph (hwexplorer/reports/show/structure.py) takes ten times as long.
"""

import msgspec
import numpy as np

from analysis.estimate.operator_facts import tensor_bytes
from analysis.estimate.subgraphs import Partition, op_classes, partition
from analysis.model.ir.workload import Floats, Ints, Workload
from hardware.base.records import memoize
from hardware.demand import OpClass
from hardware.precision import Widths


class Dependencies(msgspec.Struct, frozen=True):
    """n nodes; edges (e,) from `source` to `target`, each once, source < target; `tensors` carried by each."""

    n: int
    source: Ints
    target: Ints
    tensors: tuple[tuple[int, ...], ...]


@memoize(shared=True)
def operator_graph(workload: Workload) -> Dependencies:
    """Return the operators joined by the activations they exchange, computed once."""
    return _graph(workload, None)


@memoize(shared=True)
def subgraph_graph(workload: Workload) -> Dependencies:
    """Return the subgraphs joined by the activations they exchange, computed once."""
    return _graph(workload, partition(workload))


def _graph(workload: Workload, parts: Partition | None) -> Dependencies:
    ops, producer = workload.operators, workload.tensors.producer.tolist()
    node = parts.subgraph.tolist() if parts else list(range(workload.n_operators))
    pointers, reads = ops.in_ptr.tolist(), ops.in_tensor.tolist()
    edges: dict[tuple[int, int], list[int]] = {}
    for i in range(workload.n_operators):
        for t in reads[pointers[i] : pointers[i + 1]]:
            if producer[t] < 0 or node[producer[t]] == node[i]:
                continue
            carried = edges.setdefault((node[producer[t]], node[i]), [])
            if t not in carried:
                carried.append(t)
    ordered = sorted(edges)
    return Dependencies(
        len(parts.id) if parts else workload.n_operators,
        np.array([a for a, _ in ordered], dtype=np.int32),
        np.array([b for _, b in ordered], dtype=np.int32),
        tuple(tuple(edges[edge]) for edge in ordered),
    )


@memoize()
def row_lags(workload: Workload) -> Floats:
    """Return how much later than its inputs a frame leaves each operator, where operators stream rows to each other, as
    a part of the time between frames, shape (n,). A convolution or a product with weights lags by one row of its
    result, a product of two activations (attention) by a whole frame. Only what lengthens the longest path so far
    counts, else 0, so the parts of a model add up to its longest path."""
    ops, tensors = workload.operators, workload.tensors
    rows = (ops.gemm @ workload.value_at(batch=1))[:, 1]
    own = np.zeros(workload.n_operators)
    waits = np.isin(op_classes(workload), (OpClass.ATTENTION, OpClass.GEMM))
    image = np.isin(op_classes(workload), (OpClass.CONV, OpClass.DEPTHWISE))
    own[rows > 0] = 1.0 / np.where(image, rows**0.5, rows)[rows > 0]
    end, latest, pointers = np.zeros(workload.n_operators), 0.0, ops.in_ptr
    lags = np.zeros(workload.n_operators)
    for i in range(workload.n_operators):
        reads = ops.in_tensor[pointers[i] : pointers[i + 1]]
        producers = tensors.producer[reads]
        if waits[i] and (producers >= 0).sum() > 1:
            own[i] = 1.0
        end[i] = max((float(end[p]) for p in producers if p >= 0), default=0.0) + own[i]
        lags[i] = max(end[i] - latest, 0.0)
        latest = max(latest, float(end[i]))
    return lags


def levels(graph: Dependencies) -> Ints:
    """Return the stage of each node, shape (n,): 0 without predecessors, else one after its latest predecessor."""
    level = [0] * graph.n
    for a, b in _edges(graph):
        level[b] = max(level[b], level[a] + 1)
    return np.array(level, dtype=np.int32)


def heaviest_path(graph: Dependencies, weight: Floats) -> tuple[float, tuple[int, ...]]:
    """Return the chain of nodes with the largest sum of `weight` (n,), and that sum. Weights are 0 or more."""
    if not graph.n:
        return 0.0, ()
    value = weight.tolist()
    best, before = list(value), [-1] * graph.n
    for a, b in _edges(graph):
        if best[a] + value[b] > best[b] or (before[b] < 0 and best[a] + value[b] == best[b]):
            best[b], before[b] = best[a] + value[b], a
    at = max(range(graph.n), key=lambda i: best[i])
    total, path = best[at], []
    while at >= 0:
        path.append(at)
        at = before[at]
    return float(total), tuple(reversed(path))


def _edges(graph: Dependencies) -> list[tuple[int, int]]:
    """Return the edges by target: every edge into a node comes before any that leaves it."""
    order = np.lexsort((graph.source, graph.target))
    return list(zip(graph.source[order].tolist(), graph.target[order].tolist(), strict=True))


def edge_bytes(graph: Dependencies, workload: Workload, batch: int, widths: Widths) -> list[float]:
    """Return the bytes of the activations that each edge carries, (e,)."""
    tensors = workload.tensors
    width = tensor_bytes(workload, widths)
    size = ((tensors.numel @ workload.value_at(batch=batch)) * width).tolist()
    return [sum(size[t] for t in carried) for carried in graph.tensors]


def operand_bytes(workload: Workload, batch: int, widths: Widths) -> Floats:
    """Return the bytes that each operator reads and writes if it is run alone: inputs, weights and results, shape
    (n,)."""
    ops, tensors = workload.operators, workload.tensors
    point = workload.value_at(batch=batch)
    width = tensor_bytes(workload, widths)
    n = workload.n_operators
    reader = np.repeat(np.arange(n), np.diff(ops.in_ptr))
    writer = np.repeat(np.arange(n), np.diff(ops.out_ptr))
    read = np.bincount(reader, (ops.in_numel @ point) * width[ops.in_tensor], minlength=n)
    written = (tensors.numel @ point * width)[ops.out_tensor]
    return (read + np.bincount(writer, written, minlength=n)).astype(np.float64)
