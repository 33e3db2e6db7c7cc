"""Read a file with the widths of linear layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from hwexplorer.extend import Input, lower_graph, model_errors, operator_graph, poly, reading_budget, workload


def load(path: Path, inputs: Sequence[Input], budget: reading_budget.Budget) -> workload.Workload:
    try:
        widths = [int(word) for word in path.read_text().split()]
    except ValueError as error:
        raise model_errors.UnreadableError(f"{path.name}: {error}") from None
    batch = poly.dim("batch")
    rows = [operator_graph.Meta((batch, poly.poly(width)), "float32", i) for i, width in enumerate(widths)]
    sources = [operator_graph.Source("x0", "input", workload.INPUT, rows[0])]
    nodes = []
    for i, (width, out) in enumerate(zip(widths, rows[1:], strict=False), 1):
        meta = operator_graph.Meta((out.shape[1], poly.poly(width)), "float32", len(widths) + i)
        sources.append(operator_graph.Source(f"w{i}", f"layer{i}.weight", workload.WEIGHT, meta))
        args = {"input": operator_graph.Ref(f"x{i - 1}"), "weight": operator_graph.Ref(f"w{i}")}
        nodes.append(operator_graph.GraphNode(f"x{i}", "aten.linear.default", args, (out,)))
    parameters = sum(a * b for a, b in pairwise(widths))
    graph = operator_graph.Graph(
        tuple(sources), tuple(nodes), (f"x{len(nodes)}",), parameters,
        (workload.InputSpec("x0", "float32", ("batch", widths[0])),),
    )  # fmt: skip
    return lower_graph(graph, path.name, "custom", str(path))
