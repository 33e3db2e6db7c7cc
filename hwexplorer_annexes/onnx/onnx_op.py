"""One node of an ONNX graph for the shape and cost rules: inputs, attributes, results and names for people."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from operator import mul
from typing import Any

from numpy.typing import NDArray

from hwexplorer.extend import operator_graph
from hwexplorer_annexes.onnx.graph_parts import Poly, Ref, Scope, Size, check_size, is_negative, poly
from hwexplorer_annexes.onnx.onnx_file import OnnxNode

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
