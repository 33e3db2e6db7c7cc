"""Results of ONNX operators that neither a pattern nor the library gives, and which results are views.

A view in PyTorch is also a view here, with strides, so a copy is counted only where PyTorch makes one."""

from collections.abc import Callable, Sequence

from hwexplorer.extend import size_expressions
from hwexplorer_annexes.onnx.graph_parts import poly, product
from hwexplorer_annexes.onnx.onnx_op import (
    ONE,
    NodeResult,
    OnnxOp,
    Shape,
    ShapeError,
    broadcast,
    constant,
    contiguous_strides,
    positive_axis,
)

Strides = tuple[int, ...] | None  # None for a copy


def identity(op: OnnxOp) -> list[NodeResult]:
    """Return a view of the first input."""
    return [NodeResult(op.shape(), op.dtype(), op.value().strides)]


def dequantized_view(op: OnnxOp) -> list[NodeResult]:
    """Return a view of the first input in the type of the second."""
    return [NodeResult(op.shape(), op.dtype(1), op.value().strides)]


def row_view(op: OnnxOp) -> list[NodeResult]:
    """Return the view of one row along the attribute `axis`."""
    shape, strides = ((*each[: op.axis()], *each[op.axis() + 1 :]) for each in (op.shape(), op.value().strides))
    return [NodeResult(shape, op.dtype(), strides)]


def normalization_shapes(op: OnnxOp) -> list[NodeResult]:
    """Return the result of a normalisation, and the statistics of its groups if the node has such outputs."""
    axis = op.axis(default=-1)
    row = (*op.shape()[:axis], *(ONE for _ in op.shape()[axis:]))
    return [NodeResult(op.shape(), op.dtype()), *(NodeResult(row, "float32") for _ in op.node.outputs[1:])]


def _concatenate(op: OnnxOp) -> Shape:
    """Return the shape of a quantised concatenation. Each part has a scale and zero point, as has the result, first."""
    shapes = [op.shape(place) for place in range(2, len(op.inputs), 3)]
    axis = positive_axis(op.int_attr("axis", 0), len(shapes[0]))
    return (*shapes[0][:axis], sum((shape[axis] for shape in shapes), poly(0)), *shapes[0][axis + 1 :])


def _stack(op: OnnxOp) -> Shape:
    place = positive_axis(op.int_attr("axis", 0), op.rank + 1)
    return (*op.shape()[:place], poly(len(op.inputs)), *op.shape()[place:])


def _suppress(op: OnnxOp) -> Shape:
    """Return the shape of a box suppression: the most boxes that the node may keep of every class."""
    batch, classes, boxes = op.shape(1)
    kept = min(constant(op.number(2) or 0), constant(boxes)) or constant(boxes)
    return (batch * classes * kept, poly(3))


# Rules for results, by section of operator_table.toml. The library gives the results of other sections.
RESULTS: dict[str, Callable[[OnnxOp], Shape | list[NodeResult]]] = {
    "same_shape": lambda op: op.shape(),
    "broadcast": lambda op: broadcast(*op.shapes()),
    "identity": identity,
    "quantised_concatenation": _concatenate,
    "stack": _stack,
    "compress": lambda op: (product(op.shape()),) if op.attr("axis") is None else op.shape(),
    "suppress": _suppress,
}


# --- views of the first input ------------------------------------------------------------------------------------


def _numbers(shape: Shape) -> tuple[int, ...]:
    return size_expressions.layout(shape, ())[0]


def _reshape(op: OnnxOp, shape: Shape) -> Strides:
    if product(shape) != product(op.shape()):
        raise ShapeError(f"{product(op.shape())} elements do not fill {product(shape)}")
    numbers, held = _numbers(shape), (_numbers(op.shape()), op.value().strides)
    if not size_expressions.is_viewable(held, numbers):
        return None
    # A view of contiguous data is contiguous; a split of strided data needs its strides to count later copies.
    return contiguous_strides(numbers) if held[1] == contiguous_strides(held[0]) else _split_strides(held, numbers)


def _split_strides(held: tuple[tuple[int, ...], tuple[int, ...]], new: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a viewable reshape: each new dimension is cut from the old dimensions that cover it."""
    runs: list[list[int]] = []  # elements, innermost stride
    for size, stride in zip(*held, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * stride:
            runs[-1] = [runs[-1][0] * size, stride]
        else:
            runs.append([size, stride])
    strides: list[int] = []
    size, stride = runs.pop() if runs else [1, 1]
    for wanted in reversed(new):
        if size == 1 and runs and wanted != 1:
            size, stride = runs.pop()
        strides.append(stride)
        stride, size = stride * wanted, size // max(1, wanted)
    return tuple(reversed(strides))


def _transpose(op: OnnxOp, shape: Shape) -> Strides:
    return tuple(op.value().strides[place] for place in op.int_list("perm") or reversed(range(op.rank)))


def _expand(op: OnnxOp, shape: Shape) -> Strides:
    added = len(shape) - op.rank
    old = zip([ONE] * added + [*op.shape()], [0] * added + [*op.value().strides], strict=True)
    return tuple(stride if size == new else 0 for new, (size, stride) in zip(shape, old, strict=True))


def _slice(op: OnnxOp, shape: Shape) -> Strides:
    strides = list(op.value().strides)
    for axis, step in zip(op.axes(3) or range(op.rank), op.ints(4), strict=False):
        strides[axis] *= step
    return tuple(strides)


# Rules for the strides of results from their shapes, by section of operator_table.toml.
VIEWS: dict[str, Callable[[OnnxOp, Shape], Strides]] = {
    "reshape": _reshape,
    "transpose": _transpose,
    "expand": _expand,
    "slice": _slice,
    "split": lambda op, shape: op.value().strides,
    "view_if_same": lambda op, shape: op.value().strides if shape == op.shape() else None,
}
