"""Describe one node of an ONNX graph for the shape and cost rules: inputs, attributes, results and names for people.

The `onnx` library gives the results of its operators: shapes by its inference, small values by its reference
evaluator. It does not compute with symbolic sizes, so it is asked at each of BATCHES.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import prod
from operator import mul
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, TypeProto, checker, defs, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from hwexplorer.extend import operator_graph
from hwexplorer_annexes.onnx.onnx_file import (
    COMPUTED,
    DTYPES,
    MAX_VALUES,
    OnnxNode,
    Poly,
    Ref,
    Scope,
    Size,
    Stored,
    check_size,
    dtype_of,
    is_negative,
    poly,
)

# Batches at which sizes are computed: three determine a square, and it must go through the others too.
BATCHES = (1, 7, 11, 64, 4096)
Shape = tuple[Poly, ...]
Known = tuple[NDArray[Any], ...]  # values at each of BATCHES, or once if they do not depend on the batch
ONE = poly(1)


class ShapeError(ValueError):
    """The shape of a result is unknown, or shapes contradict each other."""


@dataclass(frozen=True, slots=True)
class OnnxValue:
    """A tensor. `strides` are at the reference point of symbolic dimensions; `known` are values that the file fixes."""

    name: str
    meta: operator_graph.Meta
    strides: tuple[int, ...]
    known: Known | None = None
    is_weight: bool = False
    parts: tuple[OnnxValue, ...] = ()

    @property
    def is_fixed(self) -> bool:
        """True if neither its shape nor its known values depend on the batch."""
        return len(self.known or ()) <= 1 and all(size.is_constant for size in self.meta.shape)

    def sizes_at(self, place: int) -> list[int]:
        """Return its shape at one of BATCHES."""
        return [size.value_at(batch=BATCHES[place]) for size in self.meta.shape]

    def known_at(self, place: int) -> NDArray[Any]:
        """Return its known values at one of BATCHES."""
        known = self.known or ()
        return known[place if len(known) > 1 else 0]

    def unfixed(self) -> ShapeError:
        """Return the error of a tensor without known values."""
        name = self.name.rpartition("@")[0]
        return ShapeError(f"{name[:40]!r}, which determines a shape, is not fixed in the file")


@dataclass(frozen=True, slots=True)
class NodeResult:
    """One result of a node. With `strides` it is a view of the first input."""

    shape: Shape
    dtype: str
    strides: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class OnnxOp:
    """A node with its inputs. An omitted optional input is None."""

    node: OnnxNode
    inputs: tuple[OnnxValue | None, ...]
    opset: int
    declared_shape: Shape | None = None  # of the first result, if the inputs do not determine it

    def has_input(self, index: int) -> bool:
        """Return True if the node has this input."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def value(self, index: int = 0) -> OnnxValue:
        """Return an input. Raises ShapeError if it is missing."""
        tensor = self.inputs[index] if index < len(self.inputs) else None
        if tensor is None:
            raise ShapeError(f"input {index} is missing")
        return tensor

    def shape(self, index: int = 0) -> Shape:
        """Return the shape of an input."""
        return self.value(index).meta.shape

    def shapes(self) -> list[Shape]:
        """Return the shapes of the inputs that are given."""
        return [value.meta.shape for value in self.inputs if value is not None]

    @property
    def rank(self) -> int:
        """The number of axes of the first input. Raises ShapeError if it is missing."""
        return len(self.shape())

    def dtype(self, index: int = 0) -> str:
        """Return the element type of an input."""
        return self.value(index).meta.dtype

    def arguments(self, names: str) -> dict[str, Any]:
        """Return the inputs by these names, in order. `-` omits an input, `*` gives all as one list, `#` all by
        position, and `name=` the number itself if it is known."""
        if names in ("*", "#"):
            refs = {str(place): Ref(value.name) for place, value in enumerate(self.inputs) if value is not None}
            return {"tensors": list(refs.values())} if names == "*" else dict(refs)
        given: dict[str, Any] = {}
        for index, name in enumerate(names.split()):
            if name != "-" and self.has_input(index):
                number = self.number(index) if name.endswith("=") else None
                given[name.rstrip("=")] = Ref(self.value(index).name) if number is None else number
        return given

    def number(self, index: int) -> Any:
        """Return the value of an input with one known number, else None."""
        known = self.value(index).known if self.has_input(index) else None
        if known is None or known[0].size != 1:
            return None
        with suppress(ShapeError):
            return fit([values.item() for values in known])
        return None

    def items(self, index: int, attribute: str = "") -> list[Any]:
        """Return numbers and symbolic sizes of an input (newer files) or attribute (older files), else []."""
        if self.has_input(index):
            known = self.value(index).known
            if known is None:
                raise self.value(index).unfixed()
            return list(map(fit, zip(*(values.reshape(-1).tolist() for values in known), strict=True)))
        given = self.node.attributes.get(attribute)
        return list(given) if isinstance(given, list) else []

    def ints(self, index: int, attribute: str = "") -> list[int]:
        """Return the numbers of an input or an attribute. Raises ShapeError if one is symbolic."""
        return [constant(item) for item in self.items(index, attribute)]

    def attr(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute."""
        return self.node.attributes.get(name, default)

    def int_attr(self, name: str, default: int) -> int:
        """Return the whole number of an attribute, `default` without it. Raises ShapeError for anything else."""
        given = self.attr(name, default)
        if not isinstance(given, int):
            raise ShapeError(f"its attribute {name} is not a number")
        return given

    def int_list(self, name: str, default: Sequence[int] = ()) -> list[int]:
        """Return the list of numbers of an attribute, `default` without it. Raises ShapeError for anything else."""
        given = self.attr(name)
        if given is None:
            return list(default)
        if not isinstance(given, list) or not all(isinstance(item, int) for item in given):
            raise ShapeError(f"its attribute {name} is not a list of numbers")
        return given

    def axis(self, name: str = "axis", default: int = 0) -> int:
        """Return the axis that an attribute states, counted from the front."""
        return positive_axis(self.int_attr(name, default), self.rank)

    def axes(self, index: int = 1) -> list[int]:
        """Return the axes of an input or of the attribute `axes`, counted from the front."""
        return [positive_axis(axis, self.rank) for axis in self.ints(index, "axes")]


def constant(size: Any) -> int:
    """Return a size as a plain number. Raises ShapeError if it is symbolic."""
    if isinstance(size, Poly):
        if not size.is_constant:
            raise ShapeError(f"a size that must be a number is a symbolic dimension ({size})")
        return int(size.constant())
    return int(size)


def positive_axis(axis: int, rank: int) -> int:
    """Return an axis counted from the front. Raises ShapeError if it is out of range."""
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} of a tensor with {rank} dimensions")
    return axis % rank


def shape_of(sizes: Sequence[Size | Any]) -> Shape:
    """Return sizes as a shape. Raises ShapeError if one is negative."""
    shape = tuple(size if isinstance(size, Poly) else poly(int(size)) for size in sizes)
    if any(is_negative(check_size(size)) for size in shape):
        raise ShapeError("a size comes out negative")
    return shape


def fit(values: Sequence[Any]) -> Any:
    """Return the number that has these values at BATCHES (or at the last of them): itself if it does not depend on the
    batch, else a polynomial. Raises ShapeError if none of degree two goes through all."""
    if len(values) == 1 or all(value == values[0] for value in values):
        return values[0]
    batches, whole = BATCHES[-len(values) :], [int(value) for value in values]
    if isinstance(values[0], bool):
        raise ShapeError("a condition depends on the batch")
    (n0, n1, n2, *_), (v0, v1, v2, *_) = batches, whole
    slope = Fraction(v1 - v0, n1 - n0)
    square = (Fraction(v2 - v1, n2 - n1) - slope) / (n2 - n0)
    terms = {("batch", "batch"): square, ("batch",): slope - square * (n0 + n1), (): v0 - slope * n0 + square * n0 * n1}
    size = Poly({key: int(value) for key, value in terms.items() if value})
    if [size.value_at(batch=n) for n in batches] != list(values):
        raise ShapeError("a size is no polynomial of the batch")
    return size


def broadcast(*shapes: Shape) -> Shape:
    """Return the broadcast of shapes. Raises ShapeError if they do not match."""
    rank = max(map(len, shapes), default=0)
    result = [ONE] * rank
    for shape in shapes:
        for place, size in enumerate(shape, start=rank - len(shape)):
            if result[place] == ONE:
                result[place] = size
            elif size not in (ONE, result[place]):
                raise ShapeError(f"sizes {result[place]} and {size} do not match")
    return tuple(result)


def contiguous_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a tensor without gaps."""
    return tuple(accumulate(reversed(sizes[1:]), mul, initial=1))[::-1][: len(sizes)]


def describe_node(node: OnnxNode) -> str:
    """Return the type and name of a node for a message."""
    kind = f"{node.domain}.{node.op}" if node.domain else node.op or "a node without a type"
    return kind + (f" {node.name[:60]!r}" if node.name else "")


def scopes_of(node: OnnxNode) -> tuple[Scope, ...]:
    """Return the module scopes of a node, from metadata of PyTorch's exporter or a name like `/layer1/conv1/Conv`."""
    names = _parse_names(node.metadata.get("pkg.torch.onnx.name_scopes", ""))
    if names:
        kinds = _parse_names(node.metadata.get("pkg.torch.onnx.class_hierarchy", ""))
        pairs = [(name, kinds[place] if place < len(kinds) else "") for place, name in enumerate(names[:-1])]
        return tuple(Scope(name or "root", name, kind.rpartition(".")[2]) for name, kind in pairs)
    parts = [part for part in node.name.split("/") if part][:-1]
    path: list[str] = []
    for part in parts[:32]:
        if path and part.startswith(f"{path[-1]}."):
            path[-1:] = part.split(".")
        else:
            path.append(part)
    return tuple(Scope("/".join(path[: end + 1]), ".".join(path[: end + 1]), "") for end in range(len(path)))


def _parse_names(text: str) -> list[str]:
    if not text.startswith("[") or len(text) > 10_000:
        return []
    try:
        parsed = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [str(item) for item in parsed] if isinstance(parsed, list) else []


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
