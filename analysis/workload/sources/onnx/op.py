"""One node of an ONNX graph as its rules see it: what goes in, what it asks for, what it makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...graph import Meta, Ref
from ...poly import Poly, Size, bounded, poly
from .file import OnnxNode, TensorInfo

Shape = tuple[Poly, ...]
Known = NDArray[Any]  # numbers and, where a size is live, Poly
MAX_KNOWN = 4096


class ShapeError(ValueError):
    """The shape of a result cannot be told, or shapes contradict each other."""


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor. `strides` lie at the reference point of live dimensions; `known` are its values, where the file
    settles them; `is_weight` holds for weights and windows on them; a list of tensors has `parts`."""

    name: str
    meta: Meta
    strides: tuple[int, ...]
    known: Known | None = None
    is_weight: bool = False
    parts: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Made:
    """One result. With `strides` it is a window on input number `of`."""

    shape: Shape
    dtype: str
    strides: tuple[int, ...] | None = None
    of: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """What a node makes, and the call that it costs (`target` and `args` as in `graph.Node`)."""

    outputs: tuple[Made, ...]
    target: str = ""
    args: dict[str, Any] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Op:
    """A node with its inputs; None where an optional one is left out."""

    node: OnnxNode
    inputs: tuple[Value | None, ...]
    opset: int

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None

    def value(self, index: int) -> Value:
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            raise ShapeError(f"input {index} is missing")
        return found

    def shape(self, index: int = 0) -> Shape:
        return self.value(index).meta.shape

    def sizes(self, index: int = 0, start: int = 0) -> tuple[int, ...]:
        """Dimensions that must be plain numbers, from one on."""
        return tuple(constant(size) for size in self.shape(index)[start:])

    def dtype(self, index: int = 0) -> str:
        return self.value(index).meta.dtype

    def ref(self, index: int) -> Ref:
        return Ref(self.value(index).name)

    def refs(self, *names: str) -> dict[str, Any]:
        """Arguments by name, in the order of the inputs: numbers where they are known, nothing where left out."""
        found: dict[str, Any] = {}
        for index, name in enumerate(names):
            if name and self.has(index):
                number = self.number(index)
                found[name] = Ref(self.value(index).name) if number is None else number
        return found

    def refs_of(self, *indices: int) -> dict[str, Any]:
        """These inputs as arguments without names."""
        return {str(index): self.ref(index) for index in indices}

    def all_refs(self) -> dict[str, Any]:
        return {"tensors": [Ref(value.name) for value in self.inputs if value is not None]}

    def number(self, index: int) -> Any:
        """The one number an input is, None where it is a tensor or unknown."""
        known = self.value(index).known
        return known.reshape(-1)[0] if known is not None and known.size == 1 else None

    def known(self, index: int) -> Known:
        found = self.value(index).known
        if found is None:
            name = self.value(index).name.rpartition("@")[0]
            raise ShapeError(f"{name[:40]!r}, from which a shape follows, is not settled by the file")
        return found

    def items(self, index: int) -> list[Any]:
        return list(self.known(index).reshape(-1))

    def ints(self, index: int) -> list[int]:
        return [constant(item) for item in self.items(index)]

    def attr(self, name: str, default: Any = None) -> Any:
        return self.node.attributes.get(name, default)

    def int_attr(self, name: str, default: int) -> int:
        found = self.attr(name, default)
        if not isinstance(found, int):
            raise ShapeError(f"its attribute {name} is no number")
        return found

    def int_list(self, name: str, default: Sequence[int] = ()) -> list[int]:
        """A list of numbers; `default` where it is not given."""
        found = self.attr(name)
        if found is None:
            return list(default)
        if not isinstance(found, list) or not all(isinstance(item, int) for item in found):
            raise ShapeError(f"its attribute {name} is no list of numbers")
        return found

    def axis(self, name: str = "axis", default: int = 0, index: int = 0) -> int:
        return positive(self.int_attr(name, default), len(self.shape(index)))

    def axes(self, index: int = 1, name: str = "axes") -> list[int] | None:
        """Axes as an input (newer files) or an attribute (older ones); None where not given."""
        found = self.ints(index) if self.has(index) else self.int_list(name)
        return [positive(axis, len(self.shape())) for axis in found] or None

    def like(self, index: int = 0, dtype: str | None = None) -> Made:
        return Made(self.shape(index), dtype or self.dtype(index))


Handler = Callable[[Op], Result]
Fold = Callable[[Op], Known]


def constant(size: Any) -> int:
    if isinstance(size, Poly):
        if not size.is_constant:
            raise ShapeError(f"a size that must be a number is live ({size})")
        return size.constant()
    return int(size)


def positive(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} of a tensor with {rank} dimensions")
    return axis % rank


def shape_of(sizes: Sequence[Size | Any]) -> Shape:
    found = tuple(size if isinstance(size, Poly) else poly(int(size)) for size in sizes)
    if any(size.is_constant and size.constant() < 0 for size in found):
        raise ShapeError("a size comes out negative")
    return found


def broadcast(*shapes: Shape) -> Shape:
    rank = max(map(len, shapes), default=0)
    one = poly(1)
    result = [one] * rank
    for shape in shapes:
        for place, size in enumerate(shape, start=rank - len(shape)):
            if result[place] == one:
                result[place] = size
            elif size not in (one, result[place]):
                raise ShapeError(f"sizes {result[place]} and {size} do not fit each other")
    return tuple(result)


def contiguous(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(sizes[place + 1 :]) for place in range(len(sizes)))


def whole_array(items: Sequence[Any], shape: Sequence[int] | None = None) -> Known:
    """Numbers and live sizes; a Poly that is a plain number becomes one."""
    if len(items) > MAX_KNOWN:
        raise ShapeError("too many numbers to be sizes")
    found = np.empty(len(items), dtype=object)
    for place, item in enumerate(items):
        if isinstance(item, Poly):
            found[place] = item.constant() if bounded(item).is_constant else item
        else:
            found[place] = item.item() if isinstance(item, np.generic) else item
            if isinstance(item, int):
                bounded(poly(item))
    return found.reshape(shape if shape is not None else (len(items),))


def as_known(tensor: TensorInfo) -> Known | None:
    if tensor.values is None:
        return None
    return whole_array(tensor.values.reshape(-1).tolist(), tensor.shape)
