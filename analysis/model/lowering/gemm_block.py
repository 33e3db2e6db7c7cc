"""A matrix product as a model. It is written as a graph and lowered as any capture, without torch."""

from __future__ import annotations

from analysis.model.ir.operator_graph import Graph, GraphNode, InputShape, Ref, Scope, Source, meta
from analysis.model.ir.poly import dim
from analysis.model.ir.workload import INPUT, WEIGHT, Workload
from analysis.model.lowering.graph_lowering import lower_graph


def gemm_workload(name: str, rows: int, columns: int, inner: int) -> Workload:
    """Return the workload of A B, where A is (batch, `rows`, `inner`) and B is (`inner`, `columns`)."""
    batch = dim("batch")
    left, right = meta((batch, rows, inner), 0), meta((inner, columns), 1)
    graph = Graph(
        sources=(Source("b", "weight", WEIGHT, right), Source("a", "a", INPUT, left)),
        nodes=(
            GraphNode(
                name="matmul",
                target="aten.matmul.default",
                args={"self": Ref("a"), "other": Ref("b")},
                outputs=(meta((batch, rows, columns), 2),),
                scopes=(Scope("L__self__", "", "Gemm"),),
            ),
        ),
        outputs=("matmul",),
        parameters=inner * columns,
        inputs=(InputShape("a", "float32", ("batch", rows, inner)),),
    )
    return lower_graph(graph, name, family="block", origin="building block")
