# ruff: noqa: RUF009 - fields of messages are calls
"""Parser of ONNX files as data: only the messages of the format that costs depend on, without a library.

Weights are skipped, except for their sizes; small constants (shapes, indices) keep their values.
External data files of a model are never opened.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwexplorer.extend import file_access, reading_budget
from hwexplorer_annexes.onnx.graph_parts import UnreadableError
from hwexplorer_annexes.onnx.wire import (
    Reader,
    Span,
    Wire,
    doubles,
    message,
    number,
    numbers,
    parts,
    plain,
    repeated,
    signed,
    single,
    text,
    whole_numbers,
)

_MAX_NESTING = 24
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
_COMPUTED = frozenset(DTYPES[kind] for kind in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13))
_LISTS = (6, 7, 8)  # types of attributes: floats, ints, strings


def _if_small(reader: Reader) -> Reader:
    """Return a reader of lists of numbers that skips long lists, which are weights."""
    return lambda wire, value: reader(wire, value) if isinstance(value, int) or _is_small(value) else []


def _is_small(span: Span) -> bool:
    return span[1] - span[0] <= _MAX_BYTES


@dataclass(eq=False)
class StoredTensor:
    """A constant of the file (TensorProto). With `outside` or `place` 1 its values are not read."""

    dims: list[int] = repeated({1: whole_numbers})
    kind: int = single({2: plain}, 0)
    name: str = single({8: text}, "")
    raw: bytes | None = single({9: lambda wire, span: wire.bytes(*span) if _is_small(span) else None})
    items: list[Any] = repeated(
        {4: _if_small(numbers), 10: _if_small(doubles), **dict.fromkeys((5, 7, 11), _if_small(whole_numbers))}
    )
    outside: Span | None = single({13: plain})
    place: int = single({14: plain}, 0)

    @property
    def dtype(self) -> str:
        """The element type as numpy names it; `unknown` for a number that ONNX does not define."""
        return DTYPES.get(self.kind, "unknown")

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes. Raises UnreadableError if they are impossible."""
        if len(self.dims) > _MAX_RANK or any(not 0 <= size <= _MAX_SIZE for size in self.dims):
            raise UnreadableError(f"the constant {self.name[:40]!r} has an impossible shape")
        return tuple(self.dims)

    @property
    def values(self) -> NDArray[Any] | None:
        """The values. None if they are too many, not of a computable type, or outside of the file."""
        count = prod(self.shape)
        if self.outside or self.place == 1 or count > MAX_VALUES or self.dtype not in _COMPUTED:
            return None
        stored = np.dtype(self.dtype).newbyteorder("<")
        if self.raw is not None:
            if len(self.raw) != count * stored.itemsize:
                raise UnreadableError(f"the constant {self.name[:40]!r} is truncated")
            return np.frombuffer(self.raw, stored).reshape(self.shape)
        if len(self.items) != count:
            return None
        if self.dtype == "float16":  # stored as bits
            return np.array(self.items, np.uint16).view(np.float16).reshape(self.shape)
        return np.array(self.items, stored).reshape(self.shape)


def _sparse(wire: Wire, span: Span) -> StoredTensor:
    """Return a sparse constant without values. Its name and type are those of the tensor of its values."""
    fields = list(wire.fields(span))
    tensor = next((message(StoredTensor, wire, value) for number, value in fields if number == 1), StoredTensor())
    tensor.dims = [size for number, value in fields if number == 3 for size in whole_numbers(wire, value)]
    tensor.outside = span
    return tensor


@dataclass(frozen=True, slots=True)
class ValueInfo:
    """A declared tensor. A size is a number, a name or None. `shape` is None if not declared, as for a list."""

    name: str
    dtype: str = "unknown"
    shape: tuple[int | str | None, ...] | None = None


def _value_info(wire: Wire, span: Span) -> ValueInfo:
    info = parts(wire, span)
    kinds = parts(wire, info[2]) if 2 in info else {}
    while 9 in kinds:  # unpack an optional type
        kinds = parts(wire, parts(wire, kinds[9]).get(1, (0, 0)))
    tensor = parts(wire, kinds[1]) if 1 in kinds else {}
    shape = [_size(wire, size) for number, size in wire.fields(tensor[2]) if number == 1] if 2 in tensor else None
    if len(shape or ()) > _MAX_RANK:
        raise UnreadableError(f"a tensor has {len(shape or ())} dimensions")
    name = text(wire, info.get(1, (0, 0)))
    return ValueInfo(name, DTYPES.get(tensor.get(1, 0), "unknown"), None if shape is None else tuple(shape))


def _size(wire: Wire, span: Span) -> int | str | None:
    """Return a size as a number or name, None if unknown: some exporters write -1 or `?` for every unknown size."""
    size = parts(wire, span)
    if 1 in size:
        return size[1] if size[1] <= _MAX_SIZE else None
    name = text(wire, size.get(2, (0, 0)))
    return name if name.strip("? ") else None


def _graph(wire: Wire, span: Span) -> OnnxGraph:
    if wire.depth > _MAX_NESTING:
        raise UnreadableError("graphs are nested too deeply")
    wire.depth += 1
    graph = message(OnnxGraph, wire, span)
    wire.depth -= 1
    return graph


@dataclass(frozen=True, slots=True)
class AttributeRef:
    """A reference inside a function to an attribute of the calling node."""

    name: str


_tensor = partial(message, StoredTensor)
_KINDS: dict[int, Reader] = {
    2: number, 3: signed, 4: text, 5: _tensor, 6: _graph, 21: lambda wire, span: AttributeRef(text(wire, span)),
}  # fmt: skip


@dataclass(eq=False)
class _Attribute:
    name: str = single({1: text}, "")
    kind: int = single({20: plain}, 0)
    value: Any = single(_KINDS)
    values: list[Any] = repeated({7: numbers, 8: whole_numbers, 9: text})


def _attribute(wire: Wire, span: Span) -> tuple[str, Any]:
    attribute = message(_Attribute, wire, span)
    is_list = attribute.value is None and (attribute.values or attribute.kind in _LISTS)
    return attribute.name, attribute.values if is_list else attribute.value


def _pair(wire: Wire, span: Span) -> tuple[str, str]:
    pair = parts(wire, span)
    return text(wire, pair.get(1, (0, 0))), text(wire, pair.get(2, (0, 0)))


def _domain(wire: Wire, span: Span) -> str:
    name = text(wire, span)
    return "" if name == "ai.onnx" else name


@dataclass(eq=False)
class OnnxNode:
    """A node of a graph, with attributes (`given`) and metadata as pairs."""

    inputs: list[str] = repeated({1: text})
    outputs: list[str] = repeated({2: text})
    name: str = single({3: text}, "")
    op: str = single({4: text}, "")
    domain: str = single({7: _domain}, "")
    given: list[tuple[str, Any]] = repeated({5: _attribute})
    metadata: list[tuple[str, str]] = repeated({9: _pair})

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """The attributes by name; of a name that is given twice, the last."""
        return dict(self.given)


_node = partial(message, OnnxNode)


@dataclass(eq=False)
class OnnxGraph:
    """A graph of the file; `stored` are its constants, `values` its declared intermediate results."""

    nodes: list[OnnxNode] = repeated({1: _node})
    stored: list[StoredTensor] = repeated({5: _tensor, 15: _sparse})
    inputs: list[ValueInfo] = repeated({11: _value_info})
    outputs: list[ValueInfo] = repeated({12: _value_info})
    values: list[ValueInfo] = repeated({13: _value_info})

    @cached_property
    def declared_values(self) -> dict[str, ValueInfo]:
        """The intermediate and final results with a declared shape, by name."""
        return {info.name: info for info in (*self.values, *self.outputs) if info.shape is not None}


def _value_name(wire: Wire, span: Span) -> ValueInfo:
    return ValueInfo(text(wire, span))


@dataclass(eq=False)
class Function(OnnxGraph):
    """A function: a node type that the file defines."""

    name: str = single({1: text}, "")
    domain: str = single({10: _domain}, "")
    inputs: list[ValueInfo] = repeated({4: _value_name})
    outputs: list[ValueInfo] = repeated({5: _value_name})
    nodes: list[OnnxNode] = repeated({7: _node})
    defaults: list[tuple[str, Any]] = repeated({11: _attribute})
    stored: list[StoredTensor] = repeated({})
    values: list[ValueInfo] = repeated({})


def _opset(wire: Wire, span: Span) -> tuple[str, int]:
    opset = parts(wire, span)
    return _domain(wire, opset.get(1, (0, 0))), int(opset.get(2, 0))


@dataclass(eq=False)
class OnnxModel:
    """The whole file: its graph, functions and operator sets."""

    graph: OnnxGraph | None = single({7: _graph})
    producer: str = single({2: text}, "")
    opsets: list[tuple[str, int]] = repeated({8: _opset})
    functions: list[Function] = repeated({25: partial(message, Function)})

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators; 0 if the file does not state it."""
        return dict(self.opsets).get("", 0)

    @property
    def top(self) -> OnnxGraph:
        """The graph of the model. Raises UnreadableError if there is none."""
        if self.graph is None:
            raise UnreadableError("not an ONNX model (it holds no graph)")
        return self.graph


def read(path: Path, budget: reading_budget.Budget) -> OnnxModel:
    """Return the model of a file. Raises UnreadableError or TooMuchError with a message of one line."""
    try:
        with file_access.open_regular(path) as file:
            wire = Wire(file, budget)
            if wire.size == 0:
                raise UnreadableError("the file is empty")
            return message(OnnxModel, wire, (0, wire.size))
    except OSError as error:
        raise UnreadableError(f"cannot be read ({error.strerror})") from None
    except (IndexError, struct.error, UnicodeDecodeError, OverflowError, RecursionError):
        raise UnreadableError("not an ONNX model (damaged, truncated, or another format)") from None
