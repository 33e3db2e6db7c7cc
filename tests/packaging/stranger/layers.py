"""Read a file with the two widths of a linear layer."""

from collections.abc import Sequence
from pathlib import Path

from hwexplorer.extend import Input, lower_graph, model_errors, operator_graph, poly, reading_budget, workload


def load(path: Path, inputs: Sequence[Input], budget: reading_budget.Budget) -> workload.Workload:
    try:
        width, out = map(int, path.read_text().split())
    except ValueError as error:
        raise model_errors.UnreadableError(f"{path.name}: {error}") from None
    batch = poly.dim("batch")
    shapes = (batch, poly.poly(width)), (poly.poly(out), poly.poly(width)), (batch, poly.poly(out))
    read, weight, made = (operator_graph.Meta(shape, "float32", storage) for storage, shape in enumerate(shapes))
    sources = (
        operator_graph.Source("x", "input", workload.INPUT, read),
        operator_graph.Source("w", "weight", workload.WEIGHT, weight),
    )
    args = {"input": operator_graph.Ref("x"), "weight": operator_graph.Ref("w")}
    nodes = (operator_graph.GraphNode("y", "aten.linear.default", args, (made,)),)
    inputs_of = (workload.InputSpec("x", "float32", ("batch", width)),)
    graph = operator_graph.Graph(sources, nodes, ("y",), width * out, inputs_of)
    return lower_graph(graph, path.name, "custom", str(path))
