"""Conversion of an ONNX file to a workload."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hwexplorer.extend import Input, batch_limits, lower_graph, operator_graph, poly, reading_budget, workload
from hwexplorer_annexes.onnx.graph_parts import UnreadableError
from hwexplorer_annexes.onnx.graph_walk import WRONG, GraphWalk
from hwexplorer_annexes.onnx.input_sizes import OpenSizeError, TimeFirstError
from hwexplorer_annexes.onnx.onnx_file import OnnxModel, read


def load(path: Path, inputs: Sequence[Input] = (), budget: reading_budget.Budget | None = None) -> workload.Workload:
    """Return the workload of an ONNX file. `inputs` gives the sizes that the file leaves open. Raises ModelError."""
    budget = budget or reading_budget.Budget()
    try:
        graph = _graph(read(path, budget), inputs, budget)
        budget.report("lower", 0.0)
        return lower_graph(graph, path.name, "custom", str(path))
    except (UnreadableError, reading_budget.TooMuchError) as error:
        raise type(error)(f"{path.name}: {error}") from None
    except poly.SizeError as error:
        raise UnreadableError(f"{path.name}: {error}") from None
    except (*WRONG, RecursionError) as error:
        raise UnreadableError(f"{path.name}: its graph is malformed ({type(error).__name__})") from None


def _graph(model: OnnxModel, inputs: Sequence[Input], budget: reading_budget.Budget) -> operator_graph.Graph:
    top = model.top
    try:
        return GraphWalk(model, budget, None).graph(top, inputs)
    except TimeFirstError:
        return GraphWalk(model, budget, None, batch_axis=1).graph(top, inputs)
    except UnreadableError as error:
        sizes = [name for info in top.inputs for name in (info.shape or ())[:1] if not isinstance(name, int)]
        if isinstance(error, OpenSizeError) or not sizes:
            raise
        scalars = {info.name for info in top.inputs if info.shape == ()}
        batch = next((item.shape[0] for item in inputs if item.shape and item.name not in scalars), 1)
        fixed = GraphWalk(model, budget, batch).graph(top, inputs)
        return replace(fixed, notes=(*fixed.notes, batch_limits.fixed_note(batch, f"the graph fixes it ({error})")))
