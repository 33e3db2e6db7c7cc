"""Results of ONNX's own operators by the `onnx` library: shapes by its inference, small values by its reference
evaluator. The library does not compute with symbolic sizes, so it is asked at each of BATCHES."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, TypeProto, checker, defs, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from hwexplorer_annexes.onnx.onnx_file import COMPUTED, DTYPES, MAX_VALUES, Stored, dtype_of
from hwexplorer_annexes.onnx.onnx_op import BATCHES, Known, NodeResult, OnnxOp, OnnxValue, ShapeError, fit, shape_of

T = TypeVar("T")
Inputs = list[tuple[str, OnnxValue]]
_KINDS = {name: kind for kind, name in DTYPES.items()}
_OLDEST = 5  # opset from which on the library infers the shapes of all
_REFUSALS = (shape_inference.InferenceError, checker.ValidationError, defs.SchemaError)


def infer(op: OnnxOp, like: str = "") -> list[NodeResult]:
    """Return the results of a node. `like` names the operator of ONNX that has its first inputs and its attributes, by
    default itself. Raises ShapeError."""
    try:
        schema = _schema(like or op.node.op, op)
        node, inputs = _node(op, schema), _inputs(op)[: schema.max_input]
        # At a batch of 1 a size would be broadcast or removed like any other 1.
        answers = _at_batches(inputs, range(1, len(BATCHES)), lambda place: _infer_at(place, schema, node, inputs))
    except _REFUSALS as error:
        raise ShapeError(str(error).rpartition("Error] ")[2]) from None
    return [_result(op, tensors) for tensors in zip(*answers, strict=True)]


def _infer_at(place: int, schema: Any, node: NodeProto, inputs: Inputs) -> list[Any]:
    kinds = {name: _KINDS.get(x.meta.dtype, TensorProto.FLOAT) for name, x in inputs}
    types = {name: helper.make_tensor_type_proto(kinds[name], x.sizes_at(place)) for name, x in inputs}
    values = {name: numpy_helper.from_array(x.known_at(place)) for name, x in inputs if x.known}
    outputs = shape_inference.infer_node_outputs(schema, node, types, values)
    return [outputs.get(name, TypeProto()).tensor_type for name in node.output if name]


def _result(op: OnnxOp, tensors: Sequence[Any]) -> NodeResult:
    """Return one result from its types at each batch."""
    sizes = [[dim.dim_value for dim in x.shape.dim if dim.HasField("dim_value")] for x in tensors]
    if any(not x.HasField("shape") or len(x.shape.dim) > len(row) for x, row in zip(tensors, sizes, strict=True)):
        inputs = _inputs(op)
        unknown = [x for _, x in inputs[1:] or inputs if x.known is None]
        raise unknown[0].unfixed() if unknown else ShapeError("it depends on the data")
    return NodeResult(shape_of([fit(row) for row in zip(*sizes, strict=True)]), dtype_of(tensors[0].elem_type))


def fold(op: OnnxOp) -> Known | None:
    """Return the values of a node's only result if the file fixes them, else None."""
    is_of_shape, inputs = op.node.op in ("Shape", "Size"), _inputs(op)
    if op.node.domain or len(op.node.outputs) != 1 or not all(is_of_shape or x.known for _, x in inputs):
        return None
    try:
        if inputs and not is_of_shape and prod(size.constant() for size in infer(op)[0].shape) > MAX_VALUES:
            return None
        schema = _schema(op.node.op, op)
        # The evaluator takes a node alone for one of the newest version, so it gets a function.
        versions, names = [helper.make_opsetid("", schema.since_version)], [name for name, _ in inputs]
        function = helper.make_function("own", "one", names, ["o0"], [_node(op, schema)], versions)
        evaluator = ReferenceEvaluator(function)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            places = range(len(BATCHES))
            known = _at_batches(inputs, places, lambda place: _evaluate_at(place, evaluator, inputs, is_of_shape))
    except Exception:  # what the evaluator does not compute, it refuses in many ways
        return None
    is_kept = len({x.shape for x in known}) == 1 and known[0].size <= MAX_VALUES and known[0].dtype.name in COMPUTED
    return tuple(known) if is_kept else None


def _evaluate_at(place: int, evaluator: ReferenceEvaluator, inputs: Inputs, is_of_shape: bool) -> NDArray[Any]:
    # Shape and Size need a tensor of any values; this one takes no memory.
    given = {
        name: np.broadcast_to(np.int8(0), x.sizes_at(place)) if is_of_shape else x.known_at(place) for name, x in inputs
    }
    results: Any = evaluator.run(["o0"], given, attributes={})
    return np.asarray(results[0])


def _at_batches(inputs: Inputs, places: Iterable[int], ask: Callable[[int], T]) -> list[T]:
    """Return the answers at these places of BATCHES, one if the inputs do not depend on the batch."""
    is_fixed = all(x.is_fixed for _, x in inputs)
    return [ask(place) for place in ([0] if is_fixed else places)]


def _schema(name: str, op: OnnxOp) -> Any:
    """Return an operator of ONNX in the version of the file, for a node of another domain in the newest."""
    newest = defs.onnx_opset_version()
    version = newest if op.node.domain or not op.opset else min(max(op.opset, _OLDEST), newest)
    if name == "Split" and "split" in op.node.attributes:
        version = 11  # the last with sizes as an attribute, as control_flow.py writes them
    schema = defs.get_schema(name, version, "")
    return defs.get_schema(name, schema.since_version - 1, "") if schema.deprecated else schema


def _inputs(op: OnnxOp) -> Inputs:
    return [(f"i{place}", value) for place, value in enumerate(op.inputs) if value is not None]


def _node(op: OnnxOp, schema: Any) -> NodeProto:
    """Return the node by plain names, with the inputs, outputs and attributes of this operator."""
    inputs = [f"i{place}" if value is not None else "" for place, value in enumerate(op.inputs[: schema.max_input])]
    outputs = [f"o{place}" if name else "" for place, name in enumerate(op.node.outputs[: schema.max_output])]
    known = {name: value for name, value in op.node.attributes.items() if name in schema.attributes and value != []}
    given = {
        name: numpy_helper.from_array(value.values) if isinstance(value, Stored) and value.values is not None else value
        for name, value in known.items()
    }
    return helper.make_node(schema.name, inputs, outputs, **given)
