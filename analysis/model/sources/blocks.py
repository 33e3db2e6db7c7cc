"""Building blocks that need no torch: written as graphs and lowered like any capture."""

from __future__ import annotations

from analysis.model.graph import Graph, GraphNode, InputShape, Ref, Scope, Source, meta
from analysis.model.lower import lower
from analysis.model.poly import dim
from analysis.model.workload import INPUT, WEIGHT, Workload
from analysis.model.zoo import Spec


def gemm(spec: Spec) -> Workload:
    """C = A B: A is (batch * M, K), B is (K, N)."""
    sizes = dict(spec.parameters)
    rows, columns, inner = sizes["M"], sizes["N"], sizes["K"]
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
    return lower(graph, str(spec), family="block", origin="building block")
