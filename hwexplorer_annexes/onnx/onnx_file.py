"""Read an ONNX file: its graph, its nodes, and the weights that it stores.

The file is read without its weights: sizes of large initializers come from the wire format alone.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from hwexplorer.extend import file_access, model_errors, operator_graph, reading_budget, workload
from hwexplorer.extend import poly as poly_module

UnreadableError = model_errors.UnreadableError
Ref = operator_graph.Ref
Scope = operator_graph.Scope
Poly = poly_module.Poly
Size = poly_module.Size
check_size = poly_module.check_size
dim = poly_module.dim
is_negative = poly_module.is_negative
poly = poly_module.poly
product = poly_module.product
SizeError = poly_module.SizeError
expression = poly_module.expression
is_viewable = poly_module.is_viewable
layout = poly_module.layout
INPUT = workload.INPUT


_WINDOW = 1 << 16  # bytes
_MESSAGE_STEPS = 30
_MAX_NESTING = 90  # messages; the library itself stops at 100


class Wire:
    """An open file, and the remaining budget of reading it. Fields longer than `longest` bytes are weights."""

    def __init__(self, file: BinaryIO, budget: reading_budget.Budget, longest: int) -> None:
        self.file, self.budget, self.longest = file, budget, longest
        self.size = file.seek(0, 2)
        self._window, self._start = b"", 0

    def without_weights(self, kind: Any, at: int, end: int, depth: int = 0) -> bytes:
        """Return a copy of a message, by its descriptor, without the fields that are unknown or too long.
        Raises ValueError for text that is not UTF-8."""
        if depth > _MAX_NESTING:
            raise UnreadableError("graphs are nested too deeply")
        self.budget.spend(_MESSAGE_STEPS)
        kept = bytearray()
        for number, start, place, after in self._fields(at, end):
            field = kind.fields_by_number.get(number)
            if field is None:
                continue
            if field.message_type is not None:
                inner = self.without_weights(field.message_type, place, after, depth + 1)
                kept += _encoded(number << 3 | 2) + _encoded(len(inner)) + inner
            elif after - place <= self.longest:
                kept += self._bytes(start, after)
                if field.type == field.TYPE_STRING:
                    self._bytes(place, after).decode()
        return bytes(kept)

    def _fields(self, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield the number of each field of a message, and where the field, its value and the next field start."""
        while at < end:
            self.budget.spend()
            start = at
            key, at = self._varint(at, end)
            place, wire_type = at, key & 7
            if wire_type == 0:
                _, at = self._varint(at, end)
            elif wire_type == 2:
                size, place = self._varint(at, end)
                at = place + size
            elif wire_type in (1, 5):
                at += 8 if wire_type == 1 else 4
            else:
                raise IndexError("no such wire type")
            if at > end:
                raise IndexError("a field is truncated")
            yield key >> 3, start, place, at

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        """Return a whole number and the offset after it. Raises IndexError if it is truncated."""
        value = 0
        for shift, byte in enumerate(self._bytes(at, min(end, at + 10))):
            value |= (byte & 0x7F) << 7 * shift
            if byte < 0x80:
                return value, at + shift + 1
        raise IndexError("a whole number is truncated")

    def _bytes(self, at: int, end: int) -> bytes:
        """Read bytes of the file. Raises IndexError if the file is shorter."""
        if not self._start <= at <= end <= self._start + len(self._window):
            self.budget.report("read", at / max(1, self.size))
            self.file.seek(at)
            self._window, self._start = self.file.read(max(_WINDOW, end - at)), at
            if len(self._window) < end - at:
                raise IndexError("the file is truncated")
        return self._window[at - self._start : end - self._start]


def _encoded(number: int) -> bytes:
    """Return a whole number as it is stored."""
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


_MAX_RANK = 64
_MAX_SIZE = 1 << 48
MAX_VALUES = 4096  # constants with more elements are weights, from which no shape is computed
_MAX_BYTES = 10 * MAX_VALUES  # most bytes of so many values in the longest encoding

FLOATS = frozenset(
    ("float32", "float64", "float16", "bfloat16", *(f"float8_{kind}" for kind in (*range(17, 21), 24)), "float4")
)
DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool",
    10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
    17: "float8_17", 18: "float8_18", 19: "float8_19", 20: "float8_20", 21: "uint4", 22: "int4", 23: "float4",
    24: "float8_24", 25: "uint2", 26: "int2",
}  # fmt: skip
COMPUTED = frozenset(DTYPES[kind] for kind in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13))


def dtype_of(kind: int) -> str:
    """Return an element type as numpy names it; `unknown` for a number that ONNX does not define."""
    return DTYPES.get(kind, "unknown")


@dataclass(frozen=True, slots=True)
class Stored:
    """A constant of the file. Its `values` are None if they are too many, not computable, or outside of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: NDArray[Any] | None = None


def _constant(tensor: TensorProto, dims: Iterable[int] | None = None) -> Stored:
    """Return a constant, a sparse one by the tensor of its values and its own `dims`. Raises UnreadableError."""
    shape, dtype = tuple(tensor.dims if dims is None else dims), dtype_of(tensor.data_type)
    if len(shape) > _MAX_RANK or any(not 0 <= size <= _MAX_SIZE for size in shape):
        raise UnreadableError(f"the constant {tensor.name[:40]!r} has an impossible shape")
    is_outside = bool(tensor.external_data) or tensor.data_location == TensorProto.EXTERNAL or dims is not None
    values = None
    if not is_outside and prod(shape) <= MAX_VALUES and dtype in COMPUTED:
        try:
            values = numpy_helper.to_array(tensor)
        except ValueError:
            if tensor.HasField("raw_data"):
                raise UnreadableError(f"the constant {tensor.name[:40]!r} is truncated") from None
    return Stored(tensor.name, dtype, shape, values)


@dataclass(frozen=True, slots=True)
class ValueInfo:
    """A declared tensor. A size is a number, a name or None. `shape` is None if not declared, as for a list."""

    name: str
    dtype: str = "unknown"
    shape: tuple[int | str | None, ...] | None = None


def _value_info(info: ValueInfoProto) -> ValueInfo:
    kind = info.type
    while kind.HasField("optional_type"):
        kind = kind.optional_type.elem_type
    tensor = kind.tensor_type
    if len(tensor.shape.dim) > _MAX_RANK:
        raise UnreadableError(f"a tensor has {len(tensor.shape.dim)} dimensions")
    shape = tuple(_size(dim) for dim in tensor.shape.dim) if tensor.HasField("shape") else None
    return ValueInfo(info.name, dtype_of(tensor.elem_type), shape)


def _size(dim: Any) -> int | str | None:
    """Return a size as a number or name, None if unknown: some exporters write -1 or `?` for every unknown size."""
    if dim.HasField("dim_value"):
        return dim.dim_value if 0 <= dim.dim_value <= _MAX_SIZE else None
    return dim.dim_param if dim.dim_param.strip("? ") else None


@dataclass(frozen=True, slots=True)
class AttributeRef:
    """A reference inside a function to an attribute of the calling node."""

    name: str


def _attribute(attribute: AttributeProto) -> Any:
    if attribute.ref_attr_name:
        return AttributeRef(attribute.ref_attr_name)
    value = helper.get_attribute_value(attribute)
    if isinstance(value, TensorProto):
        return _constant(value)
    if isinstance(value, GraphProto):
        return _graph(value)
    if isinstance(value, bytes):
        return value.decode()
    if attribute.type == AttributeProto.STRINGS:
        return [item.decode() for item in value]
    return list(value) if attribute.type in (AttributeProto.FLOATS, AttributeProto.INTS) else value


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


@dataclass(frozen=True, eq=False)
class OnnxNode:
    """A node of a graph."""

    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    metadata: dict[str, str]


def _node(node: NodeProto) -> OnnxNode:
    attributes = {attribute.name: _attribute(attribute) for attribute in node.attribute}
    metadata = {pair.key: pair.value for pair in node.metadata_props}
    domain = _domain(node.domain)
    return OnnxNode(node.op_type, domain, node.name, tuple(node.input), tuple(node.output), attributes, metadata)


@dataclass(frozen=True, eq=False)
class OnnxGraph:
    """A graph or function of the file: `stored` are its constants, `declared` its results with a declared shape."""

    nodes: tuple[OnnxNode, ...]
    inputs: tuple[ValueInfo, ...]
    outputs: tuple[str, ...]
    stored: tuple[Stored, ...] = ()
    declared: dict[str, ValueInfo] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)  # of attributes of a function


def _graph(graph: GraphProto) -> OnnxGraph:
    sparse = [_constant(item.values, item.dims) for item in graph.sparse_initializer]
    results = [_value_info(info) for info in (*graph.value_info, *graph.output)]
    return OnnxGraph(
        tuple(map(_node, graph.node)),
        tuple(map(_value_info, graph.input)),
        tuple(info.name for info in graph.output),
        (*map(_constant, graph.initializer), *sparse),
        {info.name: info for info in results if info.shape is not None},
    )


def _function(function: FunctionProto) -> OnnxGraph:
    defaults = {attribute.name: _attribute(attribute) for attribute in function.attribute_proto}
    inputs = tuple(map(ValueInfo, function.input))
    return OnnxGraph(tuple(map(_node, function.node)), inputs, tuple(function.output), defaults=defaults)


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """The whole file: its graph, functions by domain and name, and the version of ONNX's own operators, 0 if not
    stated."""

    top: OnnxGraph
    functions: dict[tuple[str, str], OnnxGraph]
    opset: int
    producer: str


def read(path: Path, budget: reading_budget.Budget) -> OnnxModel:
    """Return the model of a file. Raises UnreadableError or TooMuchError with a message of one line."""
    try:
        with file_access.open_regular(path) as file:
            wire = Wire(file, budget, _MAX_BYTES)
            if wire.size == 0:
                raise UnreadableError("the file is empty")
            model = ModelProto.FromString(wire.without_weights(ModelProto.DESCRIPTOR, 0, wire.size))
        if not model.HasField("graph"):
            raise UnreadableError("not an ONNX model (it holds no graph)")
        opsets = {_domain(opset.domain): opset.version for opset in model.opset_import}
        functions = {(_domain(one.domain), one.name): _function(one) for one in model.functions}
        return OnnxModel(_graph(model.graph), functions, opsets.get("", 0), model.producer_name)
    except OSError as error:
        raise UnreadableError(f"cannot be read ({error.strerror})") from None
    except (IndexError, DecodeError, UnicodeDecodeError, OverflowError, RecursionError):
        raise UnreadableError("not an ONNX model (damaged, truncated, or another format)") from None


# Values of a byte, by type. Whole numbers of these types are weights where floats would be.
IN_A_BYTE = {"int8": 1, "uint8": 1, "int4": 2, "uint4": 2, "float4": 2, "int2": 4, "uint2": 4}
# Inputs that are not trained: statistics, scales and zero points.
_NOT_TRAINED = {
    "BatchNormalization": (3, 4), "QuantizeLinear": (1, 2), "DequantizeLinear": (1, 2), "ConvInteger": (2, 3),
    "MatMulInteger": (2, 3), "QLinearConv": (1, 2, 4, 5, 6, 7), "QLinearMatMul": (1, 2, 4, 5, 6, 7),
    "QLinearAdd": (1, 2, 4, 5, 6, 7), "QLinearMul": (1, 2, 4, 5, 6, 7), "MatMulNBits": (2, 3), "MatMulBnb4": (2,),
    "GatherBlockQuantized": (2, 3), "QMoE": (3, 6, 9, 11, 12, 13), "QGemm": (1, 2, 4, 5, 7, 8), "QAttention": (3, 4),
    "DynamicQuantizeMatMul": (2, 3), "MatMulIntegerToFloat": (2, 3, 4, 5), "DynamicQuantizeLSTM": (8, 9, 10, 11),
    "Resize": (1, 2, 3),
}  # fmt: skip
# Inputs of bytes that hold several weights, and the attribute with the bits of a weight.
_PACKED = {
    "MatMulNBits": ((1,), "bits"), "MatMulBnb4": ((1,), ""), "GatherBlockQuantized": ((0,), "bits"),
    "QMoE": ((2, 5, 8), "expert_weight_bits"),
}  # fmt: skip
_PACKED_BITS = 4  # unless the attribute states them


def weights_in_values(nodes: Iterable[OnnxNode]) -> dict[str, int]:
    """Return the weights that a value holds, by the name of a stored tensor, where they are not one: 0 for numbers that
    are not trained, several for weights packed in bytes."""
    weights: dict[str, int] = {}
    for node in nodes:
        places, attribute = _PACKED.get(node.op, ((), ""))
        bits = node.attributes.get(attribute, _PACKED_BITS)
        in_a_byte = 8 // bits if isinstance(bits, int) and 0 < bits <= 8 else 1
        counts = dict.fromkeys(places, in_a_byte) | dict.fromkeys(_NOT_TRAINED.get(node.op, ()), 0)
        weights |= {node.inputs[place]: count for place, count in counts.items() if place < len(node.inputs)}
    return weights
