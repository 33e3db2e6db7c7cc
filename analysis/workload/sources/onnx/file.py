"""What an ONNX file says, read as data: the few messages of the format that a cost needs, no library.

Weights are stepped over, only their sizes are kept; of small constants (shapes, indices) the values as well.
Files that a model names for its weights (external data) are never opened.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError
from .wire import Buffer, Span, fields, floats, signed, text, whole

_MAX_NESTING = 24
_MAX_RANK = 64
_MAX_SIZE = 1 << 48
_MAX_VALUES = 4096  # constants with more elements are weights: nobody computes a shape from them
_MAX_NODES = 500_000

_LISTS = (6, 7, 8)  # types of attributes: floats, ints, strings
FLOATS = frozenset(
    ("float32", "float64", "float16", "bfloat16", *(f"float8_{kind}" for kind in range(17, 21)), "float4")
)
DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool",
    10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
    17: "float8_17", 18: "float8_18", 19: "float8_19", 20: "float8_20", 21: "uint4", 22: "int4", 23: "float4",
}  # fmt: skip
_NUMPY = {
    "float32": "<f4", "float64": "<f8", "float16": "<f2", "uint8": "u1", "int8": "i1", "uint16": "<u2", "int16": "<i2",
    "int32": "<i4", "int64": "<i8", "uint32": "<u4", "uint64": "<u8", "bool": "?",
}  # fmt: skip


class OnnxError(ModelError, ValueError):
    """A file that is no ONNX model, or one that cannot be costed. The message is one line."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A constant of the file. `values` are known where it is small and inside the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: NDArray[Any] | None
    is_external: bool


@dataclass(frozen=True, slots=True)
class ValueInfo:
    """A declared tensor: sizes, names of sizes, None where neither is said. `shape` is None without any."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None


@dataclass(frozen=True, slots=True)
class OnnxNode:
    name: str
    op: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True)
class OnnxGraph:
    nodes: tuple[OnnxNode, ...] = ()
    initializers: tuple[TensorInfo, ...] = ()
    inputs: tuple[ValueInfo, ...] = ()
    outputs: tuple[ValueInfo, ...] = ()
    values: tuple[ValueInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    """A node type that the file itself defines."""

    name: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[OnnxNode, ...]
    defaults: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AttributeRef:
    """Inside a function: the attribute of the calling node."""

    name: str


@dataclass(frozen=True, slots=True)
class OnnxModel:
    graph: OnnxGraph
    opset: int
    producer: str
    functions: dict[tuple[str, str], Function] = field(default_factory=dict)


def read(path: Path) -> OnnxModel:
    """The model of a file. Raises an `OnnxError` with one line."""
    try:
        with path.open("rb") as file:
            if path.stat().st_size == 0:
                raise OnnxError("the file is empty")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _model(data)
    except OSError as error:
        raise OnnxError(f"cannot be read ({error.strerror})") from None
    except (IndexError, struct.error, UnicodeDecodeError, OverflowError, RecursionError):
        raise OnnxError("no ONNX model (damaged, cut short, or another format)") from None


# --- the messages -----------------------------------------------------------------------------------------


def _model(data: Buffer) -> OnnxModel:
    opset, producer, graph = 0, "", None
    functions: list[Function] = []
    for number, value in fields(data, (0, len(data))):
        if number == 7:
            graph = _graph(data, value, 0)
        elif number == 8:
            domain, version = _opset(data, value)
            opset = version if domain in ("", "ai.onnx") else opset
        elif number == 2:
            producer = text(data, value)[:40]
        elif number == 25:
            functions.append(_function(data, value))
    if graph is None:
        raise OnnxError("no ONNX model (it holds no graph)")
    return OnnxModel(graph, opset, producer, {(f.domain, f.name): f for f in functions})


def _opset(data: Buffer, span: Span) -> tuple[str, int]:
    domain, version = "", 0
    for number, value in fields(data, span):
        if number == 1:
            domain = text(data, value)
        elif number == 2:
            version = value
    return domain, version


def _graph(data: Buffer, span: Span, depth: int) -> OnnxGraph:
    if depth > _MAX_NESTING:
        raise OnnxError("graphs lie too deep in each other")
    nodes: list[OnnxNode] = []
    tensors: list[TensorInfo] = []
    values: dict[int, list[ValueInfo]] = {11: [], 12: [], 13: []}
    for number, value in fields(data, span):
        if number == 1:
            nodes.append(_node(data, value, depth))
            if len(nodes) > _MAX_NODES:
                raise OnnxError(f"more than {_MAX_NODES:,} nodes")
        elif number == 5:
            tensors.append(_tensor(data, value))
        elif number == 15:
            tensors.append(_sparse(data, value))
        elif number in values:
            values[number].append(_value_info(data, value))
    return OnnxGraph(tuple(nodes), tuple(tensors), tuple(values[11]), tuple(values[12]), tuple(values[13]))


def _node(data: Buffer, span: Span, depth: int) -> OnnxNode:
    inputs: list[str] = []
    outputs: list[str] = []
    attributes: dict[str, Any] = {}
    metadata: dict[str, str] = {}
    texts = {3: "", 4: "", 7: ""}
    for number, value in fields(data, span):
        if number == 1:
            inputs.append(text(data, value))
        elif number == 2:
            outputs.append(text(data, value))
        elif number in texts:
            texts[number] = text(data, value)
        elif number == 5:
            name, found = _attribute(data, value, depth)
            attributes[name] = found
        elif number == 9:
            key, found = _pair(data, value)
            metadata[key] = found
    domain = "" if texts[7] == "ai.onnx" else texts[7]
    return OnnxNode(texts[3], texts[4], domain, tuple(inputs), tuple(outputs), attributes, metadata)


def _pair(data: Buffer, span: Span) -> tuple[str, str]:
    found = {number: text(data, value) for number, value in fields(data, span) if number in (1, 2)}
    return found.get(1, ""), found.get(2, "")


def _attribute(data: Buffer, span: Span, depth: int) -> tuple[str, Any]:
    """The name and the one value that is set; a list where the format repeats it."""
    name, kind = "", 0
    found: Any = None
    many: list[Any] = []
    for number, value in fields(data, span):
        match number:
            case 1:
                name = text(data, value)
            case 2:
                found = struct.unpack("<f", data[value[0] : value[1]])[0]
            case 3:
                found = signed(value)
            case 4:
                found = data[value[0] : value[1]].decode(errors="replace")
            case 5:
                found = _tensor(data, value)
            case 6:
                found = _graph(data, value, depth + 1)
            case 7:
                many.extend(floats(data, value))
            case 8:
                many.extend(whole(data, value))
            case 9:
                many.append(data[value[0] : value[1]].decode(errors="replace"))
            case 20:
                kind = value
            case 21:
                found = AttributeRef(text(data, value))
    return name, many if found is None and (many or kind in _LISTS) else found


def _tensor(data: Buffer, span: Span) -> TensorInfo:
    name, kind, dims, is_external = "", 0, [], False
    raw: Span | None = None
    listed: list[tuple[int, Any]] = []
    for number, value in fields(data, span):
        if number == 1:
            dims.extend(whole(data, value))
        elif number == 2:
            kind = value
        elif number == 8:
            name = text(data, value)
        elif number == 9:
            raw = value
        elif number in (4, 5, 7, 10, 11):
            listed.append((number, value))
        elif number == 13 or (number == 14 and value == 1):
            is_external = True
    shape = tuple(dims)
    if len(shape) > _MAX_RANK or any(not 0 <= size <= _MAX_SIZE for size in shape):
        raise OnnxError(f"the constant {name[:40]!r} has an impossible shape")
    dtype = DTYPES.get(kind, "unknown")
    values = None if is_external else _values(data, dtype, shape, raw, listed)
    return TensorInfo(name, dtype, shape, values, is_external)


def _values(
    data: Buffer, dtype: str, shape: tuple[int, ...], raw: Span | None, listed: list[tuple[int, Any]]
) -> NDArray[Any] | None:
    """The values of a small constant of a type we compute with, else None."""
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if count > _MAX_VALUES or dtype not in _NUMPY:
        return None
    if raw is not None:
        if raw[1] - raw[0] != count * np.dtype(_NUMPY[dtype]).itemsize:
            raise IndexError("a constant is cut short")
        return np.frombuffer(data[raw[0] : raw[1]], dtype=_NUMPY[dtype]).reshape(shape)
    items: list[Any] = []
    for number, value in listed:
        if number == 4:
            items.extend(floats(data, value))
        elif number == 10:
            items.extend(item[0] for item in struct.iter_unpack("<d", data[value[0] : value[1]]))
        else:
            items.extend(whole(data, value))
    if len(items) != count:
        return None
    if dtype == "float16":  # kept as its bits
        return np.array(items, dtype=np.uint16).view(np.float16).reshape(shape)
    return np.array(items, dtype=_NUMPY[dtype]).reshape(shape)


def _sparse(data: Buffer, span: Span) -> TensorInfo:
    """A sparse constant: its name and type are those of its values."""
    values, dims = TensorInfo("", "unknown", (), None, False), []
    for number, value in fields(data, span):
        if number == 1:
            values = _tensor(data, value)
        elif number == 3:
            dims.extend(whole(data, value))
    return TensorInfo(values.name, values.dtype, tuple(dims), None, values.is_external)


def _value_info(data: Buffer, span: Span) -> ValueInfo:
    name, dtype, shape = "", "unknown", None
    for number, value in fields(data, span):
        if number == 1:
            name = text(data, value)
        elif number == 2:
            for kind, body in fields(data, value):
                if kind == 1:
                    dtype, shape = _tensor_type(data, body)
    return ValueInfo(name, dtype, shape)


def _tensor_type(data: Buffer, span: Span) -> tuple[str, tuple[int | str | None, ...] | None]:
    dtype, shape = "unknown", None
    for number, value in fields(data, span):
        if number == 1:
            dtype = DTYPES.get(value, "unknown")
        elif number == 2:
            shape = tuple(_dimension(data, body) for kind, body in fields(data, value) if kind == 1)
            if len(shape) > _MAX_RANK:
                raise OnnxError(f"a tensor has {len(shape)} dimensions")
    return dtype, shape


def _dimension(data: Buffer, span: Span) -> int | str | None:
    found: int | str | None = None
    for number, value in fields(data, span):
        if number == 1:
            found = signed(value)
        elif number == 2:
            found = text(data, value)
    if isinstance(found, int) and not 0 <= found <= _MAX_SIZE:
        return None  # some exporters write -1 for a size they do not know
    return found or None if isinstance(found, str) else found


def _function(data: Buffer, span: Span) -> Function:
    texts: dict[int, str] = {1: "", 10: ""}
    inputs: list[str] = []
    outputs: list[str] = []
    nodes: list[OnnxNode] = []
    defaults: dict[str, Any] = {}
    for number, value in fields(data, span):
        if number in texts:
            texts[number] = text(data, value)
        elif number == 4:
            inputs.append(text(data, value))
        elif number == 5:
            outputs.append(text(data, value))
        elif number == 7:
            nodes.append(_node(data, value, 1))
        elif number == 11:
            name, found = _attribute(data, value, 1)
            defaults[name] = found
    return Function(texts[1], texts[10], tuple(inputs), tuple(outputs), tuple(nodes), defaults)
